//! What the policy has injected into a Pod.

pub use pps_admission::injected::Injected;
use pps_admission::injected::Template;
use pps_admission::plan::Requirement;
use pps_core::succession::has_newest_revision;
use pps_core::{PodState, Spec};

use crate::snapshot::{Pod, Workload};

/// What the policy has injected into a Pod; none if it has changed nothing.
pub fn injected(
    pod: &Pod,
    workload: Option<&Workload>,
    spec: Option<&Spec>,
    state: Option<&PodState>,
) -> Option<Injected> {
    let template = workload.and_then(|workload| {
        // Without a revision the Pod may have been made from this template.
        let is_newest = has_newest_revision(pod.object(), workload.object());
        let template = &workload.object()["spec"]["template"];
        (is_newest != Some(false)).then_some(Template {
            template,
            is_certain: is_newest == Some(true),
        })
    });
    pps_admission::injected::injected(pod.object(), template, spec, state)
}

pub fn same_labels(some: &[Requirement], others: &[Requirement]) -> bool {
    some.iter().all(|one| others.contains(one)) && others.iter().all(|one| some.contains(one))
}
