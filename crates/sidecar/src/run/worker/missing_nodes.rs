//! Missing nodes: their grace period, the lookup that confirms that they do not exist, and the
//! eviction of Pods that wait for them.

use std::sync::Arc;
use std::time::Instant;

use pps_core::Reason;
use pps_recorder::{Absence, LossCheck, PodEviction};
use tracing::{debug, info, warn};

use super::Worker;
use super::actions::Action;
use crate::telemetry::metrics::{PODS, count};
use crate::write::Failure;
use pps_recorder::facts::NamespacedName;

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
            Ok(false) if missing.confirm_missing(node, now) => {
                self.recorder.set_absence(node, Absence::Confirmed);
            }
            // The watch has not reported the node yet.
            Ok(true) if missing.confirm_present(node, now) => {
                self.recorder.set_absence(node, Absence::InGracePeriod);
            }
            Ok(_) => {}
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

    /// Lets the Pods be evicted whose states a status write has dropped because their node does not
    /// exist.
    pub(super) fn follow_forgotten_states(&mut self, check: &LossCheck) {
        let now = Instant::now();
        for (node, pod) in check.forgotten() {
            let key = NamespacedName {
                name: pod.clone(),
                ..check.workload.object.clone()
            };
            if let Some(uid) = self.recorder.pending_uid(&key) {
                self.agenda
                    .unschedulable_pods
                    .skip_grace_period(&key, uid, now);
            }
            info!(
                workload = %check.workload,
                %node,
                %pod,
                "dropped a state whose node does not exist",
            );
        }
    }

    /// Decides whether to evict a Pod that waits for a node that does not exist. It has to have
    /// waited for the grace period.
    pub(super) fn decide_eviction(&mut self, pod: &NamespacedName, now: Instant) -> Option<Action> {
        let Some(eviction) = self.recorder.decide_eviction(pod) else {
            self.recorder.on_eviction_needless(pod);
            self.agenda.unschedulable_pods.cancel(pod);
            return None;
        };
        let unschedulable = &mut self.agenda.unschedulable_pods;
        let evictable_from = unschedulable.observe(pod, &eviction.uid, now);
        if evictable_from > now {
            self.agenda.evictions.revisit(pod, evictable_from);
            return None;
        }
        if !self.evicts_pending_pods {
            self.report_not_evicted(&eviction, "start the sidecar with --evict-pending-pods");
            return None;
        }
        // A node that could take the Pod may be there, and a watch that does not work has not shown
        // it.
        if self.health.problem().is_some() {
            self.agenda.evictions.failed(pod, None, now);
            self.agenda.evictions.mark(pod, now);
            return None;
        }
        Some(Action::Evict(eviction))
    }

    /// Reports, once for each Pod, that it stays Pending.
    fn report_not_evicted(&mut self, eviction: &PodEviction, advice: &str) {
        let pod = &eviction.pod;
        if self.agenda.unschedulable_pods.is_to_be_reported(pod) {
            let message = format!(
                "delete Pod {}, or {advice}: it is Pending for a node that does not exist, and \
                 its controller does not re-create it by itself",
                pod.name
            );
            self.recorder.on_pod_not_evicted(eviction, message);
        }
    }

    pub(super) fn on_evicted(&mut self, eviction: &PodEviction, result: Result<(), Failure>) {
        let pod = &eviction.pod;
        let now = Instant::now();
        let Err(failure) = result else {
            self.metrics.count_write(PODS, "success");
            self.agenda.evictions.written(pod, 0, now);
            self.agenda.unschedulable_pods.cancel(pod);
            let message = format!(
                "evicted Pod {}, which was Pending for a node that does not exist; its controller \
                 re-creates it",
                pod.name
            );
            return self
                .recorder
                .report(&eviction.workload, Reason::PodEvicted, message);
        };
        self.metrics.count_write(PODS, failure.result());
        if let Failure::Refused(message) = &failure {
            self.report_not_evicted(eviction, &format!("let the sidecar evict it ({message})"));
        }
        if !failure.is_expected() {
            warn!(
                %pod,
                error = %failure,
                "cannot evict a Pod that waits for a node that does not exist; retrying",
            );
        }
        self.agenda
            .evictions
            .failed(pod, failure.retry_after(), now);
        self.agenda.evictions.mark(pod, now);
    }
}
