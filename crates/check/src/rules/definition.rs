//! The definition of PersistentPodState.

use super::findings::{Findings, some_of};
use crate::facts::{Definition, Facts, Phase, Read, Recorder};
use crate::finding::Code;

const NAME: &str = "CustomResourceDefinition persistentpodstates.apps.kruise.io";
/// The versions that the policy and the sidecar read.
const VERSIONS: [&str; 2] = ["v1alpha1", "v1beta1"];
/// A field that only this product's definition has.
const OWN_FIELD: &str = "nodeDeletionPolicy";

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    let definition = match &facts.definition {
        Read::Known(definition) => definition,
        // The installation creates it.
        Read::Absent if facts.settings.phase == Phase::Before => return,
        Read::Absent => {
            return findings.error(
                Code::DefinitionMissing,
                NAME,
                "does not exist, and all recorded states are gone with it: Pods start without their states, on any node",
                format!(
                    "delete and drain nothing. Stop the sidecar first, which would record where Pods are now: kubectl \
                     scale deployment -n {} {} --replicas=0. Then follow \"The definition was deleted\" in \
                     docs/break-glass.md",
                    facts.settings.namespace, facts.settings.sidecar
                ),
            );
        }
        Read::Unknown => return,
    };
    let before = findings.0.len();
    let is_true = |kind: &str| {
        let conditions = &definition.status.conditions;
        conditions.iter().any(|condition| condition.kind() == kind && condition.status == "True")
    };
    if is_true("Terminating") || definition.metadata.deletion_timestamp.is_some() {
        findings.error(
            Code::DefinitionNotEstablished,
            NAME,
            "is being deleted, and all PersistentPodStates with it",
            "save them now (kubectl get pps -A -o yaml); wait until the definition is gone, then install it again",
        );
    } else if !is_true("Established") {
        findings.error(
            Code::DefinitionNotEstablished,
            NAME,
            "is not established",
            "kubectl describe crd persistentpodstates.apps.kruise.io says why: usually another kind has its names",
        );
    }
    let versions = &definition.spec.versions;
    let is_ours = versions
        .iter()
        .any(|version| version.spec_properties().is_some_and(|fields| fields.contains_key(OWN_FIELD)));
    if !is_ours && facts.recording.recorder == Recorder::Own {
        findings.error(
            Code::DefinitionOfOpenKruise,
            NAME,
            format!("is OpenKruise's (its spec has no field {OWN_FIELD}), but the sidecar is to record"),
            "apply our crd.yaml. Only if no object has states in status.packed (\"Back to OpenKruise\" in \
             docs/operations.md) install the overlay openkruise instead (chart: crds.install=false, \
             sidecar.recorder=openkruise)",
        );
    }
    check_compact_form(definition, is_ours, facts, findings);
    let served: Vec<&str> = versions
        .iter()
        .filter(|version| version.served && VERSIONS.contains(&version.name.as_str()))
        .map(|version| version.name.as_str())
        .collect();
    if served.is_empty() {
        findings.error(
            Code::DefinitionVersionNotServed,
            NAME,
            format!("serves neither {}", VERSIONS.join(" nor ")),
            "apply our crd.yaml",
        );
    }
    let unknown: Vec<String> = definition
        .status
        .stored_versions
        .iter()
        .filter(|stored| versions.iter().all(|version| version.name != **stored))
        .cloned()
        .collect();
    if !unknown.is_empty() {
        findings.warning(
            Code::DefinitionStoredVersionUnknown,
            NAME,
            format!("status.storedVersions has {}, which the definition does not have", unknown.join(", ")),
            "objects stored in it cannot be read: apply the former definition, rewrite all objects, then change it",
        );
    }
    if definition.spec.conversion.strategy == "Webhook" {
        findings.warning(
            Code::DefinitionConversionWebhook,
            NAME,
            "converts its versions by a webhook: while that does not answer, objects of another version cannot be read",
            "our crd.yaml converts by None",
        );
    }
    if versions.iter().any(|version| version.served && version.subresources["status"].is_null()) {
        findings.error(
            Code::DefinitionWithoutStatus,
            NAME,
            "has no subresource status, so nothing can be recorded",
            "apply our crd.yaml",
        );
    }
    if findings.0.len() == before {
        let stored = versions.iter().find(|version| version.storage).map_or("?", |version| &version.name);
        let owner = if is_ours { "ours" } else { "OpenKruise's" };
        findings.ok(
            Code::DefinitionReady,
            NAME,
            format!("{owner}, serves {}, stores {stored}", served.join(" and ")),
        );
    }
}

/// A definition that lacks `status.packed` shows nothing of the states that are in it, and the next write of such an object
/// removes them. The sidecar reads and writes v1alpha1.
fn check_compact_form(definition: &Definition, is_ours: bool, facts: &Facts, findings: &mut Findings) {
    let mut versions = definition.spec.versions.iter();
    if !versions.any(|version| version.name == VERSIONS[0] && version.prunes_packed()) {
        return;
    }
    let is_before = facts.settings.phase == Phase::Before;
    let listed = facts.objects.known().map_or(&[][..], |objects| &objects.listed);
    let hidden: Vec<String> = listed
        .iter()
        .filter(|object| object.has_only_packed_states())
        .map(|object| format!("{}/{}", object.metadata.namespace, object.metadata.name))
        .collect();
    if !hidden.is_empty() {
        let seen = format!(
            "has no field status.packed and hides the states that {} objects have there: {}. The next write of such an \
             object removes them",
            hidden.len(),
            some_of(&hidden)
        );
        let advice = "apply the crd.yaml of this release again; until then restart no sidecar, change no such object, and \
                      delete none of their Pods";
        // The installation brings the field back.
        if is_before {
            findings.warning(Code::DefinitionWithoutCompactForm, NAME, seen, advice);
        } else {
            findings.error(Code::DefinitionWithoutCompactForm, NAME, seen, advice);
        }
    } else if is_ours {
        findings.warning(
            Code::DefinitionWithoutCompactForm,
            NAME,
            "is that of an earlier release: it has no field status.packed, so the states of large objects stay in \
             status.podStates",
            if is_before {
                "upgrade with --compact-states=never (chart: sidecar.compactStates=never), wait for the rollout of every \
                 PolicyServer that runs the policy, then set auto"
            } else {
                "apply the crd.yaml of this release, once every PolicyServer runs its policy"
            },
        );
    }
}
