//! Injects the recorded state into a Pod that is created.

use std::collections::BTreeMap;

use pps_core::json::{ReadError, null_as_default, read};
use pps_core::limits::MAX_AUDIT_LENGTH;
use pps_core::owner::has_stable_names;
use pps_core::pps::{KIND, RetentionPolicy};
use pps_core::{OwnerReference, shorten, shorten_to};
use serde::Deserialize;
use serde_json::Value;

use crate::apply::apply;
use crate::conflict::conflicts;
use crate::decision::{Decision, Rejection, Verdict};
use crate::failed_lookup::FailedLookup;
use crate::lookup::{Found, GoverningPps, LookupError, Namespace};
use crate::plan::{Plan, Requirement, plan};
use crate::settings::{OnLookupFailure, Settings, SettingsError};

/// What happens to a Pod that is accepted although it may have a recorded state.
const STARTS_WITHOUT: &str = "this Pod starts without its recorded state";

/// Answers the creation of a Pod.
pub(crate) fn inject_into_pod(
    pod: Value,
    namespace: Namespace,
    settings: Result<&Settings, &SettingsError>,
) -> Result<Decision, Rejection> {
    let identity =
        PodIdentity::read(&pod).map_err(|error| Rejection::UnreadablePod(error.to_string()))?;
    let Some(owner) = identity.stateful_owner() else {
        return Ok(Decision::accept());
    };
    let settings = settings.map_err(|error| Rejection::WrongSettings(error.clone()))?;
    let pod_name = &identity.metadata.name;
    let error = match namespace.find(&owner.target(), pod_name) {
        Ok(Found::Governing(governing)) => match plan_injection(&governing, settings) {
            Ok(plan) => return inject(&plan, &governing, &identity, pod),
            Err(error) => error,
        },
        Ok(Found::Terminating(pps)) => {
            return Ok(Decision::accept_with(vec![format!(
                "{STARTS_WITHOUT}: {KIND} {pps} is being deleted; once it is gone, create it again"
            )]));
        }
        Ok(Found::Nothing) => return Ok(Decision::accept()),
        Err(error) => error,
    };
    // A cluster without the definition has no states to lose.
    let on_failure = match error {
        LookupError::KindNotServed => OnLookupFailure::Accept,
        _ => settings.on_lookup_failure,
    };
    let failed = FailedLookup {
        purpose: format!(
            "cannot look up the PersistentPodState of {} in namespace {}",
            describe(owner),
            namespace.name()
        ),
        alternative: "start Pods without their recorded state",
        consequence: STARTS_WITHOUT,
        error,
    };
    failed.answer(namespace, on_failure)
}

/// Plans what to inject; nothing without a recorded state.
fn plan_injection(governing: &GoverningPps, settings: &Settings) -> Result<Plan, LookupError> {
    let GoverningPps {
        name, spec, state, ..
    } = governing;
    let Some(state) = state else {
        return Ok(Plan::default());
    };
    let plan = plan(name, spec, state, &settings.annotations);
    match plan.impossible_requirement() {
        None => Ok(plan),
        Some(Requirement { key, value }) => {
            let label = shorten(&format!("{key}={value}"));
            let reason = format!("it requires {label}, and no node can have this label");
            Err(LookupError::unreadable(name, reason))
        }
    }
}

fn inject(
    plan: &Plan,
    governing: &GoverningPps,
    identity: &PodIdentity,
    mut pod: Value,
) -> Result<Decision, Rejection> {
    let mut warnings = plan.warnings.clone();
    if plan.is_empty() {
        return Ok(Decision::accept_with(warnings));
    }
    warnings.extend(conflicts(plan, &pod));
    let applied = apply(plan, &mut pod).map_err(Rejection::UnchangeablePod)?;
    warnings.extend(applied.warnings.iter().cloned());
    if !applied.is_changed() {
        return Ok(Decision::accept_with(warnings));
    }
    warnings.extend(warn_of_earlier_workload(governing, identity));
    Ok(Decision {
        verdict: Verdict::Mutate(pod),
        warnings,
        audit_annotations: BTreeMap::from([
            ("pps", governing.name.clone()),
            (
                "injected",
                shorten_to(MAX_AUDIT_LENGTH, &applied.to_string()),
            ),
        ]),
    })
}

/// Warns if the states were recorded for a workload that was deleted and created again. They are
/// injected all the same: the sidecar decides which of them to clear. Under `Retain` they are meant
/// to be inherited.
fn warn_of_earlier_workload(governing: &GoverningPps, identity: &PodIdentity) -> Option<String> {
    let owner = identity.stateful_owner()?;
    let recorded_for = governing.target_uid.as_deref()?;
    let is_inherited = governing.spec.retention() == RetentionPolicy::Retain;
    (recorded_for != owner.uid && !is_inherited).then(|| {
        format!(
            "{KIND} {}: the state was recorded for an earlier {}; if it is not meant for this one: \
             kubectl pps forget {} (UID {})",
            governing.name,
            describe(owner),
            identity.metadata.name,
            shorten(recorded_for)
        )
    })
}

/// The owner in a message. Nothing limits its kind; its name is that of an object, or there was no
/// lookup.
fn describe(owner: &OwnerReference) -> String {
    format!("{} {}", shorten(&owner.kind), owner.name)
}

/// What identifies a Pod at admission.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
struct PodIdentity {
    #[serde(deserialize_with = "null_as_default")]
    metadata: Metadata,
    #[serde(deserialize_with = "null_as_default")]
    spec: Placement,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
struct Metadata {
    /// Empty if the API server generates it after admission (`generateName`).
    #[serde(deserialize_with = "null_as_default")]
    name: String,
    #[serde(deserialize_with = "null_as_default")]
    owner_references: Vec<OwnerReference>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
struct Placement {
    /// The node that the Pod is already bound to; empty before it is scheduled.
    #[serde(deserialize_with = "null_as_default")]
    node_name: String,
}

impl PodIdentity {
    fn read(pod: &Value) -> Result<Self, ReadError> {
        read("", pod)
    }

    /// The workload whose PPS could hold a state for this Pod. `None` if the Pod has no controller
    /// owner or no name, is already bound to a node, or its controller gives it a new name each
    /// time.
    fn stateful_owner(&self) -> Option<&OwnerReference> {
        let is_unbound_and_named = self.spec.node_name.is_empty() && !self.metadata.name.is_empty();
        let mut owners = self.metadata.owner_references.iter();
        owners
            .find(|owner| owner.controller == Some(true))
            .filter(|owner| {
                is_unbound_and_named && has_stable_names(&owner.api_version, &owner.kind)
            })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn accepts_nulls_and_unknown_fields() {
        let pod = json!({
            "metadata": {"name": null, "ownerReferences": null}, "spec": null, "new": [1],
        });
        assert_eq!(PodIdentity::read(&pod), Ok(PodIdentity::default()));
        assert_eq!(PodIdentity::read(&json!({})), Ok(PodIdentity::default()));
        for (pod, message) in [
            (json!("x"), "invalid type: string \"x\", expected an object"),
            (
                json!({"metadata": {"name": 7}}),
                "metadata.name: invalid type: integer `7`, expected a string",
            ),
        ] {
            let error = PodIdentity::read(&pod).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
