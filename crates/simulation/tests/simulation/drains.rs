//! What keeps a drain from ending: `PodDisruptionBudgets`; and where volumes let a Pod go.

use pps_scheduler::Caveat;
use pps_simulation::{EventKind, Phase, run};
use serde_json::{Value, json};

use crate::worlds::{
    HOSTNAME, ZONE, last, node, places, play, pod, pps, required, scenario, stateful_set, texts,
    with,
};

fn budget(spec: &Value) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "db"}, "spec": spec})
}

/// Two Pods on n1, and a node that can take one of them.
fn crowded(spec: &Value) -> Vec<Value> {
    let room =
        |name: &str, pods: &str| with(node(name, "a"), "status.allocatable.pods", json!(pods));
    let parallel = with(
        stateful_set("db", 2),
        "spec.podManagementPolicy",
        json!("Parallel"),
    );
    vec![
        room("n1", "2"),
        with(room("n2", "1"), "spec.unschedulable", json!(true)),
        parallel,
        budget(spec),
    ]
}

#[test]
fn a_drain_waits_for_a_budget_that_allows_no_further_eviction() {
    let actions = json!([
        {"do": "rollOut"}, {"do": "uncordon", "node": "n2"}, {"do": "drain", "node": "n1"}, {"do": "uncordon", "node": "n1"},
    ]);
    let selector = json!({"matchLabels": {"app": "db"}});
    for (amount, evicted) in [
        (json!({"minAvailable": 2}), 0),
        (json!({"maxUnavailable": 0}), 0),
        (json!({"maxUnavailable": "0%"}), 0),
        (json!({"minAvailable": "51%"}), 0),
        (json!({"minAvailable": 1}), 2),
        (json!({"maxUnavailable": 1}), 2),
        (json!({"minAvailable": "50%"}), 2),
        (json!({}), 2),
    ] {
        let mut spec = amount.clone();
        spec["selector"] = selector.clone();
        let result = play(crowded(&spec), actions.clone());
        let drained = &result.steps[3];
        let deleted = texts(drained, &[EventKind::Deleted]).len();
        assert_eq!(deleted, evicted, "{amount}: {:#?}", drained.events);
        let kept = drained
            .world
            .pods
            .iter()
            .filter(|pod| pod.kept_by.is_some())
            .count();
        assert_eq!(kept, 2 - evicted, "{amount}");
        assert!(
            last(&result)
                .world
                .pods
                .iter()
                .all(|pod| pod.kept_by.is_none()),
            "it was said in its step"
        );
    }
    let result = play(
        crowded(&json!({"minAvailable": 2, "selector": selector})),
        actions,
    );
    let expected = "PodDisruptionBudget db needs 2 Pods that are Ready, and 2 are";
    assert_eq!(
        pod(&result.steps[3], "db-0").kept_by.as_deref(),
        Some(expected)
    );
    assert_eq!(
        texts(&result.steps[3], &[EventKind::Kept])[0],
        format!("Pod/db-0 stays on n1, and its drain does not end: {expected}")
    );
}

#[test]
fn a_successor_that_finds_no_node_stops_the_evictions_that_its_budget_does_not_allow() {
    let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "db"}}});
    let mut objects = crowded(&spec);
    objects[1] = with(node("n2", "a"), "spec.unschedulable", json!(true));
    objects.push(pps("db", required(HOSTNAME)));
    let result = play(
        objects,
        json!([{"do": "rollOut"}, {"do": "uncordon", "node": "n2"}, {"do": "drain", "node": "n1"}]),
    );
    assert_eq!(places(last(&result)), ["db-0 Pending", "db-1 n1"]);
    assert!(pod(last(&result), "db-1").kept_by.is_some());
}

#[test]
fn a_budget_for_other_pods_protects_none() {
    for selector in [Value::Null, json!({"matchLabels": {"app": "web"}})] {
        let objects = crowded(&json!({"minAvailable": 2, "selector": selector}));
        let result = play(
            objects,
            json!([{"do": "rollOut"}, {"do": "uncordon", "node": "n2"}, {"do": "drain", "node": "n1"}]),
        );
        assert_eq!(texts(last(&result), &[EventKind::Deleted]).len(), 2);
    }
    let mut objects = crowded(&json!({"minAvailable": 0, "selector": {}}));
    objects.push(with(
        budget(&json!({"minAvailable": 0, "selector": {}})),
        "metadata.name",
        json!("too"),
    ));
    let result = play(
        objects,
        json!([{"do": "rollOut"}, {"do": "drain", "node": "n1"}]),
    );
    let why = pod(last(&result), "db-0").kept_by.clone().unwrap();
    assert!(
        why.starts_with("the PodDisruptionBudgets db and too both select it"),
        "{why}"
    );
}

#[test]
fn a_pod_returns_only_where_its_volume_is() {
    let templates = json!([{"metadata": {"name": "data"}}]);
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data-db-0"},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
    let terms = json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}]);
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}});
    let objects = vec![
        node("n1", "a"),
        node("n2", "b"),
        claim,
        volume,
        with(
            stateful_set("db", 2),
            "spec.volumeClaimTemplates",
            templates,
        ),
    ];
    let actions = json!([{"do": "rollOut"}, {"do": "drain", "node": "n2"}]);
    let result = play(objects.clone(), actions.clone());
    assert_eq!(places(&result.steps[1]), ["db-0 n2", "db-1 n1"]);
    assert_eq!(pod(&result.steps[1], "db-0").caveats, []);
    let unknown = Caveat::Claim("data-db-1".into());
    assert_eq!(pod(&result.steps[1], "db-1").caveats, [unknown]);
    assert_eq!(pod(last(&result), "db-0").phase, Phase::Pending);
    let excluded = pod(last(&result), "db-0").scheduler[0].exclusions[0].to_string();
    assert_eq!(
        excluded,
        "topology.kubernetes.io/zone is a, the volume of the Pod's claim data-db-0 requires b"
    );

    // Without a claim in the scenario, all is as if nothing were known of volumes.
    let without: Vec<Value> = objects
        .into_iter()
        .filter(|object| {
            object["metadata"]["name"] != "data-db-0" && object["kind"] != "PersistentVolume"
        })
        .collect();
    let result = run(&scenario(without, actions));
    assert_eq!(pod(&result.steps[1], "db-0").caveats, [Caveat::Volumes]);
}
