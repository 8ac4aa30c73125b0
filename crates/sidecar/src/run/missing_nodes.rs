//! Missing nodes: their grace period, the lookup that confirms that they do not exist, the states that are forgotten
//! with them, and the eviction of Pods that wait for them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pps_core::Reason;
use tracing::{debug, info, warn};

use super::worker::Worker;
use crate::decide::PodEviction;
use crate::decide::index::DropCheck;
use crate::decide::schedule::Candidates;
use crate::facts::NamespacedName;
use crate::telemetry::metrics::{LookupOutcome, WriteOutcome, WrittenResource};
use crate::write::{Failure, NodeLookup};

/// How many Pods are compared with all nodes in one turn: each node event has all Pods examined that wait, and the Lease
/// is not renewed meanwhile.
pub(super) const EVICTIONS_PER_TURN: usize = 16;
/// When the next Pods are examined.
pub(super) const EVICTION_PAUSE: Duration = Duration::from_millis(10);

impl Worker {
    /// A node went missing or is back.
    pub(super) fn on_node_absence(&mut self, node: &Arc<str>, now: Instant) {
        if self.index.is_missing(node) {
            info!(%node, "node missing; grace period started (nodeDeletionPolicy: Forget)");
            self.missing_nodes.start_grace_period(node, now);
        } else {
            self.missing_nodes.cancel(node);
        }
    }

    /// When the next eviction or grace period is due.
    pub(super) fn next_absence_due(&self, candidates: Candidates) -> Option<Instant> {
        let due = [
            self.evictions.next(candidates),
            self.unschedulable.next_deadline(),
            self.missing_nodes.next_deadline(),
        ];
        due.into_iter().flatten().min()
    }

    /// Reports nodes whose grace period has ended to the index. Returns whether there are any. Call it after all of the
    /// index's work was taken, because a node may have been back for a moment.
    pub(super) fn apply_overdue(&mut self, now: Instant) -> bool {
        while let Some(pod) = self.unschedulable.take_overdue(now) {
            self.evictions.mark(&pod, now);
        }
        let mut is_any = false;
        while let Some(node) = self.missing_nodes.take_overdue(now) {
            self.index.on_node_overdue(&node);
            is_any = true;
        }
        is_any
    }

    /// Schedules the lookups that decisions need.
    pub(super) fn schedule_node_lookups(&mut self) {
        for node in self.index.take_unconfirmed_nodes() {
            self.missing_nodes.request_confirmation(&node);
        }
    }

    /// Takes one node to look up. A lookup that failed before is a retry, like a write.
    pub(super) fn take_confirmation(&mut self, candidates: Candidates) -> Option<Arc<str>> {
        match candidates {
            Candidates::All => self.missing_nodes.take_confirmation(),
            Candidates::NotFailing => self.missing_nodes.take_first_confirmation(),
        }
    }

    pub(super) fn look_up_node(&mut self, node: Arc<str>) {
        let is_retry = self.missing_nodes.has_failed(&node);
        self.begin_write(is_retry, self.writer.clone().look_up_node(node));
    }

    pub(super) fn on_node_lookup(&mut self, node: &Arc<str>, result: Result<NodeLookup, Failure>) {
        let now = Instant::now();
        match result {
            Ok(NodeLookup::NotFound) => {
                self.metrics.count_node_lookup(LookupOutcome::NotFound);
                if self.missing_nodes.confirm_missing(node, now) {
                    self.index.on_node_gone(node);
                }
            }
            Ok(NodeLookup::Found) => {
                self.metrics.count_node_lookup(LookupOutcome::Found);
                if self.missing_nodes.confirm_present(node, now) {
                    self.index.on_node_there(node);
                }
            }
            Err(failure) => {
                self.metrics.count_node_lookup(LookupOutcome::Unknown);
                let failures = self.missing_nodes.confirmation_failed(node, failure.retry_after(), now);
                // Warns once for each absence: a whole zone may be missing.
                if failures == 0 {
                    warn!(%node, error = %failure, "cannot confirm that a node does not exist; its states are kept; retrying");
                } else {
                    debug!(%node, failures, error = %failure, "still cannot confirm that a node does not exist");
                }
            }
        }
    }

    /// Lets the Pods be evicted whose states a status write has dropped because their node does not exist.
    pub(super) fn follow_forgotten_states(&mut self, check: &DropCheck) {
        let now = Instant::now();
        for (node, pod) in check.forgotten() {
            let key = NamespacedName { name: pod.clone(), ..check.workload.object.clone() };
            if let Some(uid) = self.index.pending_uid(&key) {
                self.unschedulable.skip_grace_period(&key, uid, now);
            }
            info!(workload = %check.workload, %node, %pod, "dropped a state whose node does not exist");
        }
    }

    /// Evicts a Pod that waits for a node that does not exist, if it has done so for the grace period.
    pub(super) fn evict(&mut self, pod: &NamespacedName, is_retry: bool, now: Instant) {
        if !self.may_examine_eviction(now) {
            return self.evictions.mark(pod, now + EVICTION_PAUSE);
        }
        let Some(eviction) = self.index.eviction(pod) else {
            self.index.on_eviction_needless(pod);
            return self.unschedulable.cancel(pod);
        };
        if !self.unschedulable.observe(pod, &eviction.uid, now) {
            return;
        }
        if self.evicts_pending_pods {
            // A node that could take the Pod may be there, and a watch that does not work has not shown it.
            if self.health.problem().is_some() {
                self.evictions.failed(pod, None, now);
                return self.evictions.mark(pod, now);
            }
            self.begin_write(is_retry, self.writer.clone().evict(eviction));
        } else {
            self.report_not_evicted(&eviction, "start the sidecar with --evict-pending-pods");
        }
    }

    /// Whether one more Pod may be examined in the turn that began at this time.
    fn may_examine_eviction(&mut self, turn: Instant) -> bool {
        let (latest_turn, examined) = &mut self.examined_evictions;
        if *latest_turn != turn {
            (*latest_turn, *examined) = (turn, 0);
        }
        *examined += 1;
        *examined <= EVICTIONS_PER_TURN
    }

    /// Reports, once for each Pod, that it stays Pending.
    fn report_not_evicted(&mut self, eviction: &PodEviction, advice: &str) {
        let pod = &eviction.pod;
        if self.unschedulable.is_to_be_reported(pod) {
            let message = format!(
                "delete Pod {}, or {advice}: it is Pending for a node that does not exist, and its controller does not re-create it by itself",
                pod.name
            );
            self.index.on_pod_not_evicted(eviction, message);
        }
    }

    pub(super) fn on_evicted(&mut self, eviction: &PodEviction, result: Result<(), Failure>) {
        let (pod, now) = (&eviction.pod, Instant::now());
        match result {
            Ok(()) => {
                self.metrics.count_write(WrittenResource::Pod, WriteOutcome::Success);
                self.evictions.written(pod, 0, now);
                self.unschedulable.cancel(pod);
                let message = format!(
                    "evicted Pod {}, which was Pending for a node that does not exist; its controller re-creates it",
                    pod.name
                );
                self.index.report(&eviction.workload, Reason::PodEvicted, message);
            }
            Err(failure) => {
                self.count_failure(WrittenResource::Pod, &failure);
                if let Failure::Refused(message) = &failure {
                    self.report_not_evicted(eviction, &format!("let the sidecar evict it ({message})"));
                }
                if !failure.is_expected() {
                    warn!(%pod, error = %failure, "cannot evict a Pod that waits for a node that does not exist; retrying");
                }
                self.evictions.failed(pod, failure.retry_after(), now);
                self.evictions.mark(pod, now);
            }
        }
    }
}
