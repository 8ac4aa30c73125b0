//! The two forms in which an object holds recorded states.

use std::collections::BTreeMap;

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use pps_core::PodState;
use pps_core::packed::{Bucket, Row, VERSION, should_be_compact, write_bucket};
use serde_json::{Map, Value, json};

use crate::fixture::object;

/// A form of recorded states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `status.podStates`
    Plain,
    /// `status.packed`
    Compact,
}

impl Form {
    /// The form in which the sidecar writes a new object with so many states.
    pub(crate) fn of_new(states: usize) -> Self {
        if should_be_compact(states, false) { Self::Compact } else { Self::Plain }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Compact => "compact",
        }
    }

    /// A status with these states, by Pod.
    pub(crate) fn status(self, states: &BTreeMap<String, PodState>) -> Value {
        let count = states.len();
        let mut status = json!({"observedGeneration": 1, "recorded": count, "desired": count});
        match self {
            Self::Plain => status["podStates"] = json!(states),
            Self::Compact => {
                let mut buckets = BTreeMap::<Bucket, Vec<Row<'_>>>::new();
                for (pod, state) in states {
                    buckets.entry(Bucket::of(pod)).or_default().push(Row::of(pod, state));
                }
                let buckets: Map<String, Value> = buckets
                    .iter()
                    .map(|(bucket, rows)| (bucket.to_string(), write_bucket(rows).into()))
                    .collect();
                status["packed"] = json!({"version": VERSION, "buckets": buckets});
            }
        }
        status
    }
}

/// Creates an object and records its states through the API server, so that it has all metadata that a recorded
/// object has.
pub(crate) async fn create(
    api: &Api<DynamicObject>,
    name: &str,
    workload: &str,
    status: &Value,
) -> anyhow::Result<()> {
    let template = object(name, workload, &[]);
    let object = json!({"apiVersion": template["apiVersion"], "kind": template["kind"],
        "metadata": {"name": name}, "spec": template["spec"]});
    let params = PostParams { field_manager: Some("pps-sidecar".to_owned()), ..PostParams::default() };
    api.create(&params, &serde_json::from_value(object)?).await?;
    let params = PatchParams { field_manager: params.field_manager, ..PatchParams::default() };
    api.patch_status(name, &params, &Patch::Merge(json!({"status": status}))).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use pps_core::packed::recorded_state;
    use serde::Deserialize;

    use super::*;
    use crate::fixture::state;

    #[test]
    fn both_forms_hold_the_same_states() {
        let states: BTreeMap<String, PodState> = (0..250)
            .map(|index| (format!("web-{index}"), PodState::deserialize(state(index)).unwrap()))
            .collect();
        for form in [Form::Plain, Form::Compact] {
            let status = form.status(&states);
            for (pod, state) in &states {
                assert_eq!(recorded_state(&status, pod).unwrap().as_ref(), Some(state), "{form:?} {pod}");
            }
        }
    }
}
