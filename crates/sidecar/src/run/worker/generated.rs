//! Writes of generated objects and aliases: begins them, and handles what comes of them.

use std::time::Instant;

use pps_core::Reason;
use pps_recorder::{GeneratedPps, generate};
use tracing::{debug, warn};

use super::Worker;
use super::actions::Action;
use crate::telemetry::metrics::GENERATED;
use crate::write::{ApplyResult, Failure};
use pps_recorder::facts::WorkloadKey;

impl Worker {
    pub(super) fn decide_generated(
        &mut self,
        workload: WorkloadKey,
        now: Instant,
    ) -> Option<Action> {
        let Some(write) = self.recorder.decide_generated(&workload) else {
            // What is in flight may be refused once more.
            if !self.recorder.is_generated_in_flight(&workload) {
                self.agenda.refused_writes.forget(&workload);
            }
            return None;
        };
        if let Some(retry_at) = self.agenda.refused_writes.until(&workload, &write, now) {
            self.agenda.generated.revisit(&workload, retry_at);
            self.recorder.on_generated_done(&workload, true);
            return None;
        }
        Some(Action::WriteGenerated {
            decided_from: self.recorder.workload(&workload).cloned(),
            workload,
            write,
        })
    }

    pub(super) fn on_generated(
        &mut self,
        workload: &WorkloadKey,
        generated: GeneratedPps,
        result: Result<ApplyResult, Failure>,
    ) {
        let now = Instant::now();
        self.metrics.count_write(
            GENERATED,
            result.as_ref().err().map_or("success", Failure::result),
        );
        // A refused write is not decided again until it is due, or the workload changes.
        let is_settled = match result {
            Ok(applied) => {
                self.agenda.generated.written(workload, 0, now);
                self.report_generated_pps(workload, &generated, applied);
                self.note_fallback_advice(&generated, applied);
                if applied == ApplyResult::Complete {
                    self.agenda.refused_writes.forget(workload);
                } else {
                    self.hold_back(workload, generated, now);
                }
                true
            }
            Err(Failure::Refused(message)) => {
                warn!(
                    %workload,
                    object = %generated.key(),
                    error = message,
                    "a write of a generated PersistentPodState was refused",
                );
                self.agenda.generated.written(workload, 0, now);
                let refusal = refusal(workload, &generated, &message);
                if let GeneratedPps::Create {
                    key,
                    is_alias: true,
                    ..
                } = &generated
                {
                    self.recorder
                        .on_alias_refused(key, workload, refusal.clone());
                }
                self.recorder
                    .report(workload, Reason::WriteRefused, refusal);
                self.hold_back(workload, generated, now);
                true
            }
            Err(failure) => {
                if !failure.is_expected() {
                    warn!(
                        %workload,
                        error = %failure,
                        "cannot write a generated PersistentPodState; retrying",
                    );
                }
                self.agenda
                    .generated
                    .failed(workload, failure.retry_after(), now);
                false
            }
        };
        self.recorder.on_generated_done(workload, is_settled);
    }

    /// The same write would be refused again, so it waits long.
    fn hold_back(&mut self, workload: &WorkloadKey, write: GeneratedPps, now: Instant) {
        let retry_at = self.agenda.refused_writes.hold(workload, write, now);
        self.agenda.generated.revisit(workload, retry_at);
    }

    /// Has the condition of a generated object say that its requirement cannot have an end.
    fn note_fallback_advice(&mut self, generated: &GeneratedPps, applied: ApplyResult) {
        let advice = (applied == ApplyResult::WithoutFallback).then(|| {
            format!(
                "install this product's definition of PersistentPodState: the present one has no \
                 field for annotation {}, so Pods wait for their recorded places forever",
                generate::FALLBACK_AFTER
            )
        });
        self.recorder.set_fallback_advice(generated.key(), advice);
    }

    fn report_generated_pps(
        &mut self,
        workload: &WorkloadKey,
        generated: &GeneratedPps,
        applied: ApplyResult,
    ) {
        let name = &generated.key().name;
        let (reason, message) = match generated {
            _ if applied == ApplyResult::WithoutFallback => (
                Reason::InvalidAnnotation,
                format!(
                    "PersistentPodState {name} lacks fallbackAfterSeconds: the cluster's \
                     definition of PersistentPodState has no field for it; install this product's \
                     definition"
                ),
            ),
            _ if applied == ApplyResult::WithoutSources => (
                Reason::InvalidAnnotation,
                format!(
                    "PersistentPodState {name} lacks the sources PodIPsJSON and PodIPsCSV: the \
                     cluster's definition of PersistentPodState has no field for them; install \
                     this product's definition"
                ),
            ),
            GeneratedPps::Create { is_alias: true, .. }
            | GeneratedPps::Delete { is_alias: true, .. } => {
                return debug!(%workload, object = %generated.key(), "alias written");
            }
            GeneratedPps::Create { .. } => (
                Reason::Generated,
                format!("created PersistentPodState {name}"),
            ),
            GeneratedPps::Update { .. } => return,
            GeneratedPps::Delete { .. } => (
                Reason::Deleted,
                format!("deleted PersistentPodState {name}: the annotations no longer request it"),
            ),
        };
        self.recorder.report(workload, reason, message);
    }
}

fn refusal(workload: &WorkloadKey, generated: &GeneratedPps, message: &str) -> String {
    let name = &generated.key().name;
    let (verb, advice) = match generated {
        GeneratedPps::Create { is_alias: true, .. } => (
            "create",
            format!(
                "allow it, or name your PersistentPodState {}, like the workload: without it the \
                 policy does not find yours",
                workload.object.name
            ),
        ),
        GeneratedPps::Create { .. } => {
            ("create", "correct the annotations, or allow it".to_owned())
        }
        GeneratedPps::Update { .. } => {
            ("change", "correct the annotations, or allow it".to_owned())
        }
        GeneratedPps::Delete { .. } => (
            "delete",
            "remove its protection, or delete it yourself if it is not needed".to_owned(),
        ),
    };
    format!("cannot {verb} PersistentPodState {name}; {advice}: {message}")
}
