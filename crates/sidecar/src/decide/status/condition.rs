//! What the condition of type Recording says, and why.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::Reason;
use pps_core::size::nearly_full;
use pps_core::status::{RECORDING, Recording};

use super::view::View;
use crate::decide::inventory::{EntryChange, FittedChanges, KindCoverage, OBJECT_OVERHEAD, TrackedPps};

/// What to do about an object that becomes too large.
const CAPACITY_ADVICE: &str = "split the workload, record fewer or shorter annotations, or drop states earlier (persistentPodStateRetentionPolicy: WhenScaled)";

/// What keeps a PPS from recording, if anything does.
pub(super) fn obstacle(view: &View<'_>) -> Option<Recording> {
    let target = &view.pps.fact.spec.target_ref;
    let (kind, group_version) = (&target.kind, &target.api_version);
    let (reason, message) = match view.coverage {
        KindCoverage::NotWatched => (
            Reason::WorkloadKindNotWatched,
            format!(
                "install the CRD of {kind} ({group_version}) and list the kind in ConfigMap kruise-configuration, key PPS_Watch_Custom_Workload_WhiteList; until then nothing is recorded or dropped"
            ),
        ),
        KindCoverage::Forbidden => (
            Reason::WorkloadKindForbidden,
            format!(
                "grant the sidecar list and watch on {kind} ({group_version}); until then nothing is recorded or dropped"
            ),
        ),
        KindCoverage::Unavailable => (
            Reason::WorkloadKindUnavailable,
            format!(
                "{kind} ({group_version}) cannot be listed, and the sidecar retries: its log and the metric persistentpodstate_watch_errors_total say why; until then nothing is recorded or dropped"
            ),
        ),
        KindCoverage::Unlisted | KindCoverage::Listed => {
            return match view.superseded_by {
                Some(other) => Some(Recording::superseded_by(&other.name)),
                None => match &view.pps.exceeded_limit {
                    Some(excess) => Some(Recording::limit_exceeded(excess)),
                    None => view.living_workload().is_none().then(|| Recording::workload_not_found(target)),
                },
            };
        }
    };
    Some(Recording { ok: false, reason, message })
}

/// What has to be said about the capacity of an object after these changes.
pub(super) fn capacity(
    pps: &TrackedPps,
    fitted: &FittedChanges,
    recorded: usize,
    stays_compact: bool,
    size_limit: usize,
) -> Option<Recording> {
    if !fitted.deferred.is_empty() {
        let message = format!(
            "{CAPACITY_ADVICE}: the object has no capacity for more than these {recorded} states, and other Pods are not recorded"
        );
        return Some(Recording { ok: false, reason: Reason::CapacityExceeded, message });
    }
    if stays_compact {
        let message = format!(
            "{CAPACITY_ADVICE}: the object keeps the compact form, since in podStates its {recorded} states would take more than the {} KiB that an object can have",
            size_limit / 1024
        );
        return Some(Recording { ok: true, reason: Reason::NearCapacity, message });
    }
    let was_near =
        pps.fact.status.conditions.iter().any(|condition| {
            condition.type_ == RECORDING && condition.reason == Reason::NearCapacity.as_str()
        });
    let percent = nearly_full(fitted.sizes.stored + OBJECT_OVERHEAD, size_limit, was_near)?;
    let message = format!(
        "{CAPACITY_ADVICE}: {recorded} states take {percent} % of the {} KiB that an object can have",
        size_limit / 1024
    );
    Some(Recording { ok: true, reason: Reason::NearCapacity, message })
}

/// What the condition says: the most severe problem, or how far recording has come.
pub(super) fn recording(
    view: &View<'_>,
    obstacle: Option<Recording>,
    missing_label: impl FnOnce() -> Option<Recording>,
    capacity: Option<Recording>,
    recorded: usize,
) -> Recording {
    let is_exceeded = capacity.as_ref().is_some_and(|capacity| !capacity.ok);
    let (exceeded, near) = if is_exceeded { (capacity, None) } else { (None, capacity) };
    obstacle
        .or(exceeded)
        // The policy cannot find the PPS, so that what is recorded is not injected.
        .or_else(|| view.pps.hidden.clone().map(Recording::name_conflict))
        .or_else(|| not_evicted(view))
        .or_else(missing_label)
        .or(near)
        .unwrap_or_else(|| {
            Recording::progress(recorded, view.workload.and_then(|workload| workload.demand.replicas()))
        })
}

/// The first Pod that waits for a node that does not exist, and is not evicted.
fn not_evicted(view: &View<'_>) -> Option<Recording> {
    let uid = |pod| Some(&view.pod(pod)?.pending.as_ref()?.uid);
    let (_, (_, advice)) = view.pps.not_evicted.iter().find(|(pod, (of, _))| uid(pod) == Some(of))?;
    Some(Recording { ok: false, reason: Reason::PodNotEvicted, message: advice.clone() })
}

/// The first Pod whose node lacks topology keys. They are computed from its state, so that nothing is kept of them.
pub(super) fn missing_label(
    view: &View<'_>,
    missing_labels: &BTreeSet<Arc<str>>,
    changes: &[EntryChange],
) -> Option<Recording> {
    let pod = missing_labels.first()?;
    let changed = changes.iter().find(|change| change.pod == *pod);
    let known = || view.pps.fact.status.pod_states.get(pod);
    let state = changed.map_or_else(known, |change| change.after.clone())?;
    Recording::missing_label(&view.pps.fact.spec, pod, &state)
}
