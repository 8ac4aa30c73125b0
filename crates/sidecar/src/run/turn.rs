//! One turn of the loop: applies observations, queues the index's work, and begins due writes while this process leads.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::sleep_until;
use tracing::info;

use super::worker::{DROP_RETRY_INTERVAL, OVERSIZED_RETRY_INTERVAL, Worker};
use super::writing::{time_since, wall_clock};
use crate::decide::schedule::Candidates;
use crate::facts::NamespacedName;
use crate::facts::store::Update;
use crate::observe::watch::Observation;
use crate::telemetry::metrics::TrackedCounts;
use crate::write::{Failure, WriteResult};

/// How long to wait after the first failure of an object before the next attempt while the program stops. The wait
/// doubles with each further failure, unless the API server asks for a longer one.
const SHUTDOWN_RETRY: Duration = Duration::from_millis(100);

impl Worker {
    pub(super) fn apply(&mut self, observation: Observation) {
        match observation {
            Observation::Pods(update) => self.index.apply_pods(update),
            Observation::Nodes(update) => self.index.apply_nodes(update),
            Observation::Workloads(id, update) => self.apply_workloads(&id, update),
            Observation::KindUp(id) => self.on_kind_up(&id, false),
            Observation::KindDown(id, is_forbidden) => self.on_kind_down(&id, is_forbidden),
            Observation::Config(update) => {
                self.discovery.apply_config(update);
                self.follow_discovery();
            }
            Observation::Definitions(update) => {
                self.discovery.apply_definitions(update);
                self.follow_discovery();
            }
            Observation::PersistentPodStates(update) => {
                if let Update::Delete(key) = &update {
                    self.status_writes.forget(key);
                    self.conflicts.forget(key);
                }
                self.index.apply_objects(update);
            }
        }
    }

    /// When the next write is due; `None` if none may begin now.
    pub(super) fn next_due(&self) -> Option<Instant> {
        if !self.term.is_leader() || self.in_flight.len() >= self.max_writes {
            return None;
        }
        let candidates = self.candidates();
        let generated = if self.discovery.is_pps_definition_terminating() {
            None
        } else {
            [self.generated_writes.next(candidates), self.refusals.next_deadline()]
                .into_iter()
                .flatten()
                .min()
        };
        let due = [self.status_writes.next(candidates), generated, self.next_absence_due(candidates)];
        due.into_iter().flatten().min()
    }

    /// Retries may use half of the writes in flight. They may take long to fail again, and the other half stays free
    /// for healthy objects.
    fn candidates(&self) -> Candidates {
        if self.retries_in_flight < self.max_writes.div_ceil(2) {
            Candidates::All
        } else {
            Candidates::NotFailing
        }
    }

    pub(super) fn take_turn(&mut self) {
        self.follow_leadership();
        if !self.watches_pods && self.index.is_interest_known() {
            self.start_pod_and_node_watches();
        }
        if !self.is_synced && self.index.is_complete() && self.discovery.is_settled() {
            self.is_synced = true;
            self.health.mark_synced();
            info!(tracked = ?self.index.counts(), "initial lists complete");
        }
        let now = Instant::now();
        self.queue_work(now);
        while let Some(workload) = self.refusals.take_due(now) {
            self.generated_writes.mark(&workload, now);
        }
        if self.term.is_leader() && self.apply_overdue(now) {
            self.queue_work(now);
        }
        while self.term.is_leader() && self.in_flight.len() < self.max_writes && self.begin_next_write(now) {}
    }

    /// Begins the next due write, eviction or lookup. Returns false if there is none.
    fn begin_next_write(&mut self, now: Instant) -> bool {
        let candidates = self.candidates();
        if !self.discovery.is_pps_definition_terminating()
            && let Some((workload, is_retry)) = self.generated_writes.take(candidates, now)
        {
            self.write_generated_pps(workload, is_retry);
        } else if let Some((key, is_retry)) = self.status_writes.take(candidates, now) {
            self.write_status(&key, is_retry);
            self.schedule_node_lookups();
        } else if let Some(node) = self.take_confirmation(candidates) {
            self.look_up_node(node);
        } else if let Some((pod, is_retry)) = self.evictions.take(candidates, now) {
            self.evict(&pod, is_retry, now);
        } else {
            return false;
        }
        true
    }

    /// Queues what the index has found to be done.
    fn queue_work(&mut self, now: Instant) {
        let work = self.index.take_work();
        // A standby queues nothing: the index brings up everything again when this process begins to lead.
        if self.term.is_leader() {
            for key in &work.statuses {
                self.status_writes.mark(key, now);
            }
            for workload in &work.generated {
                self.generated_writes.mark(workload, now);
            }
            for pod in &work.evictions {
                self.evictions.mark(pod, now);
            }
            // Each Pod counts once, however many replicas there are.
            for ((placement, injected), pods) in work.bound_pods {
                self.metrics.count_bound_pods(placement.name(), injected, pods);
            }
        }
        for node in &work.new_nodes {
            self.new_nodes.observe(node, now);
        }
        for node in &work.absences {
            self.on_node_absence(node, now);
        }
        for notice in work.notices {
            self.publish(notice);
        }
        if let Some(revision) = work.relist_objects {
            self.relist_objects.send_replace(revision);
        }
        if self.watches_pods {
            if work.relist.annotations {
                self.relist_pods.send_replace(());
            }
            if work.relist.labels {
                self.relist_nodes.send_replace(());
            }
        }
    }

    /// Updates the metrics that are not counted, drops unused timing, and retries oversized writes now and then.
    pub(super) fn sweep(&mut self) {
        let now = Instant::now();
        self.status_writes.sweep(now);
        self.generated_writes.sweep(now);
        self.evictions.sweep(now);
        self.conflicts.retain(|key| self.index.resource_version(key).is_some());
        self.update_gauges(now);
        while let Some(node) = self.new_nodes.take_settled(now) {
            self.index.on_node_settled(&node);
        }
        if now >= self.retry_drops_at {
            self.retry_drops_at = now + DROP_RETRY_INTERVAL;
            self.index.retry_held_drops();
        }
        if now >= self.retry_oversized_at {
            self.retry_oversized_at = now + OVERSIZED_RETRY_INTERVAL;
            self.index.retry_exceeded();
        }
    }

    fn update_gauges(&self, now: Instant) {
        let [pods, nodes, workloads, persistent_pod_states, recorded_states, missing_nodes] =
            self.index.counts().map(|(_, count)| count);
        self.metrics.set_tracked(&TrackedCounts {
            pods,
            nodes,
            workloads,
            persistent_pod_states,
            recorded_states,
            missing_nodes,
        });
        let totals = self.index.totals();
        self.metrics.set_desired(totals.desired_states, totals.missing_states);
        let waits =
            totals.unschedulable_since.map_or(Duration::ZERO, |since| time_since(since, wall_clock()));
        self.metrics.set_injected(totals.injected_pods, totals.unschedulable_pods, waits);
        let pending = self.status_writes.len() + self.generated_writes.len() + self.evictions.len();
        let oldest = [self.status_writes.oldest(), self.generated_writes.oldest(), self.evictions.oldest()];
        let oldest = oldest.into_iter().flatten().min();
        self.metrics.set_pending_writes(
            pending,
            oldest.map_or(Duration::ZERO, |oldest| now.saturating_duration_since(oldest)),
        );
        self.metrics.set_unwritable(self.index.unreadable_count(), self.conflicts.persistent());
        let (largest, near, exceeded) = self.index.sizes();
        self.metrics.set_sizes(largest, near, exceeded);
    }

    /// Writes all statuses that are pending now, due or not, and waits for the results. Takes what the watches report
    /// meanwhile: a write that met another one is decided again from it. A standby has nothing to write.
    pub(super) async fn finish(&mut self, observations: &mut mpsc::Receiver<Observation>) {
        let start = Instant::now();
        self.queue_work(start);
        let mut pending: BTreeMap<NamespacedName, Instant> =
            self.status_writes.take_all().into_iter().map(|key| (key, start)).collect();
        let mut failures: HashMap<NamespacedName, u32> = HashMap::new();
        while self.term.is_leader() {
            let now = Instant::now();
            // What has changed since an earlier write of the object was begun follows that write.
            let is_due = |(key, at): &(&NamespacedName, &Instant)| {
                **at <= now && !self.index.is_status_write_in_flight(key)
            };
            let due: Vec<NamespacedName> =
                pending.iter().filter(is_due).map(|(key, _)| key.clone()).collect();
            for key in due {
                if self.in_flight.len() >= self.max_writes {
                    break;
                }
                pending.remove(&key);
                self.write_status(&key, false);
            }
            if pending.is_empty() && self.in_flight.is_empty() {
                return;
            }
            let next = pending.values().filter(|at| **at > now).min().copied();
            let mut written = None;
            tokio::select! {
                Some(Ok((is_retry, result))) = self.in_flight.join_next() => {
                    written = match &result {
                        WriteResult::Status(write, result) => Some((write.key.clone(), result.as_ref().err())),
                        // What is to be recorded beside the drop is written without it.
                        WriteResult::DropsUnconfirmed(write, unconfirmed) => {
                            Some((write.key.clone(), unconfirmed.failure.as_ref().or(Some(&Failure::Conflict))))
                        }
                        // They are written in the other form.
                        WriteResult::CompactFormDropped(write, _) => Some((write.key.clone(), None)),
                        _ => None,
                    }
                    .map(|(key, failure)| {
                        let wait = failure.map_or(Duration::ZERO, |failure| {
                            let failures = failures.entry(key.clone()).or_default();
                            *failures += 1;
                            let wait = SHUTDOWN_RETRY.saturating_mul(1 << (*failures - 1).min(5));
                            let wait = if matches!(failure, Failure::Conflict) { SHUTDOWN_RETRY } else { wait };
                            wait.max(failure.retry_after().unwrap_or_default())
                        });
                        (key, Instant::now() + wait)
                    });
                    self.on_write_done((is_retry, result));
                }
                Some(observation) = observations.recv() => self.apply(observation),
                () = sleep_until(next.unwrap_or(now).into()), if next.is_some() => {}
                else => return,
            }
            // An object that was being written may have changed before the stop. What comes up elsewhere only now is
            // left to the next leader.
            self.queue_work(Instant::now());
            let marked = self.status_writes.take_all();
            pending.extend(written.filter(|(key, _)| marked.contains(key)));
        }
    }
}
