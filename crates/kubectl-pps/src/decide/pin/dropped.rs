//! Recorded values and states that the sidecar drops after a change of a PersistentPodState.

use std::collections::BTreeSet;

use pps_core::Spec;
use pps_core::pps::RetentionPolicy;
use serde_json::Value;

use super::object::name;
use super::plan::World;
use crate::decide::names::list;
use crate::decide::retention;
use crate::snapshot::Pps;

/// Says which recorded values are dropped, because a list on the command line replaces the present one.
pub(super) fn dropped_keys(before: &Value, after: &Value) -> Option<String> {
    let keys = |spec: &Value| -> BTreeSet<String> {
        let spec: Spec = serde_json::from_value(spec.clone()).unwrap_or_default();
        let annotations = spec.persistent_pod_annotations.iter().map(|one| one.key.clone());
        spec.topology_keys().map(str::to_owned).chain(annotations).collect()
    };
    let dropped: Vec<String> = keys(before).difference(&keys(after)).cloned().collect();
    (!dropped.is_empty()).then(|| {
        format!(
            "a list that is named replaces the present one: what is recorded of {} is dropped from all states. To keep it, \
             name it as well",
            dropped.join(", ")
        )
    })
}

/// Says which recorded states are dropped, because the new spec does not keep those of Pods that are not wanted.
pub(super) fn dropped_states(world: &World, object: &Value, after: &Value) -> Option<String> {
    let policy = |spec: &Value| {
        let spec: Spec = serde_json::from_value(spec.clone()).unwrap_or_default();
        spec.retention()
    };
    let (before, after) = (policy(&object["spec"]), policy(after));
    if before == after || after != RetentionPolicy::WhenScaled {
        return None;
    }
    let workload = world.workload_name();
    let whose = if world.target.kind == "StatefulSet" {
        let states = Pps::read(object.clone())?.states().ok()?;
        let dropped = retention::dropped(states.keys(), after, &world.target.name, &world.workload["spec"]);
        if dropped.is_empty() {
            return None;
        }
        list(&dropped.into_iter().collect::<Vec<_>>(), "and")
    } else {
        "the Pods".into()
    };
    Some(format!(
        "the sidecar then drops the recorded states of {whose}, which {workload} does not want now; to keep them in a file, \
         run this first: {}",
        world.hand.pps(&format!("export {} -f FILE", name(object)), world.namespace())
    ))
}
