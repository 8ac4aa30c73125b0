//! Nodes that go, and objects that forget them.

use super::*;
use crate::facts::PendingPod;

fn forgetting(policy: &str) -> Value {
    let mut spec = spec("w");
    spec["nodeDeletionPolicy"] = policy.into();
    spec
}

/// `w-0` ran on node-1, which is in zone a, and is gone with it.
fn abandoned(spec: &Value) -> World {
    let mut world = World::new();
    world.workload("w", "uid-w", 3, &[]);
    world.object("p", spec, &json!({}));
    world.pod("w-0", ready_on("node-1"));
    world.pod("w-1", ready_on("node-2"));
    world.settle("p");
    world.index.apply_pods(Update::Delete(key("w-0")));
    world.index.take_work();
    world.index.apply_nodes(Update::Delete("node-1".into()));
    world
}

fn names<'a>(names: impl IntoIterator<Item = &'a Arc<str>>) -> Vec<String> {
    names.into_iter().map(ToString::to_string).collect()
}

/// Pending, with the policy's mark and pins to these zones.
fn waiting_for(zone: &str) -> PodFact {
    let pins = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]}}});
    let pending = PendingPod {
        uid: "uid-0".into(),
        resource_version: "7".into(),
        object: "p".into(),
        required_affinity: serde_json::from_value(pins).unwrap(),
    };
    PodFact { owner: Some("uid-w".into()), pending: Some(Box::new(pending)), ..PodFact::default() }
}

impl World {
    /// The grace period of node-1 ends and the API server says that it is gone.
    fn confirm_gone(&mut self) {
        self.index.on_node_overdue(&"node-1".into());
        self.settle("p");
        assert_eq!(names(&self.index.take_unconfirmed_nodes()), ["node-1"]);
        self.index.on_node_gone(&"node-1".into());
    }
}

#[test]
fn what_was_recorded_on_a_node_goes_when_the_node_is_confirmed_gone() {
    let mut world = abandoned(&forgetting("Forget"));
    assert_eq!(names(&world.index.take_work().absences), ["node-1"]);
    assert!(world.index.is_missing("node-1") && !world.index.is_missing("node-2"));
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0", "w-1"], "it may come back");
    assert!(world.index.take_unconfirmed_nodes().is_empty());

    world.index.on_node_overdue(&"node-1".into());
    assert!(world.index.take_work().statuses.contains(&key("p")));
    assert_eq!(world.patch("p"), None, "not before it is confirmed");
    assert_eq!(names(&world.index.take_unconfirmed_nodes()), ["node-1"]);

    world.index.on_node_gone(&"node-1".into());
    assert!(world.index.take_work().statuses.contains(&key("p")));
    let write = world.index.status_write(&key("p"), NOW).unwrap();
    assert_eq!(write.patch["status"], json!({"podStates": {"w-0": null}, "recorded": 1}));
    assert_eq!(write.forgotten, [("node-1".to_owned(), "w-0".into())]);
    world.accept("p");
    assert_eq!(names(&world.index.take_work().absences), ["node-1"], "nobody names it any longer");
    assert!(!world.index.is_missing("node-1"));
}

#[test]
fn what_is_to_be_kept_is_kept() {
    for policy in [json!("Keep"), Value::Null] {
        let mut spec = spec("w");
        spec["nodeDeletionPolicy"] = policy;
        let mut world = abandoned(&spec);
        assert!(world.index.take_work().absences.is_empty());
        for found in [Index::on_node_overdue, Index::on_node_gone] {
            found(&mut world.index, &"node-1".into());
            world.settle("p");
        }
        assert_eq!(world.states("p"), ["w-0", "w-1"]);
        world.pod("w-0", waiting_for("a"));
        assert_eq!(world.index.eviction(&key("w-0")), None);
        assert!(world.index.take_unconfirmed_nodes().is_empty());
    }
}

#[test]
fn the_retention_policy_makes_no_difference() {
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
fn a_node_that_comes_back_costs_nothing() {
    let mut world = abandoned(&forgetting("Forget"));
    world.confirm_gone();
    world.index.take_work();
    world.node("node-1", &[("zone", "a")]);
    assert_eq!(names(&world.index.take_work().absences), ["node-1"]);
    // Answers that come late.
    for found in [Index::on_node_overdue, Index::on_node_gone] {
        found(&mut world.index, &"node-1".into());
        world.settle("p");
    }
    assert_eq!(world.states("p"), ["w-0", "w-1"]);

    // Gone again: it is excused anew.
    world.index.apply_nodes(Update::Delete("node-1".into()));
    world.settle("p");
    assert!(world.index.is_missing("node-1") && world.index.take_unconfirmed_nodes().is_empty());
    assert_eq!(world.states("p"), ["w-0", "w-1"]);
}

#[test]
fn an_old_or_contrary_answer_does_not_count() {
    for found in [Index::on_node_overdue, Index::on_node_there] {
        let mut world = abandoned(&forgetting("Forget"));
        world.confirm_gone();
        found(&mut world.index, &"node-1".into());
        world.settle("p");
        assert_eq!(world.states("p"), ["w-0", "w-1"]);
    }
}

#[test]
fn an_answer_to_a_question_of_an_earlier_absence_does_not_count() {
    let mut world = abandoned(&forgetting("Forget"));
    world.index.on_node_overdue(&"node-1".into());
    world.node("node-1", &[("zone", "a")]);
    world.index.apply_nodes(Update::Delete("node-1".into()));
    world.index.on_node_gone(&"node-1".into());
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0", "w-1"]);
}

#[test]
fn a_foreign_write_does_not_begin_the_grace_period_anew() {
    let mut world = abandoned(&forgetting("Forget"));
    world.index.on_node_overdue(&"node-1".into());
    world.index.take_work();
    let status = world.status("p");
    world.object("p", &forgetting("Forget"), &status);
    assert!(world.index.take_work().absences.is_empty());
    world.settle("p");
    assert_eq!(names(&world.index.take_unconfirmed_nodes()), ["node-1"]);
}

#[test]
fn a_policy_that_changes_counts_from_then_on() {
    let mut world = abandoned(&forgetting("Keep"));
    let status = world.status("p");
    world.object("p", &forgetting("Forget"), &status);
    assert_eq!(names(&world.index.take_work().absences), ["node-1"]);
    world.confirm_gone();
    world.object("p", &forgetting("Keep"), &status);
    assert_eq!(names(&world.index.take_work().absences), ["node-1"]);
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0", "w-1"]);
}

#[test]
fn a_state_that_a_pod_backs_stays_until_the_pod_is_gone() {
    let backing = [
        ready_on("node-1"),
        PodFact { owner: None, ..ready_on("node-1") },
        // On its way up elsewhere: it has been given its annotations and will be recorded there.
        PodFact { ready: false, ..ready_on("node-2") },
    ];
    for pod in backing {
        let mut world = abandoned(&forgetting("Forget"));
        world.pod("w-0", pod.clone());
        world.index.on_node_overdue(&"node-1".into());
        world.settle("p");
        assert!(world.index.take_unconfirmed_nodes().is_empty(), "{pod:?}");
        world.index.on_node_gone(&"node-1".into());
        world.settle("p");
        assert_eq!(world.states("p"), ["w-0", "w-1"], "{pod:?}");
        world.index.on_node_overdue(&"node-1".into());

        world.index.apply_pods(Update::Delete(key("w-0")));
        world.confirm_gone();
        world.settle("p");
        assert_eq!(world.states("p"), ["w-1"], "{pod:?}");
    }
}

#[test]
fn a_pod_that_is_left_on_the_node_backs_nothing_unless_it_is_ready() {
    for pod in
        [PodFact { ready: false, ..ready_on("node-1") }, PodFact { terminating: true, ..ready_on("node-1") }]
    {
        let mut world = abandoned(&forgetting("Forget"));
        world.pod("w-0", pod);
        world.confirm_gone();
        world.settle("p");
        assert_eq!(world.states("p"), ["w-1"]);
    }
}

#[test]
fn a_node_that_was_gone_before_the_start_is_missing_once_all_are_listed() {
    let mut index = Index::new(Interest::default());
    let object = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "uid-p", "resourceVersion": "1"},
        "spec": forgetting("Forget"),
        "status": {"podStates": {"w-0": state("node-1", "a"), "w-1": state("node-2", "b")}},
    });
    index.apply_objects(Update::Begin(0));
    let fact = wire::object_fact(serde_json::from_value(object).unwrap());
    index.apply_objects(Update::Apply(key("p"), Box::new(fact)));
    index.apply_objects(Update::Done);
    index.apply_nodes(Update::Begin(9));
    assert!(index.take_work().absences.is_empty(), "the list has not come yet");
    index.apply_nodes(Update::Apply("node-2".into(), NodeFact::default()));
    index.apply_nodes(Update::Done);
    assert_eq!(names(&index.take_work().absences), ["node-1"]);

    // A list that does not name it, and an object that goes.
    index.apply_nodes(Update::Begin(9));
    index.apply_nodes(Update::Done);
    assert_eq!(names(&index.take_work().absences), ["node-2"]);
    index.apply_objects(Update::Delete(key("p")));
    assert_eq!(names(&index.take_work().absences), ["node-1", "node-2"]);
    assert!(!index.is_missing("node-1"));
}

#[test]
fn a_pod_that_waits_for_what_is_gone_is_released_once_its_state_is_dropped() {
    let mut world = abandoned(&forgetting("Forget"));
    world.pod("w-0", waiting_for("a"));
    assert_eq!(world.index.eviction(&key("w-0")), None);
    world.confirm_gone();
    assert!(world.patch("p").is_some());
    assert_eq!(world.index.eviction(&key("w-0")), None, "it would be pinned again");
    world.index.take_work();
    world.accept("p");
    assert!(world.index.take_work().evictions.contains(&key("w-0")));
    let eviction = world.index.eviction(&key("w-0")).unwrap();
    assert_eq!((&*eviction.uid, &*eviction.resource_version), ("uid-0", "7"));
    assert_eq!(eviction.workload, workload("w"));
}

#[test]
fn a_pod_is_released_after_a_restart_too() {
    let mut world = abandoned(&forgetting("Forget"));
    world.confirm_gone();
    world.settle("p");
    world.index.take_work();
    world.pod("w-0", waiting_for("a"));
    assert!(world.index.take_work().evictions.contains(&key("w-0")));
    assert!(world.index.eviction(&key("w-0")).is_some());
}

#[test]
fn a_pod_that_may_still_get_a_node_or_is_not_ours_is_not_released() {
    let forgotten = |pod: PodFact| {
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
    assert!(forgotten(waiting_for("a")).index.eviction(&key("w-0")).is_some());
    for (pod, why) in [
        (waiting_for("b"), "node-2 is in zone b"),
        (
            with(|pending| {
                pending.required_affinity = pps_core::required_affinity::RequiredAffinity::default()
            }),
            "it is not pinned",
        ),
        (with(|pinned| pinned.object = "other".into()), "somebody else pinned it"),
        (PodFact { terminating: true, ..waiting_for("a") }, "it goes anyway"),
        (PodFact { owner: None, ..waiting_for("a") }, "nobody would make it anew"),
        (PodFact { owner: Some("uid-other".into()), ..waiting_for("a") }, "nobody would make it anew"),
        (PodFact { pending: None, ..waiting_for("a") }, "it has a node, or no mark"),
    ] {
        assert_eq!(forgotten(pod).index.eviction(&key("w-0")), None, "{why}");
    }
    // Another node of the zone has come.
    let mut world = forgotten(waiting_for("a"));
    world.node("node-3", &[("zone", "a")]);
    assert_eq!(world.index.eviction(&key("w-0")), None);
    // The policy has changed; the workload goes.
    let mut world = forgotten(waiting_for("a"));
    world.object("p", &forgetting("Keep"), &json!({}));
    assert_eq!(world.index.eviction(&key("w-0")), None);
    let mut world = forgotten(waiting_for("a"));
    world.index.apply_workloads(&GroupKind::stateful_set(), Update::Delete(key("w")));
    assert_eq!(world.index.eviction(&key("w-0")), None);
    // Another object is in charge.
    let mut world = forgotten(waiting_for("a"));
    world.object("w", &forgetting("Forget"), &json!({}));
    assert_eq!(world.index.eviction(&key("w-0")), None);
    // The mark names an object of another workload.
    let mut world = forgotten(waiting_for("a"));
    let mut of_another = forgetting("Forget");
    of_another["targetRef"]["name"] = "v".into();
    world.workload("v", "uid-v", 1, &[]);
    world.object("p", &of_another, &json!({}));
    assert_eq!(world.index.eviction(&key("w-0")), None);
}

#[test]
fn no_pod_is_released_before_the_labels_of_all_nodes_are_known() {
    let mut world = abandoned(&forgetting("Forget"));
    world.confirm_gone();
    world.settle("p");
    let revision = world.index.interest.labels().revision();
    world.index.apply_nodes(Update::Begin(revision));
    world.node("node-2", &[("zone", "b")]);
    world.index.apply_nodes(Update::Done);
    world.pod("w-0", waiting_for("a"));
    assert!(world.index.eviction(&key("w-0")).is_some());

    // Of another object it does not matter.
    let mut other = spec("other");
    other["requiredPersistentTopology"] = json!({"nodeTopologyKeys": ["rack"]});
    world.object("other", &other, &json!({}));
    assert!(world.index.eviction(&key("w-0")).is_some());
    let revision = world.index.interest.labels().revision();
    let mut wider = forgetting("Forget");
    wider["requiredPersistentTopology"]["nodeTopologyKeys"] = json!(["zone", "host"]);
    world.object("p", &wider, &json!({}));
    world.index.take_work();
    assert_eq!(world.index.eviction(&key("w-0")), None);
    world.index.apply_nodes(Update::Begin(revision + 1));
    world.node("node-2", &[("zone", "b"), ("host", "node-2")]);
    world.index.apply_nodes(Update::Done);
    assert!(world.index.take_work().evictions.contains(&key("w-0")), "it is brought up again");
    assert!(world.index.eviction(&key("w-0")).is_some());
}

#[test]
fn pods_that_wait_are_looked_at_again_when_nodes_come_and_go() {
    let mut world = abandoned(&forgetting("Forget"));
    world.pod("w-0", waiting_for("a"));
    assert!(world.index.is_pending(&key("w-0")) && !world.index.is_pending(&key("w-1")));
    let mut looked_at = |what: &str, change: &dyn Fn(&mut World)| {
        world.index.take_work();
        change(&mut world);
        assert!(world.index.take_work().evictions.contains(&key("w-0")), "{what}");
    };
    looked_at("a node comes", &|world| world.node("node-3", &[("zone", "a")]));
    looked_at("a node changes", &|world| world.node("node-3", &[("zone", "c")]));
    looked_at("a node goes", &|world| world.index.apply_nodes(Update::Delete("node-3".into())));
    looked_at("the Pod gets a node", &|world| world.pod("w-0", ready_on("node-2")));
    assert!(!world.index.is_pending(&key("w-0")));
}
