//! Kinds of workloads that are added and removed at run time.

use crate::demand::{Naming, ReplicasPath};

use super::*;
use crate::facts::WatchState;
use crate::living_pods::LivingPods;

fn database() -> GroupKind {
    GroupKind {
        group: "a.io".into(),
        kind: "Database".into(),
    }
}

fn database_key(name: &str) -> WorkloadKey {
    WorkloadKey {
        object: key(name),
        kind: database(),
    }
}

fn spec_of_database() -> Value {
    let mut spec = spec("w");
    spec["targetRef"] = json!({"apiVersion": "a.io/v1", "kind": "Database", "name": "w"});
    spec
}

fn recorded(names: &[&str]) -> Value {
    let states: serde_json::Map<_, _> = names
        .iter()
        .map(|name| ((*name).to_owned(), state("node-1", "a")))
        .collect();
    json!({"targetUID": "uid-w", "podStates": states})
}

impl World {
    fn apply(&mut self, update: Update<NamespacedName, WorkloadFact>) {
        self.recorder.apply(Fact::Workloads(database(), update));
    }

    fn database(&mut self, name: &str, spec: &Value, annotations: &[(&str, &str)]) {
        let fact = WorkloadFact {
            api_version: "a.io/v1".into(),
            uid: format!("uid-{name}").into(),
            terminating: false,
            demand: Demand::read(spec, &Naming::Custom(ReplicasPath::default())),
            annotations: annotations
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect(),
            generation: Generation::default(),
        };
        self.apply(Update::Apply(key(name), fact));
    }

    /// The kind is watched, and has one workload `w` with this spec.
    fn with_database(spec: &Value) -> Self {
        let mut world = Self::new();
        world.recorder.apply(Fact::KindWatched(database()));
        world.apply(Update::Begin(0));
        world.database("w", spec, &[]);
        world.apply(Update::Done);
        world
    }

    /// The workload has the Pods that it has now for as long as surplus entries are kept.
    fn end_surplus_rounds(&mut self) {
        for _ in 0..2 {
            self.settle("d");
            self.recorder.end_surplus_round();
        }
    }

    fn reason(&self, object: &str) -> String {
        let conditions = &self.tracked(object).observed.status.header.conditions;
        conditions
            .first()
            .map(|condition| condition.reason.clone())
            .unwrap_or_default()
    }
}

#[test]
fn unlisted_kind_loses_no_states_and_delays_no_other_kind() {
    let mut world = World::new();
    world.recorder.apply(Fact::KindWatched(database()));
    world.object("d", &spec_of_database(), &recorded(&["w-0", "w-9"]));
    assert_eq!(world.patch("d"), None, "the workload may exist");
    world.apply(Update::Begin(0));
    assert_eq!(world.patch("d"), None);

    // Another kind is recorded meanwhile.
    world.workload("v", "uid-v", 1, &[]);
    world.object("p", &spec("v"), &json!({}));
    world.pod(
        "v-0",
        PodFact {
            owner: Some("uid-v".into()),
            ..ready_on("node-1")
        },
    );
    assert_eq!(world.pod_states("p"), json!({"v-0": state("node-1", "a")}));

    world.database("w", &json!({"replicas": 1}), &[]);
    world.pod("w-0", ready_on("node-1"));
    world.recorder.take_work();
    world.apply(Update::Done);
    assert!(
        world.recorder.take_work().statuses.contains(&key("d")),
        "the work comes up again"
    );
    world.end_surplus_rounds();
    assert!(world.recorder.take_work().statuses.contains(&key("d")));
    assert_eq!(world.pod_states("d"), json!({"w-9": null}));
}

#[test]
fn reports_no_unwatched_kind_before_all_kinds_are_known() {
    let mut world = World::with_unknown_kinds();
    world.object("d", &spec_of_database(), &recorded(&["w-0"]));
    assert_eq!(world.patch("d"), None);
    world.recorder.take_work();
    world.recorder.apply(Fact::KindsKnown);
    assert!(world.recorder.take_work().statuses.contains(&key("d")));
    world.settle("d");
    assert_eq!(world.reason("d"), "WorkloadKindNotWatched");
}

#[test]
fn relist_of_one_kind_deletes_only_its_workloads() {
    let mut world = World::with_database(&json!({"replicas": 1}));
    world.workload("v", "uid-v", 1, &[]);
    world.object(
        "p",
        &spec("v"),
        &json!({"targetUID": "uid-v", "podStates": {"v-0": state("node-1", "a")}}),
    );
    world.object("d", &spec_of_database(), &recorded(&["w-0"]));
    world.settle("p");
    world.settle("d");
    world.apply(Update::Begin(0));
    world.apply(Update::Done);
    world.settle("p");
    world.settle("d");
    assert_eq!(
        (world.states("p"), world.states("d")),
        (vec!["v-0".to_owned()], vec![])
    );
}

#[test]
fn keeps_states_of_a_kind_that_is_unwatched_and_watched_again() {
    let mut world = World::with_database(&json!({"replicas": 1}));
    world.object("d", &spec_of_database(), &recorded(&["w-0"]));
    world.settle("d");
    assert_eq!(world.reason("d"), "AllRecorded");

    world.recorder.apply(Fact::KindUnwatched(database()));
    assert_eq!(
        world.recorder.cluster.workloads.keys().count(),
        0,
        "the workloads themselves are forgotten"
    );
    // Late events of the watch, and Pods, are ignored.
    world.apply(Update::Delete(key("w")));
    world.database("w", &json!({"replicas": 0}), ASK);
    world.pod("w-0", ready_on("node-2"));
    world.recorder.apply(Fact::Pods(Update::Delete(key("w-0"))));
    world.settle("d");
    assert_eq!(
        (world.states("d"), world.reason("d")),
        (vec!["w-0".to_owned()], "WorkloadKindNotWatched".into())
    );
    assert_eq!(
        world.tracked("d").observed.status.header.desired,
        Some(1),
        "the last known number"
    );
    let write = world.recorder.decide_generated(&database_key("w"));
    assert!(
        matches!(write, Some(GeneratedPps::Create { is_alias: true, .. })),
        "the policy still looks for it"
    );
    world.recorder.on_generated_done(&database_key("w"), true);

    world.recorder.apply(Fact::KindWatched(database()));
    assert_eq!(world.patch("d"), None);
    world.apply(Update::Begin(0));
    world.database("w", &json!({"replicas": 1}), &[]);
    world.apply(Update::Done);
    world.settle("d");
    assert_eq!(
        (world.states("d"), world.reason("d")),
        (vec!["w-0".to_owned()], "AllRecorded".into())
    );
}

#[test]
fn notices_a_workload_deleted_while_its_kind_was_unwatched() {
    let mut world = World::with_database(&json!({"replicas": 1}));
    world.object("d", &spec_of_database(), &recorded(&["w-0"]));
    world.settle("d");
    world.recorder.apply(Fact::KindUnwatched(database()));
    world.settle("d");
    world.recorder.apply(Fact::KindWatched(database()));
    world.apply(Update::Begin(0));
    world.apply(Update::Done);
    assert!(world.recorder.take_work().statuses.contains(&key("d")));
    world.settle("d");
    assert_eq!(
        (world.states("d"), world.reason("d")),
        (vec![], "WorkloadNotFound".into())
    );
}

#[test]
fn keeps_states_of_a_forbidden_kind_and_reports_it() {
    let mut world = World::new();
    world.recorder.apply(Fact::KindWatched(database()));
    world.object("d", &spec_of_database(), &recorded(&["w-0"]));
    world
        .recorder
        .apply(Fact::KindState(database(), WatchState::Forbidden));
    world.settle("d");
    assert_eq!(
        (world.states("d"), world.reason("d")),
        (vec!["w-0".to_owned()], "WorkloadKindForbidden".into())
    );
    world.recorder.apply(Fact::KindWatched(database()));
    assert_eq!(
        world.patch("d"),
        None,
        "a new watch has not listed the kind yet"
    );
    world
        .recorder
        .apply(Fact::KindState(database(), WatchState::Forbidden));
    world
        .recorder
        .apply(Fact::KindState(database(), WatchState::Up));
    assert_eq!(world.patch("d"), None, "the kind is not listed yet");
}

#[test]
fn keeps_surplus_entries_while_pods_are_missing() {
    let mut world = World::with_database(&json!({"replicas": 2}));
    world.object("d", &spec_of_database(), &json!({}));
    for name in ["w-red", "w-blue"] {
        world.pod(name, ready_on("node-1"));
    }
    world.settle("d");
    assert_eq!(world.states("d"), ["w-blue", "w-red"]);

    // A Pod is replaced by one of the same name, then by one of another name.
    world
        .recorder
        .apply(Fact::Pods(Update::Delete(key("w-red"))));
    world.settle("d");
    world.pod("w-red", ready_on("node-2"));
    world.settle("d");
    assert_eq!(world.states("d"), ["w-blue", "w-red"]);
    world
        .recorder
        .apply(Fact::Pods(Update::Delete(key("w-red"))));
    world.settle("d");
    assert_eq!(world.states("d"), ["w-blue", "w-red"]);
    world.pod(
        "w-green",
        PodFact {
            ready: false,
            ..ready_on("node-1")
        },
    );
    world.settle("d");
    assert_eq!(
        world.states("d"),
        ["w-blue", "w-red"],
        "no Pod is missing any longer, but only just"
    );
    world.end_surplus_rounds();
    world.settle("d");
    assert_eq!(world.states("d"), ["w-blue"]);

    // Fewer are wanted: the Pod that terminates decides which entry is dropped.
    world.pod("w-green", ready_on("node-1"));
    world.settle("d");
    world.database("w", &json!({"replicas": 1}), &[]);
    world.settle("d");
    assert_eq!(world.states("d"), ["w-blue", "w-green"]);
    world.pod(
        "w-blue",
        PodFact {
            terminating: true,
            ..ready_on("node-1")
        },
    );
    world.settle("d");
    assert_eq!(world.states("d"), ["w-blue", "w-green"]);
    world
        .recorder
        .apply(Fact::Pods(Update::Delete(key("w-blue"))));
    world.end_surplus_rounds();
    world.settle("d");
    assert_eq!(world.states("d"), ["w-green"]);
}

/// The number counts workers, and the workload also has masters.
#[test]
fn pods_that_the_number_does_not_count_keep_their_states_when_they_are_created_again() {
    let mut world = World::with_database(&json!({"replicas": 2}));
    world.object("d", &spec_of_database(), &json!({}));
    let names = [
        "w-master-0",
        "w-master-1",
        "w-master-2",
        "w-worker-0",
        "w-worker-1",
    ];
    for name in names {
        world.pod(name, ready_on("node-1"));
    }
    world.settle("d");
    world
        .recorder
        .apply(Fact::Pods(Update::Delete(key("w-master-0"))));
    world.end_surplus_rounds();
    world.settle("d");
    assert_eq!(
        world.states("d"),
        names,
        "the number says nothing of so many Pods"
    );

    // All are created again, so that for a moment there are as many as the number says.
    for name in ["w-master-1", "w-worker-0"] {
        world.recorder.apply(Fact::Pods(Update::Delete(key(name))));
    }
    world.settle("d");
    world.recorder.end_surplus_round();
    world.settle("d");
    assert_eq!(world.states("d"), names);
    for name in ["w-master-0", "w-worker-0"] {
        world.pod(
            name,
            PodFact {
                ready: false,
                ..ready_on("node-1")
            },
        );
    }
    world.end_surplus_rounds();
    world.settle("d");
    assert_eq!(world.states("d"), names);

    // Something is heard of the Pod: its time begins again.
    for name in ["w-master-0", "w-worker-0"] {
        world.recorder.apply(Fact::Pods(Update::Delete(key(name))));
    }
    world.settle("d");
    world.recorder.end_surplus_round();
    world.pod("w-master-0", ready_on("node-1"));
    world
        .recorder
        .apply(Fact::Pods(Update::Delete(key("w-master-0"))));
    world.settle("d");
    world.recorder.end_surplus_round();
    world.settle("d");
    assert_eq!(
        world.states("d"),
        ["w-master-0", "w-master-2", "w-worker-1"]
    );
}

#[test]
fn more_surplus_states_than_one_write_may_drop_are_dropped_in_a_row() {
    let names: Vec<String> = (0..150).map(|number| format!("w-old-{number}")).collect();
    let mut world = World::with_database(&json!({"replicas": 1}));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.object("d", &spec_of_database(), &recorded(&names));
    world.pod("w-new", ready_on("node-1"));
    world.end_surplus_rounds();
    world.settle("d");
    assert_eq!(world.states("d"), ["w-new"]);
}

#[test]
fn drops_nothing_while_replicas_are_unknown() {
    let mut world = World::with_database(&json!({"shards": 2}));
    world.object("d", &spec_of_database(), &recorded(&["w-0", "w-7"]));
    let status = world.patch("d").unwrap();
    assert_eq!(
        (&status["podStates"], &status["desired"]),
        (&Value::Null, &Value::Null)
    );
    let message = status["conditions"][0]["message"].as_str().unwrap();
    assert!(message.contains("does not say how many"), "{message}");
    world.accept("d");
    world.apply(Update::Delete(key("w")));
    world.settle("d");
    assert_eq!(world.states("d"), Vec::<String>::new());
}

#[test]
fn generates_for_a_custom_kind_beside_a_stateful_set_of_its_name() {
    let mut world = World::with_database(&json!({"replicas": 1}));
    let (metadata, spec) = generated("w", "uid-1");
    world.object_with("w", &metadata, &spec, &json!({}));
    world.database("w", &json!({"replicas": 1}), ASK);
    let Some(GeneratedPps::Create {
        key: object, body, ..
    }) = world.recorder.decide_generated(&database_key("w"))
    else {
        panic!()
    };
    assert!(object.name.starts_with("w-"), "{object}");
    assert_eq!(
        body["spec"]["targetRef"],
        json!({"apiVersion": "a.io/v1", "kind": "Database", "name": "w"})
    );
    let owner = json!([{"apiVersion": "a.io/v1", "kind": "Database", "name": "w", "uid": "uid-w", "controller": true}]);
    assert_eq!(body["metadata"]["ownerReferences"], owner);
}

#[test]
fn drops_a_freely_named_state_only_if_the_workloads_pods_are_there() {
    let mut world = World::with_database(&json!({"replicas": 1}));
    world.object("d", &spec_of_database(), &recorded(&["w-red", "w-blue"]));
    world.pod("w-red", ready_on("node-1"));
    world.end_surplus_rounds();
    let check = world
        .recorder
        .decide_status(&key("d"), NOW)
        .write
        .unwrap()
        .loss_check
        .unwrap();
    assert_eq!(
        check.with_living_pods().map(|workload| &*workload.uid),
        Some("uid-w")
    );
    assert_eq!(
        check.unwanted().count(),
        0,
        "other Pods have replaced them; nobody has scaled the workload"
    );
    // The Pod watch may be late: `w-red` is gone, and the workload is about to create `w-blue`. Or
    // the workload has more Pods than the number counts.
    for unmet in [Some(0), Some(2), None] {
        let refuted = check.refuted_by_living(unmet.map(LivingPods::counted));
        assert_eq!(
            refuted.iter().map(|pod| &**pod).collect::<Vec<_>>(),
            ["w-blue"]
        );
    }
    let met = LivingPods::counted(1);
    assert!(check.refuted_by_living(Some(met)).is_empty());
}
