//! What is recorded, and when.

use super::*;

#[test]
fn records_a_ready_pod_once() {
    let mut world = World::with_workload();
    world.pod(
        "w-0",
        PodFact {
            ready: false,
            ..ready_on("node-1")
        },
    );
    assert_eq!(world.patch("p"), None);

    world.pod("w-0", ready_on("node-1"));
    assert_eq!(
        world
            .recorder
            .take_work()
            .statuses
            .into_iter()
            .collect::<Vec<_>>(),
        [key("p")]
    );
    assert_eq!(
        world.patch("p").unwrap(),
        json!({"podStates": {"w-0": state("node-1", "a")}, "recorded": 1})
    );
    assert_eq!(world.patch("p"), None, "one write at a time");
    world.accept("p");
    world.pod("w-0", ready_on("node-1"));
    assert_eq!(world.patch("p"), None);
    assert!(world.recorder.take_work().statuses.is_empty());
}

#[test]
fn first_write_sets_the_header_and_the_condition() {
    let mut world = World::new();
    world.workload("w", "uid-w", 3, &[]);
    world.object("p", &spec("w"), &json!({}));
    let status = world.patch("p").unwrap();
    assert_eq!(
        (
            &status["observedGeneration"],
            &status["targetUID"],
            &status["recorded"],
            &status["desired"]
        ),
        (&json!(1), &json!("uid-w"), &json!(0), &json!(3))
    );
    let condition = &status["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("Recording"), &json!("True"))
    );
}

#[test]
fn patch_contains_only_changed_fields() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.pod("w-1", ready_on("node-2"));
    world.settle("p");
    world.pod("w-1", ready_on("node-1"));
    assert_eq!(
        world.pod_states("p"),
        json!({"w-1": {"nodeName": "node-1", "nodeTopologyLabels": {"zone": "a"}}})
    );
}

#[test]
fn records_relabelled_nodes_and_annotations_written_after_ready() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    world.node("node-1", &[("zone", "c")]);
    assert_eq!(
        world.pod_states("p"),
        json!({"w-0": {"nodeTopologyLabels": {"zone": "c"}}})
    );
    world.accept("p");

    world.pod(
        "w-0",
        PodFact {
            annotations: vec![("ip".into(), "10.0.0.2".into())],
            ..ready_on("node-1")
        },
    );
    assert_eq!(
        world.pod_states("p"),
        json!({"w-0": {"annotations": {"ip": "10.0.0.2"}}})
    );
    world.accept("p");

    world.pod(
        "w-0",
        PodFact {
            annotations: vec![("ip".into(), "".into())],
            ..ready_on("node-1")
        },
    );
    assert_eq!(
        world.patch("p"),
        None,
        "a CNI blanks the annotation on teardown"
    );
}

#[test]
fn a_node_that_is_ready_before_its_zone_label_does_not_wipe_a_recorded_zone() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    // The machine is replaced by one of the same name, whose kubelet is faster than what labels it.
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
    world
        .recorder
        .apply(Fact::Nodes(Update::Delete("node-1".into())));
    world.recorder.take_work();
    world.node("node-1", &[("host", "node-1")]);
    assert!(world.recorder.take_work().new_nodes.contains("node-1"));
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    assert_eq!(world.status("p")["podStates"]["w-0"], state("node-1", "a"));

    // The label comes, with another value.
    world.node("node-1", &[("host", "node-1"), ("zone", "c")]);
    assert_eq!(
        world.pod_states("p"),
        json!({"w-0": {"nodeTopologyLabels": {"zone": "c"}}})
    );
    world.accept("p");

    // Somebody takes it away again.
    world.node("node-1", &[("host", "node-1")]);
    assert_eq!(
        world.pod_states("p"),
        json!({"w-0": {"nodeTopologyLabels": null}})
    );
}

#[test]
fn a_label_that_does_not_come_is_waited_for_only_while_the_node_is_new() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    world
        .recorder
        .apply(Fact::Nodes(Update::Delete("node-1".into())));
    world.node("node-1", &[("host", "node-1")]);
    world.settle("p");
    assert_eq!(world.status("p")["podStates"]["w-0"], state("node-1", "a"));
    assert_eq!(
        world.status("p")["conditions"][0]["status"],
        "True",
        "nothing is missing yet"
    );
    world.recorder.take_work();
    world.recorder.apply(Fact::NodeSettled("node-1".into()));
    assert!(world.recorder.take_work().statuses.contains(&key("p")));
    assert_eq!(
        world.pod_states("p"),
        json!({"w-0": {"nodeTopologyLabels": null}})
    );
}

#[test]
fn keeps_the_state_of_a_terminating_or_pending_pod() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    world.pod(
        "w-0",
        PodFact {
            terminating: true,
            ..ready_on("node-1")
        },
    );
    assert_eq!(world.patch("p"), None);
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
    assert_eq!(world.patch("p"), None);
    world.pod(
        "w-0",
        PodFact {
            node: None,
            ready: false,
            ..ready_on("")
        },
    );
    assert_eq!(world.patch("p"), None);
}

/// What is not to be recorded, although it is Ready.
fn exempt_on(node: &str) -> PodFact {
    PodFact {
        exempt: true,
        ..ready_on(node)
    }
}

#[test]
fn does_not_record_a_pod_whose_annotation_forbids_it() {
    let mut world = World::with_workload();
    world.pod("w-0", exempt_on("node-1"));
    assert_eq!(world.patch("p"), None);
    world.pod("w-0", ready_on("node-1"));
    assert_eq!(world.pod_states("p"), json!({"w-0": state("node-1", "a")}));
    world.accept("p");

    // What is recorded stays, wherever the Pod runs and whatever its node's labels are.
    world.pod("w-0", exempt_on("node-1"));
    world.node("node-1", &[("zone", "c")]);
    assert_eq!(world.patch("p"), None);
    world.pod("w-0", exempt_on("node-2"));
    assert_eq!(world.patch("p"), None);
    world.pod("w-0", ready_on("node-2"));
    assert_eq!(
        world.pod_states("p")["w-0"]["nodeName"],
        "node-2",
        "the annotation is gone"
    );
}

#[test]
fn leaves_what_another_client_writes_for_an_exempt_pod() {
    for written in [
        state("node-2", "b"),
        json!({"annotations": {"ip": "10.0.0.1"}}),
        json!({}),
        Value::Null,
    ] {
        let mut world = World::with_workload();
        world.pod("w-0", ready_on("node-1"));
        world.settle("p");
        let mut status = world.status("p");
        world.pod("w-0", exempt_on("node-1"));
        status["podStates"] = json!({"w-0": written});
        status["recorded"] = json!(i32::from(!written.is_null()));
        if written.is_null() {
            status.as_object_mut().unwrap().remove("podStates");
        }
        world.object("p", &spec("w"), &status);
        assert_eq!(world.patch("p"), None, "{written}");
        // It is terminating, and still Ready until its containers have ended.
        world.pod(
            "w-0",
            PodFact {
                terminating: true,
                ..exempt_on("node-1")
            },
        );
        assert_eq!(world.patch("p"), None, "{written}");
        // Its successor does not have the annotation.
        world.pod(
            "w-0",
            PodFact {
                ready: false,
                ..ready_on("node-2")
            },
        );
        assert_eq!(world.patch("p"), None, "{written}");
        world.pod("w-0", ready_on("node-2"));
        world.settle("p");
        assert_eq!(
            world.status("p")["podStates"]["w-0"],
            state("node-2", "b"),
            "{written}"
        );
    }
}

#[test]
fn the_state_of_an_exempt_pod_is_kept_as_long_as_that_of_any_living_pod() {
    let mut world = World::with_workload();
    for name in ["w-0", "w-2"] {
        world.pod(name, ready_on("node-1"));
        world.settle("p");
        world.pod(name, exempt_on("node-1"));
    }
    world.workload("w", "uid-w", 1, &[]);
    world.settle("p");
    assert_eq!(
        world.states("p"),
        ["w-0", "w-2"],
        "it is not wanted, and lives"
    );
    world.recorder.apply(Fact::Workloads(
        GroupKind::stateful_set(),
        Update::Delete(key("w")),
    ));
    for name in ["w-0", "w-2"] {
        world.pod(
            name,
            PodFact {
                owner: None,
                ..exempt_on("node-1")
            },
        );
    }
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0", "w-2"], "an orphan");
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-2"))));
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0"]);
}

#[test]
fn decides_nothing_before_every_list_is_complete() {
    let mut recorder = Recorder::new(Interest::default());
    let object = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "uid-p", "resourceVersion": "1"},
        "spec": spec("w"),
        "status": {"podStates": {"w-0": state("node-1", "a")}},
    });
    recorder.apply_pps(Update::Begin(0));
    let fact = read_pps(&object).unwrap();
    recorder.apply_pps(Update::Apply(key("p"), Box::new(fact)));
    recorder.apply_pps(Update::Done);
    assert_eq!(recorder.decide_status(&key("p"), NOW).write, None);
    recorder.apply(Fact::Workloads(GroupKind::stateful_set(), Update::Begin(0)));
    recorder.apply(Fact::Workloads(GroupKind::stateful_set(), Update::Done));
    recorder.apply(Fact::Pods(Update::Begin(9)));
    recorder.apply(Fact::Pods(Update::Done));
    recorder.apply(Fact::Nodes(Update::Begin(9)));
    recorder.apply(Fact::Nodes(Update::Done));
    assert!(
        recorder.take_work().statuses.contains(&key("p")),
        "the work comes up again"
    );
    assert!(recorder.decide_status(&key("p"), NOW).write.is_some());
}

#[test]
fn reports_since_when_newly_recorded_pods_are_ready() {
    let mut world = World::with_workload();
    let ready_since = |second, node| PodFact {
        ready_since: Some(second),
        ..ready_on(node)
    };
    world.pod("w-0", ready_since(100, "node-1"));
    assert_eq!(
        world
            .recorder
            .decide_status(&key("p"), NOW)
            .write
            .unwrap()
            .newly_recorded,
        [100]
    );
    world.accept("p");

    let annotated = PodFact {
        annotations: vec![("ip".into(), "10.0.0.2".into())],
        ..ready_since(100, "node-1")
    };
    world.pod("w-0", annotated);
    let write = world.recorder.decide_status(&key("p"), NOW).write.unwrap();
    assert_eq!(
        (write.entries, write.newly_recorded.len()),
        (1, 0),
        "the Pod was recorded on this node before"
    );
    world.accept("p");

    let flapped = PodFact {
        annotations: vec![("ip".into(), "10.0.0.2".into())],
        ..ready_since(200, "node-1")
    };
    world.pod("w-0", flapped);
    assert_eq!(
        world.patch("p"),
        None,
        "a Pod that was not Ready for a moment needs no write"
    );
    world.pod("w-0", ready_since(300, "node-2"));
    assert_eq!(
        world
            .recorder
            .decide_status(&key("p"), NOW)
            .write
            .unwrap()
            .newly_recorded,
        [300]
    );
}

#[test]
fn a_pod_with_a_forged_owner_in_another_namespace_changes_no_count() {
    let mut world = World::with_workload();
    let elsewhere = NamespacedName::new("other", "w-0");
    let forged = |terminating| {
        Update::Apply(
            elsewhere.clone(),
            PodFact {
                terminating,
                ..ready_on("node-2")
            },
        )
    };
    world.pod("w-0", ready_on("node-1"));
    for update in [
        forged(true),
        forged(false),
        Update::Delete(elsewhere.clone()),
        forged(true),
    ] {
        world.recorder.apply(Fact::Pods(update));
    }
    for pod in [key("w-0"), elsewhere] {
        world.recorder.apply(Fact::Pods(Update::Delete(pod)));
    }
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0"]);
}

#[test]
fn follows_the_entry_of_a_pod_whose_workload_has_no_object() {
    let mut world = World::new();
    world.object(
        "q",
        &spec("v"),
        &json!({"podStates": {"v-7": state("node-1", "a")}}),
    );
    world.settle("q");
    world.recorder.take_work();
    world.pod(
        "v-7",
        PodFact {
            owner: None,
            ..ready_on("node-1")
        },
    );
    assert_eq!(world.recorder.take_work().statuses, [key("q")].into());
    world.settle("q");
    // An entry that another writer removes is followed no longer.
    world.object("q", &spec("v"), &json!({}));
    world.recorder.take_work();
    world.pod(
        "v-7",
        PodFact {
            owner: None,
            ..ready_on("node-2")
        },
    );
    assert!(world.recorder.take_work().statuses.is_empty());
}
