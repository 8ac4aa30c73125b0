//! Validates a PersistentPodState that is created or updated.

use pps_core::TargetReference;
use pps_core::governing::aliased;
use pps_core::pps::{KIND, Metadata};
use pps_core::protect::warn_of_label;
use pps_core::shorten;
use pps_core::validate::{Review, check_sole_target, is_exempt, join, review};
use serde_json::Value;

use crate::admission::{Admission, FailedLookup};
use crate::lookup_error::LookupError;
use crate::response::{AdmissionResult, Rejection, ValidationResponse};
use crate::settings::Settings;

/// Answers the creation or the update of an object.
pub(crate) fn admit(admission: &Admission) -> AdmissionResult {
    let object = parse(admission.object)?;
    let before = admission.old_object.map(parse).transpose()?;
    let warning = warn_of_label(&object);
    if is_exempt(&object, before.as_ref()) {
        return Ok(ValidationResponse::accept(warning.into_iter().collect()));
    }
    let settings = admission.settings()?;
    let mut review = review(&object, before.as_ref(), &settings.annotations);
    review.warnings.extend(warning);
    let Metadata { name, .. } = Metadata::read(&object);
    // An update cannot change the workload, so only a new object can be a second one. An alias has
    // no workload.
    let result = match review.workload.take() {
        Some(workload) if before.is_none() && aliased(&workload).is_none() => {
            check_workload(admission, &settings, &name, &workload, &mut review)
        }
        _ => Ok(ValidationResponse::accept(Vec::new())),
    };
    // Violations of the object itself take precedence over a lookup that failed.
    if !review.violations.is_empty() {
        let message = format!(
            "{KIND} {} is refused: {}",
            shorten(&name),
            join(&review.violations)
        );
        return Err(Rejection { code: 422, message });
    }
    let mut response = result?;
    if !review.warnings.is_empty() {
        response
            .warnings
            .get_or_insert_default()
            .extend(review.warnings);
    }
    Ok(response)
}

/// Reads an object.
pub(crate) fn parse(object: &str) -> Result<Value, Rejection> {
    serde_json::from_str(object).map_err(|error| Rejection {
        code: 400,
        message: format!("this {KIND} cannot be read: {error}"),
    })
}

/// Adds to the review whether the object is the only one of its workload.
fn check_workload(
    admission: &Admission,
    settings: &Settings,
    name: &str,
    workload: &TargetReference,
    review: &mut Review,
) -> AdmissionResult {
    let cluster = admission.cluster;
    match cluster.find_name(workload) {
        Ok(other) => {
            // The API server itself refuses a second object of the same name.
            let others: Vec<String> = other.into_iter().filter(|other| other != name).collect();
            review
                .violations
                .extend(check_sole_target(workload, &others));
            Ok(ValidationResponse::accept(Vec::new()))
        }
        // The CRD is so new that the PolicyServer does not know it yet, so there are no other
        // objects.
        Err(LookupError::KindNotServed) => Ok(ValidationResponse::accept(Vec::new())),
        Err(error) => {
            let failure = format!(
                "cannot look up whether another {KIND} in namespace {} targets {} {}",
                cluster.namespace(),
                workload.kind,
                workload.name
            );
            let lookup = FailedLookup {
                failure: &failure,
                alternative: "skip this check",
                consequence: "accepted without this check",
            };
            admission.answer_lookup_failure(settings, &lookup, &error)
        }
    }
}
