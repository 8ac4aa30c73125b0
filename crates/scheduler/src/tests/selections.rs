use serde_json::{Value, json};

use super::super::{Placement, select};
use super::{HOSTNAME, Nodes, ZONE, empty, node, pod, requesting, selection, views, with_amounts};

fn prefers(key: &str, value: &str, weight: u32) -> Value {
    let expression = json!({"key": key, "operator": "In", "values": [value]});
    json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": weight, "preference": {"matchExpressions": [expression]}}]}}})
}

#[test]
fn equal_nodes_may_all_be_chosen_and_the_simulation_takes_the_first_by_name() {
    let nodes = empty(
        ["node-2", "node-1", "node-10"]
            .map(|name| node(name, &json!({})))
            .into(),
    );
    let new = pod(&json!({}));
    let found = selection(&new, &nodes);
    assert_eq!(found.may_land_on, ["node-1", "node-10", "node-2"]);
    assert_eq!(found.chosen.as_deref(), Some("node-1"));
    assert!(found.caveats.is_empty());
}

#[test]
fn a_pod_that_no_node_can_take_is_chosen_no_node() {
    let found = selection(
        &pod(&json!({"nodeSelector": {"x": "y"}})),
        &empty(vec![node("n", &json!({}))]),
    );
    assert_eq!((found.chosen, found.may_land_on), (None, vec![]));
    assert_eq!(found.verdicts.len(), 1);
}

#[test]
fn the_preferred_node_is_chosen_among_equal_ones() {
    let names = ["node-1", "node-2", "node-3"];
    let nodes = empty(
        names
            .map(|name| node(name, &json!({HOSTNAME: name})))
            .into(),
    );
    let new = pod(&prefers(HOSTNAME, "node-2", 1));
    let found = selection(&new, &nodes);
    assert_eq!(found.may_land_on, ["node-2"]);
    let scores: Vec<i64> = found.verdicts.iter().map(|verdict| verdict.score).collect();
    // 3 × 100 for taints, 2 × 100 for the preference, 100 each for room and balance.
    assert_eq!(scores, [500, 700, 500]);
}

/// Several scores weigh as much as a preference together, and less than it alone.
#[test]
fn a_preference_may_lose_against_room_and_spread() {
    let room = json!({"cpu": "4", "memory": "4Gi", "pods": "10"});
    let mut home = with_amounts("home", &room);
    home["metadata"]["labels"] = json!({HOSTNAME: "home"});
    home["spec"]["taints"] = json!([{"key": "old", "effect": "PreferNoSchedule"}]);
    let running = requesting(&[json!({"cpu": "3800m", "memory": "100Mi"})]);
    let mut nodes: Nodes = vec![
        (home, vec![running]),
        (with_amounts("other", &room), vec![]),
    ];
    let new = pod(&prefers(HOSTNAME, "home", 100));
    assert_eq!(selection(&new, &nodes).may_land_on, ["other"]);
    nodes[0].0["spec"]["taints"] = json!([]);
    let found = selection(&new, &nodes);
    assert_eq!(
        (found.may_land_on, found.chosen.as_deref()),
        (vec!["home".to_owned()], Some("home"))
    );
}

#[test]
fn pods_of_a_stateful_set_are_spread_and_those_of_other_kinds_perhaps() {
    let selector = json!({"matchLabels": {"app": "db"}});
    let nodes: Nodes = vec![
        (
            node("node-1", &json!({HOSTNAME: "node-1", ZONE: "a"})),
            vec![pod(&json!({}))],
        ),
        (
            node("node-2", &json!({HOSTNAME: "node-2", ZONE: "b"})),
            vec![],
        ),
    ];
    let may = |api_version: &str, selector: Option<&Value>| {
        let mut new = pod(&json!({}));
        new["metadata"]["ownerReferences"] =
            json!([{"apiVersion": api_version, "kind": "StatefulSet", "controller": true}]);
        let placement = Placement {
            pod: &new,
            before: None,
            selector,
            volumes: None,
        };
        select(&placement, &views(&nodes)).may_land_on
    };
    assert_eq!(may("apps/v1", Some(&selector)), ["node-2"]);
    assert_eq!(may("apps/v1", None), ["node-1", "node-2"]);
    assert_eq!(
        may("apps.kruise.io/v1beta1", Some(&selector)),
        ["node-1", "node-2"]
    );
}

#[test]
fn what_is_not_simulated_is_named_and_leaves_every_node_that_fits() {
    let nodes = empty(vec![
        node("node-1", &json!({HOSTNAME: "node-1"})),
        node("node-2", &json!({HOSTNAME: "node-2"})),
        json!({"metadata": {"name": "node-3"}, "spec": {"unschedulable": true}}),
    ]);
    for (field, value) in [
        (
            "volumes",
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]),
        ),
        ("containers", json!([{"ports": [{"hostPort": 80}]}])),
        (
            "initContainers",
            json!([{"restartPolicy": "Always", "ports": [{"hostPort": 80}]}]),
        ),
        ("resourceClaims", json!([{"name": "gpu"}])),
        ("schedulingGates", json!([{"name": "g"}])),
        ("runtimeClassName", json!("kata")),
        ("schedulerName", json!("volcano")),
    ] {
        let mut spec = prefers(HOSTNAME, "node-2", 100);
        spec[field] = value;
        let found = selection(&pod(&spec), &nodes);
        assert_eq!(found.caveats.len(), 1, "{field}: {:?}", found.caveats);
        assert_eq!(found.may_land_on, ["node-1", "node-2"], "{field}");
        assert_eq!(found.chosen.as_deref(), Some("node-2"), "{field}");
    }
    for (host_network, caveats) in [(true, 1), (false, 0)] {
        let ports = json!([{"ports": [{"containerPort": 80}]}]);
        let spec = json!({"hostNetwork": host_network, "containers": ports});
        assert_eq!(selection(&pod(&spec), &nodes).caveats.len(), caveats);
    }
    let mut spec = prefers(HOSTNAME, "node-2", 100);
    spec["volumes"] =
        json!([{"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"name": "c"}}]);
    assert!(selection(&pod(&spec), &nodes).caveats.is_empty());
}

#[test]
fn a_pod_may_take_the_room_of_pods_of_lower_priority() {
    let node = |name, pods: &[Value]| {
        (
            with_amounts(name, &json!({"pods": "1", "cpu": "1"})),
            pods.to_vec(),
        )
    };
    let low = pod(&json!({"priority": 9}));
    let mut lower = node("lower", std::slice::from_ref(&low));
    lower.0["metadata"]["labels"] = json!({HOSTNAME: "lower"});
    let full: Nodes = vec![
        node("equal", &[pod(&json!({"priority": 10}))]),
        lower,
        node("unknown", &[pod(&json!({}))]),
        (
            json!({"metadata": {"name": "cordoned"}, "spec": {"unschedulable": true}}),
            vec![low],
        ),
    ];
    let may_land_on = |spec: &Value| {
        let found = selection(&pod(spec), &full);
        assert_eq!(
            (found.chosen, found.caveats.len()),
            (None, usize::from(!found.may_land_on.is_empty()))
        );
        found.may_land_on
    };
    assert_eq!(may_land_on(&json!({"priority": 10})), ["lower"]);
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": HOSTNAME, "labelSelector": {}}]}});
    for spec in [
        json!({}),
        json!({"priorityClassName": "high"}),
        json!({"priority": 10, "affinity": apart}),
        json!({"priority": 10, "preemptionPolicy": "Never"}),
        // No Pod has to go for more than the node has.
        json!({"priority": 10, "containers": [{"resources": {"requests": {"cpu": "2"}}}]}),
    ] {
        assert_eq!(may_land_on(&spec), [""; 0], "{spec}");
    }
}

#[test]
fn of_many_nodes_the_scheduler_looks_only_at_some() {
    let nodes = |count: usize| {
        empty(
            (0..count)
                .map(|index| node(&format!("{index:03}"), &json!({"i": format!("{index}")})))
                .collect(),
        )
    };
    let new = pod(&prefers("i", "7", 1));
    assert_eq!(selection(&new, &nodes(99)).may_land_on, ["007"]);
    assert_eq!(selection(&new, &nodes(100)).may_land_on, ["007"]);
    assert_eq!(selection(&new, &nodes(101)).may_land_on.len(), 101);
}
