//! Properties of `apply` that hold for every Pod and every plan.
//!
//! The evaluation of node selectors and the comparison of two Pods are implemented here a second
//! time, from Kubernetes' documentation: they share no code with what they test.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use pps_admission::plan::{Preference, Requirement};
use pps_admission::{Plan, apply};
use pps_core::INJECTED_ANNOTATION;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const KEYS: [&str; 3] = ["zone", "host", "disk"];
const VALUES: [&str; 4] = ["a", "b", "1", "2"];

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(&KEYS[..]).prop_map(String::from)
}

fn value() -> impl Strategy<Value = String> {
    prop::sample::select(&VALUES[..]).prop_map(String::from)
}

/// An object with these fields and a few unknown ones.
fn with_unknown(fields: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    (fields, btree_map("x[a-c]", anything(), 0..2)).prop_map(|(mut object, unknown)| {
        object.as_object_mut().unwrap().extend(unknown);
        object
    })
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has finite numbers only", |number| number.is_finite())
            .prop_map(Value::from),
        ".{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map("[a-z]{1,2}", inner, 0..3).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// An object in which the field is missing, null or has the value.
fn field(
    name: &'static str,
    value: impl Strategy<Value = Value> + 'static,
) -> impl Strategy<Value = Map<String, Value>> {
    prop_oneof![
        1 => Just(Map::new()),
        1 => Just(Map::from_iter([(name.to_owned(), Value::Null)])),
        4 => value.prop_map(move |value| Map::from_iter([(name.to_owned(), value)])),
    ]
}

fn merge(parts: impl IntoIterator<Item = Map<String, Value>>) -> Value {
    Value::Object(parts.into_iter().flatten().collect())
}

fn expression() -> impl Strategy<Value = Value> {
    let listed = (
        key(),
        prop::sample::select(&["In", "NotIn"][..]),
        vec(value(), 1..3),
    )
        .prop_map(
            |(key, operator, values)| json!({"key": key, "operator": operator, "values": values}),
        );
    let bare = (key(), prop::sample::select(&["Exists", "DoesNotExist"][..]))
        .prop_map(|(key, operator)| json!({"key": key, "operator": operator}));
    let compared = (
        key(),
        prop::sample::select(&["Gt", "Lt"][..]),
        prop::sample::select(&["0", "1", "2"][..]),
    )
        .prop_map(
            |(key, operator, value)| json!({"key": key, "operator": operator, "values": [value]}),
        );
    prop_oneof![3 => listed, 1 => bare, 1 => compared]
}

fn field_expression() -> impl Strategy<Value = Value> {
    (prop::sample::select(&["In", "NotIn"][..]), 0..12_usize).prop_map(
        |(operator, node)| json!({"key": "metadata.name", "operator": operator, "values": [format!("node-{node}")]}),
    )
}

fn term() -> impl Strategy<Value = Value> {
    let expressions = field(
        "matchExpressions",
        vec(expression(), 0..3).prop_map(Value::from),
    );
    let fields = field(
        "matchFields",
        vec(field_expression(), 0..2).prop_map(Value::from),
    );
    with_unknown(
        (expressions, fields).prop_map(|(expressions, fields)| merge([expressions, fields])),
    )
}

fn affinity() -> impl Strategy<Value = Value> {
    let required = with_unknown(
        field("nodeSelectorTerms", vec(term(), 0..4).prop_map(Value::from)).prop_map(Value::from),
    );
    let preferred = (1..100, term())
        .prop_map(|(weight, preference)| json!({"weight": weight, "preference": preference}));
    let node_affinity = (
        field(REQUIRED, required),
        field(PREFERRED, vec(preferred, 0..3).prop_map(Value::from)),
    )
        .prop_map(|(required, preferred)| merge([required, preferred]));
    with_unknown(
        (
            field("nodeAffinity", with_unknown(node_affinity)),
            field("podAffinity", anything()),
        )
            .prop_map(|(node_affinity, pod_affinity)| merge([node_affinity, pod_affinity])),
    )
}

fn pod() -> impl Strategy<Value = Value> {
    let strings = |keys: &'static str| btree_map(keys, "[a-z]{0,2}", 0..3);
    let annotations = field("annotations", strings("n[a-c]").prop_map(|map| json!(map)));
    let metadata = with_unknown(annotations.prop_map(|annotations| {
        merge([
            annotations,
            Map::from_iter([("name".to_owned(), json!("w-0"))]),
        ])
    }));
    let node_selector = field(
        "nodeSelector",
        btree_map(key(), value(), 0..2).prop_map(|map| json!(map)),
    );
    let spec = with_unknown(
        (field("affinity", affinity()), node_selector)
            .prop_map(|(affinity, selector)| merge([affinity, selector])),
    );
    with_unknown(
        (metadata, spec).prop_map(|(metadata, spec)| json!({"metadata": metadata, "spec": spec})),
    )
}

fn requirements(least: usize) -> impl Strategy<Value = Vec<Requirement>> {
    btree_map(key(), value(), least..3).prop_map(|map| {
        map.into_iter()
            .map(|(key, value)| Requirement { key, value })
            .collect()
    })
}

fn plan() -> impl Strategy<Value = Plan> {
    let preference = (1..=100_i64, requirements(1)).prop_map(|(weight, requirements)| Preference {
        weight,
        requirements,
    });
    let annotations = btree_map("n[a-d]", "[a-z]{1,2}", 0..3);
    (requirements(0), vec(preference, 0..3), annotations).prop_map(
        |(required, preferred, annotations)| Plan {
            pps: "p".into(),
            required,
            preferred,
            annotations: annotations.into_iter().collect(),
            ..Plan::default()
        },
    )
}

/// A node's name and labels.
type Node = (String, BTreeMap<String, String>);

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    vec(btree_map(key(), value(), 0..=3), 12).prop_map(|all| {
        all.into_iter()
            .enumerate()
            .map(|(index, labels)| (format!("node-{index}"), labels))
            .collect()
    })
}

fn list<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    object[name].as_array().map_or(&[], Vec::as_slice)
}

/// Whether a node selector requirement matches a label, as Kubernetes documents the operators.
fn matches(requirement: &Value, label: Option<&str>) -> bool {
    let values: Vec<&str> = list(requirement, "values")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let compare = |test: fn(&i64, &i64) -> bool| {
        let label = label.and_then(|label| label.parse::<i64>().ok());
        let value = values.first().and_then(|value| value.parse::<i64>().ok());
        label
            .zip(value)
            .is_some_and(|(label, value)| test(&label, &value))
    };
    match requirement["operator"].as_str().unwrap() {
        "In" => label.is_some_and(|label| values.contains(&label)),
        "NotIn" => !label.is_some_and(|label| values.contains(&label)),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        "Gt" => compare(i64::gt),
        "Lt" => compare(i64::lt),
        other => panic!("{other}"),
    }
}

/// Whether the Pod's `nodeSelector` and required node affinity allow a node.
fn allows(pod: &Value, (name, labels): &Node) -> bool {
    let label = |key: &Value| labels.get(key.as_str().unwrap()).map(String::as_str);
    let selector = pod["spec"]["nodeSelector"].as_object();
    if !selector
        .into_iter()
        .flatten()
        .all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str())
    {
        return false;
    }
    let required = &pod["spec"]["affinity"]["nodeAffinity"][REQUIRED];
    if required.is_null() {
        return true;
    }
    list(required, "nodeSelectorTerms").iter().any(|term| {
        let (expressions, fields) = (list(term, "matchExpressions"), list(term, "matchFields"));
        !(expressions.is_empty() && fields.is_empty())
            && expressions
                .iter()
                .all(|expression| matches(expression, label(&expression["key"])))
            && fields.iter().all(|field| matches(field, Some(name)))
    })
}

/// Collects the paths at which two values differ. A list that only grew at its end differs at `+`;
/// a null counts as empty.
fn collect_differences(before: &Value, after: &Value, path: &str, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, value) in before {
                match after.get(name) {
                    Some(other) => {
                        collect_differences(value, other, &format!("{path}/{name}"), found);
                    }
                    None => found.push(format!("-{path}/{name}")),
                }
            }
            for (name, value) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
                collect_differences(&Value::Null, value, &format!("{path}/{name}"), found);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() <= after.len() => {
            for (index, (value, other)) in before.iter().zip(after).enumerate() {
                collect_differences(value, other, &format!("{path}/{index}"), found);
            }
            found.extend((before.len()..after.len()).map(|_| format!("{path}/+")));
        }
        (Value::Null, Value::Object(_)) => collect_differences(&json!({}), after, path, found),
        (Value::Null, Value::Array(_)) => collect_differences(&json!([]), after, path, found),
        _ if before == after => {}
        _ => found.push(path.to_owned()),
    }
}

/// Whether a plan names the path of a difference.
fn is_named(plan: &Plan, path: &str) -> bool {
    if let Some(key) = path.strip_prefix("/metadata/annotations/") {
        return key == INJECTED_ANNOTATION
            || plan.annotations.iter().any(|(planned, _)| planned == key);
    }
    let Some(path) = path.strip_prefix("/spec/affinity/nodeAffinity/") else {
        return false;
    };
    if let Some(path) = path.strip_prefix(REQUIRED) {
        let is_in_term =
            |path: &str| path.ends_with("/matchExpressions/+") && path.matches('/').count() == 4;
        return !plan.required.is_empty() && (path == "/nodeSelectorTerms/+" || is_in_term(path));
    }
    path.strip_prefix(PREFERRED)
        .is_some_and(|path| !plan.preferred.is_empty() && path == "/+")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn applying_twice_gives_the_same_pod_as_applying_once(pod in pod(), plan in plan()) {
        let mut once = pod.clone();
        let first = apply(&plan, &mut once).unwrap();
        let mut twice = once.clone();
        prop_assert!(!apply(&plan, &mut twice).unwrap().is_changed());
        prop_assert_eq!(&twice, &once);
        if !first.is_changed() {
            let marker = |pod: &Value| pod["metadata"]["annotations"][INJECTED_ANNOTATION].clone();
            prop_assert_eq!(marker(&pod), marker(&once));
        }
    }

    #[test]
    fn changes_only_what_the_plan_names(pod in pod(), plan in plan()) {
        let mut after = pod.clone();
        let applied = apply(&plan, &mut after).unwrap();
        let mut found = Vec::new();
        collect_differences(&pod, &after, "", &mut found);
        for path in &found {
            prop_assert!(is_named(&plan, path), "{path}\n{pod}\n{after}");
        }
        let marked = found.iter().any(|path| path.ends_with(INJECTED_ANNOTATION));
        prop_assert_eq!(marked, found.len() > 1);
        prop_assert_eq!(marked, applied.is_changed());
        prop_assert!(marked || after == pod, "changed without a marker\n{pod}\n{after}");
        for (key, _) in &plan.annotations {
            let own = pod["metadata"]["annotations"].get(key);
            prop_assert!(own.is_none() || own == after["metadata"]["annotations"].get(key));
        }
    }

    #[test]
    fn allows_the_same_nodes_as_before_if_they_have_the_required_labels(
        pod in pod(),
        plan in plan(),
        nodes in nodes(),
    ) {
        let mut after = pod.clone();
        apply(&plan, &mut after).unwrap();
        for node in &nodes {
            let has_labels = plan.required.iter().all(|Requirement { key, value }| node.1.get(key) == Some(value));
            let expected = allows(&pod, node) && has_labels;
            prop_assert_eq!(allows(&after, node), expected, "{:?}\n{}\n{}", node, &pod, &after);
        }
    }
}
