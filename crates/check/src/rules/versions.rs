//! Whether Kubernetes and Kubewarden are new enough, and the parts of Kubewarden of one version.

mod skew;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::Findings;
use super::definition::fields;
use crate::facts::{Facts, MinorVersion};
use crate::finding::{TooOld, VersionDiagnosis};

#[cfg(test)]
pub(super) use self::skew::SERVER_FIELDS;

/// The oldest supported version of Kubewarden: the first whose PolicyServer knows field masks.
pub(crate) const OLDEST_KUBEWARDEN: MinorVersion = MinorVersion {
    major: 1,
    minor: 33,
};
/// The oldest supported version of Kubernetes.
pub(crate) const OLDEST: MinorVersion = MinorVersion {
    major: 1,
    minor: 30,
};
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

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    if let Some(version) = facts.kubernetes.known() {
        if version.minor < OLDEST {
            findings.warning("Kubernetes", VersionDiagnosis::KubernetesTooOld);
        } else {
            findings.ok("Kubernetes", VersionDiagnosis::KubernetesSupported);
        }
    }
    if !facts.settings.without_policies {
        check_kubewarden(facts, findings);
    }
}

fn check_kubewarden(facts: &Facts, findings: &mut Findings) {
    let definitions = [
        (&facts.policy_definition, "ClusterAdmissionPolicy"),
        (&facts.server_definition, "PolicyServer"),
    ];
    let missing: Vec<&str> = definitions
        .into_iter()
        .filter(|(definition, _)| definition.is_absent())
        .map(|(_, kind)| kind)
        .collect();
    if !missing.is_empty() {
        let diagnosis = VersionDiagnosis::KubewardenMissing { kinds: missing };
        return findings.error("Kubewarden", diagnosis);
    }
    if let Some(definition) = facts.policy_definition.known() {
        let missing_fields = missing_policy_fields(definition);
        if missing_fields.is_empty() {
            findings.ok("Kubewarden", VersionDiagnosis::KubewardenInstalled);
        } else {
            let diagnosis = TooOld::Definition { missing_fields };
            let diagnosis = VersionDiagnosis::KubewardenTooOld(diagnosis);
            findings.error("ClusterAdmissionPolicy", diagnosis);
        }
    }
    skew::check(facts, findings);
}

/// What the policies use and the definition does not have.
fn missing_policy_fields(definition: &CustomResourceDefinition) -> Vec<&'static str> {
    let mut versions = definition.spec.versions.iter();
    let Some(version) = versions.find(|version| version.name == "v1" && version.served) else {
        return vec!["version v1"];
    };
    let Some(known) = fields(version, "spec") else {
        return Vec::new();
    };
    POLICY_FIELDS
        .into_iter()
        .filter(|field| !known.contains_key(*field))
        .collect()
}
