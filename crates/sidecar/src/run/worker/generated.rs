//! Writes of generated objects and aliases: begins them, and handles what comes of them.

use std::time::{Duration, Instant};

use pps_core::Reason;
use tracing::{debug, warn};

use super::{Worker, writes::Refused};
use crate::telemetry::metrics::GENERATED;
use crate::write::{ApplyResult, Failure};
use pps_recorder::decide::GeneratedPps;
use pps_recorder::facts::WorkloadKey;

/// The wait after the first refusal of a write. It doubles with each further one, up to
/// [`LAST_REFUSED_RETRY`].
const FIRST_REFUSED_RETRY: Duration = Duration::from_secs(15);
const LAST_REFUSED_RETRY: Duration = Duration::from_mins(16);

impl Worker {
    pub(super) fn write_generated_pps(&mut self, workload: WorkloadKey, is_retry: bool) {
        let Some(generated) = self.index.generated_pps(&workload) else {
            // What is in flight may be refused once more.
            if !self.index.is_generated_pps_in_flight(&workload) {
                self.writes.refused.remove(&workload);
            }
            return;
        };
        if let Some(refused) = self.writes.refused.get(&workload)
            && refused.retry_at > Instant::now()
            && refused.write == generated.clone().without_version()
        {
            self.writes.generated.revisit(&workload, refused.retry_at);
            return self.index.on_generated_pps_written(&workload, true);
        }
        let writer = self.term.writer.clone();
        if generated.depends_on_workload() {
            let decided_from = self.index.workload(&workload).cloned();
            let resource = self.watching.resource_of(&workload.kind);
            let write =
                writer.write_current_generated_pps(workload, generated, decided_from, resource);
            self.writes.begin(is_retry, write);
        } else {
            self.writes
                .begin(is_retry, writer.write_generated_pps(workload, generated));
        }
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
                self.writes.generated.written(workload, 0, now);
                self.report_generated_pps(workload, &generated, applied);
                if applied == ApplyResult::WithoutSources {
                    self.hold_back(workload, generated, now);
                } else {
                    self.writes.refused.remove(workload);
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
                self.writes.generated.written(workload, 0, now);
                let refusal = refusal(workload, &generated, &message);
                if let GeneratedPps::Create {
                    key,
                    is_alias: true,
                    ..
                } = &generated
                {
                    self.index.on_alias_refused(key, workload, refusal.clone());
                }
                self.index.report(workload, Reason::WriteRefused, refusal);
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
                self.writes
                    .generated
                    .failed(workload, failure.retry_after(), now);
                false
            }
        };
        self.index.on_generated_pps_written(workload, is_settled);
    }

    /// The same write would be refused again, so it waits long.
    fn hold_back(&mut self, workload: &WorkloadKey, generated: GeneratedPps, now: Instant) {
        let write = generated.without_version();
        let before = self
            .writes
            .refused
            .get(workload)
            .filter(|before| before.write == write);
        let times = before.map_or(0, |before| before.times + 1);
        let wait = FIRST_REFUSED_RETRY
            .saturating_mul(1 << times.min(16))
            .min(LAST_REFUSED_RETRY);
        let retry_at = now + wait;
        self.writes.refused.insert(
            workload.clone(),
            Refused {
                write,
                retry_at,
                times,
            },
        );
        self.writes.generated.revisit(workload, retry_at);
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
        self.index.report(workload, reason, message);
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
