//! Drops that the API server does not confirm: the states stay, and are looked at again later.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::{info, warn};

use super::worker::Worker;
use crate::decide::index::{DropCheck, StatusWrite};
use crate::facts::GroupKind;
use crate::telemetry::metrics::DropCheckOutcome;
use crate::write::Failure;
use crate::write::reads::WorkloadSource;

impl Worker {
    /// How workloads of this kind are read.
    pub(super) fn workload_source(&self, kind: &GroupKind) -> WorkloadSource {
        if *kind == GroupKind::stateful_set() {
            return WorkloadSource::StatefulSet;
        }
        self.kind_resources.get(kind).cloned().map_or(WorkloadSource::Unknown, WorkloadSource::Custom)
    }

    pub(super) fn on_drops_unconfirmed(
        &mut self,
        write: &StatusWrite,
        result: Result<BTreeSet<Arc<str>>, Failure>,
    ) {
        let held = match result {
            Ok(refuted) => {
                self.metrics.count_drop_check(DropCheckOutcome::Refuted);
                info!(object = %write.key, states = refuted.len(), "keeping states: the API server has what a watch has not shown yet");
                refuted
            }
            Err(error) => {
                self.metrics.count_drop_check(DropCheckOutcome::Unknown);
                warn!(object = %write.key, %error, "keeping states whose drop cannot be confirmed; retrying");
                write.drops.as_ref().map(DropCheck::all).unwrap_or_default()
            }
        };
        self.index.on_drops_unconfirmed(&write.key, &write.uid, &held);
    }
}
