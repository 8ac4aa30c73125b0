//! What the API server checks of a Pod's template, as far as a node is selected by it. Other fields are not checked.

use serde_json::Value;

use super::labels;
use crate::finding::Finding;

/// The fields of a Pod's spec.
const SPEC: [&str; 41] = [
    "activeDeadlineSeconds",
    "affinity",
    "automountServiceAccountToken",
    "containers",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "ephemeralContainers",
    "hostAliases",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "hostname",
    "hostnameOverride",
    "imagePullSecrets",
    "initContainers",
    "nodeName",
    "nodeSelector",
    "os",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "readinessGates",
    "resourceClaims",
    "resources",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
];
/// Those of them that are lists.
const LISTS: [&str; 6] = [
    "containers",
    "initContainers",
    "volumes",
    "tolerations",
    "topologySpreadConstraints",
    "imagePullSecrets",
];
const SELECTOR_OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
const TOLERATION_OPERATORS: [&str; 4] = ["Equal", "Exists", "Lt", "Gt"];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks the template of a StatefulSet's Pods.
pub(super) fn check(template: &Value, findings: &mut Vec<Finding>) {
    labels::check("spec.template.metadata.labels", &template["metadata"]["labels"], findings);
    let spec = &template["spec"];
    let Some(fields) = spec.as_object() else { return };
    let path = |field: &str| format!("spec.template.spec.{field}");
    for field in fields.keys().filter(|field| !SPEC.contains(&field.as_str())) {
        findings.push(super::fields::describe("spec.template.spec", field, &SPEC));
    }
    for field in LISTS {
        let value = &spec[field];
        if !value.is_null() && !value.is_array() {
            findings.push(Finding::wrong(&path(field), value, "use a list"));
        }
    }
    crate::finding::check_strings(&path("nodeSelector"), &spec["nodeSelector"], findings);
    labels::check(&path("nodeSelector"), &spec["nodeSelector"], findings);
    for (index, toleration) in spec["tolerations"].as_array().into_iter().flatten().enumerate() {
        let at = path(&format!("tolerations[{index}]"));
        check_word(&format!("{at}.operator"), &toleration["operator"], &TOLERATION_OPERATORS, findings);
        check_word(&format!("{at}.effect"), &toleration["effect"], &EFFECTS, findings);
    }
    check_node_affinity(&path("affinity.nodeAffinity"), &spec["affinity"]["nodeAffinity"], findings);
    if let Some(name) =
        spec["schedulerName"].as_str().filter(|name| !matches!(*name, "" | "default-scheduler"))
    {
        let message = format!(
            "spec.template.spec.schedulerName is {}: that scheduler is not simulated; the Pods are placed here as the default scheduler does",
            pps_core::shorten(name)
        );
        findings.push(Finding::warning(path("schedulerName"), message));
    }
}

fn check_node_affinity(path: &str, affinity: &Value, findings: &mut Vec<Finding>) {
    let terms = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let required = terms(&affinity[required]["nodeSelectorTerms"])
        .into_iter()
        .enumerate()
        .map(|(index, term)| (format!("{path}.{required}.nodeSelectorTerms[{index}]"), term));
    let preferred = terms(&affinity[preferred])
        .into_iter()
        .enumerate()
        .map(|(index, term)| (format!("{path}.{preferred}[{index}].preference"), term["preference"].clone()));
    for (path, term) in required.chain(preferred) {
        for field in ["matchExpressions", "matchFields"] {
            for (index, one) in term[field].as_array().into_iter().flatten().enumerate() {
                let at = format!("{path}.{field}[{index}].operator");
                check_word(&at, &one["operator"], &SELECTOR_OPERATORS, findings);
            }
        }
    }
}

/// Checks that a value is one of these words, or missing.
fn check_word(path: &str, value: &Value, words: &[&str], findings: &mut Vec<Finding>) {
    if !value.is_null() && value != "" && !words.iter().any(|word| value == word) {
        findings.push(Finding::wrong(path, value, &format!("use {}", words.join(", "))));
    }
}
