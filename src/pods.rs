//! Injects the recorded state into a Pod that is created.

use pps_core::conflict::conflicts;
use pps_core::excerpt::Excerpt;
use pps_core::limits::MAX_AUDIT_LENGTH;
use pps_core::pps::RetentionPolicy;
use pps_core::{OwnerReference, PodIdentity, apply, plan, shorten, shorten_to};

use crate::admission::{Admission, FailedLookup};
use crate::cluster::GoverningPps;
use crate::lookup_error::LookupError;
use crate::response::{AdmissionResult, Rejection, ValidationResponse};
use crate::settings::Settings;

/// Answers the creation of a Pod.
pub(crate) fn admit(admission: &Admission) -> AdmissionResult {
    let pod = admission.object;
    let identity = PodIdentity::parse(pod).map_err(|error| unreadable(&error))?;
    let Some(owner) = identity.stateful_owner() else {
        return Ok(ValidationResponse::accept(Vec::new()));
    };
    let settings = admission.settings()?;
    let cluster = admission.cluster;
    match cluster.find(&owner.target(), &identity.name) {
        Ok(Some(governing)) => inject(&governing, owner, pod, &settings),
        Ok(None) => Ok(ValidationResponse::accept(Vec::new())),
        Err(error @ LookupError::KindNotServed) => {
            cluster.log_warning(&format!("Pods start without recorded states: {error}"));
            Ok(ValidationResponse::accept(Vec::new()))
        }
        Err(error) => {
            let failure = format!(
                "cannot look up the PersistentPodState of {} in namespace {}",
                describe(owner),
                cluster.namespace()
            );
            let lookup = FailedLookup {
                failure: &failure,
                alternative: "start Pods without their recorded state",
                consequence: "this Pod starts without its recorded state",
            };
            admission.answer_lookup_failure(&settings, &lookup, &error)
        }
    }
}

fn inject(
    governing: &GoverningPps,
    owner: &OwnerReference,
    pod: &str,
    settings: &Settings,
) -> AdmissionResult {
    let GoverningPps {
        name, spec, state, ..
    } = governing;
    let Some(state) = state else {
        return Ok(ValidationResponse::accept(Vec::new()));
    };
    let plan = plan(name, spec, state, &settings.annotations);
    let mut warnings = plan.warnings.clone();
    if plan.is_empty() {
        return Ok(ValidationResponse::accept(warnings));
    }
    let mut excerpt = Excerpt::read(pod).map_err(|error| unreadable(&error))?;
    warnings.extend(conflicts(&plan, &excerpt.pod));
    let applied = apply(&plan, &mut excerpt.pod).map_err(|error| Rejection {
        code: 400,
        message: format!("this Pod cannot be changed: {error}"),
    })?;
    warnings.extend(applied.warnings.iter().cloned());
    if !applied.is_changed() {
        return Ok(ValidationResponse::accept(warnings));
    }
    warnings.extend(warn_of_earlier_workload(governing, owner));
    let pod = excerpt.into_text();
    let response = ValidationResponse {
        mutated_object: Some(pod),
        ..ValidationResponse::accept(warnings)
    };
    let injected = shorten_to(MAX_AUDIT_LENGTH, &applied.to_string());
    Ok(response.with_audit_annotations(vec![
        ("pps", name.clone().into()),
        ("injected", injected.into()),
    ]))
}

/// Warns if the states were recorded for a workload that was deleted and created again. They are
/// injected all the same: the sidecar decides which of them to clear. Under `Retain` they are meant
/// to be inherited.
fn warn_of_earlier_workload(governing: &GoverningPps, owner: &OwnerReference) -> Option<String> {
    let recorded_for = governing.target_uid.as_deref()?;
    let is_inherited = governing.spec.retention() == RetentionPolicy::Retain;
    (recorded_for != owner.uid && !is_inherited).then(|| {
        format!(
            "PersistentPodState {}: the injected state was recorded for an earlier {} (UID \
             {recorded_for})",
            governing.name,
            describe(owner)
        )
    })
}

fn unreadable(error: &serde_json::Error) -> Rejection {
    Rejection {
        code: 400,
        message: format!("this Pod cannot be read: {error}"),
    }
}

/// The owner in a message. Nothing limits its kind; its name is that of an object, or there was no
/// lookup.
fn describe(owner: &OwnerReference) -> String {
    format!("{} {}", shorten(&owner.kind), owner.name)
}
