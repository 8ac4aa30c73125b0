//! Status and generated writes: begins them, and handles the results of all requests.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use pps_core::Reason;
use tracing::{debug, warn};

use super::worker::Worker;
use crate::decide::GeneratedPps;
use crate::decide::index::StatusWrite;
use crate::facts::{NamespacedName, WorkloadKey};
use crate::telemetry::metrics::{DropCheckOutcome, WriteOutcome, WrittenResource};
use crate::write::{ApplyResult, Failure, WriteResult};

impl Worker {
    pub(super) fn write_status(&mut self, key: &NamespacedName, is_retry: bool) {
        let now = Timestamp::now();
        let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let Some(write) = self.index.status_write(key, &time) else { return };
        let (writer, metrics) = (self.writer.clone(), self.metrics.clone());
        let source = self.workload_source(&write.workload.kind);
        self.begin_write(is_retry, async move {
            let start = Instant::now();
            let bytes = write.patch.to_string().len();
            let result = writer.write_checked_status(write, source).await;
            if let WriteResult::Status(write, Ok(_)) = &result {
                let duration = start.elapsed();
                metrics.observe_status_write(bytes, write.entries, duration);
                for ready_since in &write.newly_recorded {
                    metrics.observe_ready_to_recorded(time_since(*ready_since, now) + duration);
                }
            }
            result
        });
    }

    pub(super) fn write_generated_pps(&mut self, workload: WorkloadKey, is_retry: bool) {
        let Some(generated) = self.index.generated_pps(&workload) else { return };
        let writer = self.writer.clone();
        if let GeneratedPps::Delete { .. } = &generated {
            let decided_from = self.index.workload(&workload).cloned();
            let source = self.workload_source(&workload.kind);
            let delete = writer.delete_generated_pps(workload, generated, decided_from, source);
            self.begin_write(is_retry, delete);
        } else {
            self.begin_write(is_retry, writer.write_generated_pps(workload, generated));
        }
    }

    pub(super) fn on_write_done(&mut self, (is_retry, result): (bool, WriteResult)) {
        self.retries_in_flight -= usize::from(is_retry);
        match result {
            WriteResult::Status(write, Ok(resource_version)) => {
                self.on_status_written(&write, &resource_version);
            }
            WriteResult::Status(write, Err(failure)) => self.on_status_failed(&write, &failure),
            WriteResult::DropsUnconfirmed(write, result) => self.on_drops_unconfirmed(&write, result),
            WriteResult::PpsRead(key, known_version, result) => {
                self.on_pps_read(&key, &known_version, result);
            }
            WriteResult::Generated(workload, generated, result) => {
                self.on_generated(&workload, generated, result);
            }
            WriteResult::Eviction(eviction, result) => self.on_evicted(&eviction, result),
            WriteResult::NodeLookup(node, result) => self.on_node_lookup(&node, result),
        }
    }

    fn on_status_written(&mut self, write: &StatusWrite, resource_version: &str) {
        debug!(object = %write.key, entries = write.entries, "status written");
        self.metrics.count_write(WrittenResource::PpsStatus, WriteOutcome::Success);
        self.status_writes.written(&write.key, write.recorded, Instant::now());
        self.conflicts.forget(&write.key);
        self.index.on_status_written(&write.key, &write.uid, resource_version);
        if write.drops.is_some() {
            self.metrics.count_drop_check(DropCheckOutcome::Confirmed);
        }
        self.report_forgotten_states(write);
    }

    fn on_status_failed(&mut self, write: &StatusWrite, failure: &Failure) {
        let now = Instant::now();
        self.count_failure(WrittenResource::PpsStatus, failure);
        match failure {
            Failure::Conflict => self.status_writes.conflicted(&write.key, now),
            other => self.status_writes.failed(&write.key, other.retry_after(), now),
        }
        if let Failure::TooLarge(error) = failure {
            warn!(object = %write.key, error, "the API server refuses a status as too large; writing what fits");
            self.index.on_status_too_large(&write.key, &write.uid);
            return;
        }
        if !failure.is_expected() {
            warn!(object = %write.key, error = %failure, "cannot write a status; retrying");
        }
        self.index.on_status_not_written(&write.key, &write.uid);
        if matches!(failure, Failure::Conflict) {
            self.on_conflict(write);
        }
    }

    fn on_generated(
        &mut self,
        workload: &WorkloadKey,
        generated: GeneratedPps,
        result: Result<ApplyResult, Failure>,
    ) {
        let now = Instant::now();
        let is_written = result.is_ok();
        match result {
            Ok(applied) => {
                self.metrics.count_write(WrittenResource::Pps, WriteOutcome::Success);
                self.generated_writes.written(workload, 0, now);
                self.report_generated_pps(workload, generated, applied);
            }
            Err(failure) => {
                self.count_failure(WrittenResource::Pps, &failure);
                if !matches!(failure, Failure::NotLeading) {
                    warn!(%workload, error = %failure, "cannot write a generated PersistentPodState; retrying");
                }
                self.generated_writes.failed(workload, failure.retry_after(), now);
            }
        }
        self.index.on_generated_pps_written(workload, is_written);
    }

    fn report_generated_pps(
        &mut self,
        workload: &WorkloadKey,
        generated: GeneratedPps,
        applied: ApplyResult,
    ) {
        let (reason, message) = match generated {
            GeneratedPps::Apply { key, .. } if applied == ApplyResult::WithoutSources => (
                Reason::InvalidAnnotation,
                format!(
                    "PersistentPodState {} lacks the sources PodIPsJSON and PodIPsCSV: the cluster's definition of PersistentPodState has no field for them; install this product's definition",
                    key.name
                ),
            ),
            GeneratedPps::Apply { key, new: true, .. } => {
                (Reason::Generated, format!("created PersistentPodState {}", key.name))
            }
            GeneratedPps::Apply { .. } => return,
            GeneratedPps::Delete { key, .. } => (
                Reason::Deleted,
                format!("deleted PersistentPodState {}: the annotations no longer request it", key.name),
            ),
        };
        self.index.report(workload, reason, message);
    }
}

/// The time between these Unix seconds and now; zero if another machine's clock is ahead of this one's.
fn time_since(seconds: i64, now: Timestamp) -> Duration {
    let milliseconds = now.as_millisecond().saturating_sub(seconds.saturating_mul(1000));
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_since_is_zero_if_the_clock_of_another_machine_is_ahead() {
        let now = Timestamp::from_millisecond(7_500).unwrap();
        assert_eq!(time_since(5, now), Duration::from_millis(2_500));
        assert_eq!(time_since(9, now), Duration::ZERO);
        assert_eq!(time_since(i64::MAX, now), Duration::ZERO);
    }
}
