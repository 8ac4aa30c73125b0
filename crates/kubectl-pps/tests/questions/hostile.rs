//! Objects that no API server would store, and names that a terminal would obey.

use kubectl_pps::render::Style;
use kubectl_pps::snapshot::{Namespaces, Node, Pod, Pps, Snapshot, Workload};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::World;

const STYLE: Style = Style {
    has_color: false,
    width: Some(80),
};

/// A value that may be anything where objects have something else.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof![
            "[a-z0-9./=-]{0,12}",
            "\\PC{0,8}",
            Just("\u{1b}[2J\u{202e}x".to_owned()),
            "x{100,200}"
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z./]{0,10}", inner, 0..3)
                .prop_map(|fields| fields.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

/// Paths of fields that are read.
const PATHS: [&str; 20] = [
    "/spec",
    "/status",
    "/metadata/labels",
    "/metadata/annotations",
    "/metadata/ownerReferences",
    "/metadata/creationTimestamp",
    "/spec/replicas",
    "/spec/ordinals",
    "/spec/targetRef",
    "/spec/requiredPersistentTopology",
    "/spec/preferredPersistentTopology",
    "/spec/affinity",
    "/spec/taints",
    "/status/podStates",
    "/status/packed",
    "/status/conditions",
    "/status/updateRevision",
    "/spec/updateStrategy",
    "/spec/nodeName",
    "/metadata/generation",
];

fn put(object: &mut Value, path: &str, value: Value) {
    let (parent, field) = path.rsplit_once('/').unwrap();
    if let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
        parent.insert(field.to_owned(), value);
    }
}

fn base(kind: usize) -> Value {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": true}]);
    match kind {
        0 => json!({"metadata": {"name": "db-0", "namespace": "shop", "ownerReferences": owner,
            "annotations": {"kruise.io/injected-persistent-pod-state": "db"}}, "spec": {"affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions":
            [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}}}, "status": {}}),
        1 => {
            json!({"metadata": {"name": "node-0", "labels": {"zone": "a"}}, "spec": {}, "status": {}})
        }
        2 => {
            json!({"metadata": {"name": "db", "namespace": "shop"}, "spec": {"replicas": 2}, "status": {}})
        }
        _ => {
            json!({"metadata": {"name": "db", "namespace": "shop"}, "spec": {"targetRef": {"apiVersion": "apps/v1",
            "kind": "StatefulSet", "name": "db"}, "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]}},
            "status": {"podStates": {"db-0": {"nodeName": "n", "nodeTopologyLabels": {"zone": "a"}}}}})
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_object_makes_an_answer_panic_or_reach_the_terminal(
        changes in prop::collection::vec((0..4_usize, 0..PATHS.len(), anything()), 0..6),
        pod in prop_oneof![Just("db-0".to_owned()), Just("db-1".to_owned()), "[a-z0-9-]{1,8}"],
    ) {
        let mut objects: Vec<Value> = (0..4).map(base).collect();
        for (kind, path, value) in changes {
            put(&mut objects[kind], PATHS[path], value);
        }
        let mut snapshot = Snapshot::empty(Namespaces::All);
        snapshot.pods.extend(Pod::read(objects[0].clone()));
        snapshot.nodes = Node::read(objects[1].clone()).map(|node| [(node.name().to_owned(), node)].into());
        snapshot.workloads.extend(Workload::read(objects[2].clone(), "apps/v1"));
        snapshot.pps.extend(Pps::read(objects[3].clone()));
        snapshot.sort();
                let world = World { snapshot };
        let answers = [
            world.status(None).map(|answer| answer.text(&world, STYLE, false)),
            world.explain(&pod, &[]).map(|answer| answer.text(STYLE)),
        ];
        let texts = answers.into_iter().flatten();
        for text in texts {
            prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}'), "{:?}", text);
            for line in text.lines().filter(|line| !line.contains("kubectl ")) {
                prop_assert!(line.chars().count() <= 80, "{:?}", line);
            }
        }
    }
}
