//! Whether a Pod's own rules can be met together with its pin.

use serde_json::Value;

use crate::apply::is_empty_term;
use crate::plan::{Plan, Requirement};

const HOSTNAME: &str = "kubernetes.io/hostname";

/// Says, in sentences for people, where the Pod's own scheduling rules exclude every node that the
/// plan's required topology allows. Such a Pod stays Pending; nothing of its own is overwritten.
pub fn conflicts(plan: &Plan, pod: &Value) -> Vec<String> {
    let spec = &pod["spec"];
    let mut sentences = Vec::new();
    for Requirement { key, value } in &plan.required {
        if let Some(own) = spec["nodeSelector"][key].as_str()
            && own != value
        {
            sentences.push(format!(
                "PersistentPodState {}: this Pod returns to {key}={value}, but its spec.nodeSelector asks for {key}={own}; it will stay Pending",
                plan.pps
            ));
        }
    }
    let terms: Vec<_> = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        ["nodeSelectorTerms"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .filter(|term| !is_empty_term(term))
        .collect();
    let excluded = |term: &serde_json::Map<String, Value>| {
        let expressions = term.get("matchExpressions").and_then(Value::as_array);
        let fields = term.get("matchFields").and_then(Value::as_array);
        expressions.into_iter().flatten().any(|expression| excludes_label(expression, plan))
            || fields.into_iter().flatten().any(|field| excludes_node(field, plan))
    };
    if !plan.required.is_empty() && !terms.is_empty() && terms.iter().all(|term| excluded(term)) {
        let pin: Vec<String> =
            plan.required.iter().map(|Requirement { key, value }| format!("{key}={value}")).collect();
        sentences.push(format!(
            "PersistentPodState {}: this Pod returns to {}, but no term of its required node affinity allows that; it will stay Pending",
            plan.pps,
            pin.join(", ")
        ));
    }
    sentences
}

/// Whether a match expression excludes the value that the plan asks for.
fn excludes_label(expression: &Value, plan: &Plan) -> bool {
    plan.required
        .iter()
        .filter(|requirement| expression["key"].as_str() == Some(&requirement.key))
        .any(|requirement| !matches(expression, &requirement.value))
}

/// Whether a match on the node's name excludes the node that a pin to the host name means.
fn excludes_node(field: &Value, plan: &Plan) -> bool {
    field["key"] == "metadata.name"
        && !plan.node_name.is_empty()
        && plan.required.iter().any(|requirement| requirement.key == HOSTNAME)
        && !matches(field, &plan.node_name)
}

/// Whether a node selector requirement holds for a label with this value. An operator that this code
/// does not know is believed to hold.
fn matches(requirement: &Value, value: &str) -> bool {
    let values = || requirement["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let number = |text: &str| text.parse::<i64>().ok();
    match requirement["operator"].as_str() {
        Some("In") => values().any(|one| one == value),
        Some("NotIn") => values().all(|one| one != value),
        Some("DoesNotExist") => false,
        Some("Gt") => {
            matches!((number(value), values().next().and_then(number)), (Some(a), Some(b)) if a > b)
        }
        Some("Lt") => {
            matches!((number(value), values().next().and_then(number)), (Some(a), Some(b)) if a < b)
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan() -> Plan {
        let required = [("zone", "a"), (HOSTNAME, "7")]
            .map(|(key, value)| Requirement { key: key.into(), value: value.into() });
        Plan { pps: "p".into(), node_name: "node-7".into(), required: required.into(), ..Plan::default() }
    }

    fn conflicts_of_terms(terms: &Value) -> usize {
        let pod = json!({"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}});
        conflicts(&plan(), &pod).len()
    }

    #[test]
    fn a_node_selector_that_contradicts_is_told() {
        assert_eq!(conflicts(&plan(), &json!({"spec": {"nodeSelector": {"zone": "b"}}})).len(), 1);
        assert_eq!(
            conflicts(&plan(), &json!({"spec": {"nodeSelector": {"zone": "a", "disk": "ssd"}}})).len(),
            0
        );
    }

    #[test]
    fn terms_are_told_only_if_all_of_them_contradict() {
        let term = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (expected, contradicting) in [
            (1, term("zone", "In", json!(["b", "c"]))),
            (1, term("zone", "NotIn", json!(["a"]))),
            (1, term("zone", "DoesNotExist", json!([]))),
            (1, term(HOSTNAME, "Gt", json!(["7"]))),
            (1, term(HOSTNAME, "Lt", json!(["7"]))),
            (0, term(HOSTNAME, "Gt", json!(["6"]))),
            (0, term("zone", "Exists", json!([]))),
            (0, term("disk", "In", json!(["ssd"]))),
            (1, json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-8"]}]})),
            (0, json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-7"]}]})),
        ] {
            assert_eq!(conflicts_of_terms(&json!([contradicting, {}])), expected, "{contradicting}");
            let fitting = term("zone", "In", json!(["a"]));
            assert_eq!(conflicts_of_terms(&json!([contradicting, fitting])), 0, "{contradicting}");
        }
    }
}
