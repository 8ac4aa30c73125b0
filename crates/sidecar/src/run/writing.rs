//! Writes: begun, and what comes of them.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use pps_core::Reason;
use tracing::{debug, warn};

use super::Worker;
use crate::decide::GeneratedPps;
use crate::facts::{NamespacedName, WorkloadKey};
use crate::write::{ApplyResult, Failure, WriteResult};

impl Worker {
    pub(super) fn write_status(&mut self, key: &NamespacedName, retry: bool) {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        if let Some(write) = self.index.status_write(key, &now) {
            let (writer, metrics) = (self.writer.clone(), self.metrics.clone());
            self.begin(retry, async move {
                let (start, entries) = (Instant::now(), write.entries);
                let bytes = write.patch.to_string().len();
                let written = writer.status(write).await;
                if matches!(written, WriteResult::Status(_, Ok(_))) {
                    metrics.status_written(bytes, entries, start.elapsed().as_secs_f64());
                }
                written
            });
        }
    }

    pub(super) fn write_generation(&mut self, workload: WorkloadKey, retry: bool) {
        if let Some(generation) = self.index.generated_pps(&workload) {
            self.begin(retry, self.writer.clone().generation(workload, generation));
        }
    }

    pub(super) fn begin(&mut self, retry: bool, write: impl Future<Output = WriteResult> + Send + 'static) {
        self.retries += usize::from(retry);
        self.writes.spawn(async move { (retry, write.await) });
    }

    pub(super) fn on_write_done(&mut self, (retry, outcome): (bool, WriteResult)) {
        self.retries -= usize::from(retry);
        self.written(outcome);
    }

    fn written(&mut self, outcome: WriteResult) {
        let now = Instant::now();
        match outcome {
            WriteResult::Status(write, Ok(resource_version)) => {
                debug!(object = %write.key, entries = write.entries, "status written");
                self.metrics.write("status", "ok");
                self.statuses.written(&write.key, write.recorded, now);
                self.index.on_status_written(&write.key, &write.uid, &resource_version);
                self.tell_forgotten(&write);
            }
            WriteResult::Status(write, Err(failure)) => {
                self.count_failure("status", &failure);
                match &failure {
                    Failure::Conflict => self.statuses.contended(&write.key, now),
                    other => self.statuses.failed(&write.key, retry_after(other), now),
                }
                if let Failure::TooLarge(words) = &failure {
                    warn!(object = %write.key, error = words, "the API server stores no more in this object");
                    self.index.on_status_too_large(&write.key, &write.uid);
                    return;
                }
                if !matches!(failure, Failure::Conflict | Failure::Gone | Failure::NotLeading) {
                    warn!(object = %write.key, error = %failure, "a status could not be written and is tried again");
                }
                self.index.on_status_not_written(&write.key, &write.uid);
            }
            WriteResult::Generated(workload, generation, Ok(taken)) => {
                self.metrics.write("generated", "ok");
                self.generated.written(&workload, 0, now);
                self.tell_generated(&workload, generation, taken);
                self.index.on_generated_pps_written(&workload, true);
            }
            WriteResult::Generated(workload, _, Err(failure)) => {
                self.count_failure("generated", &failure);
                if !matches!(failure, Failure::NotLeading) {
                    warn!(%workload, error = %failure, "a generated PersistentPodState could not be written and is tried again");
                }
                self.generated.failed(&workload, retry_after(&failure), now);
                self.index.on_generated_pps_written(&workload, false);
            }
            WriteResult::Eviction(eviction, result) => self.on_evicted(&eviction, result),
            WriteResult::Looked(node, sight) => self.on_node_lookup(&node, sight),
        }
    }

    fn tell_generated(&mut self, workload: &WorkloadKey, generation: GeneratedPps, taken: ApplyResult) {
        let (reason, message) = match generation {
            GeneratedPps::Apply { key, .. } if taken == ApplyResult::WithoutSources => (
                Reason::InvalidAnnotation,
                format!(
                    "PersistentPodState {} was made without the sources PodIPsJSON and PodIPsCSV, which this cluster's definition of the kind does not know; install the one of this product",
                    key.name
                ),
            ),
            GeneratedPps::Apply { key, new: true, .. } => {
                (Reason::Generated, format!("made PersistentPodState {}", key.name))
            }
            GeneratedPps::Apply { .. } => return,
            GeneratedPps::Delete { key, .. } => (
                Reason::Deleted,
                format!("deleted PersistentPodState {}, which the annotations no longer ask for", key.name),
            ),
        };
        self.index.report(workload, reason, message);
    }

    pub(super) fn count_failure(&self, what: &'static str, failure: &Failure) {
        let outcome = match failure {
            Failure::Conflict => "conflict",
            Failure::Gone => "gone",
            Failure::Refused { .. } => "refused",
            Failure::TooLarge(_) => "too_large",
            Failure::NotLeading => "withheld",
        };
        self.metrics.write(what, outcome);
    }
}

pub(super) fn retry_after(failure: &Failure) -> Option<Duration> {
    match failure {
        Failure::Refused { retry_after, .. } => *retry_after,
        Failure::Conflict | Failure::Gone | Failure::TooLarge(_) | Failure::NotLeading => None,
    }
}
