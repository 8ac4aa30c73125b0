//! Whether the versions and definitions fit: of Kubernetes, Kubewarden and PersistentPodState.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps,
};

use super::Findings;
use crate::facts::{Facts, Read};
use crate::finding::{Diagnosis, Severity};
use crate::settings::Recorder;

/// The oldest supported version of Kubernetes.
pub(crate) const OLDEST: (u32, u32) = (1, 30);
/// The fields of `ClusterAdmissionPolicy` that the policies use.
pub(super) const POLICY_FIELDS: [&str; 11] = [
    "contextAwareResources",
    "failurePolicy",
    "matchConditions",
    "mode",
    "module",
    "namespaceSelector",
    "objectSelector",
    "policyServer",
    "settings",
    "timeoutEvalSeconds",
    "timeoutSeconds",
];
const DEFINITION: &str = "CustomResourceDefinition persistentpodstates.apps.kruise.io";
/// The versions that the policy and the sidecar read.
pub(crate) const VERSIONS: [&str; 2] = ["v1alpha1", "v1beta1"];
/// A field that only this product's definition has.
pub(crate) const OWN_FIELD: &str = "nodeDeletionPolicy";

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    if let Some((major, minor, _)) = facts.kubernetes.known() {
        if (*major, *minor) < OLDEST {
            findings.warning("Kubernetes", Diagnosis::KubernetesTooOld);
        } else {
            findings.ok("Kubernetes", Diagnosis::KubernetesSupported);
        }
    }
    if !facts.settings.without_policies {
        check_kubewarden(facts, findings);
    }
    match &facts.definition {
        Read::Known(definition) => check_definition(facts, definition, findings),
        // The installation creates it.
        Read::Absent if facts.settings.is_before() => {}
        Read::Absent => findings.error(DEFINITION, Diagnosis::DefinitionMissing),
        Read::Unknown => {}
    }
}

fn check_kubewarden(facts: &Facts, findings: &mut Findings) {
    let definitions = [
        (&facts.policy_definition, "ClusterAdmissionPolicy"),
        (&facts.server_definition, "PolicyServer"),
    ];
    let missing: Vec<&str> = definitions
        .iter()
        .filter(|(definition, _)| definition.is_absent())
        .map(|(_, kind)| *kind)
        .collect();
    if !missing.is_empty() {
        return findings.error("Kubewarden", Diagnosis::KubewardenMissing(missing));
    }
    let Read::Known(definition) = &facts.policy_definition else {
        return;
    };
    let version = definition
        .spec
        .versions
        .iter()
        .find(|version| version.name == "v1" && version.served);
    let lacks = version.map_or(vec!["version v1"], |version| {
        let known = fields(version, "spec");
        let is_unknown = |field: &&str| known.is_some_and(|known| !known.contains_key(*field));
        POLICY_FIELDS.into_iter().filter(is_unknown).collect()
    });
    if lacks.is_empty() {
        findings.ok("Kubewarden", Diagnosis::KubewardenInstalled);
    } else {
        findings.error("ClusterAdmissionPolicy", Diagnosis::KubewardenTooOld(lacks));
    }
}

fn check_definition(facts: &Facts, definition: &CustomResourceDefinition, findings: &mut Findings) {
    let before = findings.0.len();
    let conditions = definition
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let is_true = |kind: &str| {
        conditions
            .clone()
            .any(|condition| condition.type_ == kind && condition.status == "True")
    };
    let is_deleted = is_true("Terminating") || definition.metadata.deletion_timestamp.is_some();
    if is_deleted || !is_true("Established") {
        findings.error(DEFINITION, Diagnosis::DefinitionNotEstablished(is_deleted));
    }
    let versions = &definition.spec.versions;
    if !is_ours(definition) && facts.setup.recorder == Recorder::Own {
        findings.error(DEFINITION, Diagnosis::DefinitionOfOpenKruise);
    }
    // The sidecar reads and writes v1alpha1. Its next write of an object removes the states that it
    // is not shown.
    let prunes_packed = |version: &CustomResourceDefinitionVersion| {
        version.name == VERSIONS[0]
            && fields(version, "status").is_some_and(|fields| !fields.contains_key("packed"))
    };
    let listed = facts
        .objects
        .known()
        .map_or(&[][..], |objects| &objects.listed)
        .iter();
    let hidden: Vec<String> = listed
        .filter(|object| object.may_hide_states)
        .map(|object| format!("{}/{}", object.namespace, object.name))
        .collect();
    if !hidden.is_empty() && versions.iter().any(prunes_packed) {
        // The installation brings the field back.
        let severity = if facts.settings.is_before() {
            Severity::Warning
        } else {
            Severity::Error
        };
        findings.add(
            severity,
            DEFINITION,
            Diagnosis::DefinitionWithoutCompactForm(hidden),
        );
    }
    let is_read = |version: &&CustomResourceDefinitionVersion| {
        let subresources = version.subresources.as_ref();
        let has_status = subresources.is_some_and(|subresources| subresources.status.is_some());
        version.served && has_status && VERSIONS.contains(&version.name.as_str())
    };
    let read: Vec<String> = versions
        .iter()
        .filter(is_read)
        .map(|version| version.name.clone())
        .collect();
    if read.is_empty() {
        findings.error(DEFINITION, Diagnosis::DefinitionVersionNotServed);
    }
    if findings.0.len() == before {
        findings.ok(DEFINITION, Diagnosis::DefinitionReady(read));
    }
}

/// Whether the definition is this product's, and not OpenKruise's.
pub(crate) fn is_ours(definition: &CustomResourceDefinition) -> bool {
    let mut fields = definition
        .spec
        .versions
        .iter()
        .filter_map(|version| fields(version, "spec"));
    fields.any(|fields| fields.contains_key(OWN_FIELD))
}

/// The fields of the objects' spec or status. None if the schema accepts any.
fn fields<'a>(
    version: &'a CustomResourceDefinitionVersion,
    part: &str,
) -> Option<&'a BTreeMap<String, JSONSchemaProps>> {
    let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    schema.properties.as_ref()?.get(part)?.properties.as_ref()
}
