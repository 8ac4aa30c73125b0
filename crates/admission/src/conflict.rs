//! Whether a Pod's own scheduling rules leave any node that its plan allows.

use serde_json::{Map, Value};

use crate::node_affinity::{REQUIRED, is_empty_term, node_affinity};
use crate::plan::{Plan, Requirement};
use crate::spread_constraint::unreachable_spreads;
use pps_core::json::{list, shorten};
use pps_core::names::HOSTNAME;

/// A Pod that is created can have any number of spread constraints: it is validated later.
const MAX_SPREAD_WARNINGS: usize = 4;

/// Warnings for a Pod whose `nodeSelector` or required node affinity excludes every node that the
/// plan's required topology allows, or whose spread constraints may. Such a Pod stays Pending: the
/// plan overwrites nothing of the Pod's own.
pub(crate) fn conflicts(plan: &Plan, pod: &Value) -> Vec<String> {
    let spec = &pod["spec"];
    let mut warnings = Vec::new();
    for Requirement { key, value } in &plan.required {
        if let Some(own) = spec["nodeSelector"][key].as_str()
            && own != value
        {
            let key = shorten(key);
            let [own, value] = [own, value].map(shorten);
            warnings.push(format!(
                "this Pod will stay Pending: its spec.nodeSelector requires {key}={own}, \
                 PersistentPodState {} requires {key}={value}; change one of them",
                plan.pps
            ));
        }
    }
    let terms = list(&node_affinity(pod, REQUIRED)["nodeSelectorTerms"])
        .iter()
        .filter_map(Value::as_object);
    let terms: Vec<_> = terms.filter(|term| !is_empty_term(term)).collect();
    if !plan.required.is_empty()
        && !terms.is_empty()
        && terms.iter().all(|term| excludes_plan(term, plan))
    {
        let required: Vec<String> = plan
            .required
            .iter()
            .map(|Requirement { key, value }| format!("{key}={value}"))
            .collect();
        warnings.push(format!(
            "this Pod will stay Pending: no term of its required node affinity allows what \
             PersistentPodState {} requires; change one of them ({})",
            plan.pps,
            shorten(&required.join(", "))
        ));
    }
    for spread in unreachable_spreads(spec, &plan.required)
        .iter()
        .take(MAX_SPREAD_WARNINGS)
    {
        warnings.push(format!(
            "this Pod may stay Pending: its spec.topologySpreadConstraints[{}] asks for {} \
             domains of {}, PersistentPodState {} leaves one; lower minDomains or set \
             nodeAffinityPolicy: Ignore in it (else at most {} of its Pods fits)",
            spread.index,
            spread.min_domains,
            shorten(spread.topology_key),
            plan.pps,
            spread.max_skew
        ));
    }
    warnings
}

/// Whether a node selector term excludes every node that the plan allows.
fn excludes_plan(term: &Map<String, Value>, plan: &Plan) -> bool {
    let items = |field| term.get(field).map_or(&[][..], list);
    items("matchExpressions")
        .iter()
        .any(|expression| excludes_label(expression, plan))
        || items("matchFields")
            .iter()
            .any(|field| excludes_node(field, plan))
}

/// Whether a match expression excludes a label value that the plan requires.
fn excludes_label(expression: &Value, plan: &Plan) -> bool {
    let key = expression["key"].as_str();
    plan.required
        .iter()
        .filter(|requirement| key == Some(&requirement.key))
        .any(|requirement| !matches(expression, &requirement.value))
}

/// Whether a match field excludes the recorded node, where the plan requires its host name label. A
/// match field compares the node's name, which can differ from that label.
fn excludes_node(field: &Value, plan: &Plan) -> bool {
    field["key"] == "metadata.name"
        && !plan.node_name.is_empty()
        && plan
            .required
            .iter()
            .any(|requirement| requirement.key == HOSTNAME)
        && !matches(field, &plan.node_name)
}

/// Whether a node selector requirement matches a label with this value. An unknown operator is
/// assumed to match, so that it causes no false warning.
fn matches(requirement: &Value, value: &str) -> bool {
    let values = list(&requirement["values"]);
    let is_listed = || values.iter().any(|one| one == value);
    match requirement["operator"].as_str() {
        Some("In") => is_listed(),
        Some("NotIn") => !is_listed(),
        Some("DoesNotExist") => false,
        Some(operator @ ("Gt" | "Lt")) => {
            let limit = values.first().and_then(Value::as_str).unwrap_or_default();
            let [value, limit] = [value, limit].map(|text| text.parse::<i64>().ok());
            let (smaller, larger) = if operator == "Gt" {
                (limit, value)
            } else {
                (value, limit)
            };
            // A text that is no number is `None`, which is smaller than any number.
            smaller.is_some() && smaller < larger
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan() -> Plan {
        let required = [("zone", "a"), (HOSTNAME, "7")].map(|(key, value)| Requirement {
            key: key.into(),
            value: value.into(),
        });
        Plan {
            pps: "p".into(),
            node_name: "node-7".into(),
            required: required.into(),
            ..Plan::default()
        }
    }

    fn conflicts_of_terms(terms: &Value) -> usize {
        let pod = json!({"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}});
        conflicts(&plan(), &pod).len()
    }

    #[test]
    fn the_number_of_warnings_about_spread_constraints_is_limited() {
        let spread = |key: usize| json!({"topologyKey": format!("k{key}"), "minDomains": 2, "whenUnsatisfiable": "DoNotSchedule"});
        let all: Vec<Value> = (0..50_000).map(spread).collect();
        assert_eq!(
            conflicts(
                &plan(),
                &json!({"spec": {"topologySpreadConstraints": all}})
            )
            .len(),
            MAX_SPREAD_WARNINGS
        );
    }

    #[test]
    fn warns_of_node_affinity_only_if_every_term_contradicts() {
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
            (
                1,
                json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-8"]}]}),
            ),
            (
                0,
                json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-7"]}]}),
            ),
        ] {
            assert_eq!(
                conflicts_of_terms(&json!([contradicting, {}])),
                expected,
                "{contradicting}"
            );
            let fitting = term("zone", "In", json!(["a"]));
            assert_eq!(
                conflicts_of_terms(&json!([contradicting, fitting])),
                0,
                "{contradicting}"
            );
        }
    }
}
