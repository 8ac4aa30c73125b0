//! Status and generated writes: begins them, and handles the results of all requests.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use pps_core::Reason;
use tracing::{debug, info, warn};

use super::worker::Worker;
use crate::decide::GeneratedPps;
use crate::decide::index::StatusWrite;
use crate::facts::{NamespacedName, StoredForm, WorkloadKey};
use crate::telemetry::metrics::{WriteOutcome, WrittenResource};
use crate::write::{ApplyResult, Failure, WriteResult};

/// After how many refusals to create an object it counts as one that cannot be read: after some seconds, in which a watch
/// would have shown it.
const UNREADABLE_AFTER: u32 = 6;

impl Worker {
    pub(super) fn write_status(&mut self, key: &NamespacedName, is_retry: bool) {
        let now = wall_clock();
        let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let Some(write) = self.index.status_write(key, &time) else {
            if !self.index.is_status_write_in_flight(key) {
                self.conflicts.forget(key);
            }
            return;
        };
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
        let Some(generated) = self.index.generated_pps(&workload) else {
            return self.refusals.forget(&workload);
        };
        if self.refusals.holds_back(&workload, &generated, Instant::now()) {
            return self.index.on_generated_pps_written(&workload, true);
        }
        let writer = self.writer.clone();
        if generated.depends_on_workload() {
            let decided_from = self.index.workload(&workload).cloned();
            let source = self.workload_source(&workload.kind);
            let write = writer.write_current_generated_pps(workload, generated, decided_from, source);
            self.begin_write(is_retry, write);
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
            WriteResult::DropsUnconfirmed(write, unconfirmed) => {
                self.on_drops_unconfirmed(&write, &unconfirmed);
            }
            WriteResult::CompactFormDropped(write, outcome) => {
                self.on_compact_form_dropped(&write, &outcome);
            }
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
        match write.moves_to {
            Some(StoredForm::Compact) => {
                info!(object = %write.key, states = write.recorded, "moved the states from podStates to packed");
            }
            Some(StoredForm::Plain) => {
                info!(object = %write.key, states = write.recorded, "moved the states from packed to podStates");
            }
            None => {}
        }
        self.metrics.count_write(WrittenResource::PpsStatus, WriteOutcome::Success);
        self.status_writes.written(&write.key, write.cost, Instant::now());
        self.conflicts.forget(&write.key);
        self.index.on_status_written(&write.key, &write.uid, resource_version);
        self.report_dropped_states(write);
    }

    /// The API server does not store the compact form: the states are written into podStates.
    fn on_compact_form_dropped(&mut self, write: &StatusWrite, outcome: &Result<String, String>) {
        let now = Instant::now();
        match outcome {
            Ok(_) => {
                warn!(object = %write.key, "the API server has not stored status.packed; writing all states into podStates");
                self.metrics.count_write(WrittenResource::PpsStatus, WriteOutcome::Success);
                self.status_writes.written(&write.key, 0, now);
            }
            Err(reason) => {
                warn!(object = %write.key, %reason, "the API server does not accept status.packed; the states keep their form");
                self.metrics.count_write(WrittenResource::PpsStatus, WriteOutcome::Refused);
                self.status_writes.failed(&write.key, None, now);
            }
        }
        let resource_version = outcome.as_ref().ok().map(String::as_str);
        self.index.on_compact_form_dropped(&write.key, &write.uid, resource_version);
    }

    fn on_status_failed(&mut self, write: &StatusWrite, failure: &Failure) {
        let now = Instant::now();
        self.count_failure(WrittenResource::PpsStatus, failure);
        match failure {
            Failure::Conflict | Failure::NotFound => self.status_writes.conflicted(&write.key, now),
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
        if matches!(failure, Failure::Conflict | Failure::NotFound) {
            self.on_conflict(write, failure);
        }
    }

    fn on_generated(
        &mut self,
        workload: &WorkloadKey,
        generated: GeneratedPps,
        result: Result<ApplyResult, Failure>,
    ) {
        let now = Instant::now();
        // A refused write is not decided again until it is due, or the workload changes.
        let is_settled = match result {
            Ok(applied) => {
                self.metrics.count_write(WrittenResource::Pps, WriteOutcome::Success);
                self.generated_writes.written(workload, 0, now);
                self.report_generated_pps(workload, &generated, applied);
                if applied == ApplyResult::WithoutSources {
                    self.refusals.refused(workload, generated, now);
                } else {
                    self.refusals.forget(workload);
                }
                true
            }
            Err(Failure::Refused(message)) => {
                self.metrics.count_write(WrittenResource::Pps, WriteOutcome::Refused);
                warn!(%workload, object = %generated.key(), error = message, "a write of a generated PersistentPodState was refused");
                self.generated_writes.written(workload, 0, now);
                let refusal = refusal(workload, &generated, &message);
                if let GeneratedPps::Create { key, is_alias: true, .. } = &generated {
                    self.index.on_alias_refused(key, workload, refusal.clone());
                }
                self.index.report(workload, Reason::WriteRefused, refusal);
                self.refusals.refused(workload, generated, now);
                true
            }
            Err(failure) => {
                self.count_failure(WrittenResource::Pps, &failure);
                if !failure.is_expected() {
                    warn!(%workload, error = %failure, "cannot write a generated PersistentPodState; retrying");
                }
                self.generated_writes.failed(workload, failure.retry_after(), now);
                self.report_unreadable_object(workload, &generated, &failure);
                false
            }
        };
        self.index.on_generated_pps_written(workload, is_settled);
    }

    /// The API server says again and again that an object exists, and no watch shows it: the sidecar cannot read it.
    fn report_unreadable_object(
        &mut self,
        workload: &WorkloadKey,
        generated: &GeneratedPps,
        failure: &Failure,
    ) {
        if let (GeneratedPps::Create { key, .. }, Failure::Conflict) = (generated, failure)
            && self.generated_writes.failures(workload) >= UNREADABLE_AFTER
        {
            let message = format!(
                "correct or delete PersistentPodState {}: it has a name that the sidecar needs, and the sidecar cannot read it",
                key.name
            );
            self.index.report(workload, Reason::NameConflict, message);
        }
    }

    fn report_generated_pps(
        &mut self,
        workload: &WorkloadKey,
        generated: &GeneratedPps,
        applied: ApplyResult,
    ) {
        let name = &generated.key().name;
        let (reason, message) = match generated {
            _ if applied == ApplyResult::WithoutSources => (
                Reason::InvalidAnnotation,
                format!(
                    "PersistentPodState {name} lacks the sources PodIPsJSON and PodIPsCSV: the cluster's definition of PersistentPodState has no field for them; install this product's definition"
                ),
            ),
            GeneratedPps::Create { is_alias: true, .. } | GeneratedPps::Delete { is_alias: true, .. } => {
                debug!(%workload, object = %generated.key(), "alias written");
                return;
            }
            GeneratedPps::Create { .. } => (Reason::Generated, format!("created PersistentPodState {name}")),
            GeneratedPps::Update { .. } => return,
            GeneratedPps::Delete { .. } => (
                Reason::Deleted,
                format!("deleted PersistentPodState {name}: the annotations no longer request it"),
            ),
        };
        self.index.report(workload, reason, message);
    }
}

/// What users have to know about a refused write.
fn refusal(workload: &WorkloadKey, generated: &GeneratedPps, message: &str) -> String {
    let name = &generated.key().name;
    let (verb, advice) = match generated {
        GeneratedPps::Create { is_alias: true, .. } => (
            "create",
            format!(
                "allow it, or name your PersistentPodState {}, like the workload: without it the policy does not find yours",
                workload.object.name
            ),
        ),
        GeneratedPps::Create { .. } => ("create", "correct the annotations, or allow it".to_owned()),
        GeneratedPps::Update { .. } => ("change", "correct the annotations, or allow it".to_owned()),
        GeneratedPps::Delete { .. } => {
            ("delete", "remove its protection, or delete it yourself if it is not needed".to_owned())
        }
    };
    format!("cannot {verb} PersistentPodState {name}; {advice}: {message}")
}

/// The wall clock, which an administrator may set. Only for what people read: conditions and metrics.
pub(super) fn wall_clock() -> Timestamp {
    Timestamp::now()
}

/// The time between these Unix seconds and now; zero if another machine's clock is ahead of this one's.
pub(super) fn time_since(seconds: i64, now: Timestamp) -> Duration {
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
