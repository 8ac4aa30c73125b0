//! Dropped states: reports them, and keeps those for a while whose drop the API server does not confirm.

use std::time::Instant;

use pps_core::Reason;
use tracing::{info, warn};

use super::worker::Worker;
use crate::decide::index::StatusWrite;
use crate::facts::GroupKind;
use crate::telemetry::metrics::DropCheckOutcome;
use crate::write::Unconfirmed;
use crate::write::reads::WorkloadSource;

/// How many states an Event lists.
const MAX_LISTED: usize = 5;

impl Worker {
    /// How workloads of this kind are read.
    pub(super) fn workload_source(&self, kind: &GroupKind) -> WorkloadSource {
        if *kind == GroupKind::stateful_set() {
            return WorkloadSource::StatefulSet;
        }
        self.kind_resources.get(kind).cloned().map_or(WorkloadSource::Unknown, WorkloadSource::Custom)
    }

    pub(super) fn on_drops_unconfirmed(&mut self, write: &StatusWrite, unconfirmed: &Unconfirmed) {
        if let Some(error) = &unconfirmed.failure {
            self.metrics.count_drop_check(DropCheckOutcome::Unknown);
            self.status_writes.failed(&write.key, error.retry_after(), Instant::now());
            warn!(object = %write.key, %error, "keeping states whose drop or change cannot be confirmed; retrying");
        } else {
            self.metrics.count_drop_check(DropCheckOutcome::Refuted);
            self.status_writes.not_sent(&write.key, Instant::now());
            info!(object = %write.key, states = unconfirmed.held.len(), "keeping states: the API server has what a watch has not shown yet");
        }
        self.index.on_drops_unconfirmed(&write.key, &write.uid, &unconfirmed.held);
    }

    /// Reports the states that a status write has dropped.
    pub(super) fn report_dropped_states(&mut self, write: &StatusWrite) {
        let Some(check) = &write.drops else { return };
        self.metrics.count_drop_check(DropCheckOutcome::Confirmed);
        let forgotten: Vec<String> =
            check.forgotten().map(|(node, pod)| format!("{pod} on {node}")).collect();
        self.metrics.count_forgotten_states(forgotten.len());
        self.follow_forgotten_states(check);
        let grace_period = self.missing_nodes.period().as_secs();
        let unwanted: Vec<String> = check.unwanted().map(ToString::to_string).collect();
        for (reason, states, cause) in [
            (Reason::StatesForgotten, forgotten, format!("the node has not existed for {grace_period} s")),
            (
                Reason::StatesDropped,
                unwanted,
                "the workload no longer wants these Pods; persistentPodStateRetentionPolicy: WhenDeleted keeps states while a workload is scaled down".into(),
            ),
        ] {
            if !states.is_empty() {
                let more = states.len().saturating_sub(MAX_LISTED);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let listed = states[..states.len().min(MAX_LISTED)].join(", ");
                let name = &write.key.name;
                let message = format!("dropped the states of {listed}{more} from PersistentPodState {name}: {cause}");
                self.index.report(&write.workload, reason, message);
            }
        }
    }
}
