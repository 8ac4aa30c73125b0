//! A PersistentPodState that is created or updated must be able to do what it says.

use pps_core::TargetReference;
use pps_core::pps::{KIND, Metadata};
use pps_core::validate::{Review, claimed_already, is_exempt, review};
use serde_json::Value;

use crate::admit::{Admission, Answer, Refusal, accept, answer_failure};
use crate::cluster::LookupError;
use crate::settings::{Lookup, Settings};

/// Answers the creation or the update of an object.
pub(crate) fn admit(admission: &Admission) -> Answer {
    let parse = |object: &str| -> Result<Value, Refusal> {
        serde_json::from_str(object)
            .map_err(|error| Refusal { code: 400, message: format!("this {KIND} cannot be read: {error}") })
    };
    let object = parse(admission.object)?;
    let before = admission.before.map(parse).transpose()?;
    if is_exempt(&object, before.as_ref()) {
        return Ok(accept(Vec::new()));
    }
    let settings = admission.settings()?;
    let mut review = review(&object, before.as_ref(), &settings.annotations);
    let Metadata { name, .. } = Metadata::read(&object);
    // Only a new object can be a second one: an update cannot change the workload.
    let answer = match review.workload.take() {
        Some(workload) if before.is_none() => claim(admission, &settings, &name, &workload, &mut review),
        _ => Ok(accept(Vec::new())),
    };
    // What is wrong with the object itself comes before a look-up that failed.
    if !review.violations.is_empty() {
        let reasons: Vec<String> = review.violations.iter().map(ToString::to_string).collect();
        let message = format!("{KIND} {name} is refused: {}", reasons.join("; "));
        return Err(Refusal { code: 422, message });
    }
    let mut answer = answer?;
    if !review.warnings.is_empty() {
        answer.warnings.get_or_insert_default().extend(review.warnings);
    }
    Ok(answer)
}

/// Adds to the review what is wrong with the object's claim to its workload.
fn claim(
    admission: &Admission,
    settings: &Settings,
    name: &str,
    workload: &TargetReference,
    review: &mut Review,
) -> Answer {
    let full = settings.lookup == Lookup::Full;
    if !full && name != workload.name {
        review.warnings.push(format!(
            "{KIND} {name} will not be found: the policy's settings.lookup is \"byName\"; name it {}",
            workload.name
        ));
    }
    let cluster = admission.cluster;
    match cluster.in_served_version(|cluster| cluster.claimants(workload, full)) {
        Ok(others) => {
            // One that has this very name is told of by the API server.
            let others: Vec<String> = others.into_iter().filter(|other| other != name).collect();
            review.violations.extend(claimed_already(workload, &others));
            Ok(accept(Vec::new()))
        }
        // The kind is so new that the PolicyServer has not heard of it: there are no others.
        Err(LookupError::NoSuchKind) => Ok(accept(Vec::new())),
        Err(LookupError::Failed(failure)) => {
            let sentence = format!(
                "cannot look up whether another {KIND} in namespace {} names {} {}: {failure}",
                cluster.namespace(),
                workload.kind,
                workload.name
            );
            let choice = "go without this check";
            answer_failure(cluster, settings, &sentence, choice, "accepted without this check")
        }
    }
}
