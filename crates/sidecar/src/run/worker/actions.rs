//! What to do next: takes what is due, has it decided from the newest facts, and sends it.

use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::jiff::Timestamp;
use pps_recorder::timing::schedule::Due;
use pps_recorder::{FallbackCandidate, GeneratedPps, PodEviction, StatusWrite};

use super::Worker;
use super::wall_clock::{time_since, wall_clock};
use crate::telemetry::metrics::Metrics;
use crate::write::{Outcome, Writer};
use pps_recorder::facts::{NamespacedName, WorkloadFact, WorkloadKey};

/// A request to the API server.
#[derive(Debug)]
pub(super) enum Action {
    WriteStatus(Box<StatusWrite>),
    WriteGenerated {
        workload: WorkloadKey,
        write: GeneratedPps,
        /// What the watches have shown of the workload.
        decided_from: Option<WorkloadFact>,
    },
    ReadPps {
        key: NamespacedName,
        known_version: String,
    },
    LookUpNode(Arc<str>),
    Evict(PodEviction),
    FallBack(Box<FallbackCandidate>),
}

/// An action, and whether its last attempt failed.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) action: Action,
    pub(super) is_retry: bool,
}

impl Worker {
    /// Decides and sends all that is due, as far as there is room for it.
    pub(super) fn act(&mut self, now: Instant) {
        while let Some(task) = self.next(now) {
            self.send(task);
        }
        // At most one per turn: deciding an eviction compares the Pod with all nodes, and the Lease
        // must be renewed meanwhile.
        if let Some(task) = self.next_eviction(now) {
            self.send(task);
        }
    }

    /// The next write or lookup that is due.
    fn next(&mut self, now: Instant) -> Option<Task> {
        self.next_generated(now)
            .or_else(|| self.next_status(now))
            .or_else(|| self.next_lookup(now))
    }

    fn may_send(&self) -> bool {
        self.term.is_leader() && self.requests.has_room()
    }

    fn next_generated(&mut self, now: Instant) -> Option<Task> {
        while self.may_send() && self.may_generate() {
            let candidates = self.requests.candidates();
            let Due { key, is_retry } = self.agenda.generated.take(candidates, now)?;
            if let Some(action) = self.decide_generated(key, now) {
                return Some(Task { action, is_retry });
            }
        }
        None
    }

    /// The next status write that is due.
    pub(super) fn next_status(&mut self, now: Instant) -> Option<Task> {
        while self.may_send() {
            let candidates = self.requests.candidates();
            let Due { key, is_retry } = self.agenda.statuses.take(candidates, now)?;
            if let Some(action) = self.decide_status(&key, now) {
                return Some(Task { action, is_retry });
            }
        }
        None
    }

    fn next_lookup(&mut self, now: Instant) -> Option<Task> {
        if !self.may_send() {
            return None;
        }
        let candidates = self.requests.candidates();
        let lookups = &mut self.agenda.missing_nodes.lookups;
        let Due { key, is_retry } = lookups.take(candidates, now)?;
        let action = Action::LookUpNode(key);
        Some(Task { action, is_retry })
    }

    fn next_eviction(&mut self, now: Instant) -> Option<Task> {
        if !self.may_send() {
            return None;
        }
        let candidates = self.requests.candidates();
        let Due { key, is_retry } = self.agenda.evictions.take(candidates, now)?;
        let action = self.decide_eviction(&key, now)?;
        Some(Task { action, is_retry })
    }

    pub(super) fn decide_status(&mut self, key: &NamespacedName, now: Instant) -> Option<Action> {
        let time = wall_clock().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let decision = self.recorder.decide_status(key, &time);
        for node in &decision.unconfirmed_nodes {
            self.agenda.missing_nodes.request_confirmation(node, now);
        }
        let write = Box::new(decision.write?);
        Some(Action::WriteStatus(write))
    }

    pub(super) fn send(&mut self, task: Task) {
        let writer = self.term.writer.clone();
        let is_retry = task.is_retry;
        match task.action {
            Action::WriteStatus(write) => {
                let resource = self.watching.resource_of(&write.workload.kind);
                let metrics = self.metrics.clone();
                self.requests.begin(is_retry, async move {
                    let start = Started::now();
                    let outcome = writer.write_checked_status(*write, resource).await;
                    start.observe(&outcome, &metrics);
                    outcome
                });
            }
            Action::WriteGenerated {
                workload,
                write,
                decided_from,
            } => self.send_generated(workload, write, decided_from, is_retry),
            Action::ReadPps { key, known_version } => {
                let read = writer.read_pps(key, known_version);
                self.requests.begin(is_retry, read);
            }
            Action::LookUpNode(node) => {
                self.requests.begin(is_retry, writer.look_up_node(node));
            }
            Action::Evict(eviction) => self.requests.begin(is_retry, writer.evict(eviction)),
            Action::FallBack(candidate) => {
                let resource = self.watching.resource_of(&candidate.workload.kind);
                self.requests
                    .begin(is_retry, writer.fall_back(candidate, resource));
            }
        }
    }

    fn send_generated(
        &mut self,
        workload: WorkloadKey,
        write: GeneratedPps,
        decided_from: Option<WorkloadFact>,
        is_retry: bool,
    ) {
        let writer: Writer = self.term.writer.clone();
        if write.depends_on_workload() {
            let resource = self.watching.resource_of(&workload.kind);
            let write = writer.write_current_generated_pps(workload, write, decided_from, resource);
            self.requests.begin(is_retry, write);
        } else {
            let write = writer.write_generated_pps(workload, write);
            self.requests.begin(is_retry, write);
        }
    }
}

/// When a status write was begun.
struct Started {
    at: Instant,
    wall_clock: Timestamp,
}

impl Started {
    fn now() -> Self {
        Self {
            at: Instant::now(),
            wall_clock: wall_clock(),
        }
    }

    /// Counts a status that was written, and how long its Pods were Ready before.
    fn observe(&self, outcome: &Outcome, metrics: &Metrics) {
        let Outcome::Status {
            write,
            result: Ok(_),
        } = outcome
        else {
            return;
        };
        let duration = self.at.elapsed();
        let bytes = write.patch.to_string().len();
        metrics.observe_status_write(bytes, write.entries, duration);
        for ready_since in &write.newly_recorded {
            let waited = time_since(*ready_since, self.wall_clock) + duration;
            metrics
                .ready_to_recorded_duration
                .observe(waited.as_secs_f64());
        }
    }
}
