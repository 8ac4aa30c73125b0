//! Drops that the API server does not confirm: the states stay, and are looked at again later.

use std::time::Instant;

use tracing::{info, warn};

use super::worker::Worker;
use crate::decide::index::StatusWrite;
use crate::facts::GroupKind;
use crate::telemetry::metrics::DropCheckOutcome;
use crate::write::Unconfirmed;
use crate::write::reads::WorkloadSource;

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
            warn!(object = %write.key, %error, "keeping states whose drop cannot be confirmed; retrying");
        } else {
            self.metrics.count_drop_check(DropCheckOutcome::Refuted);
            info!(object = %write.key, states = unconfirmed.held.len(), "keeping states: the API server has what a watch has not shown yet");
        }
        self.index.on_drops_unconfirmed(&write.key, &write.uid, &unconfirmed.held);
    }
}
