//! The eviction of Pods that wait for a node that does not exist.

use std::time::Instant;

use pps_core::Reason;
use pps_recorder::{LossCheck, PodEviction};
use tracing::{info, warn};

use super::Worker;
use super::actions::Action;
use crate::telemetry::metrics::PODS;
use crate::write::Failure;
use pps_recorder::facts::NamespacedName;

impl Worker {
    /// Lets the Pods be evicted at once whose states a status write has dropped because their node
    /// does not exist: the grace period has ended for the node already.
    pub(super) fn release_pending_pods(&mut self, check: &LossCheck) {
        let now = Instant::now();
        for (node, pod) in check.forgotten() {
            let key = check.workload.object.sibling(pod);
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
            self.recorder.on_pod_evicted(eviction);
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
