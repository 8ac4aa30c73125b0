//! What holds in every simulated cluster.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::INJECTED_ANNOTATION;
use pps_simulation::{Phase, RunResult, Scenario, run};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use crate::worlds::{
    HOSTNAME, ZONE, last, node, nodes, pps, required, scenario, stateful_set, with,
};

const NODES: [&str; 6] = ["n1", "n2", "n3", "n4", "n5", "n6"];
const PODS_PER_NODE: usize = 2;
const PODS: [&str; 5] = ["db-0", "db-1", "db-2", "db-3", "db-9"];

/// Actions that neither scale nor delete a workload, and delete no node.
fn gentle_action() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => select(&PODS[..]).prop_map(|pod| json!({"do": "deletePod", "pod": pod})),
        2 => select(&NODES[..]).prop_map(|node| json!({"do": "cordon", "node": node})),
        2 => select(&NODES[..]).prop_map(|node| json!({"do": "uncordon", "node": node})),
        2 => select(&NODES[..]).prop_map(|node| json!({"do": "drain", "node": node})),
        1 => Just(json!({"do": "rollingUpdate", "workload": "db"})),
    ]
}

pub(crate) fn any_action() -> impl Strategy<Value = Value> {
    let label = |(node, key, value): (&str, &str, Option<&str>)| json!({"do": "labelNode", "node": node, "key": key, "value": value});
    let keys = [ZONE, HOSTNAME, "rack"];
    let values = [None, Some("a"), Some("b"), Some("n1")];
    prop_oneof![
        6 => gentle_action(),
        2 => select(&PODS[..]).prop_map(|pod| json!({"do": "movePod", "pod": pod})),
        2 => select(&NODES[..]).prop_map(|node| json!({"do": "loseNode", "node": node})),
        2 => select(&NODES[..]).prop_map(|node| json!({"do": "returnNode", "node": node})),
        1 => select(&["a", "b", "c"][..]).prop_map(|zone| json!({"do": "loseZone", "zone": zone})),
        1 => (select(&NODES[..]), select(keys.to_vec()), select(values.to_vec())).prop_map(label),
        2 => (0..5_u32).prop_map(|replicas| json!({"do": "scale", "workload": "db", "replicas": replicas})),
        1 => Just(json!({"do": "deleteWorkload", "workload": "db"})),
        1 => Just(json!({"do": "createWorkload", "workload": "db"})),
        1 => Just(json!({"do": "endGracePeriod"})),
        1 => (7..9).prop_map(|number| json!({"do": "addNode", "object": node(&format!("n{number}"), "a")})),
    ]
}

fn with_roll_out(actions: Vec<Value>) -> Value {
    let mut all = vec![json!({"do": "rollOut"})];
    all.extend(actions);
    all.into()
}

pub(crate) fn spec() -> impl Strategy<Value = Value> {
    let keys = [
        json!([ZONE]),
        json!([HOSTNAME]),
        json!([ZONE, HOSTNAME]),
        json!(["rack"]),
    ];
    let retention = [
        Value::Null,
        json!("WhenScaled"),
        json!("WhenDeleted"),
        json!("Retain"),
    ];
    (select(keys.to_vec()), select(keys.to_vec()), select(retention.to_vec()), any::<bool>(), any::<bool>()).prop_map(
        |(required, preferred, retention, forgets, has_address)| {
            json!({
                "requiredPersistentTopology": {"nodeTopologyKeys": required},
                "preferredPersistentTopology": [{"weight": 100, "preference": {"nodeTopologyKeys": preferred}}],
                "persistentPodAnnotations": if has_address { json!([{"key": "ovn.kubernetes.io/ip_address"}]) } else { json!([]) },
                "persistentPodStateRetentionPolicy": retention,
                "nodeDeletionPolicy": if forgets { "Forget" } else { "Keep" },
            })
        },
    )
}

pub(crate) fn world(spec: Value, parallel: bool, replicas: u32) -> Vec<Value> {
    let policy = if parallel { "Parallel" } else { "OrderedReady" };
    let with_room = |node| {
        with(
            node,
            "status.allocatable.pods",
            PODS_PER_NODE.to_string().into(),
        )
    };
    let mut objects: Vec<Value> = nodes(6).into_iter().map(with_room).collect();
    objects.push(with(
        stateful_set("db", replicas),
        "spec.podManagementPolicy",
        policy.into(),
    ));
    objects.push(pps("db", spec));
    objects
}

/// What holds after each step.
fn check(result: &RunResult) {
    for step in &result.steps {
        let world = &step.world;
        let nodes: BTreeMap<&str, _> = world
            .nodes
            .iter()
            .map(|node| (node.name.as_str(), node))
            .collect();
        let mut addresses = BTreeSet::new();
        for pod in &world.pods {
            let placed = pod.node.as_deref().map(|name| nodes[name]);
            assert!(
                placed.is_none_or(|node| node.exists),
                "{pod:?} is on a node that does not exist"
            );
            assert_eq!(pod.phase == Phase::Running, pod.ip.is_some(), "{pod:?}");
            assert!(
                pod.ip.iter().all(|ip| addresses.insert(ip.clone())),
                "{pod:?} has another Pod's address"
            );
            assert!(
                pod.phase != Phase::Running || pod.may_land_on.contains(pod.node.as_ref().unwrap())
            );
            assert!(pod.came_home != Some(true) || pod.phase == Phase::Running);
        }
        for workload in &world.workloads {
            let running = world
                .pods
                .iter()
                .filter(|pod| pod.phase == Phase::Running)
                .count();
            assert_eq!(workload.ready as usize, running);
        }
        for event in &step.events {
            assert!(
                !event.text.is_empty() && event.object.contains('/'),
                "{event:?}"
            );
        }
    }
}

/// No node of [`world`] has more Pods than it takes.
fn check_room(result: &RunResult) {
    for (step, node) in result
        .steps
        .iter()
        .flat_map(|step| NODES.map(|node| (step, node)))
    {
        let on_it = step
            .world
            .pods
            .iter()
            .filter(|pod| pod.node.as_deref() == Some(node))
            .count();
        assert!(on_it <= PODS_PER_NODE, "{node} is too full");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_scenario_has_the_same_result(spec in spec(), parallel: bool, actions in vec(any_action(), 0..12)) {
        let scenario = scenario(world(spec, parallel, 3), with_roll_out(actions));
        let result = run(&scenario);
        check(&result);
        check_room(&result);
        prop_assert_eq!(serde_json::to_string(&result).unwrap(), serde_json::to_string(&run(&scenario)).unwrap());
    }

    #[test]
    fn a_pod_with_a_required_host_name_is_on_its_node_or_waits_for_it(
        parallel: bool, actions in vec(gentle_action(), 0..12)
    ) {
        let result = run(&scenario(world(required(HOSTNAME), parallel, 4), with_roll_out(actions)));
        check(&result);
        let mut homes: BTreeMap<String, String> = BTreeMap::new();
        for step in &result.steps {
            for pod in &step.world.pods {
                if let Some(node) = &pod.node {
                    let home = homes.entry(pod.name.clone()).or_insert_with(|| node.clone());
                    prop_assert_eq!(home, node);
                } else {
                    prop_assert!(matches!(pod.phase, Phase::Pending | Phase::NotCreated));
                }
            }
        }
    }

    #[test]
    fn deleting_pods_and_draining_nodes_loses_no_state(
        spec in spec(), parallel: bool, actions in vec(gentle_action(), 0..12)
    ) {
        let result = run(&scenario(world(spec, parallel, 4), with_roll_out(actions)));
        for steps in result.steps.windows(2) {
            let [before, after] = [&steps[0], &steps[1]].map(|step| &step.world.pps[0].states);
            prop_assert!(before.keys().all(|pod| after.contains_key(pod)));
        }
    }

    #[test]
    fn retained_states_are_lost_with_their_node_only(actions in vec(any_action(), 0..12)) {
        let spec = with(required(ZONE), "persistentPodStateRetentionPolicy", json!("Retain"));
        let result = run(&scenario(world(spec, true, 4), with_roll_out(actions)));
        for steps in result.steps.windows(2) {
            let [before, after] = [&steps[0], &steps[1]].map(|step| &step.world.pps[0].states);
            prop_assert!(before.keys().all(|pod| after.contains_key(pod)));
        }
    }

    #[test]
    fn without_pps_nothing_is_injected(spec in spec(), parallel: bool, actions in vec(any_action(), 0..12)) {
        let mut objects = world(spec, parallel, 3);
        let state = json!({"nodeName": "n2", "nodeTopologyLabels": {ZONE: "a", HOSTNAME: "n2"}});
        let last_object = objects.last_mut().unwrap();
        last_object["status"] = json!({"podStates": {"db-0": state, "db-1": state, "db-2": state}});
        let actions = with_roll_out(actions);
        let without_policy = Scenario { with_pps: false, ..scenario(objects.clone(), actions.clone()) };
        objects.pop();
        for scenario in [without_policy, scenario(objects, actions)] {
            let result = run(&scenario);
            check(&result);
            for pod in result.steps.iter().flat_map(|step| &step.world.pods) {
                prop_assert!(!pod.injected && pod.recorded_before.is_none() && pod.came_home.is_none());
            }
            prop_assert!(!serde_json::to_string(&last(&result).world.pods).unwrap().contains(INJECTED_ANNOTATION));
            prop_assert!(last(&result).world.pps.iter().all(|pps| pps.states.len() == 3 && pps.conditions.is_empty()));
        }
    }

    #[test]
    fn a_damaged_object_never_causes_a_panic(
        spec in spec(), damages in vec((any::<prop::sample::Index>(), damage()), 1..4), actions in vec(any_action(), 0..5)
    ) {
        let mut objects = Value::from(world(spec, true, 3));
        for (place, value) in damages {
            let paths = paths(&objects);
            *objects.pointer_mut(&paths[place.index(paths.len())]).unwrap() = value;
        }
        let objects = objects.as_array().cloned().unwrap_or_default();
        let changes = objects.iter().map(|object| json!({"do": "changeSpec", "object": object}));
        let actions: Vec<Value> = actions.into_iter().chain(changes).collect();
        run(&scenario(objects, with_roll_out(actions)));
    }

    #[test]
    fn random_json_never_causes_a_panic(objects in vec(json_value(), 0..6), settings in json_value()) {
        let actions = objects.iter().flat_map(|object| {
            [json!({"do": "changeSpec", "object": object}), json!({"do": "addNode", "object": object})]
        });
        let actions = with_roll_out(actions.collect());
        run(&Scenario { settings, ..scenario(objects, actions) });
    }
}

/// Each field of a small cluster is replaced by each of these values, one at a time.
#[test]
fn no_single_damage_causes_a_panic() {
    let any_labels = with(
        stateful_set("db", 2),
        "spec.selector.matchLabels",
        json!({}),
    );
    let annotated = with(
        any_labels,
        "metadata.annotations",
        json!({"kruise.io/auto-generate-persistent-pod-state": "true"}),
    );
    let objects = json!([node("n1", "a"), annotated, pps("db", required(ZONE))]);
    let actions = json!([
        {"do": "rollOut"}, {"do": "rollingUpdate", "workload": "db"}, {"do": "scale", "workload": "db", "replicas": 3},
        {"do": "drain", "node": "n1"}, {"do": "uncordon", "node": "n1"}, {"do": "labelNode", "node": "n1", "key": "k", "value": "v"},
        {"do": "loseNode", "node": "n1"}, {"do": "endGracePeriod"}, {"do": "returnNode", "node": "n1"},
        {"do": "deleteWorkload", "workload": "db"},
    ]);
    let mut running = 0;
    for (index, path) in paths(&objects).into_iter().enumerate() {
        // Half of the values at each place, and each value at every other place.
        for value in damages().into_iter().skip(index % 2).step_by(2) {
            let mut objects = objects.clone();
            *objects.pointer_mut(&path).unwrap() = value;
            let result = run(&scenario(
                objects.as_array().cloned().unwrap(),
                actions.clone(),
            ));
            check(&result);
            running += usize::from(
                result.steps[1]
                    .world
                    .pods
                    .iter()
                    .any(|pod| pod.phase == Phase::Running),
            );
        }
    }
    assert!(
        running > 100,
        "in only {running} of the damaged clusters a Pod runs"
    );
}

fn damage() -> impl Strategy<Value = Value> {
    select(damages())
}

fn damages() -> Vec<Value> {
    vec![
        json!(null),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(""),
        json!("x"),
        json!("a/b/c"),
        json!(true),
        json!([]),
        json!([null]),
        json!({}),
        json!({"a": {}}),
        json!([[{"key": 7}]]),
        json!("é".repeat(300)),
        json!("apps.kruise.io/v1alpha1"),
        json!("PersistentPodState"),
        json!("StatefulSet"),
        json!("List"),
        json!("db"),
    ]
}

/// The JSON pointers of all values in a value.
fn paths(value: &Value) -> Vec<String> {
    let below: Vec<(String, &Value)> = match value {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| (index.to_string(), item))
            .collect(),
        Value::Object(fields) => {
            let escape = |key: &String| key.replace('~', "~0").replace('/', "~1");
            fields
                .iter()
                .map(|(key, value)| (escape(key), value))
                .collect()
        }
        _ => Vec::new(),
    };
    let mut all: Vec<String> = below.iter().map(|(key, _)| format!("/{key}")).collect();
    all.extend(below.iter().flat_map(|(key, value)| {
        paths(value)
            .into_iter()
            .map(move |path| format!("/{key}{path}"))
    }));
    all
}

/// Any JSON, with names that count.
fn json_value() -> impl Strategy<Value = Value> {
    let names = [
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "labels",
        "annotations",
        "spec",
        "template",
        "replicas",
        "selector",
        "matchLabels",
        "targetRef",
        "items",
        "status",
        "podStates",
        "packed",
        "ownerReferences",
        "updateStrategy",
    ];
    damage().prop_recursive(4, 40, 6, move |inner| {
        let fields = vec((select(names.to_vec()), inner.clone()), 0..6);
        prop_oneof![
            vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|fields| {
                let fields = fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value));
                Value::from(fields.collect::<Map<_, _>>())
            }),
        ]
    })
}
