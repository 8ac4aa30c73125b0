//! What the condition says, and which of several objects governs a workload.

use super::*;

#[test]
fn oldest_object_governs_the_workload() {
    let mut world = World::with_workload();
    world.object_with(
        "b",
        &json!({"uid": "uid-b", "creationTimestamp": "2026-02-01T00:00:00Z"}),
        &spec("w"),
        &json!({}),
    );
    world.pod("w-0", ready_on("node-1"));
    let status = world.patch("b").unwrap();
    assert_eq!(
        (&status["podStates"], &status["conditions"][0]["reason"]),
        (&Value::Null, &json!("Superseded"))
    );
    world.accept("b");
    world.settle("p");
    world.recorder.apply_pps(Update::Delete(key("p")));
    assert_eq!(world.pod_states("b"), json!({"w-0": state("node-1", "a")}));
}

#[test]
fn object_with_the_workloads_name_governs_it() {
    let mut world = World::with_workload();
    world.object_with(
        "w",
        &json!({"uid": "uid-w", "creationTimestamp": "2026-02-01T00:00:00Z"}),
        &spec("w"),
        &json!({}),
    );
    world.pod("w-0", ready_on("node-1"));
    assert_eq!(world.pod_states("w"), json!({"w-0": state("node-1", "a")}));
    assert_eq!(
        world.patch("p").unwrap()["conditions"][0]["reason"],
        "Superseded"
    );
}

#[test]
fn keeps_states_of_a_kind_that_is_not_watched() {
    let mut world = World::new();
    let mut spec = spec("w");
    spec["targetRef"]["kind"] = "Database".into();
    world.object(
        "p",
        &spec,
        &json!({"targetUID": "x", "podStates": {"w-0": state("node-1", "a")}}),
    );
    let status = world.patch("p").unwrap();
    assert_eq!(
        (&status["podStates"], &status["conditions"][0]["reason"]),
        (&Value::Null, &json!("WorkloadKindNotWatched"))
    );
}

#[test]
fn condition_names_the_node_without_a_topology_key() {
    let mut world = World::with_workload();
    let mut spec = spec("w");
    spec["requiredPersistentTopology"] =
        json!({"nodeTopologyKeys": ["zone", "failure-domain.beta.kubernetes.io/zone"]});
    world.object("q", &spec, &json!({}));
    world.recorder.apply_pps(Update::Delete(key("p")));
    world.pod("w-0", ready_on("node-1"));
    let status = world.patch("q").unwrap();
    let condition = &status["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("TopologyKeyMissing"))
    );
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.contains("node-1") && message.contains("use topology.kubernetes.io/zone"),
        "{message}"
    );
    assert_eq!(
        status["podStates"]["w-0"]["nodeTopologyLabels"],
        json!({"zone": "a"}),
        "the labels that the node has are recorded"
    );
    world.accept("q");
    world.node(
        "node-1",
        &[
            ("zone", "a"),
            ("failure-domain.beta.kubernetes.io/zone", "a"),
        ],
    );
    assert_eq!(world.patch("q").unwrap()["conditions"][0]["status"], "True");
}

#[test]
fn condition_drops_a_missing_key_that_the_spec_no_longer_names() {
    let mut world = World::with_workload();
    let mut missing_labels = spec("w");
    missing_labels["requiredPersistentTopology"] = json!({"nodeTopologyKeys": ["zone", "rack"]});
    let is_reported = |world: &World| {
        let status = &world.tracked("p").observed.status;
        status.header.conditions[0].reason == "TopologyKeyMissing"
    };
    let states = |world: &World| world.status("p");
    world.object("p", &missing_labels, &json!({}));
    world.recorder.apply(Fact::Nodes(Update::Begin(u64::MAX)));
    world.node("node-1", &[("zone", "a")]);
    world.recorder.apply(Fact::Nodes(Update::Done));
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    assert!(is_reported(&world));
    // The entry remains, so whether its Pod is Ready makes no difference.
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
    world.settle("p");
    assert!(is_reported(&world));
    let status = states(&world);
    world.object("p", &spec("w"), &status);
    world.settle("p");
    assert!(!is_reported(&world), "the spec no longer names the key");

    world.object("p", &missing_labels, &status);
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
    assert!(is_reported(&world));
    let mut status = states(&world);
    status["podStates"] = json!({});
    world.object("p", &missing_labels, &status);
    world.settle("p");
    assert!(!is_reported(&world), "another writer removed the entry");
}

#[test]
fn condition_omits_missing_keys_of_unrecorded_pods() {
    let mut world = World::with_workload();
    world.node("node-1", &[]);
    world.pod("w-0", ready_on("node-1"));
    assert_eq!(
        world.patch("p").unwrap()["conditions"][0]["reason"],
        "TopologyKeyMissing"
    );
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
    world
        .recorder
        .on_status_done(&key("p"), "uid-p", StatusOutcome::NotStored);
    assert_eq!(world.patch("p"), None);
}

#[test]
fn reason_says_how_far_recording_has_come() {
    let mut world = World::new();
    world.workload("w", "uid-w", 2, &[]);
    world.object("p", &spec("w"), &json!({}));
    world.pod("w-0", ready_on("node-1"));
    let condition = world.patch("p").unwrap()["conditions"][0].take();
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("True"), &json!("WaitingForPods"))
    );
    world.accept("p");

    world.pod("w-1", ready_on("node-2"));
    let condition = world.patch("p").unwrap()["conditions"][0].take();
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("True"), &json!("AllRecorded"))
    );
    world.accept("p");

    world.workload("w", "uid-w", 3, &[]);
    let status = world.patch("p").unwrap();
    assert_eq!(
        (&status["desired"], &status["conditions"][0]["reason"]),
        (&json!(3), &json!("WaitingForPods"))
    );
}
