//! The objects of a cluster as facts of the recorder.

use std::sync::Arc;

use pps_core::addresses::read_pod_ips;
use pps_core::packed::PackedClaim;
use pps_core::required_affinity::RequiredAffinity;
use pps_core::{INJECTED_ANNOTATION, RECORD_ANNOTATION, Spec, TargetReference, forbids_recording};
use pps_recorder::facts::{
    Generation, NodeFact, PendingPod, PodFact, PpsFact, WorkloadFact, read_pps,
};
use pps_recorder::generate::{FIELD_MANAGER, GENERATED_FIELDS, MANAGED_BY_LABEL};
use pps_scheduler::fields::{list, text};
use serde::Deserialize;
use serde_json::Value;

use crate::cluster::Workload;
use crate::cluster::budget::is_ready;

fn strings<K: for<'a> From<&'a str>>(map: &Value) -> impl Iterator<Item = (K, K)> {
    let fields = map.as_object().into_iter().flatten();
    fields.filter_map(|(key, value)| Some((K::from(key), K::from(value.as_str()?))))
}

/// `owner` is the UID of the Pod's controller.
pub(crate) fn of_pod(pod: &Value, owner: Option<&str>) -> PodFact {
    let metadata = &pod["metadata"];
    let annotations = &metadata["annotations"];
    let record = annotations[RECORD_ANNOTATION].as_str();
    PodFact {
        owner: owner.map(Arc::from),
        node: node_of(pod).map(Arc::from),
        ready: is_ready(pod),
        ready_since: None,
        terminating: metadata["deletionTimestamp"].is_string(),
        injected: annotations[INJECTED_ANNOTATION].is_string(),
        exempt: record.is_some_and(forbids_recording),
        annotations: strings(annotations).collect(),
        ips: read_pod_ips(&pod["status"]),
        pending: pending_pod(pod).map(Box::new),
        incarnation: None,
    }
}

fn node_of(pod: &Value) -> Option<&str> {
    let node = pod["spec"]["nodeName"].as_str();
    node.filter(|node| !node.is_empty())
}

/// A Pod that waits for its recorded place, as the sidecar reads it.
fn pending_pod(pod: &Value) -> Option<PendingPod> {
    let metadata = &pod["metadata"];
    let pps = metadata["annotations"][INJECTED_ANNOTATION].as_str()?;
    // A simulated Pod has no phase before it runs.
    let is_pending = matches!(text(&pod["status"]["phase"]), "" | "Pending");
    if !is_pending || is_gated(pod) || node_of(pod).is_some() {
        return None;
    }
    let required_affinity = RequiredAffinity::deserialize(&pod["spec"]["affinity"]).ok()?;
    if required_affinity.exceeds_limits() {
        return None;
    }
    Some(PendingPod {
        uid: text(&metadata["uid"]).to_owned(),
        pps: pps.into(),
        required_affinity,
        // All Pods have been tried before anything follows.
        is_unschedulable: true,
        ..PendingPod::default()
    })
}

fn is_gated(pod: &Value) -> bool {
    list(&pod["spec"]["schedulingGates"]).next().is_some()
}

pub(crate) fn of_node(node: &Value) -> NodeFact {
    NodeFact {
        labels: strings(&node["metadata"]["labels"]).collect(),
    }
}

pub(crate) fn of_workload(workload: &Workload) -> WorkloadFact {
    WorkloadFact {
        api_version: workload.target.api_version.clone(),
        uid: workload.uid.as_str().into(),
        terminating: false,
        demand: workload.demand.clone(),
        annotations: strings(&workload.object["metadata"]["annotations"]).collect(),
        generation: Generation::default(),
    }
}

/// The definition is this product's, so that nothing is hidden. A simulated object has no managed
/// fields: what has the label was generated.
pub(crate) fn of_pps(object: &Value) -> PpsFact {
    let mut fact = read_pps(object).unwrap_or_else(|error| {
        let target_ref = TargetReference::read(&object["spec"]["targetRef"]);
        PpsFact {
            uid: text(&object["metadata"]["uid"]).to_owned(),
            resource_version: text(&object["metadata"]["resourceVersion"]).to_owned(),
            spec: Spec {
                target_ref,
                ..Spec::default()
            },
            unreadable: Some(error.to_string()),
            ..PpsFact::default()
        }
    });
    fact.status.packed_claim = PackedClaim::No;
    let generated = object["metadata"]["labels"][MANAGED_BY_LABEL] == FIELD_MANAGER;
    fact.generated = generated;
    fact.owned = if generated {
        GENERATED_FIELDS.to_vec()
    } else {
        Vec::new()
    };
    fact
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_pending_pod_without_gates_and_node_waits_for_its_recorded_place() {
        let is_pending = |spec: Value, status: Value| {
            let metadata = json!({"uid": "p", "annotations": {INJECTED_ANNOTATION: "db"}});
            let pod = json!({"metadata": metadata, "spec": spec, "status": status});
            of_pod(&pod, None).pending.is_some()
        };
        for gates in [json!({}), json!({"schedulingGates": []})] {
            assert!(
                is_pending(gates.clone(), json!({"phase": "Pending"})),
                "{gates}"
            );
        }
        assert!(is_pending(json!({}), json!(null)), "it was just created");
        assert!(!is_pending(json!({}), json!({"phase": "Failed"})));
        assert!(!is_pending(
            json!({"nodeName": "n1"}),
            json!({"phase": "Pending"})
        ));
        assert!(!is_pending(
            json!({"schedulingGates": [{"name": "g"}]}),
            json!({"phase": "Pending"})
        ));
    }
}
