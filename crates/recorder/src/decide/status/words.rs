//! Findings in English, for the condition of type Recording.

use pps_core::limits::MAX_MESSAGES;
use pps_core::{DEFAULT_NAMESPACE_SELECTOR, Reason, successor_of};

use super::condition::{CapacityLevel, Finding, MissingLabels, Obstacle};
use super::view::View;
use crate::ledger::recreations;
use crate::recording::Recording;

const CAPACITY_ADVICE: &str = "split the workload, record fewer or shorter annotations, or drop \
                               states earlier (persistentPodStateRetentionPolicy: WhenScaled)";

/// What the condition says of a PPS that has so many recorded states, and may have so many bytes.
pub(super) fn recording(
    finding: &Finding<'_>,
    view: &View<'_>,
    recorded: usize,
    size_limit: usize,
) -> Recording {
    match finding {
        Finding::Obstacle(obstacle) => of_obstacle(obstacle, view),
        Finding::NameConflict(advice) => Recording::not(Reason::NameConflict, *advice),
        Finding::PodNotEvicted(advice) => Recording::not(Reason::PodNotEvicted, *advice),
        Finding::FallbackBlocked(advice) => Recording::not(Reason::FallbackBlocked, *advice),
        Finding::FellBack(message) => Recording::fine(Reason::FellBack, *message),
        Finding::MissingLabels(missing) => {
            Recording::not(Reason::TopologyKeyMissing, missing_labels(missing))
        }
        Finding::RecreationLoop(pod) => {
            Recording::fine(Reason::RecreationLoop, recreations::advice(pod))
        }
        Finding::Capacity(level) => capacity(*level, recorded, size_limit),
        Finding::NamesUnknown(doubt) => Recording::fine(
            Reason::ReplicasUnknown,
            format!("{doubt}, so no state is dropped"),
        ),
        Finding::ReplicasUnknown => Recording::fine(
            Reason::ReplicasUnknown,
            "the workload does not say how many Pods it wants, so no state is dropped before it \
             is deleted",
        ),
        Finding::WaitingForPods => Recording::fine(
            Reason::WaitingForPods,
            "Pods are recorded as they become Ready",
        ),
        Finding::AllRecorded => Recording::fine(
            Reason::AllRecorded,
            "at least as many states are recorded as the workload wants Pods",
        ),
    }
}

fn of_obstacle(obstacle: &Obstacle<'_>, view: &View<'_>) -> Recording {
    let target = &view.spec().target_ref;
    let kind = &target.kind;
    let group_version = &target.api_version;
    match obstacle {
        Obstacle::NamespaceNotEnabled { selector } => {
            let namespace = &view.key.namespace;
            let advice = if *selector == DEFAULT_NAMESPACE_SELECTOR {
                format!("kubectl label namespace {namespace} {selector} --overwrite")
            } else {
                format!("change the labels of namespace {namespace} so that they match {selector}")
            };
            Recording::not(
                Reason::NamespaceNotEnabled,
                format!("{advice}; until then nothing is recorded, dropped or injected"),
            )
        }
        Obstacle::KindNotWatched => Recording::not(
            Reason::WorkloadKindNotWatched,
            format!(
                "install the CRD of {kind} ({group_version}) and list the kind in ConfigMap \
                 kruise-configuration, key PPS_Watch_Custom_Workload_WhiteList; until then \
                 nothing is recorded or dropped"
            ),
        ),
        Obstacle::KindForbidden => Recording::not(
            Reason::WorkloadKindForbidden,
            format!(
                "grant the sidecar list and watch on {kind} ({group_version}); until then nothing \
                 is recorded or dropped"
            ),
        ),
        Obstacle::KindUnavailable => Recording::not(
            Reason::WorkloadKindUnavailable,
            format!(
                "{kind} ({group_version}) cannot be listed, and the sidecar retries: its log and \
                 the metric persistentpodstate_watch_errors_total say why; until then nothing is \
                 recorded or dropped"
            ),
        ),
        Obstacle::SupersededBy(other) => Recording::not(
            Reason::Superseded,
            format!(
                "PersistentPodState {} names the same workload and takes precedence; delete one \
                 of the two",
                other.name
            ),
        ),
        Obstacle::LimitExceeded(excess) => Recording::not(
            Reason::LimitExceeded,
            format!("{excess}; until then nothing is recorded or dropped"),
        ),
        Obstacle::WorkloadNotFound => Recording::not(
            Reason::WorkloadNotFound,
            format!("{kind} {} does not exist in this namespace", target.name),
        ),
    }
}

/// What the condition, and an Event, say about the capacity.
pub(super) fn capacity(level: CapacityLevel, recorded: usize, size_limit: usize) -> Recording {
    let kib = size_limit / 1024;
    match level {
        CapacityLevel::Exceeded => Recording::not(
            Reason::CapacityExceeded,
            format!(
                "{CAPACITY_ADVICE}: the object has no capacity for more than these {recorded} \
                 states, and other Pods are not recorded"
            ),
        ),
        CapacityLevel::NeedsCompactForm => Recording::fine(
            Reason::NearCapacity,
            format!(
                "{CAPACITY_ADVICE}: the object keeps the compact form, since in podStates its \
                 {recorded} states would take more than the {kib} KiB that an object can have"
            ),
        ),
        CapacityLevel::Near { percent } => Recording::fine(
            Reason::NearCapacity,
            format!(
                "{CAPACITY_ADVICE}: {recorded} states take {percent} % of the {kib} KiB that an \
                 object can have"
            ),
        ),
    }
}

fn missing_labels(missing: &MissingLabels<'_>) -> String {
    let MissingLabels { pod, node, keys } = missing;
    let advice = keys
        .iter()
        .find_map(|key| Some(format!("use {} instead of {key}", successor_of(key)?)))
        .unwrap_or_else(|| "label the node, or remove the key from the spec".into());
    let listed = keys[..keys.len().min(MAX_MESSAGES)].join(", ");
    let more = match keys.len().saturating_sub(MAX_MESSAGES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("node {node} of Pod {pod} has no label {listed}{more}: {advice}")
}
