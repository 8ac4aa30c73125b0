//! What the condition of type Recording says: the most severe problem, or how far recording is.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::Reason;
use pps_core::size::nearly_full;

use super::fit::FittedChanges;
use super::form::FormDecision;
use super::view::View;
use crate::cluster::KindCoverage;
use crate::facts::{NamespacedName, PpsStatus};
use crate::ledger::capacity::OBJECT_OVERHEAD;
use crate::ledger::entry_change::EntryChange;
use crate::ledger::is_current;
use crate::ledger::progress::FallbackNote;
use crate::names::NamesDoubt;
use crate::record::missing_keys;

/// What keeps a PPS from recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle<'a> {
    /// This selector does not select the namespace.
    NamespaceNotEnabled {
        selector: &'a str,
    },
    KindNotWatched,
    KindForbidden,
    KindUnavailable,
    SupersededBy(&'a NamespacedName),
    /// What is larger in the spec than the limits.
    LimitExceeded(&'a str),
    WorkloadNotFound,
}

/// How much capacity the object has left, if that is little or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CapacityLevel {
    /// Other Pods are not recorded.
    Exceeded,
    /// In `podStates` the states would not fit.
    NeedsCompactForm,
    Near {
        percent: usize,
    },
}

/// What the condition says.
pub(super) enum Finding<'a> {
    Obstacle(Obstacle<'a>),
    /// The policy cannot find the PPS, so that recorded states are not injected: what the user has
    /// to do.
    NameConflict(&'a str),
    /// A Pod waits for a node that does not exist: what the user has to do.
    PodNotEvicted(&'a str),
    /// A Pod has waited long enough and keeps its place: why, and what the user has to do.
    FallbackBlocked(&'a str),
    /// A Pod has given its place up and is not Ready yet.
    FellBack(&'a str),
    MissingLabels(MissingLabels<'a>),
    /// This Pod is created again and again.
    RecreationLoop(&'a str),
    Capacity(CapacityLevel),
    /// The names that the workload lists do not say which Pods it wants.
    NamesUnknown(&'a NamesDoubt),
    /// The workload does not say how many Pods it wants.
    ReplicasUnknown,
    WaitingForPods,
    AllRecorded,
}

/// A Pod whose node lacks topology keys.
pub(super) struct MissingLabels<'a> {
    pub(super) pod: &'a Arc<str>,
    pub(super) node: String,
    /// Sorted, and at least one.
    pub(super) keys: Vec<&'a str>,
}

impl Obstacle<'_> {
    /// Whether states are decided all the same: those of a workload that no longer exists are
    /// dropped, by the retention policy.
    pub(super) fn lets_states_be_dropped(self) -> bool {
        self == Self::WorkloadNotFound
    }
}

pub(crate) fn obstacle<'a>(view: &View<'a>) -> Option<Obstacle<'a>> {
    if let Some(selector) = view.excluded_by {
        return Some(Obstacle::NamespaceNotEnabled { selector });
    }
    match view.coverage {
        KindCoverage::NotWatched => return Some(Obstacle::KindNotWatched),
        KindCoverage::Forbidden => return Some(Obstacle::KindForbidden),
        KindCoverage::Unavailable => return Some(Obstacle::KindUnavailable),
        KindCoverage::Listed | KindCoverage::Unlisted => {}
    }
    if let Some(other) = view.superseded_by {
        return Some(Obstacle::SupersededBy(other));
    }
    if let Some(excess) = &view.pps.exceeded_limit {
        return Some(Obstacle::LimitExceeded(excess));
    }
    view.living_workload()
        .is_none()
        .then_some(Obstacle::WorkloadNotFound)
}

pub(super) fn capacity_level(
    status: &PpsStatus,
    fitted: &FittedChanges,
    form: &FormDecision,
    size_limit: usize,
) -> Option<CapacityLevel> {
    if !fitted.deferred.is_empty() {
        return Some(CapacityLevel::Exceeded);
    }
    if matches!(form, FormDecision::StayCompact) {
        return Some(CapacityLevel::NeedsCompactForm);
    }
    let size = fitted.sizes.stored + OBJECT_OVERHEAD;
    let percent = nearly_full(size, size_limit, status.reports(Reason::NearCapacity))?;
    Some(CapacityLevel::Near { percent })
}

/// The most severe problem, or how far recording is if `recorded` states are recorded.
pub(super) fn finding<'a>(
    view: &'a View<'a>,
    obstacle: Option<Obstacle<'a>>,
    capacity: Option<CapacityLevel>,
    missing_labels: Option<MissingLabels<'a>>,
    recorded: usize,
) -> Finding<'a> {
    if let Some(obstacle) = obstacle {
        return Finding::Obstacle(obstacle);
    }
    if capacity == Some(CapacityLevel::Exceeded) {
        return Finding::Capacity(CapacityLevel::Exceeded);
    }
    if let Some(advice) = &view.pps.progress.alias_advice {
        return Finding::NameConflict(advice);
    }
    if let Some(advice) = not_evicted(view) {
        return Finding::PodNotEvicted(advice);
    }
    if let Some(advice) = blocked_fallback(view) {
        return Finding::FallbackBlocked(advice);
    }
    if let Some(missing_labels) = missing_labels {
        return Finding::MissingLabels(missing_labels);
    }
    if let Some(pod) = view.pps.progress.recreations.looping() {
        return Finding::RecreationLoop(pod);
    }
    if let Some(capacity) = capacity {
        return Finding::Capacity(capacity);
    }
    if let Some(doubt) = view.names_doubt() {
        return Finding::NamesUnknown(doubt);
    }
    if let Some(message) = fallback_notes(view).find_map(|note| match note {
        FallbackNote::FellBack { message } => Some(message),
        FallbackNote::Blocked { .. } => None,
    }) {
        return Finding::FellBack(message);
    }
    let workload = view.workload;
    match workload.and_then(|workload| workload.demand.replicas()) {
        None => Finding::ReplicasUnknown,
        Some(desired) if (recorded as u64) < desired => Finding::WaitingForPods,
        Some(_) => Finding::AllRecorded,
    }
}

/// What to do about the first Pod that waits for a node that does not exist, and is not evicted.
fn not_evicted<'a>(view: &View<'a>) -> Option<&'a str> {
    let mut not_evicted = view.pps.progress.not_evicted.iter();
    let (_, first) = not_evicted.find(|(pod, not_evicted)| {
        let pending = view.pod(pod).and_then(|pod| pod.pending.as_deref());
        pending.is_some_and(|pending| pending.uid == not_evicted.uid)
    })?;
    Some(&first.advice)
}

/// What to do about the first Pod that keeps its place although its requirement has ended.
fn blocked_fallback<'a>(view: &View<'a>) -> Option<&'a str> {
    let advice = view.pps.progress.fallback_advice.as_deref();
    advice.or_else(|| {
        fallback_notes(view).find_map(|note| match note {
            FallbackNote::Blocked { advice, .. } => Some(advice.as_str()),
            FallbackNote::FellBack { .. } => None,
        })
    })
}

/// What has become of the Pods whose requirement has an end, as far as it is still so.
fn fallback_notes<'a>(view: &View<'a>) -> impl Iterator<Item = &'a FallbackNote> {
    let notes = view.pps.progress.fallbacks.iter();
    notes
        .filter(|(pod, note)| is_current(note, view.pod(pod)))
        .map(|(_, note)| note)
}

/// The first Pod whose node lacks topology keys. They are computed from its state, so that nothing
/// is kept of them.
pub(super) fn missing_labels<'a>(
    view: &View<'a>,
    pods: &'a BTreeSet<Arc<str>>,
    changes: &[EntryChange],
) -> Option<MissingLabels<'a>> {
    let pod = pods.first()?;
    let state = match changes.iter().find(|change| change.pod == *pod) {
        Some(change) => change.after.clone()?,
        None => view.pps.observed.status.pod_states.get(pod)?,
    };
    let labels = &state.node_topology_labels;
    let keys = missing_keys(view.spec(), |key| labels.contains_key(key));
    (!keys.is_empty()).then_some(MissingLabels {
        pod,
        node: state.node_name,
        keys,
    })
}
