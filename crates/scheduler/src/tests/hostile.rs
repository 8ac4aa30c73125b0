use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::{Placement, select};
use super::views;

/// Words that the scheduler reads, so that random objects reach its code.
const WORDS: [&str; 52] = [
    "metadata",
    "name",
    "namespace",
    "labels",
    "spec",
    "status",
    "taints",
    "tolerations",
    "key",
    "value",
    "effect",
    "operator",
    "values",
    "unschedulable",
    "allocatable",
    "capacity",
    "cpu",
    "memory",
    "pods",
    "containers",
    "initContainers",
    "resources",
    "requests",
    "limits",
    "affinity",
    "nodeAffinity",
    "podAffinity",
    "podAntiAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
    "matchExpressions",
    "matchFields",
    "matchLabels",
    "weight",
    "preference",
    "podAffinityTerm",
    "topologyKey",
    "labelSelector",
    "topologySpreadConstraints",
    "maxSkew",
    "whenUnsatisfiable",
    "ScheduleAnyway",
    "DoNotSchedule",
    "In",
    "Gt",
    "NoSchedule",
    "9223372036854775807",
    "-9223372036854775808",
    "1e308",
    "99999999Ei",
    "images",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![4 => prop::sample::select(&WORDS[..]).prop_map(str::to_owned), 1 => ".*"]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((word(), inner), 0..6).prop_map(|fields| Value::Object(
                fields.into_iter().collect::<Map<String, Value>>()
            )),
        ]
    })
}

/// An object that is right in its outline, with anything inside.
fn pod() -> impl Strategy<Value = Value> {
    prop::collection::vec(any_json(), 9).prop_map(|parts| {
        let term = json!({"weight": parts[0], "podAffinityTerm": {"topologyKey": "k", "labelSelector": parts[1]},
            "preference": {"matchExpressions": [parts[2]]}});
        let between = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term["podAffinityTerm"]],
            "preferredDuringSchedulingIgnoredDuringExecution": [term]});
        json!({"metadata": {"name": "p", "labels": parts[3]}, "spec": {
            "containers": [{"image": parts[4], "resources": {"requests": {"cpu": parts[5], "memory": parts[6]}}}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": [parts[2]]}, parts[7]]}},
                "podAffinity": between, "podAntiAffinity": between},
            "topologySpreadConstraints": [{"maxSkew": parts[8], "topologyKey": "k", "minDomains": parts[0],
                "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": parts[1]}]}})
    })
}

fn node() -> impl Strategy<Value = Value> {
    prop::collection::vec(any_json(), 5).prop_map(|parts| {
        json!({"metadata": {"name": "n", "labels": {"k": parts[0]}}, "spec": {"taints": [parts[1]]},
            "status": {"allocatable": {"cpu": parts[2], "memory": parts[3]},
                "images": [{"names": ["a:latest"], "sizeBytes": parts[4]}]}})
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_object_makes_it_panic_and_every_choice_is_a_node_that_fits(
        new in prop_oneof![any_json(), pod()],
        before in prop::option::of(prop_oneof![any_json(), pod()]),
        selector in prop::option::of(any_json()),
        nodes in prop::collection::vec(
            (prop_oneof![any_json(), node()], prop::collection::vec(prop_oneof![any_json(), pod()], 0..3)), 0..4),
    ) {
        let placement = Placement { pod: &new, before: before.as_ref(), selector: selector.as_ref(), volumes: None };
        let found = select(&placement, &views(&nodes));
        prop_assert_eq!(found.verdicts.len(), nodes.len());
        let fits = found.verdicts.iter().filter(|verdict| verdict.exclusions.is_empty());
        prop_assert_eq!(found.chosen.is_some(), fits.clone().next().is_some());
        if let Some(chosen) = &found.chosen {
            prop_assert!(found.may_land_on.contains(chosen));
            let fits: Vec<&String> = fits.map(|verdict| &verdict.node).collect();
            prop_assert!(found.may_land_on.iter().all(|node| fits.contains(&node)));
        }
    }
}
