//! Validates a PersistentPodState that is created or updated.

use pps_core::TargetReference;
use pps_core::pps::{KIND, Metadata};
use serde_json::Value;

use crate::decision::{Decision, Rejection};
use crate::deletion::warn_of_label;
use crate::failed_lookup::FailedLookup;
use crate::lookup::{LookupError, Namespace};
use crate::settings::{OnLookupFailure, Settings, SettingsError};
use crate::validate::{Review, check_sole_target, is_exempt, review};

/// Answers the creation of an object, or its update from `before`.
pub(crate) fn review_pps(
    object: &Value,
    before: Option<&Value>,
    namespace: Namespace,
    settings: Result<&Settings, &SettingsError>,
) -> Result<Decision, Rejection> {
    let warning = warn_of_label(object);
    if is_exempt(object, before) {
        return Ok(Decision::accept_with(warning.into_iter().collect()));
    }
    let settings = settings.map_err(|error| Rejection::WrongSettings(error.clone()))?;
    let mut review = review(object, before, &settings.annotations);
    review.warnings.extend(warning);
    let Metadata { name, .. } = Metadata::read(object);
    // An update cannot change the workload, so only a new object can be a second one.
    let decision = match review.workload.take() {
        Some(workload) if before.is_none() => {
            let on_failure = settings.on_lookup_failure;
            check_workload(namespace, on_failure, &name, &workload, &mut review)
        }
        _ => Ok(Decision::accept()),
    };
    // Violations of the object itself take precedence over a lookup that failed.
    if !review.violations.is_empty() {
        return Err(Rejection::Invalid {
            name,
            violations: review.violations,
        });
    }
    let mut decision = decision?;
    decision.warnings.extend(review.warnings);
    Ok(decision)
}

/// Adds to the review whether the object is the only one of its workload.
fn check_workload(
    namespace: Namespace,
    on_failure: OnLookupFailure,
    name: &str,
    workload: &TargetReference,
    review: &mut Review,
) -> Result<Decision, Rejection> {
    match namespace.find_name(workload) {
        Ok(other) => {
            // The API server itself refuses a second object of the same name.
            let others: Vec<String> = other.into_iter().filter(|other| other != name).collect();
            review
                .violations
                .extend(check_sole_target(workload, &others));
            Ok(Decision::accept())
        }
        // The CRD is so new that the PolicyServer does not know it yet, so there are no other
        // objects.
        Err(LookupError::KindNotServed) => Ok(Decision::accept()),
        Err(error) => {
            let failed = FailedLookup {
                purpose: format!(
                    "cannot look up whether another {KIND} in namespace {} targets {} {}",
                    namespace.name(),
                    workload.kind,
                    workload.name
                ),
                alternative: "skip this check",
                consequence: "accepted without this check",
                error,
            };
            failed.answer(namespace, on_failure)
        }
    }
}
