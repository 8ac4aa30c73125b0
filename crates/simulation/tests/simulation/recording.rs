//! What is recorded, for how long, and what is injected.

use pps_simulation::{EventKind, Phase};
use serde_json::{Value, json};

use crate::worlds::{
    HOSTNAME, ZONE, last, node, nodes, object, places, play, pod, pps, reason, required,
    stateful_set, texts, with,
};

fn world(spec: Value) -> Vec<Value> {
    let mut objects = nodes(6);
    objects.push(stateful_set("db", 3));
    objects.push(pps("db", spec));
    objects
}

#[test]
fn a_deleted_pod_returns_to_where_it_was_recorded() {
    let result = play(
        world(required(HOSTNAME)),
        json!([{"do": "rollOut"}, {"do": "deletePod", "pod": "db-1"}]),
    );
    assert_eq!(places(&result.steps[1]), places(last(&result)));
    let before = pod(&result.steps[1], "db-1");
    assert!(!before.injected && before.came_home.is_none() && before.previous_node.is_none());
    let after = pod(last(&result), "db-1");
    assert!(after.injected);
    assert_eq!(
        (after.came_home, &after.previous_node),
        (Some(true), &before.node)
    );
    assert_eq!(after.recorded_before.as_ref().unwrap().node_name, "n3");
    assert_eq!(after.may_land_on, ["n3"]);
    let manifest = after.manifest.as_ref().unwrap();
    let affinity = &manifest.after["spec"]["affinity"]["nodeAffinity"];
    let terms = &affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    assert_eq!(
        terms[0]["matchExpressions"],
        json!([{"key": HOSTNAME, "operator": "In", "values": ["n3"]}])
    );
    assert_eq!(manifest.before["spec"]["affinity"], Value::Null);
    assert_eq!(
        texts(last(&result), &[EventKind::Injected]),
        ["Pod/db-1 gets what PersistentPodState db has recorded, injected by the policy"]
    );
    assert_eq!(reason(object(last(&result), "db")), "AllRecorded");
}

/// A drain moves a Pod away from its preferred node; with a home, it comes back.
#[test]
fn a_pod_goes_home_only_where_its_first_place_stays_recorded() {
    let actions = json!([
        {"do": "rollOut"}, {"do": "drain", "node": "n3"}, {"do": "uncordon", "node": "n3"},
        {"do": "deletePod", "pod": "db-1"},
    ]);
    let term = json!([{"weight": 100, "preference": {"nodeTopologyKeys": [HOSTNAME]}}]);
    for (policy, is_home) in [("Always", false), ("IfNotPresent", true)] {
        let spec = json!({"preferredPersistentTopology": term, "recordingPolicy": policy});
        let result = play(world(spec), actions.clone());
        assert_eq!(pod(&result.steps[1], "db-1").node.as_deref(), Some("n3"));
        assert_ne!(pod(&result.steps[2], "db-1").node.as_deref(), Some("n3"));
        assert_eq!(
            pod(last(&result), "db-1").node.as_deref() == Some("n3"),
            is_home,
            "{policy}"
        );
    }
}

#[test]
fn only_the_last_step_has_all_details() {
    let result = play(
        world(required(ZONE)),
        json!([{"do": "rollOut"}, {"do": "deletePod", "pod": "db-1"}]),
    );
    let details = |step: usize| {
        let pod = pod(&result.steps[step], "db-1");
        (
            pod.scheduler.len(),
            pod.manifest.is_some(),
            object(&result.steps[step], "db").object.is_some(),
        )
    };
    assert_eq!(details(1), (0, false, false));
    assert_eq!(details(2), (6, true, true));
}

#[test]
fn the_retention_policy_says_how_long_a_state_is_kept() {
    let actions = json!([
        {"do": "rollOut"}, {"do": "scale", "workload": "db", "replicas": 1},
        {"do": "deleteWorkload", "workload": "db"}, {"do": "createWorkload", "workload": "db"},
    ]);
    for (policy, expected) in [
        ("WhenScaled", [3, 1, 0, 1]),
        ("WhenDeleted", [3, 3, 0, 1]),
        ("Retain", [3, 3, 3, 3]),
    ] {
        let spec = with(
            required(HOSTNAME),
            "persistentPodStateRetentionPolicy",
            json!(policy),
        );
        let result = play(world(spec), actions.clone());
        let recorded: Vec<usize> = result.steps[1..]
            .iter()
            .map(|step| object(step, "db").states.len())
            .collect();
        assert_eq!(recorded, expected, "{policy}");
        assert_eq!(
            pod(last(&result), "db-0").came_home,
            (policy == "Retain").then_some(true)
        );
    }
}

#[test]
fn a_dropped_state_is_reported_with_the_reason() {
    let actions = json!([
        {"do": "rollOut"}, {"do": "scale", "workload": "db", "replicas": 2},
        {"do": "deleteWorkload", "workload": "db"},
    ]);
    let result = play(world(required(ZONE)), actions);
    let forgotten = |step: usize| texts(&result.steps[step], &[EventKind::Forgotten]);
    assert_eq!(
        forgotten(2),
        [
            "PersistentPodState/db drops the state of db-2 (persistentPodStateRetentionPolicy: \
             WhenScaled)"
        ]
    );
    assert_eq!(
        forgotten(3)[0],
        "PersistentPodState/db drops the state of db-0 (persistentPodStateRetentionPolicy: \
         WhenScaled)"
    );
}

#[test]
fn many_states_are_stored_in_the_compact_form_and_found_there() {
    let mut objects = nodes(6);
    objects.push(with(
        stateful_set("db", 210),
        "spec.podManagementPolicy",
        json!("Parallel"),
    ));
    objects.push(pps("db", required(HOSTNAME)));
    let result = play(
        objects,
        json!([{"do": "rollOut"}, {"do": "deletePod", "pod": "db-17"}]),
    );
    let status = &object(last(&result), "db").object.as_ref().unwrap()["status"];
    assert!(
        status["packed"]["buckets"]["ordinals-0"].is_string(),
        "{status}"
    );
    assert_eq!(
        (&status["podStates"], &status["recorded"]),
        (&Value::Null, &json!(210))
    );
    assert_eq!(pod(last(&result), "db-17").came_home, Some(true));
}

#[test]
fn a_label_that_a_node_gets_late_is_recorded_late() {
    let bare = with(node("n1", "a"), "metadata.labels", json!({}));
    let objects = vec![bare, stateful_set("db", 1), pps("db", required(ZONE))];
    let label = json!({"do": "labelNode", "node": "n1", "key": ZONE, "value": "z"});
    let result = play(objects, json!([{"do": "rollOut"}, label]));
    assert_eq!(reason(object(&result.steps[1], "db")), "TopologyKeyMissing");
    assert_eq!(reason(object(last(&result), "db")), "AllRecorded");
    assert_eq!(
        object(last(&result), "db").states["db-0"].node_topology_labels[ZONE],
        "z"
    );
}

#[test]
fn a_new_node_keeps_the_recorded_label_until_the_grace_period_ends() {
    let preferred = json!({"preferredPersistentTopology": [{"weight": 1, "preference": {"nodeTopologyKeys": [ZONE]}}]});
    let objects = vec![node("n1", "a"), stateful_set("db", 1), pps("db", preferred)];
    let bare = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    let actions = json!([
        {"do": "rollOut"}, {"do": "loseNode", "node": "n1"}, {"do": "addNode", "object": bare},
        {"do": "endGracePeriod"},
    ]);
    let result = play(objects, actions);
    let has_label = |step: usize| {
        object(&result.steps[step], "db").states["db-0"]
            .node_topology_labels
            .contains_key(ZONE)
    };
    assert_eq!([2, 3, 4].map(has_label), [true, true, false]);
}

#[test]
fn states_of_a_pasted_object_are_used() {
    let states = json!({"db-0": {"nodeName": "n4", "nodeTopologyLabels": {HOSTNAME: "n4"}}});
    let mut pasted = with(
        pps("db", required(HOSTNAME)),
        "status",
        json!({"podStates": states, "targetUID": "old"}),
    );
    pasted["metadata"]["creationTimestamp"] = json!("2024-01-01T00:00:00Z");
    let mut objects = nodes(6);
    objects.extend([stateful_set("db", 1), pasted]);
    let result = play(objects.clone(), json!([{"do": "rollOut"}]));
    assert_eq!(places(last(&result)), ["db-0 n4"]);
    assert_eq!(pod(last(&result), "db-0").came_home, Some(true));

    objects[6]["metadata"]["uid"] = json!("another");
    let result = play(objects, json!([{"do": "rollOut"}]));
    let dropped = "PersistentPodState/db drops the state of db-0 \
                   (persistentPodStateRetentionPolicy: WhenScaled)";
    assert_eq!(texts(last(&result), &[EventKind::Forgotten]), [dropped]);
    assert_eq!(pod(last(&result), "db-0").recorded_before, None);
}

#[test]
fn warnings_of_the_policy_are_shown_on_the_pod() {
    let mut objects = nodes(4);
    objects.push(stateful_set("db", 1));
    objects.push(pps("db", required(ZONE)));
    let pinned = with(
        stateful_set("db", 1),
        "spec.template.spec.nodeSelector",
        json!({ZONE: "b"}),
    );
    let result = play(
        objects,
        json!([{"do": "rollOut"}, {"do": "changeSpec", "object": pinned}]),
    );
    let pod = pod(last(&result), "db-0");
    assert_eq!(pod.phase, Phase::Pending);
    assert!(
        pod.warnings[0].contains("this Pod will stay Pending"),
        "{:?}",
        pod.warnings
    );
    let reasons: Vec<bool> = pod
        .scheduler
        .iter()
        .map(|one| {
            one.exclusions
                .iter()
                .any(pps_scheduler::Exclusion::from_pps)
        })
        .collect();
    assert_eq!(reasons, [false, false, true, true], "{:#?}", pod.scheduler);
}
