#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::Cluster;
use crate::actions::apply;
use crate::limits::Limits;
use crate::load::load;
use crate::scenario::{Action, Scenario};
use pps_scheduler::Node;

const NODES: [&str; 3] = ["n1", "n2", "n3"];

fn any_action() -> impl Strategy<Value = Value> {
    let of_node = |what: &'static str| {
        select(&NODES[..]).prop_map(move |node| json!({"do": what, "node": node}))
    };
    let gpu = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2", "labels": {"gpu": "x"}},
        "spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}});
    prop_oneof![
        of_node("drain"),
        of_node("cordon"),
        of_node("uncordon"),
        of_node("loseNode"),
        of_node("returnNode"),
        select(&NODES[..])
            .prop_map(|node| json!({"do": "labelNode", "node": node, "key": "k", "value": "v"})),
        (0..5_u32)
            .prop_map(|replicas| json!({"do": "scale", "workload": "db", "replicas": replicas})),
        (0..4_u32).prop_map(|pod| json!({"do": "deletePod", "pod": format!("db-{pod}")})),
        Just(json!({"do": "rollingUpdate", "workload": "db"})),
        Just(json!({"do": "loseNodes", "nodes": ["n1", "n3"]})),
        Just(json!({"do": "changeSpec", "object": gpu})),
        Just(
            json!({"do": "addNode", "object": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}}})
        ),
    ]
}

fn objects() -> Vec<Value> {
    let node = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"allocatable": {"cpu": "2", "pods": "3"}, "images": [{"names": ["i:latest"], "sizeBytes": 9}]}})
    };
    let containers =
        json!([{"name": "main", "image": "i", "resources": {"requests": {"cpu": "600m"}}}]);
    let template =
        json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": containers}});
    vec![
        node("n1"),
        node("n2"),
        node("n3"),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}, "spec": {"nodeName": "n1"}}),
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
            "replicas": 3, "podManagementPolicy": "Parallel", "template": template,
            "selector": {"matchLabels": {"app": "db"}}}}),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_the_scheduler_sees_is_what_is_there(actions in vec(any_action(), 0..12)) {
        let mut cluster = Cluster::new(&Scenario::default(), Limits::PAGE);
        prop_assert_eq!(load(&mut cluster, &objects(), &[]), []);
        for action in [json!({"do": "rollOut"})].into_iter().chain(actions) {
            let action: Action = serde_json::from_value(action).unwrap();
            drop(apply(&mut cluster, &action));
            cluster.refresh_scheduler_nodes();
            let pods = |name: &str| {
                let own = cluster.pods.on(name).map(|(_, pod)| &*pod.object);
                own.chain(cluster.others.on(name).iter().map(Arc::as_ref)).collect::<Vec<_>>()
            };
            let there = cluster.existing_nodes().map(|(name, node)| Node::of(&node.object, pods(name)));
            prop_assert_eq!(&cluster.scheduler_nodes, &there.collect::<Vec<_>>());
        }
    }
}
