//! What the condition of type Recording says, and why.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::limits::MAX_MESSAGES;
use pps_core::size::nearly_full;
use pps_core::{DEFAULT_NAMESPACE_SELECTOR, Reason, successor_of};

use super::fit::FittedChanges;
use super::form::FormDecision;
use super::view::View;
use crate::cluster::KindCoverage;
use crate::facts::PpsStatus;
use crate::ledger::TrackedPps;
use crate::ledger::capacity::OBJECT_OVERHEAD;
use crate::ledger::entry_change::EntryChange;
use crate::record::missing_keys;
use crate::recording::{RECORDING, Recording};

const CAPACITY_ADVICE: &str = "split the workload, record fewer or shorter annotations, or drop \
                               states earlier (persistentPodStateRetentionPolicy: WhenScaled)";

/// What keeps a PPS from recording, if anything does.
pub(crate) fn obstacle(view: &View<'_>) -> Option<Recording> {
    let target = &view.spec().target_ref;
    let (kind, group_version) = (&target.kind, &target.api_version);
    if let Some(selector) = view.excluded_by {
        let namespace = &view.key.namespace;
        let advice = if selector == DEFAULT_NAMESPACE_SELECTOR {
            format!("kubectl label namespace {namespace} {selector} --overwrite")
        } else {
            format!("change the labels of namespace {namespace} so that they match {selector}")
        };
        let message = format!("{advice}; until then nothing is recorded, dropped or injected");
        return Some(Recording::not(Reason::NamespaceNotEnabled, message));
    }
    let (reason, message) = match (view.coverage, view.superseded_by, &view.pps.exceeded_limit) {
        (KindCoverage::NotWatched, ..) => (
            Reason::WorkloadKindNotWatched,
            format!(
                "install the CRD of {kind} ({group_version}) and list the kind in ConfigMap \
                 kruise-configuration, key PPS_Watch_Custom_Workload_WhiteList; until then \
                 nothing is recorded or dropped"
            ),
        ),
        (KindCoverage::Forbidden, ..) => (
            Reason::WorkloadKindForbidden,
            format!(
                "grant the sidecar list and watch on {kind} ({group_version}); until then nothing \
                 is recorded or dropped"
            ),
        ),
        (KindCoverage::Unavailable, ..) => (
            Reason::WorkloadKindUnavailable,
            format!(
                "{kind} ({group_version}) cannot be listed, and the sidecar retries: its log and \
                 the metric persistentpodstate_watch_errors_total say why; until then nothing is \
                 recorded or dropped"
            ),
        ),
        (_, Some(other), _) => (
            Reason::Superseded,
            format!(
                "PersistentPodState {} names the same workload and takes precedence; delete one \
                 of the two",
                other.name
            ),
        ),
        (_, None, Some(excess)) => (
            Reason::LimitExceeded,
            format!("{excess}; until then nothing is recorded or dropped"),
        ),
        (_, None, None) if view.living_workload().is_none() => (
            Reason::WorkloadNotFound,
            format!("{kind} {} does not exist in this namespace", target.name),
        ),
        _ => return None,
    };
    Some(Recording::not(reason, message))
}

pub(super) fn capacity(
    pps: &TrackedPps,
    fitted: &FittedChanges,
    recorded: usize,
    form: &FormDecision,
    size_limit: usize,
) -> Option<Recording> {
    if !fitted.deferred.is_empty() {
        let message = format!(
            "{CAPACITY_ADVICE}: the object has no capacity for more than these {recorded} states, \
             and other Pods are not recorded"
        );
        return Some(Recording::not(Reason::CapacityExceeded, message));
    }
    let kib = size_limit / 1024;
    let message = if matches!(form, FormDecision::StayCompact) {
        format!(
            "{CAPACITY_ADVICE}: the object keeps the compact form, since in podStates its \
             {recorded} states would take more than the {kib} KiB that an object can have"
        )
    } else {
        let size = fitted.sizes.stored + OBJECT_OVERHEAD;
        let was_near = was_near_capacity(&pps.observed.status);
        let percent = nearly_full(size, size_limit, was_near)?;
        format!(
            "{CAPACITY_ADVICE}: {recorded} states take {percent} % of the {kib} KiB that an \
             object can have"
        )
    };
    Some(Recording {
        ok: true,
        reason: Reason::NearCapacity,
        message,
    })
}

fn was_near_capacity(status: &PpsStatus) -> bool {
    status.header.conditions.iter().any(|condition| {
        condition.type_ == RECORDING && condition.reason == Reason::NearCapacity.as_str()
    })
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
    let (exceeded, near) = if is_exceeded {
        (capacity, None)
    } else {
        (None, capacity)
    };
    // The policy cannot find the PPS, so that recorded states are not injected.
    obstacle
        .or(exceeded)
        .or_else(|| {
            Some(Recording::not(
                Reason::NameConflict,
                view.pps.progress.alias_advice.clone()?,
            ))
        })
        .or_else(|| not_evicted(view))
        .or_else(missing_label)
        .or(near)
        .unwrap_or_else(|| progress(view, recorded))
}

fn progress(view: &View<'_>, recorded: usize) -> Recording {
    let (reason, message) = match view
        .workload
        .and_then(|workload| workload.demand.replicas())
    {
        None => (
            Reason::ReplicasUnknown,
            "the workload does not say how many Pods it wants, so no state is dropped before it \
             is deleted",
        ),
        Some(desired) if (recorded as u64) < desired => (
            Reason::WaitingForPods,
            "Pods are recorded as they become Ready",
        ),
        Some(_) => (
            Reason::AllRecorded,
            "at least as many states are recorded as the workload wants Pods",
        ),
    };
    Recording {
        ok: true,
        reason,
        message: message.into(),
    }
}

/// The first Pod that waits for a node that does not exist, and is not evicted.
fn not_evicted(view: &View<'_>) -> Option<Recording> {
    let mut not_evicted = view.pps.progress.not_evicted.iter();
    let (_, first) = not_evicted.find(|(pod, not_evicted)| {
        let pending = view.pod(pod).and_then(|pod| pod.pending.as_deref());
        pending.is_some_and(|pending| pending.uid == not_evicted.uid)
    })?;
    Some(Recording::not(Reason::PodNotEvicted, first.advice.as_str()))
}

/// The first Pod whose node lacks topology keys. They are computed from its state, so that nothing
/// is kept of them.
pub(super) fn missing_label(
    view: &View<'_>,
    missing_labels: &BTreeSet<Arc<str>>,
    changes: &[EntryChange],
) -> Option<Recording> {
    let pod = missing_labels.first()?;
    let changed = changes.iter().find(|change| change.pod == *pod);
    let known = || view.pps.observed.status.pod_states.get(pod);
    let state = changed.map_or_else(known, |change| change.after.clone())?;
    let has_label = |key: &str| state.node_topology_labels.contains_key(key);
    let keys = missing_keys(view.spec(), has_label);
    let replace_deprecated =
        |key: &&str| Some(format!("use {} instead of {key}", successor_of(key)?));
    let advice = keys
        .iter()
        .find_map(replace_deprecated)
        .unwrap_or_else(|| "label the node, or remove the key from the spec".into());
    let more = keys.len().saturating_sub(MAX_MESSAGES);
    let listed = keys[..keys.len() - more].join(", ");
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let message = format!(
        "node {} of Pod {pod} has no label {listed}{more}: {advice}",
        state.node_name
    );
    (!keys.is_empty()).then(|| Recording::not(Reason::TopologyKeyMissing, message))
}
