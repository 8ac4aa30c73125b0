//! Objects that grow until the API server refuses them.

use super::*;

/// A Pod whose recorded annotation has this many bytes.
fn pod_of(bytes: usize) -> PodFact {
    PodFact {
        annotations: vec![("ip".into(), "x".repeat(bytes).into())],
        ..ready_on("node-1")
    }
}

impl World {
    fn condition(&self, object: &str) -> (String, String) {
        let condition = &self.tracked(object).observed.status.header.conditions[0];
        (condition.status.clone(), condition.reason.clone())
    }

    fn names_in(patch: &Value) -> Vec<String> {
        patch["podStates"]
            .as_object()
            .into_iter()
            .flat_map(|states| states.keys().cloned())
            .collect()
    }

    fn refuse(&mut self) {
        self.recorder
            .on_status_done(&key("p"), "uid-p", StatusOutcome::TooLarge);
        assert!(
            self.recorder.take_work().statuses.contains(&key("p")),
            "the write is tried again"
        );
    }

    /// Writes until the object is up to date, against an API server that stores at most `limit`
    /// bytes of entries. Returns how many writes it refused.
    fn settle_within(&mut self, limit: usize) -> usize {
        let mut refused = 0;
        while let Some(patch) = self.patch("p") {
            let states = &self.tracked("p").observed.status.pod_states;
            let removed: usize = Self::names_in(&patch)
                .iter()
                .map(|name| states.size_of(name))
                .sum();
            if states.size() - removed + patch["podStates"].to_string().len() > limit
                && !patch["podStates"].is_null()
            {
                refused += 1;
                assert!(refused < 20, "no progress: {patch}");
                self.refuse();
            } else {
                self.accept("p");
            }
        }
        refused
    }
}

#[test]
fn reports_near_capacity_once() {
    let mut world = World::with_workload();
    world.recorder.limit_objects(100 * 1024);
    world.pod("w-0", pod_of(85 * 1024));
    world.settle("p");
    assert_eq!(world.condition("p").1, "WaitingForPods");
    assert_eq!(world.recorder.counts().near_capacity, 0);

    world.recorder.take_work();
    world.pod("w-1", pod_of(7 * 1024));
    let status = world.patch("p").unwrap();
    let message = status["conditions"][0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("split the workload")
            && message.contains("2 states take 90 % of the 100 KiB"),
        "{message}"
    );
    let notices = world.recorder.take_work().notices;
    assert_eq!(
        (notices.len(), notices[0].reason),
        (1, Reason::NearCapacity)
    );
    world.accept("p");
    assert_eq!(world.condition("p"), ("True".into(), "NearCapacity".into()));
    assert_eq!(
        (
            world.recorder.counts().near_capacity,
            world.recorder.counts().exceeded_capacity
        ),
        (1, 0)
    );
    assert_eq!(world.patch("p"), None);

    // A little below the threshold it still counts as near, without a second Event.
    world.pod("w-1", pod_of(2 * 1024));
    world.settle("p");
    assert_eq!(world.condition("p").1, "NearCapacity");
    assert_eq!(world.recorder.counts().near_capacity, 1);
    assert!(world.recorder.take_work().notices.is_empty());
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
    world.workload("w", "uid-w", 0, &[]);
    world.settle("p");
    assert_eq!(world.condition("p").1, "AllRecorded");
    assert!(world.recorder.counts().largest_object_bytes < 5 * 1024);
}

#[test]
fn an_object_stays_below_its_limit_before_the_api_server_refuses_anything() {
    let mut world = World::with_workload();
    world.recorder.limit_objects(100 * 1024);
    for name in ["w-0", "w-1", "w-2"] {
        world.pod(name, pod_of(45 * 1024));
    }
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0", "w-1"]);
    assert_eq!(
        world.condition("p"),
        ("False".into(), "CapacityExceeded".into())
    );
    assert_eq!(
        (
            world.recorder.counts().near_capacity,
            world.recorder.counts().exceeded_capacity
        ),
        (0, 1)
    );
    assert!(world.recorder.counts().largest_object_bytes < 100 * 1024);
    assert_eq!(
        world.patch("p"),
        None,
        "nothing is retried while nothing changes"
    );

    // A state that is dropped makes room.
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
    let demand = Demand::numbered(1, 2);
    let fact = WorkloadFact {
        api_version: "apps/v1".into(),
        uid: "uid-w".into(),
        demand,
        ..WorkloadFact::default()
    };
    world.recorder.apply(Fact::Workloads(
        GroupKind::stateful_set(),
        Update::Apply(key("w"), fact),
    ));
    world.settle("p");
    assert_eq!(
        (world.states("p"), world.condition("p").0),
        (vec!["w-1".into(), "w-2".into()], "True".into())
    );
}

#[test]
fn a_state_that_is_too_large_keeps_no_other_out() {
    let mut world = World::with_workload();
    world.recorder.limit_objects(100 * 1024);
    world.pod("w-0", pod_of(120 * 1024));
    for name in ["w-1", "w-2"] {
        world.pod(name, pod_of(1024));
    }
    world.settle("p");
    assert_eq!(
        (world.states("p"), world.recorder.counts().exceeded_capacity),
        (vec!["w-1".into(), "w-2".into()], 1)
    );
}

#[test]
fn an_object_that_is_above_its_limit_grows_no_further_and_follows_its_pods() {
    let mut world = World::with_workload();
    for name in ["w-0", "w-1"] {
        world.pod(name, pod_of(45 * 1024));
    }
    world.settle("p");
    // As it was recorded by an earlier release.
    world.recorder.limit_objects(50 * 1024);
    let size = world.recorder.counts().largest_object_bytes;
    world.pod("w-2", pod_of(1024));
    // The name is longer, and the Pod must not be kept where it was.
    world.node("node-10", &[("zone", "b"), ("host", "node-10")]);
    world.pod(
        "w-1",
        PodFact {
            node: Some("node-10".into()),
            ..pod_of(45 * 1024)
        },
    );
    world.settle("p");
    assert_eq!(
        (
            world.states("p"),
            world.recorder.counts().largest_object_bytes
        ),
        (vec!["w-0".into(), "w-1".into()], size + 1)
    );
    assert_eq!(world.status("p")["podStates"]["w-1"]["nodeName"], "node-10");
    assert_eq!(world.condition("p").1, "CapacityExceeded");
}

#[test]
fn managed_fields_count_under_a_definition_in_which_they_list_each_entry() {
    let mut world = World::with_workload();
    world.recorder.limit_objects(100 * 1024);
    world
        .recorder
        .change_compact_form(|form| form.is_kept = Some(false));
    for name in ["w-0", "w-1", "w-2"] {
        world.pod(name, pod_of(20 * 1024));
    }
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0", "w-1"]);
    // Our definition is installed.
    world
        .recorder
        .change_compact_form(|form| form.is_kept = Some(true));
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0", "w-1", "w-2"]);
}

#[test]
fn writes_what_shrinks_the_object_after_a_refusal() {
    let mut world = World::with_workload();
    for name in ["w-0", "w-1"] {
        world.pod(name, pod_of(45 * 1024));
    }
    world.settle("p");
    world.pod("w-2", pod_of(20 * 1024));
    assert_eq!(World::names_in(&world.patch("p").unwrap()), ["w-2"]);
    world.recorder.take_work();
    world.refuse();

    // The rest is written, the condition says so, and a Pod that moves is recorded.
    world.pod(
        "w-1",
        PodFact {
            node: Some("node-2".into()),
            ..pod_of(45 * 1024)
        },
    );
    let status = world.patch("p").unwrap();
    assert_eq!(
        status["podStates"],
        json!({"w-1": {"nodeName": "node-2", "nodeTopologyLabels": {"zone": "b"}}})
    );
    assert_eq!(
        (
            &status["conditions"][0]["status"],
            &status["conditions"][0]["reason"]
        ),
        (&json!("False"), &json!("CapacityExceeded"))
    );
    let notices = world.recorder.take_work().notices;
    assert_eq!(
        (notices.len(), notices[0].reason),
        (1, Reason::CapacityExceeded)
    );
    world.accept("p");
    assert_eq!(
        world.patch("p"),
        None,
        "nothing is retried while nothing changes"
    );
    assert_eq!(world.recorder.counts().exceeded_capacity, 1);

    // A dropped entry makes room for the deferred one.
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
    let demand = Demand::numbered(1, 2);
    let fact = WorkloadFact {
        api_version: "apps/v1".into(),
        uid: "uid-w".into(),
        demand,
        ..WorkloadFact::default()
    };
    world.recorder.apply(Fact::Workloads(
        GroupKind::stateful_set(),
        Update::Apply(key("w"), fact),
    ));
    world.settle("p");
    assert_eq!(world.states("p"), ["w-1", "w-2"]);
    assert_eq!(world.condition("p").0, "True");
    assert_eq!(world.recorder.counts().exceeded_capacity, 0);
}

#[test]
fn writes_deferred_states_after_a_foreign_write_makes_room() {
    let mut world = World::with_workload();
    for name in ["w-0", "w-1"] {
        world.pod(name, pod_of(40 * 1024));
    }
    world.settle("p");
    let mut status = json!({"targetUID": "uid-w", "podStates": {"w-0": null, "v-1": null}});
    let states = &world.tracked("p").observed.status.pod_states;
    status["podStates"]["w-0"] = json!(states.get("w-0").unwrap());
    status["podStates"]["v-1"] =
        json!({"nodeName": "node-1", "annotations": {"ip": "x".repeat(40 * 1024)}});
    let mut retained = spec("w");
    retained["persistentPodStateRetentionPolicy"] = "Retain".into();
    world.object("p", &retained, &status);
    world.pod("w-1", pod_of(25 * 1024));
    assert!(world.settle_within(96 * 1024) > 0);
    assert_eq!(world.states("p"), ["v-1", "w-0"]);
    assert_eq!(world.condition("p").1, "CapacityExceeded");
    status["podStates"]["v-1"]["annotations"]["ip"] = "x".repeat(10 * 1024).into();
    world.object("p", &retained, &status);
    assert_eq!(world.settle_within(96 * 1024), 0);
    assert_eq!(world.states("p"), ["v-1", "w-0", "w-1"]);
}

#[test]
fn writes_as_many_states_as_fit() {
    for (limit, assumed, least, most) in [
        (100, 100, 0, 0),
        (100, 1500, 1, 12),
        (50, 100, 1, 12),
        (3, 100, 1, 12),
    ] {
        let mut world = World::with_workload();
        world.recorder.limit_objects(assumed * 1024);
        world.workload("w", "uid-w", 200, &[]);
        for number in 0..200 {
            world.pod(&format!("w-{number}"), pod_of(1024));
        }
        let refused = world.settle_within(limit * 1024);
        let states = world.states("p").len();
        assert!(
            (least..=most).contains(&refused),
            "{limit} of {assumed}: {refused} refused"
        );
        // An entry takes a little more than its annotation.
        assert!(
            states <= limit && (states + 12) * 1160 > limit * 1024,
            "{limit} of {assumed}: {states} states"
        );
    }
}

#[test]
fn drops_entries_even_if_the_condition_does_not_fit() {
    let mut world = World::with_workload();
    for name in ["w-0", "w-1"] {
        world.pod(name, pod_of(1024));
    }
    world.settle("p");
    world.workload("w", "uid-w", 4, &[]);
    let status = world.patch("p").unwrap();
    assert_eq!(status, json!({"desired": 4}));
    world.refuse();
    assert_eq!(world.patch("p"), None, "there is nothing else to write");
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-1"))));
    world.workload("w", "uid-w", 1, &[]);
    assert_eq!(
        world.patch("p").unwrap(),
        json!({"podStates": {"w-1": null}}),
        "nothing that makes the object larger"
    );
    world.accept("p");
    assert!(world.recorder.take_work().statuses.contains(&key("p")));
    let status = world.patch("p").unwrap();
    assert_eq!(
        (&status["recorded"], &status["desired"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        (&status["podStates"], &status["conditions"][0]["reason"]),
        (&Value::Null, &json!("AllRecorded"))
    );
}

#[test]
fn retries_refused_states_later() {
    let mut world = World::with_workload();
    world.pod("w-0", pod_of(1024));
    assert!(world.patch("p").is_some());
    world.refuse();
    world.settle_within(0);
    assert!(world.states("p").is_empty());
    world.recorder.take_work();
    world.recorder.retry_exceeded();
    assert!(world.recorder.take_work().statuses.contains(&key("p")));
    world.settle("p");
    assert_eq!(
        (world.states("p"), world.condition("p").0),
        (vec!["w-0".to_owned()], "True".into())
    );
}
