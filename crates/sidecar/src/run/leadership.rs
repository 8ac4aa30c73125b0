//! What the worker does when a term begins or ends, and the publication of notices, which only a leader does.

use std::time::Instant;

use tracing::info;

use super::worker::Worker;
use crate::decide::conflicts::Conflicts;
use crate::facts::Notice;
use crate::lead::HANDOVER_WINDOW;
use crate::write::events::is_normal;

impl Worker {
    /// Takes over a change of the term. A new leader decides everything again from what the watches have delivered. A
    /// standby keeps no decisions.
    pub(super) fn follow_leadership(&mut self) {
        if !self.term.update() {
            return;
        }
        let permit = self.term.permit();
        self.writer.permit = permit.clone();
        self.publisher.permit = permit;
        self.status_writes.take_all();
        self.generated_writes.take_all();
        self.refusals.clear();
        self.evictions.take_all();
        self.unschedulable.clear();
        self.conflicts = Conflicts::default();
        if self.term.has_begun() {
            self.index.begin_term();
            for notice in self.term.take_held_back(HANDOVER_WINDOW) {
                self.publish(notice);
            }
        }
    }

    pub(super) fn publish(&mut self, notice: Notice) {
        if !self.term.is_leader() {
            self.term.hold_back(notice);
            return;
        }
        info!(about = %notice.subject, reason = %notice.reason, "{}", notice.message);
        if !self.event_budget.spend(&notice.subject, !is_normal(notice.reason), Instant::now()) {
            return self.metrics.count_dropped_event();
        }
        tokio::spawn(self.publisher.clone().publish(notice));
    }
}
