//! Recorded states, as a reader sees them in an object that the API server stores.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::Status;
use pps_core::packed::{Bucket, check_version, read_bucket, recorded_state};
use pps_core::pps::PodState;
use serde_json::Value;

use super::cluster::PODS;

/// The status with all its states in `pod_states`, whatever form they have. One Pod's state is what
/// the policy reads.
pub(crate) fn parse_status(status: &Value) -> Status {
    let mut status_read: Status = serde_json::from_value(status.clone()).unwrap();
    if let Some(packed) = status_read.packed.take() {
        check_version(Some(i64::from(packed.version))).unwrap();
        let mut states = BTreeMap::new();
        for (name, text) in &packed.buckets {
            let bucket = Bucket::parse(name).unwrap();
            states.extend(read_bucket(bucket, text).unwrap());
        }
        // What is in podStates is newer.
        states.append(&mut status_read.pod_states);
        status_read.pod_states = states;
    }
    let names: BTreeSet<&str> = PODS.iter().map(|(pod, _)| *pod).collect();
    for pod in names
        .into_iter()
        .chain(status_read.pod_states.keys().map(String::as_str))
    {
        let one = recorded_state(status, pod).unwrap();
        assert_eq!(
            one.as_ref(),
            status_read.pod_states.get(pod),
            "{pod} in {status}"
        );
    }
    status_read
}

/// A status after a patch. The states that were erased are known, and not in the object.
pub(crate) fn patched(status: &Value, patch: &Value) -> Value {
    let mut after = status.clone();
    if let Some(mut erased) = after
        .as_object_mut()
        .and_then(|status| status.remove("erased"))
    {
        after["podStates"] = erased["podStates"].take();
    }
    json_patch::merge(&mut after, patch);
    after
}

/// What a status patch changes: the states that it sets, and `None` for those that it drops.
pub(crate) fn changed_states(before: &Value, patch: &Value) -> BTreeMap<String, Option<PodState>> {
    let after = patched(before, patch);
    let (before, after) = (
        parse_status(before).pod_states,
        parse_status(&after).pod_states,
    );
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = names
        .into_iter()
        .filter(|pod| before.get(*pod) != after.get(*pod));
    changed
        .map(|pod| (pod.clone(), after.get(pod).cloned()))
        .collect()
}
