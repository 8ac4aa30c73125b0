//! What happens when nodes are cordoned, drained, lost and returned.

use pps_simulation::{EventKind, Phase, Scenario, run};
use serde_json::{Value, json};

use crate::worlds::{
    HOSTNAME, ZONE, last, node, nodes, object, places, play, pod, pps, required, scenario,
    stateful_set, texts, with,
};

fn world(spec: Value) -> Vec<Value> {
    let mut objects = nodes(4);
    objects.push(stateful_set("db", 2));
    objects.push(pps("db", spec));
    objects
}

fn preferred(key: &str) -> Value {
    json!({"preferredPersistentTopology": [{"weight": 100, "preference": {"nodeTopologyKeys": [key]}}]})
}

#[test]
fn a_required_topology_keeps_a_pod_pending_and_a_preferred_one_does_not() {
    let actions = json!([
        {"do": "rollOut"}, {"do": "cordon", "node": "n1"}, {"do": "deletePod", "pod": "db-0"},
        {"do": "uncordon", "node": "n1"},
    ]);
    let result = play(world(required(HOSTNAME)), actions.clone());
    assert_eq!(places(&result.steps[3]), ["db-0 Pending", "db-1 n3"]);
    assert_eq!(pod(&result.steps[3], "db-0").came_home, Some(false));
    assert_eq!(places(last(&result)), ["db-0 n1", "db-1 n3"]);
    assert_eq!(
        texts(last(&result), &[EventKind::Scheduled]),
        ["Pod/db-0 runs on n1 and has the address 10.1.0.2, as recorded"]
    );

    let result = play(world(preferred(HOSTNAME)), actions);
    assert_eq!(places(&result.steps[3]), ["db-0 n2", "db-1 n3"]);
    let text = &texts(&result.steps[3], &[EventKind::Scheduled])[0];
    assert!(
        text.starts_with(
            "Pod/db-0 runs on n2 and has the address 10.3.0.1; its state was recorded on n1"
        ),
        "{text}"
    );
    assert_eq!(
        object(&result.steps[3], "db").states["db-0"].node_name,
        "n2"
    );
}

#[test]
fn a_drained_node_loses_its_pods_one_by_one() {
    let one = with(
        node("n1", "a"),
        "metadata.labels",
        json!({ZONE: "a", "only": "n1"}),
    );
    let objects = vec![one, node("n2", "a"), stateful_set("db", 2)];
    let actions = json!([{"do": "cordon", "node": "n2"}, {"do": "rollOut"}, {"do": "uncordon", "node": "n2"}, {"do": "drain", "node": "n1"}]);
    let result = play(objects, actions);
    assert_eq!(places(&result.steps[2]), ["db-0 n1", "db-1 n1"]);
    assert_eq!(places(last(&result)), ["db-0 n2", "db-1 n2"]);
    let order: Vec<String> = last(&result)
        .events
        .iter()
        .map(|event| format!("{:?} {}", event.kind, event.object))
        .collect();
    assert_eq!(
        order,
        [
            "Changed Node/n1",
            "Deleted Pod/db-0",
            "Scheduled Pod/db-0",
            "Deleted Pod/db-1",
            "Scheduled Pod/db-1"
        ]
    );
    assert!(last(&result).world.nodes[0].cordoned);
}

#[test]
fn a_pod_waits_for_a_lost_node_and_returns_with_it() {
    let actions = json!([
        {"do": "rollOut"}, {"do": "loseNode", "node": "n1"}, {"do": "endGracePeriod"}, {"do": "returnNode", "node": "n1"},
    ]);
    let result = play(world(required(HOSTNAME)), actions);
    for step in [2, 3] {
        assert_eq!(places(&result.steps[step]), ["db-0 Pending", "db-1 n3"]);
        assert!(!result.steps[step].world.nodes[0].exists);
        assert_eq!(
            object(&result.steps[step], "db").states["db-0"].node_name,
            "n1"
        );
    }
    assert_eq!(places(last(&result)), ["db-0 n1", "db-1 n3"]);
}

#[test]
fn a_requirement_with_an_end_gives_up_what_no_node_can_serve() {
    let mut topology = required(HOSTNAME);
    topology["requiredPersistentTopology"]["fallbackAfterSeconds"] = 600.into();
    let actions =
        json!([{"do": "rollOut"}, {"do": "loseNode", "node": "n1"}, {"do": "endFallbackPeriod"}]);
    let scenario = scenario(world(topology), actions);
    let result = run(&Scenario {
        evict_pending_pods: true,
        ..scenario.clone()
    });
    assert_eq!(result.problems, []);
    assert_eq!(places(&result.steps[2]), ["db-0 Pending", "db-1 n3"]);
    let events = texts(last(&result), &[EventKind::Changed, EventKind::Evicted]);
    assert_eq!(
        events,
        [
            "PersistentPodState/db no longer requires n1 of db-0: no node there can take it",
            "Pod/db-0 is evicted: fallbackAfterSeconds is over (FellBack)",
        ]
    );
    assert_eq!(pod(last(&result), "db-0").phase, Phase::Running);
    let result = run(&scenario);
    let warnings = texts(last(&result), &[EventKind::Warning]);
    assert!(
        warnings
            .iter()
            .any(|text| text.contains("--evict-pending-pods (FallbackBlocked)")),
        "{warnings:?}"
    );
    assert_eq!(pod(last(&result), "db-0").phase, Phase::Pending);
}

#[test]
fn forget_drops_the_states_of_a_deleted_node_after_the_grace_period_and_evicts_pods_that_wait_for_it()
 {
    let spec = with(required(HOSTNAME), "nodeDeletionPolicy", json!("Forget"));
    let actions =
        json!([{"do": "rollOut"}, {"do": "loseNode", "node": "n1"}, {"do": "endGracePeriod"}]);
    let result = run(&Scenario {
        evict_pending_pods: true,
        ..scenario(world(spec.clone()), actions)
    });
    assert_eq!(result.problems, []);
    assert_eq!(places(&result.steps[2]), ["db-0 Pending", "db-1 n3"]);
    assert!(
        object(&result.steps[2], "db").states.contains_key("db-0"),
        "the grace period has not ended"
    );
    let kinds = [EventKind::Forgotten, EventKind::Evicted];
    let events = texts(last(&result), &kinds);
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(
        events[0],
        "PersistentPodState/db drops the state of db-0 (node n1 no longer exists; \
         nodeDeletionPolicy: Forget)"
    );
    assert!(
        events[1].starts_with("Pod/db-0 is evicted: it was Pending for a node that does not exist"),
        "{events:?}"
    );
    let moved = pod(last(&result), "db-0");
    assert_eq!(
        (moved.phase, moved.came_home, moved.previous_node.as_deref()),
        (Phase::Running, None, Some("n1"))
    );
    assert_eq!(
        object(last(&result), "db").states["db-0"].node_name,
        moved.node.clone().unwrap()
    );

    let in_time = json!([
        {"do": "rollOut"}, {"do": "loseNode", "node": "n1"}, {"do": "returnNode", "node": "n1"}, {"do": "endGracePeriod"},
    ]);
    let result = play(world(spec), in_time);
    assert_eq!(places(last(&result)), ["db-0 n1", "db-1 n3"]);
    assert_eq!(texts(last(&result), &kinds), [""; 0]);
}

#[test]
fn by_default_a_pod_that_waits_for_a_forgotten_node_stays_pending_until_it_is_deleted() {
    let spec = with(required(HOSTNAME), "nodeDeletionPolicy", json!("Forget"));
    let actions = json!([
        {"do": "rollOut"}, {"do": "loseNode", "node": "n1"}, {"do": "endGracePeriod"}, {"do": "deletePod", "pod": "db-0"},
    ]);
    let result = play(world(spec), actions);
    let ended = &result.steps[3];
    assert_eq!(places(ended), ["db-0 Pending", "db-1 n3"]);
    assert!(!object(ended, "db").states.contains_key("db-0"));
    assert_eq!(texts(ended, &[EventKind::Evicted]), [""; 0]);
    let warnings = texts(ended, &[EventKind::Warning]);
    assert!(
        warnings
            .iter()
            .any(|text| text.starts_with("Pod/db-0 stays Pending")
                && text.contains("--evict-pending-pods")),
        "{warnings:?}"
    );
    assert_eq!(pod(last(&result), "db-0").phase, Phase::Running);
}

#[test]
fn a_lost_zone_takes_all_its_nodes() {
    let actions = json!([{"do": "rollOut"}, {"do": "loseZone", "zone": "a"}]);
    let result = play(world(required(ZONE)), actions);
    assert_eq!(places(last(&result)), ["db-0 Pending", "db-1 n3"]);
    let exist: Vec<bool> = last(&result)
        .world
        .nodes
        .iter()
        .map(|node| node.exists)
        .collect();
    assert_eq!(exist, [false, false, true, true]);
    let verdicts = &pod(last(&result), "db-0").scheduler;
    assert!(
        verdicts.iter().all(|one| one.exclusions[0].from_pps()),
        "{verdicts:#?}"
    );
}

#[test]
fn a_no_execute_taint_evicts_the_pods_that_do_not_tolerate_it() {
    let taint = |key: &str| {
        with(
            node("n1", "a"),
            "spec.taints",
            json!([{"key": key, "effect": "NoExecute"}]),
        )
    };
    let tolerating = |name: &str, toleration: Value| {
        let tolerations = json!([toleration]);
        with(
            stateful_set(name, 1),
            "spec.template.spec.tolerations",
            tolerations,
        )
    };
    let objects = vec![
        node("n1", "a"),
        stateful_set("db", 1),
        tolerating("stays", json!({"key": "k", "operator": "Exists"})),
        tolerating(
            "soon",
            json!({"key": "k", "operator": "Exists", "tolerationSeconds": 60}),
        ),
        tolerating(
            "never",
            json!({"key": "k", "operator": "Exists", "tolerationSeconds": 0}),
        ),
    ];
    let change = |object: Value| json!([{"do": "rollOut"}, {"do": "changeSpec", "object": object}]);
    let result = play(objects.clone(), change(taint("k")));
    assert_eq!(
        places(last(&result)),
        ["db-0 Pending", "never-0 n1", "soon-0 n1", "stays-0 n1"]
    );
    let evicted = texts(last(&result), &[EventKind::Deleted]);
    assert_eq!(
        evicted,
        ["db", "never"].map(|pod| format!(
            "Pod/{pod}-0 is evicted: it does not tolerate the taint k:NoExecute of n1"
        ))
    );

    let result = play(objects, change(taint("node.kubernetes.io/not-ready")));
    assert_eq!(texts(last(&result), &[EventKind::Deleted]), [""; 0]);
}

#[test]
fn without_pps_a_pod_runs_anywhere() {
    let actions = json!([{"do": "rollOut"}, {"do": "loseNode", "node": "n1"}]);
    let mut objects = world(required(HOSTNAME));
    objects.pop();
    let result = play(objects, actions);
    let pod = pod(last(&result), "db-0");
    assert_eq!(
        (pod.phase, pod.previous_node.as_deref()),
        (Phase::Running, Some("n1"))
    );
    let text = &texts(last(&result), &[EventKind::Scheduled])[0];
    assert!(text.contains("; it ran on n1 before"), "{text}");
}

#[test]
fn the_observed_choice_of_a_real_scheduler_counts_where_it_is_possible() {
    let mut scenario =
        crate::worlds::scenario(world(required(HOSTNAME)), json!([{"do": "rollOut"}]));
    for (node, expected) in [("n2", "db-0 n2"), ("n9", "db-0 n1")] {
        scenario.observed = vec![[("db-0".to_owned(), node.to_owned())].into()];
        assert_eq!(places(last(&pps_simulation::run(&scenario)))[0], expected);
    }
}

#[test]
fn a_label_that_the_api_server_refuses_is_no_label() {
    for (key, value) in [
        ("k", "z9!!"),
        ("k", "-z"),
        ("a b", "v"),
        ("A/k", "v"),
        ("a/", "v"),
        ("", "v"),
        ("a/b/c", "v"),
    ] {
        let label = json!({"do": "labelNode", "node": "n1", "key": key, "value": value});
        let result = run(&scenario(nodes(1), json!([label])));
        assert_eq!(result.problems.len(), 1, "{key}={value}");
        assert!(
            result.problems[0].message.contains("is no label"),
            "{:?}",
            result.problems
        );
    }
    let labels = [("example.com/rack", "r-1_a.b"), ("k", "")];
    let labels = labels
        .map(|(key, value)| json!({"do": "labelNode", "node": "n1", "key": key, "value": value}));
    play(nodes(1), json!(labels));
}
