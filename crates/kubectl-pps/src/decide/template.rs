//! The template of a Pod, the injected state, and the template of the successor.

pub use pps_core::injected::Injected;
use pps_core::injected::Template;
use pps_core::plan::Requirement;
use pps_core::succession::{Revision, UpdateStrategy, ordinal, successor_revision};
use pps_core::{PodState, Spec};

use crate::snapshot::{Pod, Workload};

/// The label by which a StatefulSet knows the template of a Pod.
const REVISION: &str = "controller-revision-hash";

fn revision(pod: &Pod) -> Option<&str> {
    pod.label(REVISION)
}

/// Whether the Pod is of the newest revision of its workload; none if a revision is not known.
fn has_newest_revision(pod: &Pod, workload: &Workload) -> Option<bool> {
    Some(workload.object()["status"]["updateRevision"].as_str()? == revision(pod)?)
}

/// Whether the Pod was made from another template than its successor will be.
pub fn is_former(pod: &Pod, workload: &Workload) -> bool {
    let next = successor_revision(workload.object(), pod.name());
    next.zip(revision(pod)).is_some_and(|(next, own)| next != own)
}

/// Whether the next Pod of this name is made from a former template: the update strategy holds it back.
pub fn is_held_back(workload: &Workload, pod: &str) -> bool {
    let object = workload.object();
    let newest = object["status"]["updateRevision"].as_str();
    if let Some((next, newest)) = successor_revision(object, pod).zip(newest) {
        return next != newest;
    }
    let strategy = UpdateStrategy::read(&object["spec"]);
    let ordinal = ordinal(workload.name(), pod);
    ordinal.is_some_and(|ordinal| strategy.successor(ordinal) == Revision::Current)
}

/// Whether the workload's controller has not seen its latest change yet.
pub fn is_unobserved(workload: &Workload) -> bool {
    let object = workload.object();
    let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
    object["status"]["observedGeneration"].as_i64().unwrap_or_default() < generation
}

/// What the policy has injected into a Pod; none if it has changed nothing.
pub fn injected(
    pod: &Pod,
    workload: Option<&Workload>,
    spec: Option<&Spec>,
    state: Option<&PodState>,
) -> Option<Injected> {
    let template = workload.and_then(|workload| {
        // Without a revision the Pod may have been made from this template.
        let is_newest = has_newest_revision(pod, workload);
        let template = &workload.object()["spec"]["template"];
        (is_newest != Some(false)).then_some(Template { template, is_certain: is_newest == Some(true) })
    });
    pps_core::injected::injected(pod.object(), template, spec, state)
}

pub fn same_labels(some: &[Requirement], others: &[Requirement]) -> bool {
    let has_all = |some: &[Requirement], others: &[Requirement]| some.iter().all(|one| others.contains(one));
    has_all(some, others) && has_all(others, some)
}
