//! Requirements with an end.

use super::node_deletion::{abandoned, forgetting, waiting_for};
use super::*;
use crate::fallback::Question;

fn bounded() -> Value {
    let mut spec = spec("w");
    spec["requiredPersistentTopology"]["fallbackAfterSeconds"] = 600.into();
    spec
}

/// `w-0` was recorded on node-1 in zone a, and waits for the zone.
fn waiting(spec: &Value) -> World {
    let mut world = World::new();
    world.workload("w", "uid-w", 3, &[]);
    world.object(
        "p",
        spec,
        &json!({"targetUID": "uid-w", "podStates": {"w-0": state("node-1", "a")}}),
    );
    world.settle("p");
    world.pod("w-0", waiting_for("a"));
    world
}

fn questions(world: &World) -> Vec<(String, Question)> {
    let candidates = world.recorder.fallback_candidates().into_iter();
    candidates
        .map(|one| (one.pod.name.to_string(), one.question))
        .collect()
}

fn condition(world: &World) -> (String, String) {
    let condition = &world.status("p")["conditions"][0];
    let text = |field: &str| condition[field].as_str().unwrap().to_owned();
    (text("status") + " " + &text("reason"), text("message"))
}

#[test]
fn a_pod_that_waits_for_a_place_with_an_end_is_a_candidate() {
    let world = waiting(&bounded());
    let candidates = world.recorder.fallback_candidates();
    let [candidate] = &candidates[..] else {
        panic!("{candidates:?}")
    };
    assert_eq!(
        (candidate.pod.clone(), candidate.wait.as_secs()),
        (key("w-0"), 600)
    );
    assert_eq!((&*candidate.uid, &*candidate.pps_uid), ("uid-0", "uid-p"));
    assert_eq!(json!(candidate.state), state("node-1", "a"));
    assert_eq!(candidate.question, Question::GiveUp);
}

#[test]
fn a_pod_that_does_not_wait_for_its_recorded_place_is_no_candidate() {
    assert_eq!(questions(&waiting(&spec("w"))), [], "without an end");
    let changes: [fn(&mut PodFact); 6] = [
        |pod| pod.terminating = true,
        |pod| pod.exempt = true,
        |pod| pod.owner = Some("uid-other".into()),
        // It is gated, runs, or has no marker.
        |pod| pod.pending = None,
        |pod| pod.node = Some("node-2".into()),
        |pod| pod.pending.as_mut().unwrap().is_unschedulable = false,
    ];
    for change in changes {
        let mut world = waiting(&bounded());
        let mut pod = waiting_for("a");
        change(&mut pod);
        world.pod("w-0", pod);
        assert_eq!(questions(&world), []);
    }
    let mut world = waiting(&bounded());
    let mut free = waiting_for("a");
    free.pending.as_mut().unwrap().required_affinity = serde_json::from_value(json!({})).unwrap();
    world.pod("w-0", free);
    assert_eq!(questions(&world), [], "it requires nothing");
    let mut world = waiting(&bounded());
    world.pod("w-1", waiting_for("a"));
    assert_eq!(questions(&world).len(), 1, "nothing is recorded of w-1");
}

#[test]
fn only_the_governing_object_in_scope_bounds_a_requirement() {
    let mut world = waiting(&bounded());
    world.object("w", &spec("w"), &json!({}));
    assert_eq!(questions(&world), [], "it has the name of the workload");
    let mut world = waiting(&bounded());
    world.recorder.select_namespaces("take-part=yes");
    assert_eq!(questions(&world), []);
    let mut world = waiting(&bounded());
    world.recorder.apply(Fact::Nodes(Update::Begin(u64::MAX)));
    assert_eq!(questions(&world).len(), 1, "what was listed is known");
    assert!(
        World::with_unknown_kinds()
            .recorder
            .fallback_candidates()
            .is_empty()
    );
}

#[test]
fn a_pod_that_requires_what_is_no_longer_recorded_is_to_be_created_again() {
    for (recorded, expected) in [
        (json!({}), Some(Question::CreateAgain)),
        (state("node-2", "b"), Some(Question::CreateAgain)),
        (state("node-1", "a"), Some(Question::GiveUp)),
        // A status that was erased is no place that was given up.
        (Value::Null, None),
    ] {
        let mut world = World::new();
        world.workload("w", "uid-w", 3, &[]);
        let status = json!({"targetUID": "uid-w", "podStates": {"w-0": recorded}});
        let status = if recorded.is_null() {
            json!({})
        } else {
            status
        };
        world.object("p", &bounded(), &status);
        world.pod("w-0", waiting_for("a"));
        let questions: Vec<_> = questions(&world).into_iter().map(|(_, one)| one).collect();
        assert_eq!(questions, Vec::from_iter(expected), "{recorded}");
    }
}

/// The entry that a fallback empties must outlive the Pod's next start.
#[test]
fn an_emptied_entry_stays_until_the_pod_is_recorded_again() {
    for policy in ["Always", "IfNotPresent"] {
        let mut spec = bounded();
        spec["recordingPolicy"] = policy.into();
        let mut world = waiting(&spec);
        world.object("p", &spec, &json!({"targetUID": "uid-w", "podStates": {"w-0": {"annotations": {"ip": "10.0.0.1"}}}}));
        world.settle("p");
        world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
        world.settle("p");
        assert_eq!(world.states("p"), ["w-0"]);
        world.pod(
            "w-0",
            PodFact {
                ready: false,
                ..ready_on("node-2")
            },
        );
        world.settle("p");
        assert_eq!(
            world.status("p")["podStates"]["w-0"],
            json!({"annotations": {"ip": "10.0.0.1"}})
        );
        world.pod("w-0", ready_on("node-2"));
        world.settle("p");
        assert_eq!(
            world.status("p")["podStates"]["w-0"],
            state("node-2", "b"),
            "{policy}"
        );
    }
}

#[test]
fn the_condition_says_why_a_pod_keeps_its_place_until_it_waits_no_longer() {
    let mut world = waiting(&bounded());
    let [candidate] = &world.recorder.fallback_candidates()[..] else {
        panic!("no candidate")
    };
    world.recorder.take_work();
    for _ in 0..2 {
        world
            .recorder
            .on_fallback_blocked(candidate, "do this".into());
    }
    let work = world.recorder.take_work();
    assert_eq!(work.notices.len(), 1, "reported once");
    assert!(work.statuses.contains(&key("p")));
    world.settle("p");
    assert_eq!(
        condition(&world),
        ("False FallbackBlocked".into(), "do this".into())
    );
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    assert_eq!(condition(&world).0, "True WaitingForPods");
}

#[test]
fn the_condition_says_what_was_given_up_until_the_pod_is_ready() {
    let mut world = waiting(&bounded());
    let [candidate] = &world.recorder.fallback_candidates()[..] else {
        panic!("no candidate")
    };
    world
        .recorder
        .on_fell_back(candidate, "w-0 gave up zone=a".into());
    let notices = world.recorder.take_work().notices;
    assert_eq!(
        notices.iter().map(|one| one.reason).collect::<Vec<_>>(),
        [Reason::FellBack]
    );
    world.settle("p");
    assert_eq!(
        condition(&world),
        ("True FellBack".into(), "w-0 gave up zone=a".into())
    );
    world.pod("w-0", ready_on("node-2"));
    world.settle("p");
    assert_eq!(condition(&world).0, "True WaitingForPods");
    // The next Pod of the name has given nothing up.
    world.recorder.pass_time(std::time::Instant::now(), 0);
    world.pod("w-0", waiting_for("b"));
    world.settle("p");
    assert_eq!(condition(&world).0, "True WaitingForPods");
}

#[test]
fn what_was_given_up_is_forgotten_by_another_leader_and_with_the_pod() {
    for is_scaled_down in [true, false] {
        let mut world = waiting(&bounded());
        let candidate = world.recorder.fallback_candidates().remove(0);
        let message = "w-0 gave up zone=a".to_owned();
        world.recorder.on_fell_back(&candidate, message);
        world.settle("p");
        assert_eq!(condition(&world).0, "True FellBack");
        if is_scaled_down {
            world.workload("w", "uid-w", 0, &[]);
            let gone = Update::Delete(key("w-0"));
            world.recorder.apply(Fact::Pods(gone));
            world.settle("p");
            world.recorder.pass_time(std::time::Instant::now(), 0);
        } else {
            world.recorder.begin_term();
        }
        world.settle("p");
        assert_ne!(condition(&world).0, "True FellBack");
    }
}

/// `nodeDeletionPolicy: Forget` frees a Pod by its own rule. What comes first decides.
#[test]
fn a_forgotten_place_is_not_given_up_as_well() {
    let mut spec = forgetting("Forget");
    spec["requiredPersistentTopology"]["fallbackAfterSeconds"] = 600.into();
    let mut world = abandoned(&spec);
    world.pod("w-0", waiting_for("a"));
    let during_the_grace_period = [("w-0".to_owned(), Question::GiveUp)];
    assert_eq!(questions(&world), during_the_grace_period);
    world.confirm_gone();
    world.settle("p");
    assert_eq!(world.states("p"), ["w-1"]);
    assert_eq!(questions(&world), []);
    assert!(world.recorder.decide_eviction(&key("w-0")).is_some());
}
