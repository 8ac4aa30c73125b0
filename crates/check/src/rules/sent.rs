//! Whether the policies for Pods are sent the Pods that they are installed for. One that is never asked looks healthy, and
//! Pods start without their states.

use serde_json::Value;

use super::findings::{Findings, some_of};
use super::module::INJECTION;
use crate::facts::{CUSTOM_WORKLOADS, Policy};
use crate::finding::{Code, Severity};

/// The label that the controllers of StatefulSets set.
pub(super) const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

/// The label with the name of a namespace.
pub(super) const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// The match condition that depends on the custom kinds.
const CUSTOM_CONDITION: &str = "controller-is-a-custom-workload";

pub(super) fn check(policy: &Policy, subject: &str, findings: &mut Findings) {
    let spec = &policy.spec;
    let mut differs = |severity, seen: String, advice: &str| {
        findings.add(severity, Code::PolicyDiffers, subject, seen, advice);
    };
    let again = "apply the policy of this version again";
    if !spec.mutating {
        let seen = "spec.mutating is false: no Pod gets its state back";
        differs(Severity::Error, seen.into(), again);
    }
    if !spec.rules.iter().any(has_new_pods) {
        let seen =
            "spec.rules has no CREATE of pods: the policy is never asked, and no Pod gets its state back";
        differs(Severity::Error, seen.into(), again);
    }
    let is_custom = policy.metadata.name.ends_with(CUSTOM_WORKLOADS);
    // That for custom kinds depends on their Pods' labels. One that is missing has a finding of its own.
    if !is_custom && is_other_selector(&spec.object_selector) {
        let seen = format!(
            "spec.objectSelector is not only `{POD_NAME} Exists`: Pods that it leaves out start without their states"
        );
        differs(Severity::Warning, seen, again);
    }
    let more = more_expressions(&spec.namespace_selector);
    if !more.is_empty() {
        let seen = format!(
            "spec.namespaceSelector has further expressions, for {}: in namespaces that they leave out, Pods start \
             without their states",
            some_of(&more)
        );
        differs(
            Severity::Warning,
            seen,
            "remove them, if that is not meant (chart: policy.namespaceSelector)",
        );
    }
    let shipped = shipped_conditions(&policy.metadata.name);
    let is_shipped =
        |name: &str| shipped.iter().any(|(one, _)| *one == name) || is_custom && name == CUSTOM_CONDITION;
    let names = spec.match_conditions.iter().map(|one| one["name"].as_str().unwrap_or("?"));
    let more: Vec<String> = names.filter(|name| !is_shipped(name)).map(str::to_owned).collect();
    if !more.is_empty() {
        let seen = format!(
            "spec.matchConditions has further conditions: {}. Pods that they leave out start without their states",
            some_of(&more)
        );
        differs(
            Severity::Warning,
            seen,
            "remove them, if that is not meant (chart: policy.extraMatchConditions)",
        );
    }
}

/// Whether a rule has the creation of Pods.
pub(super) fn has_new_pods(rule: &Value) -> bool {
    let has = |field: &str, names: &[&str]| {
        let all = rule[field].as_array().map_or(&[][..], Vec::as_slice);
        all.iter().filter_map(Value::as_str).any(|one| names.contains(&one))
    };
    has("apiGroups", &["", "*"])
        && (rule["apiVersions"].is_null() || has("apiVersions", &["v1", "*"]))
        && has("resources", &["pods", "*", "*/*"])
        && has("operations", &["CREATE", "*"])
        && rule["scope"] != "Cluster"
}

fn is_other_selector(selector: &Value) -> bool {
    let labels = selector["matchLabels"].as_object().is_some_and(|labels| !labels.is_empty());
    let expressions = selector["matchExpressions"].as_array().map_or(&[][..], Vec::as_slice);
    labels || expressions.iter().any(|one| one["key"] != POD_NAME || one["operator"] != "Exists")
}

/// The keys of the expressions that the policies are not installed with. Kubewarden ignores `matchLabels`.
fn more_expressions(selector: &Value) -> Vec<String> {
    let expressions = selector["matchExpressions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_shipped = |one: &Value| {
        let values = || one["values"].as_array().map_or(&[][..], Vec::as_slice);
        let is_label =
            |operator: &str, value: &str| one["operator"] == operator && values() == [Value::from(value)];
        one["key"] == NAMESPACE_NAME && one["operator"] == "NotIn"
            || one["key"] == INJECTION && (is_label("NotIn", "disabled") || is_label("In", "enabled"))
    };
    let more = expressions.iter().filter(|one| !is_shipped(one));
    more.map(|one| one["key"].as_str().unwrap_or("?").to_owned()).collect()
}

/// The match conditions that a policy for Pods is installed with: names and expressions.
pub(super) fn shipped_conditions(policy: &str) -> &'static [(&'static str, &'static str)] {
    const SHIPPED: [(&str, &str); 3] = [
        ("pod-is-not-bound-to-a-node", "!has(object.spec.nodeName) || object.spec.nodeName == ''"),
        ("pod-has-a-name", "has(object.metadata.name) && object.metadata.name != ''"),
        (
            "controller-is-a-statefulset",
            "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner,
             has(owner.controller) && owner.controller && owner.kind == 'StatefulSet' &&
             (owner.apiVersion.startsWith('apps/') || owner.apiVersion.startsWith('apps.kruise.io/')))",
        ),
    ];
    // The last one depends on the kinds that are configured.
    if policy.ends_with(CUSTOM_WORKLOADS) { &SHIPPED[..2] } else { &SHIPPED }
}
