//! What comes of status writes: success, conflicts, failures, and drops of states that the API
//! server does not confirm.

use std::time::Instant;

use pps_core::Reason;
use pps_recorder::{LossCheck, StatusOutcome, StatusWrite};
use tracing::{debug, info, warn};

use super::Worker;
use super::actions::{Action, Task};
use crate::telemetry::metrics::{STATUS, count};
use crate::write::{Failure, Unconfirmed};
use pps_recorder::facts::{NamespacedName, PpsFact, StoredForm};

const MAX_LISTED: usize = 5;
/// After so many conflicts in a row, what is known of the object may be wrong, and no event of a
/// watch may correct it.
const REREAD_AFTER_CONFLICTS: u32 = 3;
/// After so many failures in a row, within some 4 s: a refusal may be over soon.
const REPORT_REFUSAL_AFTER: u32 = 5;
/// After so many, reading again has not helped, and users must know.
pub(super) const REPORT_AFTER_CONFLICTS: u32 = 9;
// An object is reported when it is read again.
const _: () = assert!(REPORT_AFTER_CONFLICTS.is_multiple_of(REREAD_AFTER_CONFLICTS));

impl Worker {
    pub(super) fn on_status_written(&mut self, write: &StatusWrite, resource_version: &str) {
        debug!(object = %write.key, entries = write.entries, "status written");
        if let Some(form) = write.form.moves_to() {
            let to = if form == StoredForm::Compact {
                "packed"
            } else {
                "podStates"
            };
            info!(object = %write.key, states = write.recorded, "moved the states to {to}");
        }
        self.metrics.count_write(STATUS, "success");
        self.agenda
            .statuses
            .written(&write.key, write.cost, Instant::now());
        let outcome = StatusOutcome::Stored { resource_version };
        self.recorder
            .on_status_done(&write.key, &write.uid, outcome);
        if let Some(check) = &write.loss_check {
            count(&self.metrics.drop_checks, [("result", "confirmed")]);
            self.release_pending_pods(check);
            self.report_dropped_states(write, check);
        }
    }

    pub(super) fn on_stored_without_compact_form(
        &mut self,
        write: &StatusWrite,
        resource_version: &str,
    ) {
        warn!(
            object = %write.key,
            "the API server has not stored status.packed; writing all states into podStates",
        );
        self.metrics.count_write(STATUS, "success");
        self.agenda.statuses.written(&write.key, 0, Instant::now());
        let outcome = StatusOutcome::StoredWithoutCompactForm { resource_version };
        self.recorder
            .on_status_done(&write.key, &write.uid, outcome);
    }

    pub(super) fn on_compact_form_refused(&mut self, write: &StatusWrite, reason: &str) {
        warn!(
            object = %write.key,
            %reason,
            "the API server does not accept status.packed; the states keep their form",
        );
        self.metrics.count_write(STATUS, "refused");
        self.agenda
            .statuses
            .failed(&write.key, None, Instant::now());
        let outcome = StatusOutcome::CompactFormRefused;
        self.recorder
            .on_status_done(&write.key, &write.uid, outcome);
    }

    pub(super) fn on_status_failed(&mut self, write: &StatusWrite, failure: &Failure) {
        let now = Instant::now();
        let key = &write.key;
        self.metrics.count_write(STATUS, failure.result());
        let conflicts = if matches!(failure, Failure::Conflict | Failure::NotFound) {
            self.agenda.statuses.conflicted(key, now)
        } else {
            self.agenda.statuses.failed(key, failure.retry_after(), now);
            0
        };
        if let Failure::TooLarge(error) = failure {
            warn!(
                object = %key,
                error,
                "the API server refuses a status as too large; writing what fits",
            );
            return self
                .recorder
                .on_status_done(key, &write.uid, StatusOutcome::TooLarge);
        }
        if !failure.is_expected() {
            warn!(object = %key, error = %failure, "cannot write a status; retrying");
        }
        // The message of a refusal may change each time: without it, one that stays is reported
        // once.
        let is_lasting = self.agenda.statuses.failures(key) >= REPORT_REFUSAL_AFTER;
        if is_lasting && matches!(failure, Failure::Refused(_)) {
            let name = &key.name;
            let message = format!(
                "allow the status of PersistentPodState {name}: the log says what refuses it"
            );
            self.recorder
                .report(&write.workload, Reason::WriteRefused, message);
        }
        self.recorder
            .on_status_done(key, &write.uid, StatusOutcome::NotStored);
        if conflicts > 0 && conflicts.is_multiple_of(REREAD_AFTER_CONFLICTS) {
            self.on_conflicts(write, failure, conflicts);
        }
    }

    /// Reads an object again whose writes keep conflicting, or do not find it, and reports it if
    /// that does not help. An object may be gone without an event, for example because it is not in
    /// the backup that etcd was restored from.
    fn on_conflicts(&mut self, write: &StatusWrite, failure: &Failure, conflicts: u32) {
        if conflicts == REPORT_AFTER_CONFLICTS {
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
            self.recorder
                .report(&write.workload, Reason::WriteConflicts, message);
        }
        if let Some(known_version) = self.recorder.resource_version(&write.key) {
            let action = Action::ReadPps {
                key: write.key.clone(),
                known_version: known_version.to_owned(),
            };
            self.send(Task {
                action,
                is_retry: false,
            });
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
                self.recorder.on_pps_read(key, known_version, fact);
                // An object of this name may have been created since.
                if self.recorder.resource_version(key).is_none() {
                    self.agenda.statuses.forget(key);
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
            self.agenda
                .statuses
                .failed(&write.key, error.retry_after(), Instant::now());
            warn!(
                object = %write.key,
                %error,
                "keeping states whose drop or change cannot be confirmed; retrying",
            );
        } else {
            count(&self.metrics.drop_checks, [("result", "refuted")]);
            self.agenda.statuses.not_sent(&write.key, Instant::now());
            info!(
                object = %write.key,
                states = unconfirmed.held.len(),
                "keeping states: the API server has what a watch has not shown yet",
            );
        }
        let pods = &unconfirmed.held;
        let outcome = StatusOutcome::Unconfirmed { pods };
        self.recorder
            .on_status_done(&write.key, &write.uid, outcome);
    }

    fn report_dropped_states(&mut self, write: &StatusWrite, check: &LossCheck) {
        let forgotten: Vec<String> = check
            .forgotten()
            .map(|(node, pod)| format!("{pod} on {node}"))
            .collect();
        self.metrics.states_forgotten.inc_by(forgotten.len() as u64);
        let grace_period = self.agenda.missing_nodes.period.as_secs();
        let unwanted: Vec<String> = check.unwanted().map(ToString::to_string).collect();
        let node_gone = format!("the node has not existed for {grace_period} s");
        self.report_drops(write, Reason::StatesForgotten, &forgotten, &node_gone);
        self.report_drops(
            write,
            Reason::StatesDropped,
            &unwanted,
            "the workload no longer wants these Pods; persistentPodStateRetentionPolicy: \
             WhenDeleted keeps states while a workload is scaled down",
        );
    }

    fn report_drops(
        &mut self,
        write: &StatusWrite,
        reason: Reason,
        states: &[String],
        cause: &str,
    ) {
        if states.is_empty() {
            return;
        }
        let name = &write.key.name;
        let listed = states[..states.len().min(MAX_LISTED)].join(", ");
        let more = match states.len().saturating_sub(MAX_LISTED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message =
            format!("dropped the states of {listed}{more} from PersistentPodState {name}: {cause}");
        self.recorder.report(&write.workload, reason, message);
    }
}
