//! Which entries are dropped when a workload is scaled, deleted or created again.

use super::*;

#[test]
fn drops_a_scaled_down_entry_once_the_pod_is_gone() {
    let mut world = World::with_workload();
    for name in ["w-0", "w-1", "w-2"] {
        world.pod(name, ready_on("node-1"));
    }
    world.settle("p");
    world.workload("w", "uid-w", 0, &[]);
    assert_eq!(
        world.patch("p").unwrap(),
        json!({"desired": 0}),
        "the Pods still run"
    );
    world.accept("p");
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-2"))));
    assert_eq!(
        world.patch("p").unwrap(),
        json!({"podStates": {"w-2": null}, "recorded": 2})
    );
}

#[test]
fn drops_states_of_a_deleted_workload_as_its_pods_terminate() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.pod("w-1", ready_on("node-1"));
    world.settle("p");
    world.recorder.apply(Fact::Workloads(
        GroupKind::stateful_set(),
        Update::Delete(key("w")),
    ));
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0", "w-1"]);
    world.pod(
        "w-0",
        PodFact {
            terminating: true,
            ..ready_on("node-1")
        },
    );
    world.settle("p");
    assert_eq!(world.states("p"), ["w-1"]);
}

#[test]
fn drops_an_entry_once_the_foreign_pod_of_its_name_is_gone() {
    let mut world = World::with_workload();
    world.workload("v", "uid-v", 3, &[]);
    world.object(
        "q",
        &spec("v"),
        &json!({"targetUID": "uid-v", "podStates": {"w-0": state("node-1", "a")}}),
    );
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    world.settle("q");
    assert_eq!(
        (world.states("p"), world.states("q")),
        (vec!["w-0".to_owned()], vec!["w-0".to_owned()])
    );
    world.recorder.take_work();
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
    assert!(world.recorder.take_work().statuses.contains(&key("q")));
    world.settle("q");
    assert!(world.states("q").is_empty());
}

/// The policy refuses such a change, but it may have been made while the policy was not asked.
#[test]
fn a_pod_of_a_workload_that_exists_holds_up_no_other_workload() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    world.workload("v", "uid-v", 3, &[]);
    let status = json!({"targetUID": "uid-w", "podStates": {"w-0": state("node-1", "a")}});
    world.object("p", &spec("v"), &status);
    assert_eq!(world.patch("p").unwrap()["targetUID"], "uid-v");
}

#[test]
fn decides_again_once_the_workload_of_a_former_pod_is_known() {
    let mut world = World::new();
    world.workload("v", "uid-v", 3, &[]);
    world.pod("w-0", ready_on("node-1"));
    let status = json!({"targetUID": "uid-w", "podStates": {"w-0": state("node-1", "a")}});
    world.object("p", &spec("v"), &status);
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0"], "it may be a former Pod of v");
    world.recorder.take_work();
    world.workload("w", "uid-w", 3, &[]);
    assert!(world.recorder.take_work().statuses.contains(&key("p")));
    assert_eq!(world.patch("p").unwrap()["targetUID"], "uid-v");
}

#[test]
fn keeps_states_through_an_orphaning_delete_and_adoption() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    world.recorder.apply(Fact::Workloads(
        GroupKind::stateful_set(),
        Update::Delete(key("w")),
    ));
    world.pod(
        "w-0",
        PodFact {
            owner: None,
            ..ready_on("node-1")
        },
    );
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0"]);

    world.workload("w", "uid-new", 3, &[]);
    assert_eq!(world.patch("p").unwrap()["targetUID"], "uid-new");
    world.accept("p");
    world.pod(
        "w-0",
        PodFact {
            owner: Some("uid-new".into()),
            ..ready_on("node-1")
        },
    );
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0"]);
}

#[test]
fn a_pod_of_a_new_workload_inherits_no_place_where_it_does_not_run() {
    for (node, kept) in [
        (None, false),
        (Some("node-2"), false),
        (Some("node-1"), true),
    ] {
        for policy in ["Always", "IfNotPresent"] {
            let mut world = World::new();
            world.workload("w", "uid-new", 3, &[]);
            let owner = Some("uid-new".into());
            let pod = PodFact {
                owner,
                node: node.map(Into::into),
                ready: false,
                ..ready_on("node-1")
            };
            world.pod("w-0", pod.clone());
            let mut spec = spec("w");
            spec["recordingPolicy"] = policy.into();
            let states = json!({"w-0": state("node-1", "a"), "w-1": state("node-1", "a")});
            world.object(
                "p",
                &spec,
                &json!({"targetUID": "uid-old", "podStates": states}),
            );
            let check = world
                .recorder
                .decide_status(&key("p"), NOW)
                .write
                .unwrap()
                .loss_check
                .unwrap();
            let workload = world.recorder.workload(&workload("w")).cloned();
            let read = |node: Option<&str>| {
                let pod = PodFact {
                    node: node.map(Into::into),
                    ..pod.clone()
                };
                check.refuted(workload.as_ref(), &[("w-0".into(), pod)].into(), &[].into())
            };
            assert!(read(node).is_empty());
            assert_eq!(
                read(Some("node-1")).len(),
                usize::from(!kept),
                "it may have been adopted"
            );
            world.accept("p");
            world.settle("p");
            assert_eq!(world.states("p") == ["w-0"], kept, "{node:?} {policy}");
            let ready_elsewhere = PodFact {
                owner: pod.owner.clone(),
                ..ready_on("node-2")
            };
            world.pod("w-0", if kept { pod } else { ready_elsewhere });
            world.settle("p");
            let expected = if kept { "node-1" } else { "node-2" };
            assert_eq!(
                world.status("p")["podStates"]["w-0"]["nodeName"],
                expected,
                "{node:?} {policy}"
            );
        }
    }
}

#[test]
fn clears_states_of_a_workload_recreated_while_unwatched() {
    for (policy, kept) in [
        ("WhenScaled", false),
        ("WhenDeleted", false),
        ("Retain", true),
    ] {
        let mut world = World::new();
        world.workload("w", "uid-new", 3, &[]);
        let mut spec = spec("w");
        spec["persistentPodStateRetentionPolicy"] = policy.into();
        world.object(
            "p",
            &spec,
            &json!({"targetUID": "uid-old", "podStates": {"w-0": state("node-1", "a")}}),
        );
        world.settle("p");
        assert_eq!(world.states("p") == ["w-0"], kept, "{policy}");
    }
}

/// Its place is not the one that the status has.
#[test]
fn a_terminating_pod_of_a_new_workload_keeps_no_state_of_its_predecessor() {
    for (node, expected) in [("node-1", vec!["w-0"]), ("node-2", vec![])] {
        let mut world = World::new();
        let status = json!({"targetUID": "uid-w", "podStates": {"w-0": state("node-1", "a")}});
        world.object("p", &spec("w"), &status);
        world.workload("w", "uid-new", 1, &[]);
        world.pod(
            "w-0",
            PodFact {
                owner: Some("uid-new".into()),
                terminating: true,
                ..ready_on(node)
            },
        );
        world.settle("p");
        assert_eq!(world.states("p"), expected, "{node}");
    }
}
