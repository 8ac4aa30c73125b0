//! From which template a Pod was made, what was injected into it, and from which template its successor will be.

pub use pps_core::injected::Injected;
use pps_core::injected::Template;
use pps_core::plan::Requirement;
use pps_core::{PodState, Spec};
use pps_recorder::workload::{Revision, UpdateStrategy, ordinal, successor_revision};

use crate::snapshot::{Pod, Workload};

/// By this label of a Pod a StatefulSet knows from which of its templates the Pod was made.
const REVISION: &str = "controller-revision-hash";

/// The template from which a Pod was made; none if it does not say so.
fn revision(pod: &Pod) -> Option<&str> {
    pod.label(REVISION)
}

/// Whether the Pod is of the newest revision of its workload; none if one of them does not say its revision.
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
        // Without a revision it may have been made from this template.
        let is_newest = has_newest_revision(pod, workload);
        let template = &workload.object()["spec"]["template"];
        (is_newest != Some(false)).then_some(Template { template, is_certain: is_newest == Some(true) })
    });
    pps_core::injected::injected(pod.object(), template, spec, state)
}

/// Whether these are the same labels, in whichever order.
pub fn same_labels(some: &[Requirement], others: &[Requirement]) -> bool {
    let has_all = |some: &[Requirement], others: &[Requirement]| some.iter().all(|one| others.contains(one));
    has_all(some, others) && has_all(others, some)
}
