//! A live cluster of ten thousand Pods.

use pps_core::INJECTED_ANNOTATION;
use pps_simulation::{Limits, Phase, RunResult, Scenario, run_live};
use serde_json::{Value, json};

use crate::worlds::{ZONE, last, node, pps, required, scenario, stateful_set, with};

const PODS_EACH: usize = 10;

/// Nodes in three zones, and as many workloads, each with ten Pods on different nodes, whose states
/// are recorded.
fn cluster(nodes: usize, key: &str) -> Vec<Value> {
    let zone = |node: usize| ["a", "b", "c"][node % 3];
    let mut objects: Vec<Value> = (0..nodes)
        .map(|index| {
            with(
                node(&format!("n{index:04}"), zone(index)),
                "status.allocatable.pods",
                json!("20"),
            )
        })
        .collect();
    for workload in 0..nodes {
        let name = format!("db{workload}");
        let uid = format!("uid-{name}");
        let parallel = if workload % 2 == 0 {
            "Parallel"
        } else {
            "OrderedReady"
        };
        let set = with(
            stateful_set(&name, 10),
            "spec.podManagementPolicy",
            json!(parallel),
        );
        let template = json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [
            {"name": "main", "image": "registry.example.com/db:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]}});
        objects.push(with(
            with(set, "metadata.uid", json!(uid)),
            "spec.template",
            template.clone(),
        ));
        let mut states = json!({});
        for pod in 0..PODS_EACH {
            let place = (workload * 7 + pod * 97) % nodes;
            let (on, name) = (format!("n{place:04}"), format!("{name}-{pod}"));
            states[&name] = json!({"nodeName": on, "nodeTopologyLabels": {key: if key == ZONE { zone(place) } else { &on }}});
            let mut object = template.clone();
            object["apiVersion"] = json!("v1");
            object["kind"] = json!("Pod");
            object["metadata"]["name"] = json!(name);
            object["metadata"]["namespace"] = json!("default");
            object["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet",
                "name": format!("db{workload}"), "uid": uid, "controller": true}]);
            object["metadata"]["annotations"] =
                json!({INJECTED_ANNOTATION: format!("db{workload}")});
            object["spec"]["nodeName"] = json!(on);
            object["status"] = json!({"phase": "Running", "podIP": format!("10.{}.{}.{pod}", workload / 250, workload % 250),
                "conditions": [{"type": "Ready", "status": "True"}]});
            objects.push(object);
        }
        let states = json!({"podStates": states, "targetUID": uid, "recorded": 10, "desired": 10});
        objects.push(with(pps(&name, required(key)), "status", states));
    }
    objects
}

fn forecast(objects: Vec<Value>, actions: Value) -> RunResult {
    let live = Scenario {
        live: true,
        namespace: "default".into(),
        ..scenario(objects, actions)
    };
    run_live(&live, &[], &Limits::CLUSTER)
}

fn count(result: &RunResult, phase: Phase) -> usize {
    last(result)
        .world
        .pods
        .iter()
        .filter(|pod| pod.phase == phase)
        .count()
}

#[test]
fn a_node_of_a_cluster_of_a_thousand_nodes_is_drained() {
    let result = forecast(
        cluster(1000, ZONE),
        json!([{"do": "drain", "node": "n0500"}]),
    );
    assert_eq!(result.problems, []);
    assert_eq!(count(&result, Phase::Running), 10_000);
    let moved: Vec<_> = last(&result)
        .world
        .pods
        .iter()
        .filter(|pod| !pod.is_adopted)
        .collect();
    assert_eq!(moved.len(), 10);
    let zone = |name: &str| {
        last(&result)
            .world
            .nodes
            .iter()
            .find(|node| node.name == name)
            .unwrap()
            .zone
            .clone()
    };
    assert!(moved.iter().all(
        |pod| zone(pod.node.as_ref().unwrap()) == zone("n0500") && pod.came_home == Some(true)
    ));
    assert_eq!(
        last(&result)
            .world
            .pods
            .iter()
            .filter(|pod| pod.manifest.is_some())
            .count(),
        10
    );
}
