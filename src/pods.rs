//! A Pod that is created gets back what was recorded of its predecessor.

use pps_core::conflict::conflicts;
use pps_core::pps::RetentionPolicy;
use pps_core::{OwnerReference, PodIdentity, apply, plan};
use serde_json::Value;

use crate::admit::{Admission, Answer, Refusal, accept, answer_failure, with_audit};
use crate::cluster::{Cluster, Governing, LookupError};
use crate::response::ValidationResponse;
use crate::settings::{Lookup, Settings};

/// Answers the creation of a Pod.
pub(crate) fn admit(admission: &Admission) -> Answer {
    let pod = admission.object;
    let identity = PodIdentity::parse(pod).map_err(|error| unreadable(&error))?;
    let Some(owner) = identity.stateful_owner() else { return Ok(accept(Vec::new())) };
    let settings = admission.settings()?;
    let cluster = admission.cluster;
    match cluster.in_served_version(|cluster| find(cluster, &settings, owner, &identity.name)) {
        Ok(Some(governing)) => inject(&governing, owner, pod, &settings),
        Ok(None) => Ok(accept(Vec::new())),
        Err(LookupError::NoSuchKind) => {
            cluster.log_warning(
                "this cluster has no PersistentPodState CRD (apps.kruise.io, v1alpha1 or v1beta1), so there is no state to inject; install it, or remove this policy",
            );
            Ok(accept(Vec::new()))
        }
        Err(LookupError::Failed(failure)) => {
            let sentence = format!(
                "cannot look up the PersistentPodState of {} in namespace {}: {failure}",
                title(owner),
                cluster.namespace()
            );
            let choice = "start Pods without their state";
            answer_failure(cluster, &settings, &sentence, choice, "this Pod starts without its state")
        }
    }
}

fn find(
    cluster: Cluster,
    settings: &Settings,
    owner: &OwnerReference,
    pod: &str,
) -> Result<Option<Governing>, LookupError> {
    let workload = owner.target();
    match cluster.find_by_name(&workload, pod)? {
        None if settings.lookup == Lookup::Full => cluster.find_in_namespace(&workload, pod),
        found => Ok(found),
    }
}

fn inject(governing: &Governing, owner: &OwnerReference, pod: &str, settings: &Settings) -> Answer {
    let Governing { name, spec, state, ignored, .. } = governing;
    let mut warnings = Vec::new();
    if !ignored.is_empty() {
        warnings.push(format!(
            "PersistentPodState {name} is used for {}, and these name it too: {}; keep only one of them",
            title(owner),
            ignored.join(", "),
        ));
    }
    let Some(state) = state else { return Ok(accept(warnings)) };
    let plan = plan(name, spec, state, &settings.annotations);
    warnings.extend(plan.warnings.iter().cloned());
    if plan.is_empty() {
        return Ok(accept(warnings));
    }
    let mut pod: Value = serde_json::from_str(pod).map_err(|error| unreadable(&error))?;
    warnings.extend(conflicts(&plan, &pod));
    let applied = apply(&plan, &mut pod)
        .map_err(|error| Refusal { code: 400, message: format!("this Pod cannot be changed: {error}") })?;
    if !applied.is_changed() {
        return Ok(accept(warnings));
    }
    warnings.extend(stale(governing, owner));
    let answer = ValidationResponse { mutated_object: Some(pod), ..accept(warnings) };
    Ok(with_audit(answer, [("pps", name.clone()), ("injected", applied.to_string())]))
}

/// Tells of states that were recorded for a workload that has been deleted and created anew. They are
/// injected nevertheless: it is the recorder that knows which of them still count. Under `Retain` they
/// are meant to be inherited.
fn stale(governing: &Governing, owner: &OwnerReference) -> Option<String> {
    let recorded_for = governing.target_uid.as_deref()?;
    let inherited = governing.spec.retention() == RetentionPolicy::Retain;
    (recorded_for != owner.uid && !inherited).then(|| {
        format!(
            "PersistentPodState {}: this state was recorded for an earlier {} (UID {recorded_for})",
            governing.name,
            title(owner)
        )
    })
}

fn unreadable(error: &serde_json::Error) -> Refusal {
    Refusal { code: 400, message: format!("this Pod cannot be read: {error}") }
}

fn title(owner: &OwnerReference) -> String {
    format!("{} {}", owner.kind, owner.name)
}
