//! Nodes that are gone, and the Pods that wait for them.

use std::sync::Arc;
use std::time::Instant;

use pps_core::Reason;
use tracing::{debug, info, warn};

use super::Worker;
use super::writing::retry_after;
use crate::decide::index::{PodEviction, StatusWrite};
use crate::decide::schedule::Of;
use crate::facts::NamespacedName;
use crate::write::{Failure, NodeLookup};

/// How many names one Event tells.
const NAMES: usize = 5;

impl Worker {
    /// Follows which nodes are missing.
    pub(super) fn on_node_absence(&mut self, node: &Arc<str>, now: Instant) {
        if self.index.is_missing(node) {
            info!(%node, "a node is missing that a PersistentPodState is to forget when it is gone");
            self.grace.start_grace_period(node, now);
        } else {
            self.grace.cancel(node);
        }
    }

    pub(super) fn next_gone(&self) -> Option<Instant> {
        [self.evictions.next(Of::All), self.unschedulable.next_deadline(), self.grace.next_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Tells the index which nodes are overdue; whether there are any. All that the index has brought up
    /// has to be taken before: a node may have been back for a moment.
    pub(super) fn overdue(&mut self, now: Instant) -> bool {
        while let Some(pod) = self.unschedulable.take_overdue(now) {
            self.evictions.mark(&pod, now);
        }
        let mut any = false;
        while let Some(node) = self.grace.take_overdue(now) {
            self.index.on_node_overdue(&node);
            any = true;
        }
        any
    }

    /// Takes up the questions that decisions have brought up.
    pub(super) fn take_questions(&mut self) {
        for node in self.index.take_questions() {
            self.grace.request_confirmation(&node);
        }
    }

    pub(super) fn look_for(&mut self, node: Arc<str>) {
        self.begin(false, self.writer.clone().look_for(node));
    }

    /// The API server has answered whether a node is gone, or has not.
    pub(super) fn on_node_lookup(&mut self, node: &Arc<str>, sight: Result<NodeLookup, Failure>) {
        let now = Instant::now();
        match sight {
            Ok(NodeLookup::Gone) => {
                self.metrics.node_looked_for("gone");
                if self.grace.confirm_missing(node, now) {
                    self.index.on_node_gone(node);
                }
            }
            Ok(NodeLookup::There) => {
                self.metrics.node_looked_for("there");
                if self.grace.confirm_present(node, now) {
                    self.index.on_node_there(node);
                }
            }
            Err(failure) => {
                self.metrics.node_looked_for("unknown");
                // Once per absence: a whole zone may be missing.
                let before = self.grace.confirmation_failed(node, retry_after(&failure), now);
                if before == 0 {
                    warn!(%node, error = %failure, "it cannot be told whether a node is gone; nothing is dropped, and it is tried again");
                } else {
                    debug!(%node, failures = before, error = %failure, "still not");
                }
            }
        }
    }

    /// A status was written that dropped what was recorded on nodes that are gone.
    pub(super) fn tell_forgotten(&mut self, write: &StatusWrite) {
        if write.forgotten.is_empty() {
            return;
        }
        self.metrics.forgotten(write.forgotten.len());
        let now = Instant::now();
        for (node, pod) in &write.forgotten {
            let key = NamespacedName { namespace: write.key.namespace.clone(), name: pod.clone() };
            if self.index.is_waiting(&key) {
                self.unschedulable.skip_grace_period(&key, now);
            }
            info!(object = %write.key, %node, %pod, "dropped what was recorded on a node that is gone");
        }
        let mut entries: Vec<String> =
            write.forgotten.iter().map(|(node, pod)| format!("{pod} on {node}")).collect();
        let more = entries.len().saturating_sub(NAMES);
        entries.truncate(NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!(
            "PersistentPodState {} forgets what was recorded of {}{more}: a node has been gone for {} s",
            write.key.name,
            entries.join(", "),
            self.grace.period().as_secs()
        );
        self.index.tell(&write.workload, Reason::StatesForgotten, message);
    }

    /// Deletes a Pod that waits for a node that no longer exists, if it has done so for long enough.
    pub(super) fn evict(&mut self, pod: &NamespacedName, now: Instant) {
        match self.index.eviction(pod) {
            None => self.unschedulable.cancel(pod),
            Some(eviction) => {
                if self.unschedulable.observe(pod, now) {
                    self.begin(false, self.writer.clone().evict(eviction));
                }
            }
        }
    }

    /// A Pod that waited for a node that no longer exists was deleted, or could not be.
    pub(super) fn on_evicted(&mut self, eviction: &PodEviction, result: Result<(), Failure>) {
        let (pod, now) = (&eviction.pod, Instant::now());
        match result {
            Ok(()) => {
                self.metrics.write("pod", "ok");
                self.evictions.written(pod, 0, now);
                self.unschedulable.cancel(pod);
                let message = format!(
                    "deleted Pod {}, which waited for a node that no longer exists, so that it is made anew",
                    pod.name
                );
                self.index.tell(&eviction.workload, Reason::PodEvicted, message);
            }
            Err(failure) => {
                self.count_failure("pod", &failure);
                if !matches!(failure, Failure::Conflict | Failure::Gone | Failure::NotLeading) {
                    warn!(%pod, error = %failure, "a Pod that waits for a node that no longer exists could not be deleted; it is tried again");
                }
                self.evictions.failed(pod, retry_after(&failure), now);
                self.evictions.mark(pod, now);
            }
        }
    }
}
