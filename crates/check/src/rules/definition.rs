//! Whether the definition of PersistentPodState fits the policy and the recorder.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps,
};

use super::{Findings, error_once_installed};
use crate::facts::{Facts, Read};
use crate::finding::{DefinitionDiagnosis, NotEstablished};
use crate::settings::Recorder;

const SUBJECT: &str = "CustomResourceDefinition persistentpodstates.apps.kruise.io";
/// The version that the sidecar reads and writes.
const SIDECAR_VERSION: &str = "v1alpha1";
/// The versions that the policy and the sidecar read.
pub(crate) const VERSIONS: [&str; 2] = [SIDECAR_VERSION, "v1beta1"];
/// A field that only this product's definition has.
pub(crate) const OWN_FIELD: &str = "nodeDeletionPolicy";

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    match &facts.definition {
        Read::Known(definition) => check_existing(facts, definition, findings),
        // The installation creates it.
        Read::Absent if facts.settings.is_before() => {}
        Read::Absent => findings.error(SUBJECT, DefinitionDiagnosis::DefinitionMissing),
        Read::Unknown => {}
    }
}

fn check_existing(facts: &Facts, definition: &CustomResourceDefinition, findings: &mut Findings) {
    let before = findings.all.len();
    if let Some(why) = not_established(definition) {
        findings.error(SUBJECT, DefinitionDiagnosis::DefinitionNotEstablished(why));
    }
    if !is_ours(definition) && facts.setup.recorder == Recorder::Own {
        findings.error(SUBJECT, DefinitionDiagnosis::DefinitionOfOpenKruise);
    }
    let versions = &definition.spec.versions;
    let hidden_objects = objects_with_hidden_states(facts);
    if !hidden_objects.is_empty() && versions.iter().any(prunes_packed) {
        // The installation brings the field back.
        let severity = error_once_installed(facts);
        let diagnosis = DefinitionDiagnosis::DefinitionWithoutCompactForm { hidden_objects };
        findings.add(severity, SUBJECT, diagnosis);
    }
    let served: Vec<String> = versions
        .iter()
        .filter(|version| is_readable(version))
        .map(|version| version.name.clone())
        .collect();
    if served.is_empty() {
        findings.error(SUBJECT, DefinitionDiagnosis::DefinitionVersionNotServed);
    }
    if findings.all.len() == before {
        findings.ok(SUBJECT, DefinitionDiagnosis::DefinitionReady { served });
    }
}

fn not_established(definition: &CustomResourceDefinition) -> Option<NotEstablished> {
    if definition.metadata.deletion_timestamp.is_some() || is_true(definition, "Terminating") {
        Some(NotEstablished::Deleting)
    } else if is_true(definition, "Established") {
        None
    } else {
        Some(NotEstablished::NotAccepted)
    }
}

fn is_true(definition: &CustomResourceDefinition, condition: &str) -> bool {
    let status = definition.status.as_ref();
    let mut conditions = status
        .and_then(|status| status.conditions.as_ref())
        .into_iter()
        .flatten();
    conditions.any(|one| one.type_ == condition && one.status == "True")
}

fn objects_with_hidden_states(facts: &Facts) -> Vec<String> {
    let listed = facts.objects.known().map(|objects| &objects.listed);
    listed
        .into_iter()
        .flatten()
        .filter(|object| object.may_hide_states)
        .map(|object| format!("{}/{}", object.namespace, object.name))
        .collect()
}

/// Whether the sidecar's next write of an object removes the states that this version hides.
fn prunes_packed(version: &CustomResourceDefinitionVersion) -> bool {
    version.name == SIDECAR_VERSION
        && fields(version, "status").is_some_and(|fields| !fields.contains_key("packed"))
}

fn is_readable(version: &CustomResourceDefinitionVersion) -> bool {
    let subresources = version.subresources.as_ref();
    let has_status = subresources.is_some_and(|subresources| subresources.status.is_some());
    version.served && has_status && VERSIONS.contains(&version.name.as_str())
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
pub(super) fn fields<'a>(
    version: &'a CustomResourceDefinitionVersion,
    part: &str,
) -> Option<&'a BTreeMap<String, JSONSchemaProps>> {
    let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    schema.properties.as_ref()?.get(part)?.properties.as_ref()
}
