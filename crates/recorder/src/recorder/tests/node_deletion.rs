//! Deleted nodes under `nodeDeletionPolicy: Forget`.

use super::*;
use crate::facts::PendingPod;

pub(super) fn forgetting(policy: &str) -> Value {
    let mut spec = spec("w");
    spec["nodeDeletionPolicy"] = policy.into();
    spec
}

/// `w-0` was recorded on node-1 in zone a; both the Pod and the node are gone.
pub(super) fn abandoned(spec: &Value) -> World {
    let mut world = World::new();
    world.workload("w", "uid-w", 3, &[]);
    world.object("p", spec, &json!({}));
    world.pod("w-0", ready_on("node-1"));
    world.pod("w-1", ready_on("node-2"));
    world.settle("p");
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
    world.recorder.take_work();
    world
        .recorder
        .apply(Fact::Nodes(Update::Delete("node-1".into())));
    world
}

fn names<'a>(names: impl IntoIterator<Item = &'a Arc<str>>) -> Vec<String> {
    names.into_iter().map(ToString::to_string).collect()
}

/// A Pending Pod with the policy's annotation, whose affinity requires this zone.
pub(super) fn waiting_for(zone: &str) -> PodFact {
    let pins = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]}}});
    let pending = PendingPod {
        uid: "uid-0".into(),
        resource_version: "7".into(),
        pps: "p".into(),
        required_affinity: serde_json::from_value(pins).unwrap(),
        is_unschedulable: true,
        unschedulable_since: None,
    };
    PodFact {
        owner: Some("uid-w".into()),
        pending: Some(Box::new(pending)),
        ..PodFact::default()
    }
}

impl World {
    /// The grace period of node-1 ends, and the API server confirms that the node is gone.
    pub(super) fn confirm_gone(&mut self) {
        self.recorder
            .set_absence(&"node-1".into(), Absence::Overdue);
        self.settle("p");
        assert_eq!(names(&self.take_unconfirmed_nodes()), ["node-1"]);
        self.recorder
            .set_absence(&"node-1".into(), Absence::Confirmed);
    }
}

#[test]
fn forgets_states_once_the_node_is_confirmed_gone() {
    let mut world = abandoned(&forgetting("Forget"));
    assert_eq!(names(&world.recorder.take_work().absences), ["node-1"]);
    assert!(world.recorder.is_missing("node-1") && !world.recorder.is_missing("node-2"));
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0", "w-1"], "the node may come back");
    assert!(world.take_unconfirmed_nodes().is_empty());

    world
        .recorder
        .set_absence(&"node-1".into(), Absence::Overdue);
    assert!(world.recorder.take_work().statuses.contains(&key("p")));
    assert_eq!(
        world.patch("p"),
        None,
        "nothing is dropped before the confirmation"
    );
    assert_eq!(names(&world.take_unconfirmed_nodes()), ["node-1"]);

    world
        .recorder
        .set_absence(&"node-1".into(), Absence::Confirmed);
    assert!(world.recorder.take_work().statuses.contains(&key("p")));
    let write = world.recorder.decide_status(&key("p"), NOW).write.unwrap();
    assert_eq!(
        write.patch["status"],
        json!({"podStates": {"w-0": null}, "recorded": 1})
    );
    assert_eq!(
        write.loss_check.unwrap().forgotten().collect::<Vec<_>>(),
        [("node-1", &"w-0".into())]
    );
    world.accept("p");
    assert_eq!(
        names(&world.recorder.take_work().absences),
        ["node-1"],
        "no entry names the node any longer"
    );
    assert!(!world.recorder.is_missing("node-1"));
}

#[test]
fn keeps_states_under_policy_keep() {
    for policy in [json!("Keep"), Value::Null] {
        let mut spec = spec("w");
        spec["nodeDeletionPolicy"] = policy;
        let mut world = abandoned(&spec);
        assert!(world.recorder.take_work().absences.is_empty());
        for absence in [Absence::Overdue, Absence::Confirmed] {
            world.recorder.set_absence(&"node-1".into(), absence);
            world.settle("p");
        }
        assert_eq!(world.states("p"), ["w-0", "w-1"]);
        world.pod("w-0", waiting_for("a"));
        assert_eq!(world.recorder.decide_eviction(&key("w-0")), None);
        assert!(world.take_unconfirmed_nodes().is_empty());
    }
}

#[test]
fn forgets_under_every_retention_policy() {
    for policy in ["WhenScaled", "WhenDeleted", "Retain"] {
        let mut spec = forgetting("Forget");
        spec["persistentPodStateRetentionPolicy"] = policy.into();
        let mut world = abandoned(&spec);
        world.confirm_gone();
        world.settle("p");
        assert_eq!(world.states("p"), ["w-1"], "{policy}");
    }
}

#[test]
fn keeps_states_of_a_node_that_comes_back() {
    let mut world = abandoned(&forgetting("Forget"));
    world.confirm_gone();
    world.recorder.take_work();
    world.node("node-1", &[("zone", "a")]);
    assert_eq!(names(&world.recorder.take_work().absences), ["node-1"]);
    // Late answers.
    for absence in [Absence::Overdue, Absence::Confirmed] {
        world.recorder.set_absence(&"node-1".into(), absence);
        world.settle("p");
    }
    assert_eq!(world.states("p"), ["w-0", "w-1"]);

    // Gone again: the grace period starts again.
    world
        .recorder
        .apply(Fact::Nodes(Update::Delete("node-1".into())));
    world.settle("p");
    assert!(world.recorder.is_missing("node-1") && world.take_unconfirmed_nodes().is_empty());
    assert_eq!(world.states("p"), ["w-0", "w-1"]);
}

#[test]
fn ignores_an_outdated_or_contrary_confirmation() {
    for absence in [Absence::Overdue, Absence::InGracePeriod] {
        let mut world = abandoned(&forgetting("Forget"));
        world.confirm_gone();
        world.recorder.set_absence(&"node-1".into(), absence);
        world.settle("p");
        assert_eq!(world.states("p"), ["w-0", "w-1"]);
    }
}

#[test]
fn ignores_a_confirmation_of_an_earlier_absence() {
    let mut world = abandoned(&forgetting("Forget"));
    world
        .recorder
        .set_absence(&"node-1".into(), Absence::Overdue);
    world.node("node-1", &[("zone", "a")]);
    world
        .recorder
        .apply(Fact::Nodes(Update::Delete("node-1".into())));
    world
        .recorder
        .set_absence(&"node-1".into(), Absence::Confirmed);
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0", "w-1"]);
}

#[test]
fn foreign_write_does_not_restart_the_grace_period() {
    let mut world = abandoned(&forgetting("Forget"));
    world
        .recorder
        .set_absence(&"node-1".into(), Absence::Overdue);
    world.recorder.take_work();
    let status = world.status("p");
    world.object("p", &forgetting("Forget"), &status);
    assert!(world.recorder.take_work().absences.is_empty());
    world.settle("p");
    assert_eq!(names(&world.take_unconfirmed_nodes()), ["node-1"]);
}

#[test]
fn follows_a_changed_node_deletion_policy() {
    let mut world = abandoned(&forgetting("Keep"));
    let status = world.status("p");
    world.object("p", &forgetting("Forget"), &status);
    assert_eq!(names(&world.recorder.take_work().absences), ["node-1"]);
    world.confirm_gone();
    world.object("p", &forgetting("Keep"), &status);
    assert_eq!(names(&world.recorder.take_work().absences), ["node-1"]);
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0", "w-1"]);
}

#[test]
fn keeps_a_state_while_a_pod_backs_it() {
    let backing = [
        ready_on("node-1"),
        PodFact {
            owner: None,
            ..ready_on("node-1")
        },
        PodFact {
            exempt: true,
            ..ready_on("node-1")
        },
        // Starting on another node: it has its annotations and will be recorded there.
        PodFact {
            ready: false,
            ..ready_on("node-2")
        },
    ];
    for pod in backing {
        let mut world = abandoned(&forgetting("Forget"));
        world.pod("w-0", pod.clone());
        world
            .recorder
            .set_absence(&"node-1".into(), Absence::Overdue);
        world.settle("p");
        assert!(world.take_unconfirmed_nodes().is_empty(), "{pod:?}");
        world
            .recorder
            .set_absence(&"node-1".into(), Absence::Confirmed);
        world.settle("p");
        assert_eq!(world.states("p"), ["w-0", "w-1"], "{pod:?}");
        world
            .recorder
            .set_absence(&"node-1".into(), Absence::Overdue);

        world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
        world.confirm_gone();
        world.settle("p");
        assert_eq!(world.states("p"), ["w-1"], "{pod:?}");
    }
}

#[test]
fn unready_pod_on_the_gone_node_backs_nothing() {
    for pod in [
        PodFact {
            ready: false,
            ..ready_on("node-1")
        },
        PodFact {
            terminating: true,
            ..ready_on("node-1")
        },
    ] {
        let mut world = abandoned(&forgetting("Forget"));
        world.pod("w-0", pod);
        world.confirm_gone();
        world.settle("p");
        assert_eq!(world.states("p"), ["w-1"]);
    }
}

#[test]
fn detects_nodes_that_were_gone_before_the_start() {
    let mut recorder = Recorder::new(Interest::default());
    let object = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "uid-p", "resourceVersion": "1"},
        "spec": forgetting("Forget"),
        "status": {"podStates": {"w-0": state("node-1", "a"), "w-1": state("node-2", "b")}},
    });
    recorder.apply_pps(Update::Begin(0));
    let fact = read_pps(&object).unwrap();
    recorder.apply_pps(Update::Apply(key("p"), Box::new(fact)));
    recorder.apply_pps(Update::Done);
    recorder.apply(Fact::Nodes(Update::Begin(9)));
    assert!(
        recorder.take_work().absences.is_empty(),
        "the list is not complete yet"
    );
    recorder.apply(Fact::Nodes(Update::Apply(
        "node-2".into(),
        NodeFact::default(),
    )));
    recorder.apply(Fact::Nodes(Update::Done));
    assert_eq!(names(&recorder.take_work().absences), ["node-1"]);

    // A list without node-2, then the object is deleted.
    recorder.apply(Fact::Nodes(Update::Begin(9)));
    recorder.apply(Fact::Nodes(Update::Done));
    assert_eq!(names(&recorder.take_work().absences), ["node-2"]);
    recorder.apply_pps(Update::Delete(key("p")));
    assert_eq!(names(&recorder.take_work().absences), ["node-1", "node-2"]);
    assert!(!recorder.is_missing("node-1"));
}

#[test]
fn evicts_a_pending_pod_once_its_state_is_dropped() {
    let mut world = abandoned(&forgetting("Forget"));
    world.pod("w-0", waiting_for("a"));
    assert_eq!(world.recorder.decide_eviction(&key("w-0")), None);
    world.confirm_gone();
    assert!(world.patch("p").is_some());
    assert_eq!(
        world.recorder.decide_eviction(&key("w-0")),
        None,
        "its successor would get the same affinity"
    );
    world.recorder.take_work();
    world.accept("p");
    assert!(world.recorder.take_work().evictions.contains(&key("w-0")));
    let eviction = world.recorder.decide_eviction(&key("w-0")).unwrap();
    assert_eq!(
        (&*eviction.uid, &*eviction.resource_version),
        ("uid-0", "7")
    );
    assert_eq!(eviction.workload, workload("w"));
}

#[test]
fn evicts_a_pending_pod_after_a_restart() {
    let mut world = abandoned(&forgetting("Forget"));
    world.confirm_gone();
    world.settle("p");
    world.recorder.take_work();
    world.pod("w-0", waiting_for("a"));
    assert!(world.recorder.take_work().evictions.contains(&key("w-0")));
    assert!(world.recorder.decide_eviction(&key("w-0")).is_some());
}

#[test]
fn does_not_evict_a_schedulable_or_foreign_pod() {
    let world_after_forgetting = |pod: PodFact| {
        let mut world = abandoned(&forgetting("Forget"));
        world.confirm_gone();
        world.settle("p");
        world.pod("w-0", pod);
        world
    };
    let with = |change: fn(&mut PendingPod)| {
        let mut pod = waiting_for("a");
        change(pod.pending.as_deref_mut().unwrap());
        pod
    };
    assert!(
        world_after_forgetting(waiting_for("a"))
            .recorder
            .decide_eviction(&key("w-0"))
            .is_some()
    );
    for (pod, why) in [
        (waiting_for("b"), "node-2 is in zone b"),
        (
            with(|pending| {
                pending.required_affinity =
                    pps_core::required_affinity::RequiredAffinity::default();
            }),
            "it has no required affinity",
        ),
        (
            with(|pending| pending.pps = "other".into()),
            "its annotation names another PPS",
        ),
        (
            PodFact {
                terminating: true,
                ..waiting_for("a")
            },
            "it is terminating already",
        ),
        (
            PodFact {
                owner: None,
                ..waiting_for("a")
            },
            "no controller would create it again",
        ),
        (
            PodFact {
                owner: Some("uid-other".into()),
                ..waiting_for("a")
            },
            "no controller would create it again",
        ),
        (
            PodFact {
                pending: None,
                ..waiting_for("a")
            },
            "it has a node, or no annotation of the policy",
        ),
    ] {
        assert_eq!(
            world_after_forgetting(pod)
                .recorder
                .decide_eviction(&key("w-0")),
            None,
            "{why}"
        );
    }
    // Another node of the zone has joined.
    let mut world = world_after_forgetting(waiting_for("a"));
    world.node("node-3", &[("zone", "a")]);
    assert_eq!(world.recorder.decide_eviction(&key("w-0")), None);
    // The policy changes, or the workload is deleted.
    let mut world = world_after_forgetting(waiting_for("a"));
    world.object("p", &forgetting("Keep"), &json!({}));
    assert_eq!(world.recorder.decide_eviction(&key("w-0")), None);
    let mut world = world_after_forgetting(waiting_for("a"));
    world.recorder.apply(Fact::Workloads(
        GroupKind::stateful_set(),
        Update::Delete(key("w")),
    ));
    assert_eq!(world.recorder.decide_eviction(&key("w-0")), None);
    // Another object governs the workload.
    let mut world = world_after_forgetting(waiting_for("a"));
    world.object("w", &forgetting("Forget"), &json!({}));
    assert_eq!(world.recorder.decide_eviction(&key("w-0")), None);
    // The annotation names another workload's object.
    let mut world = world_after_forgetting(waiting_for("a"));
    let mut of_another = forgetting("Forget");
    of_another["targetRef"]["name"] = "v".into();
    world.workload("v", "uid-v", 1, &[]);
    world.object("p", &of_another, &json!({}));
    assert_eq!(world.recorder.decide_eviction(&key("w-0")), None);
}

#[test]
fn does_not_evict_before_all_node_labels_are_known() {
    let mut world = abandoned(&forgetting("Forget"));
    world.confirm_gone();
    world.settle("p");
    let revision = world.recorder.cluster.interest.revision();
    world.recorder.apply(Fact::Nodes(Update::Begin(revision)));
    world.node("node-2", &[("zone", "b")]);
    world.recorder.apply(Fact::Nodes(Update::Done));
    world.pod("w-0", waiting_for("a"));
    assert!(world.recorder.decide_eviction(&key("w-0")).is_some());

    // New keys of another object make no difference.
    let mut other = spec("other");
    other["requiredPersistentTopology"] = json!({"nodeTopologyKeys": ["rack"]});
    world.object("other", &other, &json!({}));
    assert!(world.recorder.decide_eviction(&key("w-0")).is_some());
    let revision = world.recorder.cluster.interest.revision();
    let mut wider = forgetting("Forget");
    wider["requiredPersistentTopology"]["nodeTopologyKeys"] = json!(["zone", "host"]);
    world.object("p", &wider, &json!({}));
    world.recorder.take_work();
    assert_eq!(world.recorder.decide_eviction(&key("w-0")), None);
    world
        .recorder
        .apply(Fact::Nodes(Update::Begin(revision + 1)));
    world.node("node-2", &[("zone", "b"), ("host", "node-2")]);
    world.recorder.apply(Fact::Nodes(Update::Done));
    assert!(
        world.recorder.take_work().evictions.contains(&key("w-0")),
        "the work comes up again"
    );
    assert!(world.recorder.decide_eviction(&key("w-0")).is_some());
}

#[test]
fn examines_pending_pods_again_when_nodes_change() {
    let mut world = abandoned(&forgetting("Forget"));
    world.pod("w-0", waiting_for("a"));
    assert!(
        world.recorder.cluster.pods.waiting.contains(&key("w-0"))
            && !world.recorder.cluster.pods.waiting.contains(&key("w-1"))
    );
    let mut is_examined_after = |what: &str, change: &dyn Fn(&mut World)| {
        world.recorder.take_work();
        change(&mut world);
        assert!(
            world.recorder.take_work().evictions.contains(&key("w-0")),
            "{what}"
        );
    };
    is_examined_after("a node joins", &|world| {
        world.node("node-3", &[("zone", "a")]);
    });
    is_examined_after("a node changes", &|world| {
        world.node("node-3", &[("zone", "c")]);
    });
    is_examined_after("a node is deleted", &|world| {
        world
            .recorder
            .apply(Fact::Nodes(Update::Delete("node-3".into())));
    });
    is_examined_after("the Pod is bound", &|world| {
        world.pod("w-0", ready_on("node-2"));
    });
    assert!(!world.recorder.cluster.pods.waiting.contains(&key("w-0")));
}
