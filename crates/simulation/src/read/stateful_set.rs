//! What the API server checks of a StatefulSet, as far as it is simulated.

use serde_json::{Value, json};

use crate::finding::{Finding, check_strings};

pub(super) fn check(object: &Value, findings: &mut Vec<Finding>) {
    let spec = &object["spec"];
    if !spec.is_object() {
        findings.push(Finding::wrong("spec", spec, "set selector and template"));
        return;
    }
    for path in ["replicas", "ordinals.start", "updateStrategy.rollingUpdate.partition"] {
        let value = path.split('.').fold(spec, |value, field| &value[field]);
        if !value.is_null() && !value.is_u64() {
            findings.push(Finding::wrong(&format!("spec.{path}"), value, "use 0 or a larger whole number"));
        }
    }
    for (path, values) in [
        ("podManagementPolicy", ["OrderedReady", "Parallel"]),
        ("updateStrategy.type", ["RollingUpdate", "OnDelete"]),
    ] {
        let value = path.split('.').fold(spec, |value, field| &value[field]);
        if !value.is_null() && !values.iter().any(|one| value == one) {
            let remedy = format!("use {} or {}", values[0], values[1]);
            findings.push(Finding::wrong(&format!("spec.{path}"), value, &remedy));
        }
    }
    let template = &spec["template"];
    if !template["spec"].is_object() {
        let remedy = "describe the Pods, with their containers";
        findings.push(Finding::wrong("spec.template.spec", &template["spec"], remedy));
    }
    let metadata = &template["metadata"];
    if !metadata.is_null() && !metadata.is_object() {
        findings.push(Finding::wrong("spec.template.metadata", metadata, "use a map"));
    }
    for field in ["labels", "annotations"] {
        check_strings(&format!("spec.template.metadata.{field}"), &template["metadata"][field], findings);
    }
    check_selector(spec, findings);
    for path in [
        "minReadySeconds",
        "updateStrategy.rollingUpdate.maxUnavailable",
        "updateStrategy.rollingUpdate.podUpdatePolicy",
        "updateStrategy.rollingUpdate.paused",
        "updateStrategy.rollingUpdate.unorderedUpdate",
        "scaleStrategy",
        "lifecycle",
    ] {
        let value = path.split('.').fold(spec, |value, field| &value[field]);
        let harmless = [Value::Null, json!(false), json!({}), json!(0), json!("ReCreate")];
        let is_one = path.ends_with("maxUnavailable") && *value == 1;
        if !is_one && !harmless.contains(value) {
            let message = "this field is not simulated: Pods are created again one at a time, and each is Ready at once";
            findings.push(Finding::warning(format!("spec.{path}"), message));
        }
    }
}

fn check_selector(spec: &Value, findings: &mut Vec<Finding>) {
    let wanted = &spec["selector"]["matchLabels"];
    let Some(wanted_labels) = wanted.as_object() else {
        if !spec["selector"]["matchExpressions"].is_array() || !wanted.is_null() {
            let remedy = "use the labels of spec.template.metadata.labels";
            findings.push(Finding::wrong("spec.selector.matchLabels", wanted, remedy));
        }
        return;
    };
    let labels = &spec["template"]["metadata"]["labels"];
    if let Some((key, value)) = wanted_labels.iter().find(|(key, value)| labels[key.as_str()] != **value) {
        let remedy = "the labels of spec.template.metadata.labels must match the selector";
        let field = format!("spec.selector.matchLabels.{}", pps_core::shorten(key));
        findings.push(Finding::wrong(&field, value, remedy));
    }
}

/// Whether the API server lets a user change a StatefulSet that exists in this way.
pub(crate) fn is_allowed_change(before: &Value, after: &Value) -> bool {
    const MUTABLE: [&str; 8] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
        "revisionHistoryLimit",
        "reserveOrdinals",
    ];
    let immutable = |object: &Value| -> Vec<(String, Value)> {
        let fields = object["spec"].as_object().into_iter().flatten();
        let fields = fields.filter(|(field, value)| !MUTABLE.contains(&field.as_str()) && !value.is_null());
        fields.map(|(field, value)| (field.clone(), value.clone())).collect()
    };
    immutable(before) == immutable(after)
}
