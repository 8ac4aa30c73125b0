//! Missing nodes: their grace period, the lookup that confirms that they do not exist, and the
//! eviction of Pods that wait for them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pps_core::Reason;
use tracing::{debug, info, warn};

use super::Worker;
use crate::args::Args;
use crate::telemetry::metrics::{PODS, count};
use crate::write::Failure;
use pps_recorder::decide::PodEviction;
use pps_recorder::decide::index::LossCheck;
use pps_recorder::decide::missing_nodes::{MissingNodes, UnschedulablePods};
use pps_recorder::decide::schedule::Deadlines;
use pps_recorder::facts::NamespacedName;

/// How long a new node may lack a label, unless the grace period of missing nodes is shorter. A
/// kubelet registers its Node, and starts Pods on it, before the cloud provider's controller has
/// labelled it with its zone.
pub(super) const LABEL_GRACE_PERIOD: Duration = Duration::from_mins(5);

/// How long nodes have been missing or new, and Pods unschedulable.
pub(super) struct Absences {
    pub(super) missing: MissingNodes,
    /// When each new node is new no longer.
    pub(super) new_nodes: Deadlines<Arc<str>>,
    pub(super) unschedulable: UnschedulablePods,
    pub(super) evicts_pending_pods: bool,
}

impl Absences {
    pub(super) fn new(args: &Args) -> Self {
        let period = args.node_grace_period;
        Self {
            missing: MissingNodes::new(period),
            new_nodes: Deadlines::default(),
            unschedulable: UnschedulablePods::new(period),
            evicts_pending_pods: args.evict_pending_pods,
        }
    }
}

impl Worker {
    pub(super) fn on_node_absence(&mut self, node: &Arc<str>, now: Instant) {
        if self.index.is_missing(node) {
            info!(%node, "node missing; grace period started (nodeDeletionPolicy: Forget)");
            self.absences.missing.start_grace_period(node, now);
        } else {
            self.absences.missing.cancel(node);
        }
    }

    /// Reports nodes whose grace period has ended to the index. Returns whether there are any. Call
    /// it after all of the index's work was taken, because a node may have been back for a moment.
    pub(super) fn apply_overdue(&mut self, now: Instant) -> bool {
        let mut is_any = false;
        while let Some(node) = self.absences.missing.take_overdue(now) {
            self.index.on_node_overdue(&node);
            is_any = true;
        }
        is_any
    }

    pub(super) fn on_node_lookup(&mut self, node: &Arc<str>, exists: Result<bool, Failure>) {
        let (now, missing) = (Instant::now(), &mut self.absences.missing);
        let result = exists.as_ref().map_or(
            "unknown",
            |exists| if *exists { "found" } else { "not_found" },
        );
        count(&self.metrics.node_lookups, [("result", result)]);
        match exists {
            Ok(false) if missing.confirm_missing(node, now) => self.index.on_node_gone(node),
            Ok(true) if missing.confirm_present(node, now) => self.index.on_node_there(node),
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
            if let Some(uid) = self.index.pending_uid(&key) {
                self.absences
                    .unschedulable
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

    /// Evicts a Pod that waits for a node that does not exist, if it has done so for the grace
    /// period.
    pub(super) fn evict(&mut self, pod: &NamespacedName, is_retry: bool, now: Instant) {
        let Some(eviction) = self.index.eviction(pod) else {
            self.index.on_eviction_needless(pod);
            return self.absences.unschedulable.cancel(pod);
        };
        let evictable_from = self.absences.unschedulable.observe(pod, &eviction.uid, now);
        if evictable_from > now {
            return self.writes.evictions.revisit(pod, evictable_from);
        }
        if !self.absences.evicts_pending_pods {
            return self
                .report_not_evicted(&eviction, "start the sidecar with --evict-pending-pods");
        }
        // A node that could take the Pod may be there, and a watch that does not work has not shown
        // it.
        if self.health.problem().is_some() {
            self.writes.evictions.failed(pod, None, now);
            return self.writes.evictions.mark(pod, now);
        }
        self.writes
            .begin(is_retry, self.term.writer.clone().evict(eviction));
    }

    /// Reports, once for each Pod, that it stays Pending.
    fn report_not_evicted(&mut self, eviction: &PodEviction, advice: &str) {
        let pod = &eviction.pod;
        if self.absences.unschedulable.is_to_be_reported(pod) {
            let message = format!(
                "delete Pod {}, or {advice}: it is Pending for a node that does not exist, and \
                 its controller does not re-create it by itself",
                pod.name
            );
            self.index.on_pod_not_evicted(eviction, message);
        }
    }

    pub(super) fn on_evicted(&mut self, eviction: &PodEviction, result: Result<(), Failure>) {
        let (pod, now) = (&eviction.pod, Instant::now());
        let Err(failure) = result else {
            self.metrics.count_write(PODS, "success");
            self.writes.evictions.written(pod, 0, now);
            self.absences.unschedulable.cancel(pod);
            let message = format!(
                "evicted Pod {}, which was Pending for a node that does not exist; its controller \
                 re-creates it",
                pod.name
            );
            return self
                .index
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
        self.writes
            .evictions
            .failed(pod, failure.retry_after(), now);
        self.writes.evictions.mark(pod, now);
    }
}
