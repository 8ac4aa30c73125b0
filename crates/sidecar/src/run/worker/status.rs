//! Status writes: begins them, and handles what comes of them: success, conflicts, failures, and
//! drops of states that the API server does not confirm.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use pps_core::Reason;
use tracing::{debug, info, warn};

use super::Worker;
use crate::telemetry::metrics::{STATUS, count};
use crate::write::{Failure, Unconfirmed, WriteResult};
use pps_recorder::decide::index::StatusWrite;
use pps_recorder::facts::{NamespacedName, PpsFact, StoredForm};

const MAX_LISTED: usize = 5;
/// After so many conflicts in a row, what is known of the object may be wrong, and no event of a
/// watch may correct it.
const READ_AFTER: u32 = 3;
/// After so many failures in a row, within some 4 s: a refusal may be over soon.
const REPORT_REFUSAL_AFTER: u32 = 5;
/// After so many, reading again has not helped, and users must know.
pub(super) const REPORT_AFTER: u32 = 9;

impl Worker {
    pub(super) fn write_status(&mut self, key: &NamespacedName, is_retry: bool) {
        let now = wall_clock();
        let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let Some(write) = self.index.status_write(key, &time) else {
            return;
        };
        let (writer, metrics) = (self.term.writer.clone(), self.metrics.clone());
        let resource = self.watching.resource_of(&write.workload.kind);
        self.writes.begin(is_retry, async move {
            let start = Instant::now();
            let bytes = write.patch.to_string().len();
            let result = writer.write_checked_status(write, resource).await;
            if let WriteResult::Status(write, Ok(_)) = &result {
                let duration = start.elapsed();
                metrics.observe_status_write(bytes, write.entries, duration);
                for ready_since in &write.newly_recorded {
                    let waited = time_since(*ready_since, now) + duration;
                    metrics
                        .ready_to_recorded_duration
                        .observe(waited.as_secs_f64());
                }
            }
            result
        });
    }

    pub(super) fn on_status_written(&mut self, write: &StatusWrite, resource_version: &str) {
        debug!(object = %write.key, entries = write.entries, "status written");
        if let Some(form) = write.moves_to {
            let to = if form == StoredForm::Compact {
                "packed"
            } else {
                "podStates"
            };
            info!(object = %write.key, states = write.recorded, "moved the states to {to}");
        }
        self.metrics.count_write(STATUS, "success");
        self.writes
            .statuses
            .written(&write.key, write.cost, Instant::now());
        self.index
            .on_status_written(&write.key, &write.uid, resource_version);
        self.report_dropped_states(write);
    }

    pub(super) fn on_compact_form_dropped(
        &mut self,
        write: &StatusWrite,
        outcome: &Result<String, String>,
    ) {
        let now = Instant::now();
        match outcome {
            Ok(_) => {
                warn!(
                    object = %write.key,
                    "the API server has not stored status.packed; writing all states into \
                     podStates",
                );
                self.metrics.count_write(STATUS, "success");
                self.writes.statuses.written(&write.key, 0, now);
            }
            Err(reason) => {
                warn!(
                    object = %write.key,
                    %reason,
                    "the API server does not accept status.packed; the states keep their form",
                );
                self.metrics.count_write(STATUS, "refused");
                self.writes.statuses.failed(&write.key, None, now);
            }
        }
        let resource_version = outcome.as_ref().ok().map(String::as_str);
        self.index
            .on_compact_form_dropped(&write.key, &write.uid, resource_version);
    }

    pub(super) fn on_status_failed(&mut self, write: &StatusWrite, failure: &Failure) {
        let (now, key) = (Instant::now(), &write.key);
        self.metrics.count_write(STATUS, failure.result());
        let conflicts = if matches!(failure, Failure::Conflict | Failure::NotFound) {
            self.writes.statuses.conflicted(key, now)
        } else {
            self.writes.statuses.failed(key, failure.retry_after(), now);
            0
        };
        if let Failure::TooLarge(error) = failure {
            warn!(
                object = %key,
                error,
                "the API server refuses a status as too large; writing what fits",
            );
            return self.index.on_status_too_large(key, &write.uid);
        }
        if !failure.is_expected() {
            warn!(object = %key, error = %failure, "cannot write a status; retrying");
        }
        // The message of a refusal may change each time: without it, one that stays is reported
        // once.
        let is_lasting = self.writes.statuses.failures(key) >= REPORT_REFUSAL_AFTER;
        if is_lasting && matches!(failure, Failure::Refused(_)) {
            let name = &key.name;
            let message = format!(
                "allow the status of PersistentPodState {name}: the log says what refuses it"
            );
            self.index
                .report(&write.workload, Reason::WriteRefused, message);
        }
        self.index.on_status_not_written(key, &write.uid);
        if conflicts > 0 && conflicts.is_multiple_of(READ_AFTER) {
            self.on_conflicts(write, failure, conflicts);
        }
    }

    /// Reads an object again whose writes keep conflicting, or do not find it, and reports it if
    /// that does not help. An object may be gone without an event, for example because it is not in
    /// the backup that etcd was restored from.
    fn on_conflicts(&mut self, write: &StatusWrite, failure: &Failure, conflicts: u32) {
        if conflicts == REPORT_AFTER {
            let name = &write.key.name;
            let message = if matches!(failure, Failure::NotFound) {
                format!(
                    "install this product's definition of PersistentPodState: the API server has \
                     {name}, but does not find its status, so that nothing is recorded"
                )
            } else {
                format!(
                    "find out which client keeps writing PersistentPodState {name}: it changes \
                     the object before each write of the sidecar, so that nothing is recorded"
                )
            };
            warn!(
                object = %write.key,
                error = %failure,
                "the writes of an object keep conflicting",
            );
            self.index
                .report(&write.workload, Reason::WriteConflicts, message);
        }
        if let Some(version) = self.index.resource_version(&write.key).map(str::to_owned) {
            self.writes.begin(
                false,
                self.term
                    .writer
                    .clone()
                    .read_pps(write.key.clone(), version),
            );
        }
    }

    pub(super) fn on_pps_read(
        &mut self,
        key: &NamespacedName,
        known_version: &str,
        result: Result<Option<Box<PpsFact>>, Failure>,
    ) {
        match result {
            Ok(fact) => {
                info!(object = %key, exists = fact.is_some(), "read again after conflicts");
                self.index.on_object_read(key, known_version, fact);
                // An object of this name may have been created since.
                if self.index.resource_version(key).is_none() {
                    self.writes.statuses.forget(key);
                }
            }
            Err(error) => {
                warn!(object = %key, %error, "cannot read an object again after conflicts");
            }
        }
    }

    pub(super) fn on_loss_unconfirmed(&mut self, write: &StatusWrite, unconfirmed: &Unconfirmed) {
        if let Some(error) = &unconfirmed.failure {
            count(&self.metrics.drop_checks, [("result", "unknown")]);
            self.writes
                .statuses
                .failed(&write.key, error.retry_after(), Instant::now());
            warn!(
                object = %write.key,
                %error,
                "keeping states whose drop or change cannot be confirmed; retrying",
            );
        } else {
            count(&self.metrics.drop_checks, [("result", "refuted")]);
            self.writes.statuses.not_sent(&write.key, Instant::now());
            info!(
                object = %write.key,
                states = unconfirmed.held.len(),
                "keeping states: the API server has what a watch has not shown yet",
            );
        }
        self.index
            .on_loss_unconfirmed(&write.key, &write.uid, &unconfirmed.held);
    }

    fn report_dropped_states(&mut self, write: &StatusWrite) {
        let Some(check) = &write.loss_check else {
            return;
        };
        count(&self.metrics.drop_checks, [("result", "confirmed")]);
        let forgotten: Vec<String> = check
            .forgotten()
            .map(|(node, pod)| format!("{pod} on {node}"))
            .collect();
        self.metrics.states_forgotten.inc_by(forgotten.len() as u64);
        self.follow_forgotten_states(check);
        let grace_period = self.absences.missing.period.as_secs();
        let unwanted: Vec<String> = check.unwanted().map(ToString::to_string).collect();
        for (reason, states, cause) in [
            (
                Reason::StatesForgotten,
                forgotten,
                format!("the node has not existed for {grace_period} s"),
            ),
            (
                Reason::StatesDropped,
                unwanted,
                "the workload no longer wants these Pods; persistentPodStateRetentionPolicy: \
                 WhenDeleted keeps states while a workload is scaled down"
                    .into(),
            ),
        ] {
            if !states.is_empty() {
                let more = states.len().saturating_sub(MAX_LISTED);
                let more = if more > 0 {
                    format!(" and {more} more")
                } else {
                    String::new()
                };
                let listed = states[..states.len().min(MAX_LISTED)].join(", ");
                let name = &write.key.name;
                let message = format!(
                    "dropped the states of {listed}{more} from PersistentPodState {name}: {cause}"
                );
                self.index.report(&write.workload, reason, message);
            }
        }
    }
}

/// The wall clock, which an administrator may set. Only for what people read: conditions and
/// metrics.
pub(super) fn wall_clock() -> Timestamp {
    Timestamp::now()
}

/// The time between these Unix seconds and now; zero if another machine's clock is ahead of this
/// one's.
pub(super) fn time_since(seconds: i64, now: Timestamp) -> Duration {
    let milliseconds = now
        .as_millisecond()
        .saturating_sub(seconds.saturating_mul(1000));
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
