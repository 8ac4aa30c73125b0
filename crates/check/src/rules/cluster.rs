//! Kubernetes and Kubewarden.

use super::findings::Findings;
use crate::facts::{Facts, Read};
use crate::finding::Code;

/// The oldest supported version.
const OLDEST: (u32, u32) = (1, 21);
/// The oldest version with which it works, except that namespaces cannot be left out by their names.
const OLDEST_THAT_WORKS: (u32, u32) = (1, 20);
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
    check_kubernetes(facts, findings);
    if facts.settings.has_policies {
        check_kubewarden(facts, findings);
        check_controller(facts, findings);
    }
}

fn check_kubernetes(facts: &Facts, findings: &mut Findings) {
    let Some((major, minor, version)) = facts.kubernetes.known() else { return };
    let actual = (*major, *minor);
    let (major, minor) = OLDEST;
    let advice = format!("update it to {major}.{minor} or newer");
    if actual < OLDEST_THAT_WORKS {
        return findings.error(Code::KubernetesTooOld, "Kubernetes", version, advice);
    }
    if actual < OLDEST {
        findings.warning(
            Code::KubernetesTooOld,
            "Kubernetes",
            format!(
                "{version} does not label namespaces with their names (kubernetes.io/metadata.name), so the policies \
                 leave out none by its name, not even kube-system; and it has no policy/v1, in which the installation writes \
                 the sidecar's PodDisruptionBudget"
            ),
            format!("{advice}; until then leave namespaces out by the label persistent-pod-state/injection=disabled"),
        );
    } else {
        findings.ok(Code::KubernetesSupported, "Kubernetes", version);
    }
    if facts.evaluates_conditions() == Some(false) {
        findings.info(
            Code::MatchConditionsNotEvaluated,
            "Kubernetes",
            format!("{version} has no match conditions: only the objectSelector limits which Pods are sent"),
            "from 1.28 on, fewer requests wait for the PolicyServer",
        );
    }
}

fn check_kubewarden(facts: &Facts, findings: &mut Findings) {
    let missing: Vec<&str> =
        [(&facts.policy_definition, "ClusterAdmissionPolicy"), (&facts.server_definition, "PolicyServer")]
            .into_iter()
            .filter(|(definition, _)| definition.is_absent())
            .map(|(_, kind)| kind)
            .collect();
    if !missing.is_empty() {
        findings.error(
            Code::KubewardenMissing,
            "Kubewarden",
            format!("no definition of {}{}", missing.join(" and "), although(facts)),
            "install Kubewarden first: helm charts kubewarden-crds, kubewarden-controller, kubewarden-defaults",
        );
        return;
    }
    let Read::Known(definition) = &facts.policy_definition else { return };
    let Some(version) =
        definition.spec.versions.iter().find(|version| version.name == "v1" && version.served)
    else {
        findings.error(
            Code::KubewardenTooOld,
            "ClusterAdmissionPolicy",
            "version v1 is not served",
            "update Kubewarden to 1.20 or newer",
        );
        return;
    };
    let unknown: Vec<&str> = match version.spec_properties() {
        Some(properties) => {
            POLICY_FIELDS.into_iter().filter(|field| !properties.contains_key(*field)).collect()
        }
        None => Vec::new(),
    };
    if unknown.is_empty() {
        let versions = facts.controllers.items().unwrap_or_default().iter().filter_map(|controller| {
            controller.metadata.labels.get("app.kubernetes.io/version").map(String::as_str)
        });
        let versions: Vec<&str> = versions.collect();
        let seen = match versions.as_slice() {
            [] => "its definitions have all fields that the policies use".to_owned(),
            versions => format!("{}, its definitions have all fields", versions.join(", ")),
        };
        findings.ok(Code::KubewardenInstalled, "Kubewarden", seen);
    } else {
        findings.error(
            Code::KubewardenTooOld,
            "ClusterAdmissionPolicy",
            format!("its definition has no field {}", unknown.join(", ")),
            "update Kubewarden, first its chart kubewarden-crds",
        );
    }
}

/// A webhook may have been made by hand, or be left over.
fn although(facts: &Facts) -> String {
    match super::webhooks::of_pods(facts) {
        Some(webhook) => format!(
            ", although MutatingWebhookConfiguration {} exists: something else than Kubewarden's controller made it, or it is \
             left over",
            webhook.metadata.name
        ),
        None => String::new(),
    }
}

fn check_controller(facts: &Facts, findings: &mut Findings) {
    if facts.policy_definition.is_absent() {
        return;
    }
    let Some(controllers) = facts.controllers.items() else { return };
    if controllers.is_empty() {
        findings.warning(
            Code::KubewardenControllerUnavailable,
            "Kubewarden's controller",
            "no Deployment has the labels of Kubewarden's chart",
            "see whether the controller runs: without it, no policy becomes active",
        );
    }
    for controller in controllers.iter().filter(|one| one.status.available_replicas == 0) {
        findings.error(
            Code::KubewardenControllerUnavailable,
            format!("Deployment {}/{}", controller.metadata.namespace, controller.metadata.name),
            "no Pod of Kubewarden's controller is available",
            format!(
                "kubectl describe deployment -n {} {}",
                controller.metadata.namespace, controller.metadata.name
            ),
        );
    }
}
