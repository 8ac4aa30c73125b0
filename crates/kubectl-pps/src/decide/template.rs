//! From which template of its workload a Pod was made, and from which its successor will be.

use pps_core::workload::ordinal;

use crate::snapshot::{Pod, Workload};

/// By this label of a Pod a StatefulSet knows from which of its templates the Pod was made.
const REVISION: &str = "controller-revision-hash";

/// The template from which a Pod was made; none if it does not say so.
pub fn revision(pod: &Pod) -> Option<&str> {
    pod.object()["metadata"]["labels"][REVISION].as_str()
}

/// The template that a workload has now; none if it does not say so.
pub fn newest_revision(workload: &Workload) -> Option<&str> {
    workload.object()["status"]["updateRevision"].as_str()
}

/// Whether the Pod is of the newest revision of its workload; none if one of them does not say its revision.
pub fn has_newest_revision(pod: &Pod, workload: &Workload) -> Option<bool> {
    Some(newest_revision(workload)? == revision(pod)?)
}

/// Whether the Pod was made from another template than its successor will be.
pub fn is_former(pod: &Pod, workload: &Workload) -> bool {
    !is_held_back(workload, pod) && has_newest_revision(pod, workload) == Some(false)
}

/// Whether the update strategy keeps the former template for a Pod of this ordinal. The partition counts from the first one.
pub fn is_held_back(workload: &Workload, pod: &Pod) -> bool {
    let spec = &workload.object()["spec"];
    let strategy = &spec["updateStrategy"];
    let partition =
        strategy["rollingUpdate"]["partition"].as_u64().filter(|_| strategy["type"] != "OnDelete");
    let first = spec["ordinals"]["start"].as_u64().unwrap_or(0);
    let held_back = first.saturating_add(partition.unwrap_or(0));
    partition.is_some() && ordinal(workload.name(), pod.name()).is_some_and(|ordinal| ordinal < held_back)
}

/// Whether the workload's controller has not seen its latest change yet.
pub fn is_unobserved(workload: &Workload) -> bool {
    let object = workload.object();
    let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
    object["status"]["observedGeneration"].as_i64().unwrap_or_default() < generation
}
