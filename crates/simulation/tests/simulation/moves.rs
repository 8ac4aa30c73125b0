//! A user moves a Pod with the plugin.

use pps_simulation::{EventKind, Phase, Scenario, run};
use serde_json::{Value, json};

use crate::worlds::{
    HOSTNAME, ZONE, last, node, object, places, play, pod, pps, required, scenario, stateful_set,
    texts, with,
};

/// Two nodes in zone a, one in zone b, and a Pod on n1.
fn world(spec: Value) -> Vec<Value> {
    vec![
        node("n1", "a"),
        node("n2", "a"),
        node("n3", "b"),
        stateful_set("db", 1),
        pps("db", spec),
    ]
}

fn both() -> Value {
    json!({"requiredPersistentTopology": {"nodeTopologyKeys": [ZONE, HOSTNAME]}})
}

#[test]
fn a_pod_leaves_its_node_and_keeps_its_required_zone_and_its_address() {
    let mut spec = both();
    spec["persistentPodAnnotations"] = json!([{"key": "ovn.kubernetes.io/ip_address"}]);
    let actions = json!([
        {"do": "rollOut"}, {"do": "drain", "node": "n1"}, {"do": "movePod", "pod": "db-0"},
        {"do": "uncordon", "node": "n1"}, {"do": "deletePod", "pod": "db-0"},
    ]);
    let result = play(world(spec), actions);
    let at = |step: usize| places(&result.steps[step]);
    assert_eq!(
        [at(1), at(2), at(3), at(5)].concat(),
        ["db-0 n1", "db-0 Pending", "db-0 n2", "db-0 n2"]
    );
    let [before, after] = [1, 3].map(|step| pod(&result.steps[step], "db-0"));
    assert_eq!((after.came_home, &after.ip), (Some(true), &before.ip));
    let text =
        "PersistentPodState/db no longer says where db-0 ran, and keeps its other recorded values";
    assert_eq!(texts(&result.steps[3], &[EventKind::Changed]), [text]);
    assert_eq!(
        texts(&result.steps[3], &[EventKind::Deleted]),
        ["Pod/db-0 is evicted: a user moves it"]
    );
    assert_eq!(
        object(&result.steps[3], "db").states["db-0"].node_name,
        "n2"
    );
}

#[test]
fn a_move_gives_a_pod_another_home() {
    let term = json!([{"weight": 100, "preference": {"nodeTopologyKeys": [HOSTNAME]}}]);
    let spec = json!({"preferredPersistentTopology": term, "recordingPolicy": "IfNotPresent"});
    let actions = json!([
        {"do": "rollOut"}, {"do": "cordon", "node": "n1"}, {"do": "movePod", "pod": "db-0"},
        {"do": "uncordon", "node": "n1"}, {"do": "deletePod", "pod": "db-0"},
    ]);
    let result = play(world(spec), actions);
    assert_eq!(places(&result.steps[3]), places(last(&result)));
    assert_ne!(places(&result.steps[1]), places(last(&result)));
    // Nothing but the node was recorded, so that nothing is said about it.
    let started = texts(&result.steps[3], &[EventKind::Scheduled]);
    assert!(started[0].ends_with("; it ran on n1 before"), "{started:?}");
}

#[test]
fn a_pod_stays_where_no_node_has_what_it_keeps() {
    let actions = json!([
        {"do": "rollOut"}, {"do": "cordon", "node": "n1"}, {"do": "loseNode", "node": "n2"},
        {"do": "movePod", "pod": "db-0"},
    ]);
    let result = run(&scenario(world(both()), actions.clone()));
    let refused = "db-0 is not moved: no node can take it with its other recorded values";
    assert_eq!(
        result
            .problems
            .iter()
            .map(|one| one.message.as_str())
            .collect::<Vec<_>>(),
        [refused]
    );
    assert_eq!(
        (places(last(&result)), last(&result).events.len()),
        (vec!["db-0 n1".to_owned()], 0)
    );
    assert_eq!(object(last(&result), "db").states["db-0"].node_name, "n1");
    // The zone is not required here.
    assert_eq!(
        places(last(&play(world(required(HOSTNAME)), actions))),
        ["db-0 n3"]
    );
}

/// The Pod itself takes no room from its successor.
#[test]
fn a_pod_may_start_on_its_node_again() {
    let full = with(node("n1", "a"), "status.allocatable.pods", json!("1"));
    let objects = vec![full, stateful_set("db", 1), pps("db", both())];
    let result = play(
        objects,
        json!([{"do": "rollOut"}, {"do": "movePod", "pod": "db-0"}]),
    );
    assert_eq!(places(last(&result)), ["db-0 n1"]);
    assert_eq!(texts(last(&result), &[EventKind::Deleted]).len(), 1);
}

#[test]
fn a_budget_prevents_the_move_of_a_pod_that_runs() {
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "db"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}}});
    let mut objects = world(both());
    objects.push(budget);
    let moved = json!({"do": "movePod", "pod": "db-0"});
    let result = run(&scenario(
        objects.clone(),
        json!([{"do": "rollOut"}, moved]),
    ));
    let problem = &result.problems[0].message;
    assert!(
        problem.starts_with("db-0 is not moved: PodDisruptionBudget db needs 1"),
        "{problem}"
    );
    let actions = json!([
        {"do": "rollOut"}, {"do": "cordon", "node": "n1"}, {"do": "deletePod", "pod": "db-0"}, moved,
    ]);
    assert_eq!(places(last(&play(objects, actions))), ["db-0 n2"]);
}

#[test]
fn a_pod_that_nothing_keeps_on_its_node_is_not_moved() {
    let actions = json!([{"do": "rollOut"}, {"do": "movePod", "pod": "db-0"}, {"do": "movePod", "pod": "db-7"}]);
    let bare = scenario(vec![node("n1", "a"), stateful_set("db", 1)], actions);
    let messages = |scenario: &Scenario| {
        run(scenario)
            .problems
            .into_iter()
            .map(|one| one.message)
            .collect::<Vec<_>>()
    };
    let unknown = "there is no Pod db-7: use db-0";
    assert_eq!(
        messages(&bare),
        [
            "db-0 is not moved: no PersistentPodState names StatefulSet/db",
            unknown
        ]
    );
    let without = Scenario {
        with_pps: false,
        ..bare
    };
    assert_eq!(messages(&without), [unknown]);
    assert!(run(&without).steps[2].events.is_empty());
}

#[test]
fn a_state_in_the_compact_form_is_freed_as_well() {
    let mut objects = world(both());
    objects[3] = with(
        stateful_set("db", 210),
        "spec.podManagementPolicy",
        json!("Parallel"),
    );
    let wide = |node: Value| with(node, "status.allocatable.pods", json!("250"));
    objects[..3]
        .iter_mut()
        .for_each(|node| *node = wide(node.take()));
    let actions =
        json!([{"do": "rollOut"}, {"do": "drain", "node": "n1"}, {"do": "movePod", "pod": "db-0"}]);
    let result = play(objects, actions);
    assert_eq!(pod(&result.steps[2], "db-0").phase, Phase::Pending);
    assert_eq!(pod(last(&result), "db-0").node.as_deref(), Some("n2"));
    let status = &object(last(&result), "db").object.as_ref().unwrap()["status"];
    assert!(
        status["packed"]["buckets"].is_object() && status["podStates"]["db-0"].is_null(),
        "{status:.300}"
    );
    assert_eq!(object(last(&result), "db").states["db-0"].node_name, "n2");
}
