//! Drops that rest on stale knowledge: what the watches have shown is behind the cluster.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::decide::status::LossCheck;
use crate::facts::WatchState;

/// `w` has its three Pods recorded.
fn recorded() -> World {
    let mut world = World::with_workload();
    for name in ["w-0", "w-1", "w-2"] {
        world.pod(name, ready_on("node-1"));
    }
    world.settle("p");
    world
}

fn check(world: &mut World) -> LossCheck {
    world
        .recorder
        .decide_status(&key("p"), NOW)
        .write
        .unwrap()
        .loss_check
        .unwrap()
}

fn names(names: &BTreeSet<Arc<str>>) -> Vec<&str> {
    names.iter().map(|name| &**name).collect()
}

fn pods(pods: &[(&str, PodFact)]) -> BTreeMap<Arc<str>, PodFact> {
    pods.iter()
        .map(|(name, pod)| ((*name).into(), pod.clone()))
        .collect()
}

/// The two nodes, as the API server has them.
fn nodes() -> BTreeMap<Arc<str>, NodeFact> {
    let node = |name: &str, zone: &str| {
        (
            name.into(),
            NodeFact {
                labels: vec![("host".into(), name.into()), ("zone".into(), zone.into())],
            },
        )
    };
    [node("node-1", "a"), node("node-2", "b")].into()
}

impl World {
    fn unconfirmed(&mut self, pods: &[&str]) {
        let pods = pods.iter().map(|pod| Arc::from(*pod)).collect();
        self.recorder.on_status_done(
            &key("p"),
            "uid-p",
            StatusOutcome::Unconfirmed { pods: &pods },
        );
    }
}

#[test]
fn pods_of_the_recorded_workload_keep_their_states_until_the_new_one_adopts_them() {
    let mut world = recorded();
    // An orphaning delete and a re-creation; the Pod watch is late.
    world.recorder.apply(Fact::Workloads(
        GroupKind::stateful_set(),
        Update::Delete(key("w")),
    ));
    world.workload("w", "uid-new", 3, &[]);
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0", "w-1", "w-2"]);
    assert_eq!(
        world.status("p")["targetUID"],
        "uid-w",
        "the states are not the new workload's yet"
    );

    // Two are adopted. The third is deleted, and its state was not the new workload's.
    for name in ["w-0", "w-1"] {
        world.pod(
            name,
            PodFact {
                owner: Some("uid-new".into()),
                ..ready_on("node-1")
            },
        );
    }
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0", "w-1", "w-2"]);
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-2"))));
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0", "w-1"]);
    world.settle("p");
    assert_eq!(world.status("p")["targetUID"], "uid-new");
}

/// A Pod of a former workload lives; `w-1` belongs to the new one and is recorded.
fn replaced() -> World {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    world.recorder.apply(Fact::Workloads(
        GroupKind::stateful_set(),
        Update::Delete(key("w")),
    ));
    world.workload("w", "uid-new", 3, &[]);
    world.pod(
        "w-1",
        PodFact {
            owner: Some("uid-new".into()),
            ..ready_on("node-2")
        },
    );
    world.settle("p");
    assert_eq!(
        (world.states("p"), &world.status("p")["targetUID"]),
        (vec!["w-0".into(), "w-1".into()], &json!("uid-w"))
    );
    world
}

#[test]
fn a_former_pod_does_not_cost_the_new_workloads_pod_its_state() {
    let mut world = replaced();
    // It is created again in a moment.
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-1"))));
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0", "w-1"]);
    // The former Pod goes, and with it its state. The other one was not the former workload's.
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
    world.settle("p");
    assert_eq!(
        (world.states("p"), &world.status("p")["targetUID"]),
        (vec!["w-1".into()], &json!("uid-new"))
    );
}

#[test]
fn a_pod_that_the_new_workload_does_not_want_loses_its_state_beside_a_former_pod() {
    let mut world = replaced();
    world.workload("w", "uid-new", 1, &[]);
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-1"))));
    let workload = world.recorder.workload(&workload("w")).cloned();
    let check = check(&mut world);
    assert_eq!(names(&check.all()), ["w-1"]);
    assert!(
        check
            .refuted(workload.as_ref(), &pods(&[]), &BTreeMap::new())
            .is_empty()
    );
    let terminating = PodFact {
        owner: Some("uid-new".into()),
        terminating: true,
        ..ready_on("node-2")
    };
    let refuted = check.refuted(
        workload.as_ref(),
        &pods(&[("w-1", terminating)]),
        &BTreeMap::new(),
    );
    assert_eq!(names(&refuted), ["w-1"]);
}

#[test]
fn a_new_leader_keeps_wanted_states_while_a_former_pod_lives() {
    let mut world = replaced();
    world.recorder.begin_term();
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-1"))));
    world.settle("p");
    assert_eq!(
        world.states("p"),
        ["w-0", "w-1"],
        "it does not know for which workload they were recorded"
    );
}

#[test]
fn a_living_pod_in_the_cluster_refutes_the_drop_of_its_state() {
    let mut world = recorded();
    world.recorder.apply(Fact::Workloads(
        GroupKind::stateful_set(),
        Update::Delete(key("w")),
    ));
    for name in ["w-0", "w-1", "w-2"] {
        world.recorder.apply(Fact::Pods(Update::Delete(key(name))));
    }
    let check = check(&mut world);
    assert_eq!(names(&check.all()), ["w-0", "w-1", "w-2"]);
    let ready = |owner: Option<&str>| PodFact {
        owner: owner.map(Into::into),
        ..ready_on("node-1")
    };
    let refuted = check.refuted(
        None,
        &pods(&[
            ("w-0", ready(None)),
            ("w-1", ready(Some("uid-w"))),
            (
                "w-2",
                PodFact {
                    terminating: true,
                    ..ready(Some("uid-w"))
                },
            ),
        ]),
        &BTreeMap::new(),
    );
    assert_eq!(names(&refuted), ["w-0", "w-1"]);
    assert!(check.refuted(None, &pods(&[]), &BTreeMap::new()).is_empty());
}

#[test]
fn a_workload_that_has_changed_in_the_cluster_refutes_all_drops() {
    let mut world = recorded();
    world.workload("w", "uid-w", 2, &[]);
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-2"))));
    let scaled = world.recorder.workload(&workload("w")).unwrap().clone();
    let check = check(&mut world);
    assert!(
        check
            .refuted(Some(&scaled), &pods(&[]), &BTreeMap::new())
            .is_empty()
    );
    let wanted = WorkloadFact {
        demand: Demand::numbered(0, 3),
        ..scaled
    };
    assert_eq!(
        names(&check.refuted(Some(&wanted), &pods(&[]), &BTreeMap::new())),
        ["w-2"]
    );
    assert_eq!(
        names(&check.refuted(None, &pods(&[]), &BTreeMap::new())),
        ["w-2"]
    );
}

#[test]
fn a_node_that_is_back_in_the_cluster_refutes_the_drop_of_its_states() {
    let mut world = World::new();
    world.workload("w", "uid-w", 1, &[]);
    let mut spec = spec("w");
    spec["nodeDeletionPolicy"] = "Forget".into();
    world.object(
        "p",
        &spec,
        &json!({"targetUID": "uid-w", "podStates": {"w-0": state("node-9", "a")}}),
    );
    world.settle("p");
    world
        .recorder
        .set_absence(&"node-9".into(), Absence::Overdue);
    world.settle("p");
    world
        .recorder
        .set_absence(&"node-9".into(), Absence::Confirmed);
    let workload = world.recorder.workload(&workload("w")).cloned();
    let check = check(&mut world);
    assert_eq!(names(&check.nodes()), ["node-9"]);
    let there = BTreeMap::from([("node-9".into(), NodeFact::default())]);
    assert!(
        check
            .refuted(workload.as_ref(), &pods(&[]), &BTreeMap::new())
            .is_empty()
    );
    assert_eq!(
        names(&check.refuted(workload.as_ref(), &pods(&[]), &there)),
        ["w-0"]
    );
}

#[test]
fn a_pod_that_runs_elsewhere_in_the_cluster_refutes_the_move_of_its_state() {
    let mut world = recorded();
    // The Pod watch shows it on a node where it no longer runs.
    world.pod("w-0", ready_on("node-2"));
    let check = check(&mut world);
    assert!(!check.has_drops(), "the workload need not be read");
    assert!(
        check
            .refuted(None, &pods(&[("w-0", ready_on("node-2"))]), &nodes())
            .is_empty()
    );
    let unready = PodFact {
        ready: false,
        ..ready_on("node-2")
    };
    let foreign = PodFact {
        owner: Some("uid-other".into()),
        ..ready_on("node-2")
    };
    let terminating = PodFact {
        terminating: true,
        ..ready_on("node-2")
    };
    let exempt = PodFact {
        exempt: true,
        ..ready_on("node-2")
    };
    for pod in [ready_on("node-1"), unready, foreign, terminating, exempt] {
        assert_eq!(
            names(&check.refuted(None, &pods(&[("w-0", pod)]), &nodes())),
            ["w-0"]
        );
    }
    assert_eq!(names(&check.refuted(None, &pods(&[]), &nodes())), ["w-0"]);
    world.unconfirmed(&["w-0"]);
    assert_eq!(world.patch("p"), None);
    assert_eq!(world.status("p")["podStates"]["w-0"]["nodeName"], "node-1");
    world.recorder.retry_unconfirmed();
    assert_eq!(world.pod_states("p")["w-0"]["nodeName"], "node-2");
}

#[test]
fn a_label_in_a_late_watch_does_not_replace_the_recorded_one() {
    let mut world = recorded();
    world.node("node-1", &[("zone", "z")]);
    let check = check(&mut world);
    assert_eq!(
        (names(&check.all()), names(&check.nodes())),
        (vec!["w-0", "w-1", "w-2"], vec!["node-1"])
    );
    let on = |zone: Option<&str>| -> BTreeMap<Arc<str>, NodeFact> {
        let labels = zone
            .map(|zone| ("zone".into(), zone.into()))
            .into_iter()
            .collect();
        [("node-1".into(), NodeFact { labels })].into()
    };
    let three = pods(&["w-0", "w-1", "w-2"].map(|name| (name, ready_on("node-1"))));
    assert!(check.refuted(None, &three, &on(Some("z"))).is_empty());
    for node in [on(Some("a")), on(None), BTreeMap::new()] {
        assert_eq!(check.refuted(None, &three, &node).len(), 3);
    }
    assert_eq!(
        names(&check.refuted(None, &pods(&[]), &on(Some("z")))),
        ["w-0", "w-1", "w-2"]
    );
    assert_eq!(
        names(&check.on_nodes(&check.nodes())),
        ["w-0", "w-1", "w-2"],
        "if it cannot be read"
    );
    // A label that was taken away, and one that is added.
    world.unconfirmed(&["w-0", "w-1", "w-2"]);
    world.node("node-1", &[]);
    assert!(
        world
            .recorder
            .decide_status(&key("p"), NOW)
            .write
            .unwrap()
            .loss_check
            .is_some()
    );
    world.accept("p");
    world.node("node-1", &[("zone", "z")]);
    assert_eq!(
        world
            .recorder
            .decide_status(&key("p"), NOW)
            .write
            .unwrap()
            .loss_check,
        None
    );
}

#[test]
fn a_pod_that_has_just_become_exempt_refutes_that_its_emptied_state_is_recorded() {
    let mut world = recorded();
    // Another client has annotated the Pod and then emptied its state. The Pod watch is late.
    let mut status = world.status("p");
    status["podStates"]["w-0"] = json!({});
    world.object("p", &spec("w"), &status);
    let check = check(&mut world);
    let exempt = PodFact {
        exempt: true,
        ..ready_on("node-1")
    };
    assert_eq!(
        names(&check.refuted(None, &pods(&[("w-0", exempt.clone())]), &nodes())),
        ["w-0"]
    );
    world.unconfirmed(&["w-0"]);
    assert_eq!(world.patch("p"), None);
    world.pod("w-0", exempt);
    assert_eq!(world.patch("p"), None);
    assert_eq!(world.status("p")["podStates"]["w-0"], json!({}));
}

#[test]
fn a_write_drops_a_hundred_states_at_most() {
    let mut world = World::new();
    world.workload("w", "uid-new", 0, &[]);
    let states: serde_json::Map<_, _> = (0..250)
        .map(|n| (format!("w-{n}"), state("node-1", "a")))
        .collect();
    world.object(
        "p",
        &spec("w"),
        &json!({"targetUID": "uid-w", "podStates": states}),
    );
    for left in [150, 50, 0] {
        assert_eq!(
            world.status("p")["targetUID"],
            "uid-w",
            "the other states are not the new workload's"
        );
        let check = check(&mut world);
        assert!(check.pods().count() <= 100);
        world.accept("p");
        assert_eq!(world.states("p").len(), left);
        assert_eq!(
            world.recorder.take_work().statuses.contains(&key("p")),
            left > 0
        );
    }
    assert_eq!(world.status("p")["targetUID"], "uid-new");
    assert_eq!(world.patch("p"), None);
}

/// A Pod on node-1 with this address.
fn with_address(address: &str) -> PodFact {
    PodFact {
        annotations: vec![("ip".into(), address.into())],
        ..ready_on("node-1")
    }
}

#[test]
fn a_first_record_and_an_added_value_need_no_check() {
    let mut world = World::with_workload();
    let bare = PodFact {
        annotations: Vec::new(),
        ..ready_on("node-1")
    };
    world.pod("w-0", bare);
    assert_eq!(
        world
            .recorder
            .decide_status(&key("p"), NOW)
            .write
            .unwrap()
            .loss_check,
        None
    );
    world.accept("p");
    // The network plugin writes the address after the Pod is Ready.
    world.pod("w-0", with_address("10.0.0.2"));
    assert_eq!(
        world
            .recorder
            .decide_status(&key("p"), NOW)
            .write
            .unwrap()
            .loss_check,
        None
    );
    world.accept("p");
    assert_eq!(
        world.status("p")["podStates"]["w-0"]["annotations"],
        json!({"ip": "10.0.0.2"})
    );
    // What the spec no longer names is known from the object itself.
    let mut spec = spec("w");
    spec["persistentPodAnnotations"] = Value::Null;
    world.object("p", &spec, &world.status("p"));
    assert_eq!(
        world
            .recorder
            .decide_status(&key("p"), NOW)
            .write
            .unwrap()
            .loss_check,
        None
    );
}

#[test]
fn an_older_address_in_a_late_watch_does_not_replace_the_recorded_one() {
    let mut world = recorded();
    world.pod("w-0", with_address("10.0.0.9"));
    let check = check(&mut world);
    assert!(!check.has_drops(), "the workload need not be read");
    let read = |pod| check.refuted(None, &pods(&[("w-0", pod)]), &nodes());
    assert!(read(with_address("10.0.0.9")).is_empty());
    let exempt = PodFact {
        exempt: true,
        ..with_address("10.0.0.9")
    };
    for pod in [
        ready_on("node-1"),
        exempt,
        PodFact {
            ready: false,
            ..with_address("10.0.0.9")
        },
    ] {
        assert_eq!(names(&read(pod)), ["w-0"]);
    }
    world.unconfirmed(&["w-0"]);
    assert_eq!(world.patch("p"), None);
    assert_eq!(
        world.status("p")["podStates"]["w-0"]["annotations"]["ip"],
        "10.0.0.1"
    );
    world.pod("w-0", with_address("10.0.0.10"));
    assert_eq!(
        world.pod_states("p"),
        json!({"w-0": {"annotations": {"ip": "10.0.0.10"}}})
    );
}

#[test]
fn an_unconfirmed_drop_does_not_hold_up_what_is_to_be_recorded() {
    let mut world = recorded();
    world.workload("w", "uid-w", 2, &[]);
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-2"))));
    world.pod("w-0", ready_on("node-2"));
    assert!(world.patch("p").unwrap()["podStates"]["w-2"].is_null());
    world.unconfirmed(&["w-2"]);
    assert!(world.recorder.take_work().statuses.contains(&key("p")));
    let states = world.pod_states("p");
    assert_eq!(
        (&states["w-0"]["nodeName"], states.get("w-2")),
        (&json!("node-2"), None)
    );
    world.accept("p");
    assert_eq!(world.patch("p"), None, "nothing is heard of the Pod");
    world.recorder.retry_unconfirmed();
    assert!(world.recorder.take_work().statuses.contains(&key("p")));
    assert_eq!(world.pod_states("p"), json!({"w-2": null}));
    world.unconfirmed(&["w-2"]);
    assert_eq!(world.patch("p"), None);

    // What the watch was late with arrives.
    world.pod("w-2", ready_on("node-1"));
    world.settle("p");
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-2"))));
    assert_eq!(world.pod_states("p"), json!({"w-2": null}));
}

#[test]
fn what_is_heard_during_the_check_is_decided_at_once() {
    let mut world = recorded();
    world.workload("w", "uid-w", 2, &[]);
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-2"))));
    assert!(world.patch("p").is_some());
    world.pod("w-2", ready_on("node-1"));
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-2"))));
    world.unconfirmed(&["w-2"]);
    assert_eq!(world.pod_states("p"), Value::Null, "the others come first");
    world.accept("p");
    assert!(world.recorder.take_work().statuses.contains(&key("p")));
    assert_eq!(
        world.pod_states("p"),
        json!({"w-2": null}),
        "no further event would bring it up again"
    );
    // If there is nothing else to be written, it is decided at once.
    world.pod("w-2", ready_on("node-1"));
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-2"))));
    world.unconfirmed(&["w-2"]);
    assert_eq!(world.pod_states("p"), json!({"w-2": null}));
}

#[test]
fn values_that_keep_changing_hold_up_no_other_state() {
    let mut world = recorded();
    world.pod("w-3", ready_on("node-1"));
    // Each check finds a newer address of one of the two Pods, and the watch shows it before the
    // next decision.
    for name in ["w-0", "w-1"] {
        world.pod(name, with_address("10.0.1.7"));
    }
    for name in ["w-0", "w-1"] {
        assert!(world.patch("p").is_some());
        world.pod(name, with_address("10.0.1.8"));
        world.unconfirmed(&[name]);
        world.pod(name, with_address("10.0.1.9"));
    }
    let states = world.pod_states("p");
    let recorded: Vec<_> = states.as_object().unwrap().keys().collect();
    assert_eq!(recorded, ["w-3"]);
    world.accept("p");
    // Nothing that was heard is lost.
    assert!(world.recorder.take_work().statuses.contains(&key("p")));
    let states = world.pod_states("p");
    assert_eq!(states["w-0"]["annotations"]["ip"], "10.0.1.9");
    assert_eq!(states["w-1"]["annotations"]["ip"], "10.0.1.9");
    world.accept("p");
    assert_eq!(world.patch("p"), None);
}

#[test]
fn a_forbidden_kind_loses_no_states_although_it_was_listed() {
    let mut world = recorded();
    world.recorder.apply(Fact::KindState(
        GroupKind::stateful_set(),
        WatchState::Forbidden,
    ));
    world.workload("w", "uid-w", 0, &[]);
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-2"))));
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0", "w-1", "w-2"]);
    assert_eq!(
        world.status("p")["conditions"][0]["reason"],
        "WorkloadKindForbidden"
    );
}

#[test]
fn a_kind_that_cannot_be_listed_is_reported_in_the_condition() {
    let mut world = World::new();
    let database = GroupKind {
        group: "a.io".into(),
        kind: "Database".into(),
    };
    world.recorder.apply(Fact::KindWatched(database.clone()));
    let mut spec = spec("w");
    spec["targetRef"] = json!({"apiVersion": "a.io/v1", "kind": "Database", "name": "w"});
    world.object(
        "p",
        &spec,
        &json!({"podStates": {"w-0": state("node-1", "a")}}),
    );
    assert_eq!(world.patch("p"), None);
    world
        .recorder
        .apply(Fact::KindState(database, WatchState::Down));
    assert!(world.recorder.take_work().statuses.contains(&key("p")));
    world.settle("p");
    assert_eq!(
        world.status("p")["conditions"][0]["reason"],
        "WorkloadKindUnavailable"
    );
    assert_eq!(world.states("p"), ["w-0"]);
}

#[test]
fn states_without_a_workload_wait_for_the_next_one_of_the_name() {
    for policy in ["WhenScaled", "WhenDeleted"] {
        let mut world = World::new();
        let mut spec = spec("w");
        spec["persistentPodStateRetentionPolicy"] = policy.into();
        let states = json!({"w-0": state("node-1", "a"), "w-1": state("node-2", "b")});
        world.object("p", &spec, &json!({"podStates": states}));
        world.settle("p");
        assert_eq!(world.states("p"), ["w-0", "w-1"], "{policy}");
        world.workload("w", "uid-new", 2, &[]);
        world.settle("p");
        assert_eq!(world.states("p"), ["w-0", "w-1"], "{policy}");
        assert_eq!(world.status("p")["targetUID"], "uid-new");
    }
}

#[test]
fn an_adoption_that_was_seen_is_not_forgotten_before_the_next_decision() {
    let owned_by = |owner: Option<&str>| PodFact {
        owner: owner.map(Into::into),
        ..ready_on("node-1")
    };
    // The Pod watch may be faster or slower than that of the workloads.
    for is_pod_first in [true, false] {
        let mut world = recorded();
        world.pod("w-0", owned_by(None));
        if is_pod_first {
            world.pod("w-0", owned_by(Some("uid-new")));
            world.settle("p");
        }
        world.recorder.apply(Fact::Workloads(
            GroupKind::stateful_set(),
            Update::Delete(key("w")),
        ));
        world.workload("w", "uid-new", 3, &[]);
        // It adopts the Pod, and the Pod is created again in a moment.
        world.pod("w-0", owned_by(Some("uid-new")));
        for name in ["w-0", "w-1"] {
            world.recorder.apply(Fact::Pods(Update::Delete(key(name))));
        }
        world.settle("p");
        assert_eq!(
            world.states("p"),
            ["w-0", "w-2"],
            "{is_pod_first}: nobody adopted w-1"
        );
    }
}
