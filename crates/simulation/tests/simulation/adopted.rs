//! Scenarios of clusters in which Pods run already.

use std::collections::BTreeMap;

use pps_core::{INJECTED_ANNOTATION, RECORD_ANNOTATION};
use pps_simulation::{
    EventKind, Limits, Phase, RunResult, Scenario, Severity, Step, run, run_live,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::properties::{any_action, spec, world};
use crate::worlds::{
    HOSTNAME, ZONE, last, node, nodes, object, places, play, pod, pps, required, scenario,
    stateful_set, texts, with,
};

/// A Pod that runs, of the StatefulSet `db`.
fn running(name: &str, on: &str) -> Value {
    let number = name.rsplit('-').next().unwrap();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": {"app": "db"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "uid-db", "controller": true,
            }],
        },
        "spec": {"nodeName": on, "containers": [{"name": "main", "image": "registry.example.com/db:1"}]},
        "status": {
            "phase": "Running", "podIP": format!("10.9.0.{number}"), "podIPs": [{"ip": format!("10.9.0.{number}")}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn database(replicas: u32) -> Value {
    with(
        stateful_set("db", replicas),
        "metadata.uid",
        json!("uid-db"),
    )
}

fn recorded(pods: &[(&str, &str, &str)]) -> Value {
    let state = |(_, node, zone): &(&str, &str, &str)| json!({"nodeName": node, "nodeTopologyLabels": {ZONE: zone, HOSTNAME: node}});
    let states: BTreeMap<&str, Value> = pods.iter().map(|one| (one.0, state(one))).collect();
    let object = pps("db", required(HOSTNAME));
    with(
        object,
        "status",
        json!({"podStates": states, "targetUID": "uid-db"}),
    )
}

#[test]
fn pods_that_run_already_are_there_from_the_beginning() {
    let mut objects = nodes(4);
    objects.extend([running("db-1", "n4"), running("db-0", "n3"), database(2)]);
    objects.push(recorded(&[("db-0", "n3", "b")]));
    let result = play(objects, json!([{"do": "deletePod", "pod": "db-0"}]));
    let first = &result.steps[0];
    assert_eq!(places(first), ["db-0 n3", "db-1 n4"]);
    assert!(first.world.workloads[0].exists);
    assert_eq!(first.world.workloads[0].ready, 2);
    let before = pod(first, "db-0");
    assert_eq!(
        (before.ip.as_deref(), before.is_adopted, before.came_home),
        (Some("10.9.0.0"), true, None)
    );
    assert_eq!(
        (
            before.recorded_before.as_ref(),
            before.previous_node.as_ref()
        ),
        (None, None)
    );

    // The sidecar has recorded db-1 before anything else, and db-0 returns.
    assert_eq!(places(last(&result)), ["db-0 n3", "db-1 n4"]);
    let after = pod(last(&result), "db-0");
    assert_eq!((after.came_home, after.is_adopted), (Some(true), false));
    assert_eq!(after.previous_node.as_deref(), Some("n3"));
    assert_eq!(pod(last(&result), "db-1").ip.as_deref(), Some("10.9.0.1"));
    assert_eq!(object(last(&result), "db").states["db-1"].node_name, "n4");
    let manifest = pod(last(&result), "db-1").manifest.clone().unwrap();
    assert_eq!(manifest.after["metadata"]["uid"], "uid-db-1");
    assert!(manifest.before["spec"]["nodeName"].is_null());
}

/// Not those of the first object by name, which is being deleted.
#[test]
fn a_workload_without_a_uid_is_the_one_that_the_governing_states_were_recorded_for() {
    let mut ending = with(
        recorded(&[("db-0", "n1", "a")]),
        "metadata.name",
        json!("a"),
    );
    ending["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z".into();
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    ending["status"]["targetUID"] = "uid-former".into();
    let former = with(stateful_set("db", 1), "metadata.uid", json!("uid-former"));
    for (workload, place) in [(stateful_set("db", 1), "db-0 n4"), (former, "db-0 n1")] {
        let mut objects = nodes(4);
        objects.extend([ending.clone(), workload, recorded(&[("db-0", "n4", "b")])]);
        let result = run(&scenario(objects, json!([{"do": "rollOut"}])));
        assert_eq!(places(last(&result)), [place], "{:#?}", result.problems);
    }
}

#[test]
fn pods_that_run_already_are_recorded_before_the_first_action() {
    let mut objects = nodes(4);
    objects.extend([
        running("db-0", "n2"),
        database(1),
        pps("db", required(HOSTNAME)),
    ]);
    let result = play(objects, json!([{"do": "deletePod", "pod": "db-0"}]));
    assert_eq!(
        object(&result.steps[0], "db").states["db-0"].node_name,
        "n2"
    );
    assert_eq!(places(last(&result)), ["db-0 n2"]);
}

#[test]
fn a_pod_that_is_exempt_from_recording_leaves_its_state_unchanged() {
    let mut exempt = running("db-0", "n1");
    exempt["metadata"]["annotations"] = json!({RECORD_ANNOTATION: "false"});
    let objects = vec![
        node("n1", "a"),
        node("n2", "a"),
        database(1),
        exempt,
        recorded(&[("db-0", "n2", "a")]),
    ];
    let result = play(
        objects,
        json!([{"do": "rollOut"}, {"do": "deletePod", "pod": "db-0"}]),
    );
    assert_eq!(
        object(&result.steps[1], "db").states["db-0"].node_name,
        "n2"
    );
    assert_eq!(places(&result.steps[1]), ["db-0 n1"]);
    assert_eq!(places(last(&result)), ["db-0 n2"]);
}

#[test]
fn a_pod_without_a_node_is_tried_again_and_one_that_is_not_ready_stays_so() {
    let waiting = with(running("db-0", ""), "status", json!({"phase": "Pending"}));
    let starting = with(running("db-1", "n2"), "status", json!({"phase": "Running"}));
    let parallel = with(database(2), "spec.podManagementPolicy", json!("Parallel"));
    let objects = vec![
        node("n1", "a"),
        node("n2", "a"),
        parallel,
        waiting,
        starting,
    ];
    let result = play(objects, json!([{"do": "rollOut"}]));
    assert_eq!(places(&result.steps[0]), ["db-0 Pending", "db-1 Pending"]);
    assert_eq!(places(last(&result)), ["db-0 n1", "db-1 Pending"]);
    assert_eq!(pod(last(&result), "db-1").node.as_deref(), Some("n2"));
    assert!(pod(last(&result), "db-0").is_adopted, "it is the same Pod");
}

#[test]
fn a_pending_pod_says_which_of_its_requirements_the_policy_injected() {
    let terms =
        json!([{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["n9"]}]}]);
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    let mut waiting = with(running("db-0", ""), "spec.affinity", affinity);
    waiting["metadata"]["annotations"] = json!({INJECTED_ANNOTATION: "db"});
    waiting["status"] = json!({});
    let objects = vec![
        node("n1", "a"),
        database(1),
        waiting,
        recorded(&[("db-0", "n9", "a")]),
    ];
    let result = play(objects, json!([{"do": "rollOut"}]));
    let pod = pod(last(&result), "db-0");
    assert!(
        pod.injected && pod.scheduler[0].exclusions[0].from_pps(),
        "{:?}",
        pod.scheduler
    );
    assert_eq!(
        texts(last(&result), &[EventKind::Pending]),
        ["Pod/db-0 stays Pending: no node can take it"]
    );
}

#[test]
fn pods_that_end_are_gone_and_their_successors_return() {
    let ends = [
        ("metadata.deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        ("status.phase", json!("Failed")),
        ("spec.nodeName", json!("n9")),
    ];
    for (path, value) in ends {
        let ending = with(running("db-0", "n2"), path, value);
        let mut objects = nodes(4);
        objects.extend([database(1), ending, recorded(&[("db-0", "n2", "a")])]);
        let result = play(objects, json!([{"do": "rollOut"}]));
        assert_eq!(places(&result.steps[0]), ["db-0 NotCreated"], "{path}");
        assert_eq!(
            texts(&result.steps[0], &[EventKind::Deleted]).len(),
            1,
            "{path}"
        );
        assert_eq!(places(last(&result)), ["db-0 n2"], "{path}");
    }
}

#[test]
fn pods_of_another_workload_only_take_room() {
    let stranger = |path: &str, value: Value| {
        let mut pod = running("db-0", "n1");
        pod["metadata"]["ownerReferences"][0][path] = value;
        pod
    };
    for foreign in [
        stranger("uid", json!("another")),
        stranger("kind", json!("ReplicaSet")),
        stranger("apiVersion", json!("apps.kruise.io/v1beta1")),
        stranger("controller", json!(false)),
        stranger("name", json!("web")),
    ] {
        let full = with(node("n1", "a"), "status.allocatable.pods", json!("1"));
        let objects = vec![full, database(1), stateful_set("cache", 1), foreign];
        let result = run(&scenario(objects, json!([{"do": "rollOut"}])));
        assert_eq!(result.problems, []);
        assert_eq!(places(last(&result)), ["cache-0 Pending", "db-0 Refused"]);
    }
}

#[test]
fn a_live_cluster_has_pods_of_other_namespaces_and_workloads_without_pods() {
    let room = |node: Value| with(node, "status.allocatable.pods", json!("1"));
    let mut elsewhere = running("web-0", "n1");
    elsewhere["metadata"]["namespace"] = json!("other");
    let objects = vec![
        room(node("n1", "a")),
        room(node("n2", "a")),
        elsewhere,
        database(1),
    ];
    let live = Scenario {
        live: true,
        namespace: "default".into(),
        ..scenario(objects, json!([{"do": "drain", "node": "n1"}]))
    };
    let result = run(&live);
    assert_eq!(result.problems, []);
    assert!(result.steps[0].world.workloads[0].exists);
    assert_eq!(places(last(&result)), ["db-0 n2"]);
}

#[test]
fn pods_of_daemon_sets_stay_on_a_drained_node() {
    let mut daemon = running("agent-x", "n1");
    daemon["metadata"]["ownerReferences"][0]["kind"] = json!("DaemonSet");
    let full = with(node("n1", "a"), "status.allocatable.pods", json!("1"));
    let actions = json!([
        {"do": "drain", "node": "n1"}, {"do": "uncordon", "node": "n1"}, {"do": "rollOut"},
        {"do": "loseNode", "node": "n1"}, {"do": "returnNode", "node": "n1"},
    ]);
    let result = play(vec![full, daemon, stateful_set("db", 1)], actions);
    assert_eq!(places(&result.steps[3]), ["db-0 Pending"]);
    assert_eq!(places(last(&result)), ["db-0 n1"]);
}

/// The objects of a cluster as a step leaves it.
fn live_objects(step: &Step, workloads: &[Value], nodes: &[Value]) -> Vec<Value> {
    let mut objects = nodes.to_vec();
    objects.extend(workloads.iter().cloned());
    for view in &step.world.pods {
        let Some(manifest) = &view.manifest else {
            continue;
        };
        let mut pod = manifest.after.clone();
        if view.phase == Phase::Running {
            pod["spec"]["nodeName"] = json!(view.node);
            pod["status"] =
                json!({"podIP": view.ip, "conditions": [{"type": "Ready", "status": "True"}]});
        }
        objects.push(pod);
    }
    objects.extend(step.world.pps.iter().filter_map(|pps| pps.object.clone()));
    objects
}

/// Where the Pods are and their recorded states, without addresses.
fn picture(result: &RunResult) -> Value {
    let world = &last(result).world;
    let pods: Vec<Value> = world
        .pods
        .iter()
        .map(|pod| json!([pod.name, pod.node, pod.phase, pod.injected]))
        .collect();
    let states = world.pps.iter().flat_map(|pps| &pps.states);
    let states: Vec<Value> = states
        .map(|(pod, state)| json!([pod, state.node_name, state.node_topology_labels]))
        .collect();
    json!([pods, states, world.workloads])
}

fn without_address(mut spec: Value) -> Value {
    // An address is in the world's memory of the network plugin, which is not in its objects.
    spec["persistentPodAnnotations"] = json!([]);
    spec
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_cluster_that_runs_goes_on_as_one_that_was_simulated_from_its_beginning(
        spec in spec(), parallel: bool, actions in vec(any_action(), 0..8)
    ) {
        let objects = world(without_address(spec), parallel, 3);
        let from_the_beginning = {
            let mut all = vec![json!({"do": "rollOut"})];
            all.extend(actions.iter().cloned());
            run(&scenario(objects.clone(), all.into()))
        };
        let rolled_out = run(&scenario(objects.clone(), json!([{"do": "rollOut"}])));
        let live = live_objects(last(&rolled_out), &objects[6..7], &objects[..6]);
        let mut again = vec![json!({"do": "rollOut"})];
        again.extend(actions);
        let adopted = run(&Scenario { live: true, ..scenario(live, again.into()) });
        let errors = |result: &RunResult| result.problems.iter().filter(|one| one.severity == Severity::Error).count();
        prop_assert_eq!(errors(&from_the_beginning), errors(&adopted));
        prop_assert_eq!(picture(&from_the_beginning), picture(&adopted));
    }

    #[test]
    fn pods_that_nothing_touches_stay_where_they_are(spec in spec(), parallel: bool, pod in 0..3_usize) {
        let objects = world(spec, parallel, 3);
        let rolled_out = run(&scenario(objects.clone(), json!([{"do": "rollOut"}])));
        let live = live_objects(last(&rolled_out), &objects[6..7], &objects[..6]);
        let touched = format!("db-{pod}");
        let actions = json!([{"do": "rollOut"}, {"do": "deletePod", "pod": touched}]);
        let adopted = run(&Scenario { live: true, ..scenario(live, actions) });
        for (before, after) in last(&rolled_out).world.pods.iter().zip(&last(&adopted).world.pods) {
            let is_touched = before.name == touched;
            prop_assert!(is_touched || (&before.node, &before.ip) == (&after.node, &after.ip));
            prop_assert_eq!(after.is_adopted, !is_touched);
        }
    }

    #[test]
    fn within_the_limits_of_a_cluster_the_end_is_the_same(spec in spec(), parallel: bool, actions in vec(any_action(), 0..8)) {
        let mut all = vec![json!({"do": "rollOut"})];
        all.extend(actions);
        let scenario = scenario(world(spec, parallel, 4), all.into());
        let (page, cluster) = (run(&scenario), run_live(&scenario, &[], &Limits::CLUSTER));
        prop_assert_eq!(picture(&page), picture(&cluster));
        let events = |result: &RunResult| result.steps.iter().map(|step| step.events.clone()).collect::<Vec<_>>();
        prop_assert_eq!(events(&page), events(&cluster));
        let empty = &cluster.steps[..cluster.steps.len() - 1];
        prop_assert!(empty.iter().all(|step| step.world.nodes.is_empty()));
        for (one, other) in last(&page).world.pods.iter().zip(&last(&cluster).world.pods) {
            prop_assert_eq!(&one.may_land_on, &other.may_land_on);
            prop_assert!(one.node.is_some() || one.scheduler == other.scheduler);
        }
    }
}
