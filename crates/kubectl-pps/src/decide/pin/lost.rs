//! Places that are lost because a change requires labels that are not recorded of Pods that do not run.

use std::collections::BTreeSet;

use pps_core::plan::Requirement;
use pps_core::{AnnotationRules, PodState, Spec};
use serde_json::Value;

use super::object::{name, targeting};
use super::plan::{Plan, Step, World};
use crate::decide::names::list;
use crate::snapshot::{Pod, Pps, Snapshot};

/// Says which Pods are not brought back to their places after the change: those that are not Ready, so that the sidecar
/// cannot record what the new list names.
pub fn warn_of_lost_places(plan: &Plan, world: &World, snapshot: &Snapshot) -> Option<String> {
    let object = *targeting(&world.pps, &world.target).first()?;
    let before: Spec = serde_json::from_value(object["spec"].clone()).ok()?;
    let after = after(plan, object)?;
    let states = Pps::read(object.clone())?.states().ok()?;
    let uid = world.workload["metadata"]["uid"].as_str().unwrap_or_default();
    let of_pod = |wanted: &str| {
        let is_it = |pod: &&Pod| pod.name() == wanted && pod.owner().is_some_and(|(_, owner)| owner == uid);
        snapshot.pods.iter().find(is_it)
    };
    let is_recorded_soon = |pod: &Pod| pod.is_ready() && !pod.is_terminating() && pod.node().is_some();
    let (mut pods, mut keys, mut dropped) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let (mut is_bound, mut has_others) = (false, false);
    for (name, state) in &states {
        let pod = of_pod(name);
        let Some(lost) = Lost::of(&before, &after, state).filter(|_| !pod.is_some_and(is_recorded_soon))
        else {
            continue;
        };
        is_bound |= pod.is_some_and(|pod| pod.node().is_some() && !pod.is_terminating());
        has_others |= lost.has_others;
        keys.extend(lost.unrecorded);
        dropped.extend(lost.dropped);
        pods.push(name.clone());
    }
    if pods.is_empty() {
        return None;
    }
    let is_one = pods.len() == 1;
    let words = |one: &'static str, several: &'static str| if is_one { one } else { several };
    let [keys, dropped] = [keys, dropped].map(|keys| list(&keys.into_iter().collect::<Vec<_>>(), "and"));
    let whose = list(&pods, "and");
    let who = if snapshot.unread("pods").is_some() {
        let run = words("runs", "run");
        format!(
            "whether {whose} {run} is not known, since Pods could not be read; if not, no {keys} is recorded"
        )
    } else {
        let do_not_run = if is_bound {
            words("is not Ready", "do not run or are not Ready")
        } else {
            words("does not run", "do not run")
        };
        format!("{whose} {do_not_run}, and no {keys} is recorded")
    };
    let (them, they_start) = (words("it", "them"), words("it starts", "they start"));
    let wherever = if has_others { "wherever what else is recorded allows" } else { "anywhere" };
    Some(format!(
        "{who} of {them}: {they_start} {wherever}. First scale up or wait until {} Ready, or name {dropped} as well; to keep \
         what is recorded in a file, run this first: {}",
        words("it is", "they are"),
        world.hand.pps(&format!("export {} -f FILE", name(object)), world.namespace())
    ))
}

/// The spec that the object has once all is done; none if it stays.
fn after(plan: &Plan, object: &Value) -> Option<Spec> {
    if let Some(expected) = &plan.expected {
        return Some(expected.clone());
    }
    let of_object =
        |step: &Step| matches!(step, Step::PatchPps { name: patched, .. } if patched == name(object));
    let change = plan.changes.iter().find(|change| of_object(&change.step))?;
    serde_json::from_value(change.after["spec"].clone()).ok()
}

/// What a state loses.
struct Lost {
    /// The labels that the new spec names and the state does not have.
    unrecorded: Vec<String>,
    /// The labels that it has and the new spec does not name.
    dropped: Vec<String>,
    /// Whether another label is still injected.
    has_others: bool,
}

impl Lost {
    /// None if a Pod is still brought back as before.
    fn of(before: &Spec, after: &Spec, state: &PodState) -> Option<Self> {
        let (before, now) = (injected(before, state), injected(after, state));
        let dropped: Vec<String> =
            before.into_iter().filter(|one| !now.contains(one)).map(|one| one.key).collect();
        let is_unrecorded = |key: &&str| !state.node_topology_labels.contains_key(*key);
        let mut unrecorded: Vec<String> =
            after.required_keys().filter(is_unrecorded).map(str::to_owned).collect();
        if unrecorded.is_empty() {
            unrecorded = after.topology_keys().filter(is_unrecorded).map(str::to_owned).collect();
        }
        let is_lost = !dropped.is_empty() && !unrecorded.is_empty();
        is_lost.then_some(Self { unrecorded, dropped, has_others: !now.is_empty() })
    }
}

/// The labels that the policy injects, required and preferred.
fn injected(spec: &Spec, state: &PodState) -> Vec<Requirement> {
    let plan = pps_core::plan("", spec, state, &AnnotationRules::default());
    let preferred = plan.preferred.into_iter().flat_map(|term| term.requirements);
    plan.required.into_iter().chain(preferred).collect()
}
