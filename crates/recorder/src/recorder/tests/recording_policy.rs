//! Homes: states that `recordingPolicy: IfNotPresent` keeps.

use super::*;

fn home(retention: &str, node_deletion: &str) -> Value {
    let mut spec = spec("w");
    spec["recordingPolicy"] = "IfNotPresent".into();
    spec["persistentPodStateRetentionPolicy"] = retention.into();
    spec["nodeDeletionPolicy"] = node_deletion.into();
    spec
}

fn with_address(node: &str, ip: &str) -> PodFact {
    PodFact {
        annotations: vec![("ip".into(), ip.into())],
        ..ready_on(node)
    }
}

/// `w-0` is recorded on node-1, and runs on node-2 with another address.
fn away(retention: &str, node_deletion: &str) -> World {
    let mut world = World::new();
    world.workload("w", "uid-w", 3, &[]);
    world.object("p", &home(retention, node_deletion), &json!({}));
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    world.pod("w-0", with_address("node-2", "10.0.0.2"));
    world
}

#[test]
fn a_state_stays_while_the_pod_runs_elsewhere() {
    let mut world = away("WhenScaled", "Keep");
    assert_eq!(
        world.patch("p"),
        None,
        "neither the place nor the address is replaced"
    );

    // At home again, everything is refreshed.
    world.pod("w-0", with_address("node-1", "10.0.0.3"));
    world.node("node-1", &[("zone", "c"), ("host", "node-1")]);
    assert_eq!(
        world.pod_states("p"),
        json!({"w-0": {"nodeTopologyLabels": {"zone": "c"}, "annotations": {"ip": "10.0.0.3"}}})
    );
}

#[test]
fn the_policy_can_be_changed_at_any_time() {
    let mut world = away("WhenScaled", "Keep");
    world.object("p", &spec("w"), &world.status("p"));
    world.settle("p");
    assert_eq!(world.status("p")["podStates"]["w-0"]["nodeName"], "node-2");
    world.object("p", &home("WhenScaled", "Keep"), &world.status("p"));
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    assert_eq!(
        world.status("p")["podStates"]["w-0"]["nodeName"],
        "node-2",
        "this is its home now"
    );
}

/// `kubectl pps move` empties the node of an entry, and `forget` drops the entry.
#[test]
fn a_state_without_a_node_is_recorded_again() {
    for emptied in [
        json!({"w-0": {"nodeTopologyLabels": {"zone": "a"}}}),
        json!({}),
    ] {
        let mut world = away("WhenScaled", "Keep");
        let mut status = world.status("p");
        status["podStates"] = emptied;
        world.object("p", &home("WhenScaled", "Keep"), &status);
        world.settle("p");
        assert_eq!(world.status("p")["podStates"]["w-0"]["nodeName"], "node-2");
    }
}

#[test]
fn a_state_is_dropped_when_the_workload_no_longer_wants_the_pod() {
    let mut world = away("WhenScaled", "Keep");
    world.workload("w", "uid-w", 0, &[]);
    assert_eq!(
        world.patch("p").map(|status| status["podStates"].clone()),
        Some(Value::Null),
        "it runs"
    );
    world.accept("p");
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
    assert_eq!(world.pod_states("p"), json!({"w-0": null}));
}

#[test]
fn a_home_that_is_gone_is_forgotten_and_the_pod_is_recorded_where_it_runs() {
    for (policy, expected) in [("Keep", "node-1"), ("Forget", "node-2")] {
        let mut world = away("WhenScaled", policy);
        world
            .recorder
            .apply(Fact::Nodes(Update::Delete("node-1".into())));
        world
            .recorder
            .set_absence(&"node-1".into(), Absence::Overdue);
        world.settle("p");
        assert_eq!(world.states("p"), ["w-0"], "the node may come back");
        world
            .recorder
            .set_absence(&"node-1".into(), Absence::Confirmed);
        if let Some(write) = world.recorder.decide_status(&key("p"), NOW).write {
            assert_eq!(
                write.loss_check.unwrap().forgotten().collect::<Vec<_>>(),
                [("node-1", &"w-0".into())]
            );
            world.recorder.take_work();
            world.accept("p");
            assert!(
                world.recorder.take_work().statuses.contains(&key("p")),
                "there is more to write"
            );
        }
        world.settle("p");
        assert_eq!(
            world.status("p")["podStates"]["w-0"]["nodeName"],
            expected,
            "{policy}"
        );
    }
}

/// The Pod watch may be late, and nothing corrects a home later.
#[test]
fn the_first_record_of_a_home_is_checked() {
    let mut world = World::new();
    world.workload("w", "uid-w", 3, &[]);
    world.object("p", &home("WhenScaled", "Keep"), &json!({}));
    world.pod("w-0", ready_on("node-1"));
    let check = world
        .recorder
        .decide_status(&key("p"), NOW)
        .write
        .unwrap()
        .loss_check
        .unwrap();
    assert!(!check.has_drops(), "the workload need not be read");
    let refuted = |node: &str| {
        let labels = vec![("zone".into(), "a".into())];
        let nodes = [("node-1".into(), NodeFact { labels })].into();
        check.refuted(None, &[("w-0".into(), ready_on(node))].into(), &nodes)
    };
    assert_eq!((refuted("node-1").len(), refuted("node-2").len()), (0, 1));
    world.recorder.on_status_done(
        &key("p"),
        "uid-p",
        StatusOutcome::Unconfirmed {
            pods: &refuted("node-2"),
        },
    );
    world.settle("p");
    assert!(world.states("p").is_empty());
    world.pod("w-0", ready_on("node-2"));
    assert_eq!(world.pod_states("p")["w-0"]["nodeName"], "node-2");
}

/// The status names the former workload.
#[test]
fn a_new_workload_has_no_home_of_its_predecessor() {
    for (retention, expected) in [
        ("WhenScaled", "node-2"),
        ("WhenDeleted", "node-2"),
        ("Retain", "node-1"),
    ] {
        let mut world = away(retention, "Keep");
        world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
        world.workload("w", "uid-new", 3, &[]);
        world.pod(
            "w-0",
            PodFact {
                owner: Some("uid-new".into()),
                ..ready_on("node-2")
            },
        );
        world.settle("p");
        assert_eq!(
            world.status("p")["podStates"]["w-0"]["nodeName"],
            expected,
            "{retention}"
        );
        assert_eq!(world.status("p")["targetUID"], "uid-new");
    }
}

/// `w` with homes on node-1 was deleted; the Pods of its successor are Ready on node-2.
fn re_created(pods: usize) -> World {
    let mut world = World::new();
    let states: serde_json::Map<String, Value> = (0..pods)
        .map(|pod| (format!("w-{pod}"), state("node-1", "a")))
        .collect();
    let status = json!({"targetUID": "uid-w", "podStates": states});
    world.object("p", &home("WhenScaled", "Forget"), &status);
    world.workload("w", "uid-new", pods as u64, &[]);
    for pod in 0..pods {
        world.pod(
            &format!("w-{pod}"),
            PodFact {
                owner: Some("uid-new".into()),
                ..ready_on("node-2")
            },
        );
    }
    world
}

fn are_on(world: &World, node: &str) -> bool {
    let status = world.status("p");
    let mut states = status["podStates"].as_object().unwrap().values();
    status["targetUID"] == "uid-new" && states.all(|state| state["nodeName"] == node)
}

/// The status names the former workload until each home is that of the new one.
#[test]
fn homes_of_a_predecessor_go_however_many_writes_it_takes() {
    let mut world = re_created(201);
    world.settle("p");
    assert!(are_on(&world, "node-2"), "{}", world.status("p"));

    // A read fails.
    let mut world = re_created(2);
    world.patch("p").unwrap();
    world.recorder.on_status_done(
        &key("p"),
        "uid-p",
        StatusOutcome::Unconfirmed {
            pods: &["w-0".into()].into(),
        },
    );
    world
        .recorder
        .apply(Fact::Nodes(Update::Delete("node-1".into())));
    world
        .recorder
        .set_absence(&"node-1".into(), Absence::Overdue);
    world.settle("p");
    assert!(
        world.take_unconfirmed_nodes().is_empty(),
        "w-0 runs elsewhere"
    );
    world.recorder.retry_unconfirmed();
    world.settle("p");
    assert!(are_on(&world, "node-2"), "{}", world.status("p"));

    // The node is not known yet.
    let mut world = re_created(1);
    world.pod(
        "w-0",
        PodFact {
            owner: Some("uid-new".into()),
            ..ready_on("node-9")
        },
    );
    world.settle("p");
    assert_eq!(world.status("p")["targetUID"], "uid-w");
    world.node("node-9", &[("zone", "c")]);
    world.settle("p");
    assert!(are_on(&world, "node-9"), "{}", world.status("p"));
}
