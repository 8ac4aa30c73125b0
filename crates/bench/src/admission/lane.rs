//! What is sent to a policy, and what it must answer.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use pps_core::PodState;
use pps_e2e::kubewarden::review;
use serde::Deserialize;
use serde_json::Value;

use super::form::Form;
use crate::fixture::{Case, state};

/// How many different Pods of a workload are created in turn.
const PODS_IN_TURN: usize = 64;

/// Requests of one kind, whose cost is measured.
pub(super) struct Lane {
    pub(super) title: String,
    /// The id of the policy that is asked.
    pub(super) policy: &'static str,
    exchanges: Vec<Exchange>,
}

/// A request, and the answer that is right.
pub(super) struct Exchange {
    pub(super) review: Vec<u8>,
    /// The node and the IP address that the patch must name; nothing if the policy changes nothing.
    injected: Option<[String; 2]>,
}

impl Lane {
    /// Requests for a policy that accepts a Pod without changing it.
    pub(super) fn floor(title: &str, policy: &'static str) -> Self {
        let review = review(&Case::default().request());
        Self { title: title.to_owned(), policy, exchanges: vec![Exchange { review, injected: None }] }
    }

    /// Pods of a workload of that many Pods, each with a recorded state.
    pub(super) fn recorded(title: String, policy: &'static str, workload: &str, pods: usize) -> Result<Self> {
        let step = (pods / PODS_IN_TURN).max(1);
        let exchanges = (0..pods.min(PODS_IN_TURN)).map(|turn| Exchange::of_pod(workload, turn * step));
        let exchanges = exchanges.collect::<Result<_>>()?;
        Ok(Self { title, policy, exchanges })
    }

    /// The exchange of this number; they repeat.
    pub(super) fn exchange(&self, number: usize) -> &Exchange {
        &self.exchanges[number % self.exchanges.len()]
    }
}

impl Exchange {
    fn of_pod(workload: &str, ordinal: usize) -> Result<Self> {
        let name = format!("{workload}-{ordinal}");
        let mut request = Case::default().request();
        request["name"] = name.as_str().into();
        let pod = &mut request["object"];
        pod["metadata"]["name"] = name.as_str().into();
        pod["metadata"]["ownerReferences"][0]["name"] = workload.into();
        pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = name.as_str().into();
        pod["spec"]["hostname"] = name.as_str().into();
        let state = recorded_state(ordinal)?;
        let address = state.annotations.values().next().context("the fixture records no annotation")?.clone();
        Ok(Self { review: review(&request), injected: Some([state.node_name, address]) })
    }

    /// Says what is wrong with an answer.
    pub(super) fn check(&self, response: &Value) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("{what}: {response}"));
        if response["allowed"] != true {
            return wrong("refused");
        }
        let patch = response["patch"].as_str().map(|patch| BASE64_STANDARD.decode(patch));
        match (&self.injected, patch) {
            (None, None) => Ok(()),
            (Some(values), Some(Ok(patch))) => {
                let patch = String::from_utf8_lossy(&patch);
                match values.iter().find(|value| !patch.contains(&format!("\"{value}\""))) {
                    None => Ok(()),
                    Some(value) => Err(format!("the patch does not name {value}: {patch}")),
                }
            }
            _ => wrong("not the expected patch"),
        }
    }
}

/// The states of a workload's Pods.
pub(super) fn recorded_states(workload: &str, pods: usize) -> Result<BTreeMap<String, PodState>> {
    (0..pods).map(|ordinal| Ok((format!("{workload}-{ordinal}"), recorded_state(ordinal)?))).collect()
}

fn recorded_state(ordinal: usize) -> Result<PodState> {
    Ok(PodState::deserialize(state(ordinal))?)
}

/// The name of the workload, and of its object, with so many states in this form.
pub(super) fn workload_name(form: Form, pods: usize) -> String {
    format!("{}-of-{pods}", form.title())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_right_only_if_it_injects_the_pods_own_state() {
        let lane = Lane::recorded("10".to_owned(), "policy", "web", 10).unwrap();
        let answer = |patch: &str| json!({"allowed": true, "patch": BASE64_STANDARD.encode(patch)});
        let own = recorded_state(3).unwrap();
        let address = own.annotations.values().next().unwrap();
        let patch = format!(r#"[{{"value": ["{}", "{address}"]}}]"#, own.node_name);
        assert_eq!(lane.exchange(3).check(&answer(&patch)), Ok(()));
        assert!(lane.exchange(4).check(&answer(&patch)).is_err(), "the state of another Pod");
        assert!(lane.exchange(3).check(&json!({"allowed": true})).is_err(), "no state");
        assert!(lane.exchange(3).check(&json!({"allowed": false})).is_err());
        let floor = Lane::floor("floor", "policy");
        assert_eq!(floor.exchange(7).check(&json!({"allowed": true})), Ok(()));
        assert!(floor.exchange(7).check(&answer(&patch)).is_err(), "a patch that nobody asked for");
    }
}
