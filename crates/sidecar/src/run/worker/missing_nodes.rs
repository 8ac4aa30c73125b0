//! Missing nodes: their grace period, and the lookup that confirms that they do not exist.

use std::sync::Arc;
use std::time::Instant;

use pps_recorder::Absence;
use tracing::{debug, info, warn};

use super::Worker;
use crate::telemetry::metrics::count;
use crate::write::Failure;

impl Worker {
    pub(super) fn on_node_absence(&mut self, node: &Arc<str>, now: Instant) {
        if self.recorder.is_missing(node) {
            info!(%node, "node missing; grace period started (nodeDeletionPolicy: Forget)");
            self.agenda.missing_nodes.start_grace_period(node, now);
        } else {
            self.agenda.missing_nodes.cancel(node);
        }
    }

    /// Has the recorder examine the nodes whose grace period has ended. Returns whether there are
    /// any. Call it after all work was taken up, because a node may have been back for a moment.
    pub(super) fn apply_overdue(&mut self, now: Instant) -> bool {
        let mut is_any = false;
        while let Some(node) = self.agenda.missing_nodes.take_overdue(now) {
            self.recorder.set_absence(&node, Absence::Overdue);
            is_any = true;
        }
        is_any
    }

    pub(super) fn on_node_lookup(&mut self, node: &Arc<str>, exists: Result<bool, Failure>) {
        let now = Instant::now();
        let missing = &mut self.agenda.missing_nodes;
        let result = match &exists {
            Ok(true) => "found",
            Ok(false) => "not_found",
            Err(_) => "unknown",
        };
        count(&self.metrics.node_lookups, [("result", result)]);
        match exists {
            Ok(exists) => {
                if let Some(absence) = missing.on_answer(node, exists, now) {
                    self.recorder.set_absence(node, absence);
                }
            }
            Err(failure) => {
                let failures = missing.confirmation_failed(node, failure.retry_after(), now);
                // Warns once for each absence: a whole zone may be missing.
                if failures == 0 {
                    warn!(
                        %node,
                        error = %failure,
                        "cannot confirm that a node does not exist; its states are kept; retrying",
                    );
                } else {
                    debug!(
                        %node,
                        failures,
                        error = %failure,
                        "still cannot confirm that a node does not exist",
                    );
                }
            }
        }
    }
}
