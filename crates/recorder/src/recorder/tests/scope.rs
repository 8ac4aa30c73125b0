//! Namespaces in and out of scope.

use pps_core::DEFAULT_NAMESPACE_SELECTOR;

use super::node_deletion::{forgetting, waiting_for};
use super::*;

impl World {
    fn enable(&mut self) {
        self.recorder
            .apply(Fact::Namespaces(Update::Apply("n".into(), ())));
    }

    fn disable(&mut self) {
        self.recorder
            .apply(Fact::Namespaces(Update::Delete("n".into())));
    }

    /// Has the recorder follow the scope; `n` is not in it.
    fn opt_in(&mut self, selector: &str) {
        self.recorder.select_namespaces(selector);
        self.recorder.apply(Fact::Namespaces(Update::Begin(0)));
        self.recorder.apply(Fact::Namespaces(Update::Done));
    }

    fn recording(&mut self) -> Value {
        self.settle("p");
        self.status("p")["conditions"][0].take()
    }
}

/// `w-0` is recorded on node-1, and the namespace has left the scope.
fn left() -> World {
    let mut world = World::with_workload();
    world.opt_in(DEFAULT_NAMESPACE_SELECTOR);
    world.enable();
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0"]);
    world.disable();
    world
}

#[test]
fn a_namespace_out_of_scope_says_how_to_enable_it() {
    let mut world = left();
    assert!(world.recorder.take_work().statuses.contains(&key("p")));
    let condition = world.recording();
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("NamespaceNotEnabled"))
    );
    let message = condition["message"].as_str().unwrap();
    let command = "kubectl label namespace n persistent-pod-state/injection=enabled";
    assert!(message.starts_with(command), "{message}");

    world.enable();
    assert_eq!(world.recording()["reason"], "WaitingForPods");

    let mut world = World::with_workload();
    world.opt_in("team in (a, b)");
    world.object("p", &spec("w"), &json!({}));
    let message = world.recording()["message"].take();
    assert!(
        message.as_str().unwrap().contains("match team in (a, b)"),
        "{message}"
    );
}

#[test]
fn states_outlive_the_time_out_of_scope() {
    let mut world = left();
    world.settle("p");
    let before = world.status("p")["podStates"].take();
    world.pod("w-0", ready_on("node-2"));
    world.pod("w-1", ready_on("node-2"));
    world.workload("w", "uid-w", 0, &[]);
    world.settle("p");
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
    world.recorder.apply(Fact::Workloads(
        GroupKind::stateful_set(),
        Update::Delete(key("w")),
    ));
    world.settle("p");
    assert_eq!(
        world.status("p")["podStates"],
        before,
        "neither recorded, replaced nor dropped"
    );

    world.workload("w", "uid-w", 3, &[]);
    world.pod("w-0", ready_on("node-2"));
    world.settle("p");
    world.recorder.take_work();
    world.enable();
    assert!(
        world.recorder.take_work().statuses.contains(&key("p")),
        "everything is examined"
    );
    world.settle("p");
    let states = json!({"w-0": state("node-2", "b"), "w-1": state("node-2", "b")});
    assert_eq!(world.status("p")["podStates"], states);
}

#[test]
fn nothing_is_generated_or_deleted_out_of_scope() {
    let mut world = World::new();
    world.opt_in(DEFAULT_NAMESPACE_SELECTOR);
    world.workload("w", "uid-1", 3, ASK);
    assert_eq!(world.recorder.decide_generated(&workload("w")), None);
    world.recorder.take_work();
    world.enable();
    assert!(
        world
            .recorder
            .take_work()
            .generated
            .contains(&workload("w"))
    );
    assert!(matches!(
        world.recorder.decide_generated(&workload("w")),
        Some(GeneratedPps::Create { .. })
    ));
    let (metadata, spec) = generated("w", "uid-1");
    world.object_with("w", &metadata, &spec, &json!({}));
    world.recorder.on_generated_done(&workload("w"), true);

    world.disable();
    world.workload("w", "uid-1", 3, &[]);
    assert_eq!(
        world.recorder.decide_generated(&workload("w")),
        None,
        "the states would go with the object"
    );
    world.enable();
    assert!(matches!(
        world.recorder.decide_generated(&workload("w")),
        Some(GeneratedPps::Delete { .. })
    ));
}

#[test]
fn no_pod_is_evicted_out_of_scope() {
    let mut world = World::new();
    world.opt_in(DEFAULT_NAMESPACE_SELECTOR);
    world.workload("w", "uid-w", 3, &[]);
    world.object("p", &forgetting("Forget"), &json!({}));
    world.pod("w-0", waiting_for("z"));
    assert_eq!(world.recorder.decide_eviction(&key("w-0")), None);
    world.recorder.take_work();
    world.enable();
    assert!(world.recorder.take_work().evictions.contains(&key("w-0")));
    assert!(world.recorder.decide_eviction(&key("w-0")).is_some());
}

#[test]
fn nothing_is_decided_before_the_namespaces_are_listed() {
    let mut world = World::with_workload();
    world.recorder.select_namespaces(DEFAULT_NAMESPACE_SELECTOR);
    world.pod("w-0", ready_on("node-1"));
    assert!(!world.recorder.is_complete());
    assert_eq!(world.patch("p"), None);
    world.recorder.apply(Fact::Namespaces(Update::Begin(0)));
    world.enable();
    assert_eq!(world.patch("p"), None);
    world.recorder.apply(Fact::Namespaces(Update::Done));
    assert_eq!(world.pod_states("p"), json!({"w-0": state("node-1", "a")}));
    world.accept("p");

    // A new list no longer has it.
    world.recorder.apply(Fact::Namespaces(Update::Begin(0)));
    world.recorder.apply(Fact::Namespaces(Update::Done));
    assert_eq!(world.recording()["reason"], "NamespaceNotEnabled");
}

#[test]
fn what_is_out_of_scope_does_not_count_as_missing() {
    let mut world = World::with_workload();
    assert_eq!(world.recorder.counts().missing_states, 3);
    world.opt_in(DEFAULT_NAMESPACE_SELECTOR);
    assert_eq!(world.recorder.counts().missing_states, 0);
}
