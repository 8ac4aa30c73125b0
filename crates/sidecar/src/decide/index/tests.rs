//! Facts in, exact patches out: no cluster, no clock.

mod capacity;
mod interest;
mod kinds;
mod node_deletion;

use pps_core::demand::Demand;
use pps_core::pps::Status;
use pps_core::workload::Ordinals;
use serde_json::{Value, json};

use super::*;
use crate::decide::GeneratedPps;
use crate::facts::store::Update;
use crate::facts::{PodFact, WorkloadFact};
use crate::observe::wire;

const NOW: &str = "2026-01-01T00:00:00Z";

/// An index with a namespace `n`, in which things happen.
struct World {
    index: Index,
    version: u64,
}

impl World {
    /// Nothing but two nodes in two zones; everything has been listed.
    fn new() -> Self {
        let mut world = Self { index: Index::new(Interest::default()), version: 100 };
        world.index.apply_objects(Update::Begin(0));
        world.index.apply_workloads(&GroupKind::stateful_set(), Update::Begin(0));
        world.index.apply_objects(Update::Done);
        world.index.apply_workloads(&GroupKind::stateful_set(), Update::Done);
        world.index.set_kinds_known();
        world.index.apply_pods(Update::Begin(u64::MAX));
        world.index.apply_pods(Update::Done);
        world.index.apply_nodes(Update::Begin(u64::MAX));
        world.node("node-1", &[("zone", "a"), ("host", "node-1")]);
        world.node("node-2", &[("zone", "b"), ("host", "node-2")]);
        world.index.apply_nodes(Update::Done);
        world
    }

    /// A StatefulSet `w` of three, and a PPS `p` of it that keeps zone and ip.
    fn with_workload() -> Self {
        let mut world = Self::new();
        world.workload("w", "uid-w", 3, &[]);
        world.object("p", &spec("w"), &json!({}));
        world.settle("p");
        world
    }

    fn node(&mut self, name: &str, labels: &[(&str, &str)]) {
        let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        self.index.apply_nodes(Update::Apply(name.into(), NodeFact { labels }));
    }

    fn workload(&mut self, name: &str, uid: &str, replicas: u64, annotations: &[(&str, &str)]) {
        let fact = WorkloadFact {
            api_version: "apps/v1".into(),
            uid: uid.into(),
            terminating: false,
            demand: Demand::of_ordinals(Ordinals::new(0, replicas, [])),
            annotations: annotations.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        };
        self.index.apply_workloads(&GroupKind::stateful_set(), Update::Apply(key(name), fact));
    }

    fn object(&mut self, name: &str, spec: &Value, status: &Value) {
        let uid = format!("uid-{name}");
        self.object_with(
            name,
            &json!({"uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"}),
            spec,
            status,
        );
    }

    fn object_with(&mut self, name: &str, metadata: &Value, spec: &Value, status: &Value) {
        self.version += 1;
        let mut metadata = metadata.clone();
        metadata["name"] = name.into();
        metadata["namespace"] = "n".into();
        metadata["resourceVersion"] = self.version.to_string().into();
        metadata["generation"] = 1.into();
        let object = json!({"metadata": metadata, "spec": spec, "status": status});
        let fact = wire::object_fact(serde_json::from_value(object).unwrap());
        self.index.apply_objects(Update::Apply(key(name), Box::new(fact)));
    }

    fn pod(&mut self, name: &str, pod: PodFact) {
        self.index.apply_pods(Update::Apply(key(name), pod));
    }

    /// The status patch that an object needs now, without what guards it.
    fn patch(&mut self, object: &str) -> Option<Value> {
        let write = self.index.status_write(&key(object), NOW)?;
        assert_eq!(write.patch["metadata"]["uid"], format!("uid-{object}"));
        Some(write.patch["status"].clone())
    }

    fn pod_states(&mut self, object: &str) -> Value {
        self.patch(object).map_or(Value::Null, |mut status| status["podStates"].take())
    }

    /// The API server takes the write that is on its way.
    fn accept(&mut self, object: &str) {
        self.version += 1;
        let uid = format!("uid-{object}");
        self.index.on_status_written(&key(object), &uid, &self.version.to_string());
    }

    /// Writes until nothing is left to write.
    fn settle(&mut self, object: &str) {
        while self.patch(object).is_some() {
            self.accept(object);
        }
    }

    /// The status of an object, as the API server would have it.
    fn status(&self, object: &str) -> Value {
        let status = self.index.objects[&key(object)].fact.status.clone();
        let states =
            status.pod_states.nodes().map(|(pod, _)| (pod.to_string(), status.pod_states.get(pod).unwrap()));
        serde_json::to_value(Status {
            observed_generation: status.observed_generation,
            pod_states: states.collect(),
            target_uid: status.target_uid,
            recorded: status.recorded,
            desired: status.desired,
            conditions: status.conditions,
        })
        .unwrap()
    }

    fn states(&self, object: &str) -> Vec<String> {
        self.index.objects[&key(object)]
            .fact
            .status
            .pod_states
            .nodes()
            .map(|(pod, _)| pod.to_string())
            .collect()
    }
}

fn key(name: &str) -> NamespacedName {
    NamespacedName::new("n", name)
}

fn workload(name: &str) -> WorkloadKey {
    WorkloadKey { object: key(name), kind: GroupKind::stateful_set() }
}

fn spec(target: &str) -> Value {
    json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": target},
        "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
        "persistentPodAnnotations": [{"key": "ip"}],
    })
}

fn ready_on(node: &str) -> PodFact {
    PodFact {
        owner: Some("uid-w".into()),
        node: Some(node.into()),
        ready: true,
        annotations: vec![("ip".into(), "10.0.0.1".into())],
        ..PodFact::default()
    }
}

fn state(node: &str, zone: &str) -> Value {
    json!({"nodeName": node, "nodeTopologyLabels": {"zone": zone}, "annotations": {"ip": "10.0.0.1"}})
}

#[test]
fn a_pod_that_becomes_ready_is_recorded_and_nothing_is_written_twice() {
    let mut world = World::with_workload();
    world.pod("w-0", PodFact { ready: false, ..ready_on("node-1") });
    assert_eq!(world.patch("p"), None);

    world.pod("w-0", ready_on("node-1"));
    assert_eq!(world.index.take_work().statuses.into_iter().collect::<Vec<_>>(), [key("p")]);
    assert_eq!(world.patch("p").unwrap(), json!({"podStates": {"w-0": state("node-1", "a")}, "recorded": 1}));
    assert_eq!(world.patch("p"), None, "one write at a time");
    world.accept("p");
    world.pod("w-0", ready_on("node-1"));
    assert_eq!(world.patch("p"), None);
    assert!(world.index.take_work().statuses.is_empty());
}

#[test]
fn the_first_write_says_what_the_object_is_about() {
    let mut world = World::new();
    world.workload("w", "uid-w", 3, &[]);
    world.object("p", &spec("w"), &json!({}));
    let status = world.patch("p").unwrap();
    assert_eq!(
        (&status["observedGeneration"], &status["targetUID"], &status["recorded"], &status["desired"]),
        (&json!(1), &json!("uid-w"), &json!(0), &json!(3))
    );
    let condition = &status["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("Recording"), &json!("True")));
}

#[test]
fn a_patch_names_only_what_changed() {
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
fn a_relabelled_node_and_an_annotation_after_ready_are_recorded_again() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    world.node("node-1", &[("zone", "c")]);
    assert_eq!(world.pod_states("p"), json!({"w-0": {"nodeTopologyLabels": {"zone": "c"}}}));
    world.accept("p");

    world.pod("w-0", PodFact { annotations: vec![("ip".into(), "10.0.0.2".into())], ..ready_on("node-1") });
    assert_eq!(world.pod_states("p"), json!({"w-0": {"annotations": {"ip": "10.0.0.2"}}}));
    world.accept("p");

    world.pod("w-0", PodFact { annotations: vec![("ip".into(), "".into())], ..ready_on("node-1") });
    assert_eq!(world.patch("p"), None, "a network plugin blanks it on teardown");
}

#[test]
fn a_pod_that_goes_or_waits_keeps_its_state() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    world.pod("w-0", PodFact { terminating: true, ..ready_on("node-1") });
    assert_eq!(world.patch("p"), None);
    world.index.apply_pods(Update::Delete(key("w-0")));
    assert_eq!(world.patch("p"), None);
    world.pod("w-0", PodFact { node: None, ready: false, ..ready_on("") });
    assert_eq!(world.patch("p"), None);
}

#[test]
fn scaled_down_is_dropped_once_the_pod_is_gone() {
    let mut world = World::with_workload();
    for name in ["w-0", "w-1", "w-2"] {
        world.pod(name, ready_on("node-1"));
    }
    world.settle("p");
    world.workload("w", "uid-w", 0, &[]);
    assert_eq!(world.patch("p").unwrap(), json!({"desired": 0}), "the Pods still run");
    world.accept("p");
    world.index.apply_pods(Update::Delete(key("w-2")));
    assert_eq!(world.patch("p").unwrap(), json!({"podStates": {"w-2": null}, "recorded": 2}));
}

#[test]
fn a_workload_that_goes_takes_its_states_with_its_pods() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.pod("w-1", ready_on("node-1"));
    world.settle("p");
    world.index.apply_workloads(&GroupKind::stateful_set(), Update::Delete(key("w")));
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0", "w-1"]);
    world.pod("w-0", PodFact { terminating: true, ..ready_on("node-1") });
    world.settle("p");
    assert_eq!(world.states("p"), ["w-1"]);
}

#[test]
fn an_entry_whose_name_a_pod_of_another_workload_bears_goes_with_that_pod() {
    let mut world = World::with_workload();
    world.workload("v", "uid-v", 3, &[]);
    world.object("q", &spec("v"), &json!({"targetUID": "uid-v", "podStates": {"w-0": state("node-1", "a")}}));
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    world.settle("q");
    assert_eq!((world.states("p"), world.states("q")), (vec!["w-0".to_owned()], vec!["w-0".to_owned()]));
    world.index.take_work();
    world.index.apply_pods(Update::Delete(key("w-0")));
    assert!(world.index.take_work().statuses.contains(&key("q")));
    world.settle("q");
    assert!(world.states("q").is_empty());
    assert!(world.index.borrowed.is_empty());
}

#[test]
fn states_survive_an_orphaning_delete_and_the_adoption() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    world.index.apply_workloads(&GroupKind::stateful_set(), Update::Delete(key("w")));
    world.pod("w-0", PodFact { owner: None, ..ready_on("node-1") });
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0"]);

    world.workload("w", "uid-new", 3, &[]);
    assert_eq!(world.patch("p").unwrap()["targetUID"], "uid-new");
    world.accept("p");
    world.pod("w-0", PodFact { owner: Some("uid-new".into()), ..ready_on("node-1") });
    world.settle("p");
    assert_eq!(world.states("p"), ["w-0"]);
}

#[test]
fn a_workload_created_anew_while_nobody_watched_starts_afresh() {
    for (policy, kept) in [("WhenScaled", false), ("WhenDeleted", false), ("Retain", true)] {
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

#[test]
fn nothing_is_decided_before_everything_is_listed() {
    let mut index = Index::new(Interest::default());
    let object = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "uid-p", "resourceVersion": "1"},
        "spec": spec("w"),
        "status": {"podStates": {"w-0": state("node-1", "a")}},
    });
    index.apply_objects(Update::Begin(0));
    let fact = wire::object_fact(serde_json::from_value(object).unwrap());
    index.apply_objects(Update::Apply(key("p"), Box::new(fact)));
    index.apply_objects(Update::Done);
    assert_eq!(index.status_write(&key("p"), NOW), None);
    index.apply_workloads(&GroupKind::stateful_set(), Update::Begin(0));
    index.apply_workloads(&GroupKind::stateful_set(), Update::Done);
    index.apply_pods(Update::Begin(9));
    index.apply_pods(Update::Done);
    index.apply_nodes(Update::Begin(9));
    index.apply_nodes(Update::Done);
    assert!(index.take_work().statuses.contains(&key("p")), "it is brought up again");
    assert!(index.status_write(&key("p"), NOW).is_some());
}

#[test]
fn a_write_that_is_lost_is_made_again() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    let first = world.patch("p").unwrap();
    world.index.on_status_not_written(&key("p"), "uid-p");
    assert!(world.index.take_work().statuses.contains(&key("p")));
    assert_eq!(world.patch("p").unwrap(), first);
}

#[test]
fn what_somebody_else_wrote_meanwhile_is_seen() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    assert!(world.patch("p").is_some());
    // A foreign write empties the status while ours is on its way, and ours ends in a conflict.
    world.object("p", &spec("w"), &json!({}));
    world.index.on_status_not_written(&key("p"), "uid-p");
    let again = world.patch("p").unwrap();
    assert_eq!((&again["podStates"]["w-0"], &again["desired"]), (&state("node-1", "a"), &json!(3)));
}

#[test]
fn the_watch_may_tell_of_our_write_before_the_answer_does() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    assert!(world.patch("p").is_some());
    world.index.take_work();
    let mut status = world.status("p");
    status["podStates"] = json!({"w-0": state("node-1", "a")});
    status["recorded"] = 1.into();
    world.object("p", &spec("w"), &status);
    world.index.on_status_written(&key("p"), "uid-p", &world.version.to_string());
    assert!(world.index.take_work().statuses.is_empty());
    assert_eq!(world.patch("p"), None);
}

#[test]
fn an_answer_about_an_object_that_was_made_anew_is_none_about_the_new_one() {
    let mut world = World::with_workload();
    world.pod("w-0", ready_on("node-1"));
    assert!(world.patch("p").is_some());
    world.index.apply_objects(Update::Delete(key("p")));
    world.object_with("p", &json!({"uid": "uid-new"}), &spec("w"), &json!({}));
    let write = world.index.status_write(&key("p"), NOW).unwrap();
    assert_eq!(write.uid, "uid-new");
    world.index.take_work();
    world.index.on_status_written(&key("p"), "uid-p", "999");
    world.index.on_status_not_written(&key("p"), "uid-p");
    assert!(world.states("p").is_empty() && world.index.take_work().statuses.is_empty());
    world.index.on_status_written(&key("p"), "uid-new", "1000");
    assert_eq!(world.states("p"), ["w-0"]);
}

#[test]
fn of_two_objects_the_older_is_in_charge() {
    let mut world = World::with_workload();
    world.object_with(
        "b",
        &json!({"uid": "uid-b", "creationTimestamp": "2026-02-01T00:00:00Z"}),
        &spec("w"),
        &json!({}),
    );
    world.pod("w-0", ready_on("node-1"));
    let status = world.patch("b").unwrap();
    assert_eq!(
        (&status["podStates"], &status["conditions"][0]["reason"]),
        (&Value::Null, &json!("Superseded"))
    );
    world.accept("b");
    world.settle("p");
    world.index.apply_objects(Update::Delete(key("p")));
    assert_eq!(world.pod_states("b"), json!({"w-0": state("node-1", "a")}));
}

#[test]
fn the_object_of_the_workloads_own_name_is_in_charge() {
    let mut world = World::with_workload();
    world.object_with(
        "w",
        &json!({"uid": "uid-w", "creationTimestamp": "2026-02-01T00:00:00Z"}),
        &spec("w"),
        &json!({}),
    );
    world.pod("w-0", ready_on("node-1"));
    assert_eq!(world.pod_states("w"), json!({"w-0": state("node-1", "a")}));
    assert_eq!(world.patch("p").unwrap()["conditions"][0]["reason"], "Superseded");
}

#[test]
fn a_kind_that_is_not_watched_loses_nothing() {
    let mut world = World::new();
    let mut spec = spec("w");
    spec["targetRef"]["kind"] = "Database".into();
    world.object("p", &spec, &json!({"targetUID": "x", "podStates": {"w-0": state("node-1", "a")}}));
    let status = world.patch("p").unwrap();
    assert_eq!(
        (&status["podStates"], &status["conditions"][0]["reason"]),
        (&Value::Null, &json!("WorkloadKindNotWatched"))
    );
}

#[test]
fn a_node_that_lacks_a_key_is_named() {
    let mut world = World::with_workload();
    let mut spec = spec("w");
    spec["requiredPersistentTopology"] =
        json!({"nodeTopologyKeys": ["zone", "failure-domain.beta.kubernetes.io/zone"]});
    world.object("q", &spec, &json!({}));
    world.index.apply_objects(Update::Delete(key("p")));
    world.pod("w-0", ready_on("node-1"));
    let status = world.patch("q").unwrap();
    let condition = &status["conditions"][0];
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("TopologyKeyMissing")));
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("node-1") && message.contains("use topology.kubernetes.io/zone"), "{message}");
    assert_eq!(
        status["podStates"]["w-0"]["nodeTopologyLabels"],
        json!({"zone": "a"}),
        "what it has is recorded"
    );
    world.accept("q");
    world.node("node-1", &[("zone", "a"), ("failure-domain.beta.kubernetes.io/zone", "a")]);
    assert_eq!(world.patch("q").unwrap()["conditions"][0]["status"], "True");
}

#[test]
fn a_missing_key_that_is_no_longer_asked_for_is_no_longer_told() {
    let mut world = World::with_workload();
    let mut missing_labels = spec("w");
    missing_labels["requiredPersistentTopology"] = json!({"nodeTopologyKeys": ["zone", "rack"]});
    let told = |world: &World| {
        let status = &world.index.objects[&key("p")].fact.status;
        status.conditions[0].reason == "TopologyKeyMissing"
    };
    let states = |world: &World| world.status("p");
    world.object("p", &missing_labels, &json!({}));
    world.index.apply_nodes(Update::Begin(u64::MAX));
    world.node("node-1", &[("zone", "a")]);
    world.index.apply_nodes(Update::Done);
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    assert!(told(&world));
    // As long as its entry is there, a Pod that is not Ready makes no difference.
    world.index.apply_pods(Update::Delete(key("w-0")));
    world.settle("p");
    assert!(told(&world));
    let status = states(&world);
    world.object("p", &spec("w"), &status);
    world.settle("p");
    assert!(!told(&world), "the spec does not name the key any longer");

    world.object("p", &missing_labels, &status);
    world.pod("w-0", ready_on("node-1"));
    world.settle("p");
    world.index.apply_pods(Update::Delete(key("w-0")));
    assert!(told(&world));
    let mut status = states(&world);
    status["podStates"] = json!({});
    world.object("p", &missing_labels, &status);
    world.settle("p");
    assert!(!told(&world), "somebody has removed the entry");
}

#[test]
fn a_missing_key_of_a_pod_that_was_never_recorded_is_not_told() {
    let mut world = World::with_workload();
    world.node("node-1", &[]);
    world.pod("w-0", ready_on("node-1"));
    assert_eq!(world.patch("p").unwrap()["conditions"][0]["reason"], "TopologyKeyMissing");
    world.index.apply_pods(Update::Delete(key("w-0")));
    world.index.on_status_not_written(&key("p"), "uid-p");
    assert_eq!(world.patch("p"), None);
}

const ASK: &[(&str, &str)] = &[
    ("kruise.io/auto-generate-persistent-pod-state", "true"),
    ("kruise.io/required-persistent-topology", "zone"),
];

fn generated(target: &str, uid: &str) -> (Value, Value) {
    let metadata = json!({
        "uid": format!("uid-{target}"), "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app.kubernetes.io/managed-by": "pps-sidecar"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": target, "uid": uid, "controller": true}],
    });
    let spec = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": target},
        "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
        "persistentPodStateRetentionPolicy": "WhenDeleted",
    });
    (metadata, spec)
}

#[test]
fn an_annotated_workload_gets_an_object_of_its_name() {
    let mut world = World::new();
    world.workload("w", "uid-1", 3, ASK);
    let Some(GeneratedPps::Apply { key: object, body, new: true }) =
        world.index.generated_pps(&workload("w"))
    else {
        panic!()
    };
    assert_eq!(object, key("w"));
    assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "uid-1");
    assert_eq!(
        body["spec"],
        json!({
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
        }),
        "nothing but what the annotations say"
    );
    assert_eq!(world.index.generated_pps(&workload("w")), None, "it is on its way");
    let (metadata, spec) = generated("w", "uid-1");
    world.object_with("w", &metadata, &spec, &json!({}));
    world.index.on_generated_pps_written(&workload("w"), true);
    assert_eq!(
        world.index.generated_pps(&workload("w")),
        None,
        "a retention policy that somebody set does not matter"
    );
}

#[test]
fn what_is_asked_while_an_answer_is_awaited_is_not_forgotten() {
    let mut world = World::new();
    let (metadata, spec) = generated("w", "uid-1");
    world.object_with("w", &metadata, &spec, &json!({}));
    world.workload("w", "uid-1", 3, &[]);
    assert!(matches!(world.index.generated_pps(&workload("w")), Some(GeneratedPps::Delete { .. })));
    world.index.take_work();

    // The object goes and the annotations come back before the answer does.
    world.index.apply_objects(Update::Delete(key("w")));
    world.workload("w", "uid-1", 3, ASK);
    assert!(world.index.take_work().generated.contains(&workload("w")));
    assert_eq!(world.index.generated_pps(&workload("w")), None);
    world.index.on_generated_pps_written(&workload("w"), true);
    assert!(world.index.take_work().generated.contains(&workload("w")));
    assert!(matches!(world.index.generated_pps(&workload("w")), Some(GeneratedPps::Apply { new: true, .. })));
    world.index.on_generated_pps_written(&workload("w"), true);
    assert!(world.index.take_work().generated.is_empty(), "nobody asked meanwhile");
}

#[test]
fn a_generated_object_follows_the_annotations_and_the_workload() {
    let mut world = World::new();
    let (metadata, spec) = generated("w", "uid-1");
    world.object_with("w", &metadata, &spec, &json!({}));

    world.workload("w", "uid-2", 3, ASK);
    let again = world.index.generated_pps(&workload("w"));
    let Some(GeneratedPps::Apply { body, new: false, .. }) = again else { panic!("{again:?}") };
    assert_eq!(
        (&body["metadata"]["uid"], &body["metadata"]["ownerReferences"][0]["uid"]),
        (&json!("uid-w"), &json!("uid-2"))
    );
    world.index.on_generated_pps_written(&workload("w"), true);

    world.workload("w", "uid-2", 3, &[]);
    let gone = world.index.generated_pps(&workload("w"));
    assert!(matches!(gone, Some(GeneratedPps::Delete { uid, .. }) if uid == "uid-w"));
    world.index.on_generated_pps_written(&workload("w"), true);

    world.workload("w", "uid-2", 3, ASK);
    world.index.apply_objects(Update::Delete(key("w")));
    assert!(world.index.take_work().generated.contains(&workload("w")));
    assert!(matches!(world.index.generated_pps(&workload("w")), Some(GeneratedPps::Apply { new: true, .. })));
}

#[test]
fn a_foreign_object_is_never_touched() {
    let mut world = World::new();
    world.workload("w", "uid-1", 3, ASK);
    world.object("theirs", &spec("w"), &json!({}));
    assert_eq!(world.index.generated_pps(&workload("w")), None, "it serves the workload already");

    world.workload("v", "uid-3", 3, ASK);
    world.object("v", &spec("somebody"), &json!({}));
    world.index.take_work();
    assert_eq!(world.index.generated_pps(&workload("v")), None);
    let notices = world.index.take_work().notices;
    assert_eq!((notices.len(), notices[0].reason), (1, Reason::NameConflict));
    assert_eq!(world.index.generated_pps(&workload("v")), None);
    assert!(world.index.take_work().notices.is_empty(), "users are told once");

    world.workload("v", "uid-3", 3, &[]);
    assert_eq!(world.index.generated_pps(&workload("v")), None, "nor deleted");
}

#[test]
fn workloads_of_different_kinds_with_one_name_get_an_object_each() {
    let mut world = World::new();
    let (metadata, mut spec) = generated("w", "uid-1");
    spec["targetRef"]["apiVersion"] = "apps.kruise.io/v1beta1".into();
    world.object_with("w", &metadata, &spec, &json!({}));
    world.workload("w", "uid-2", 3, ASK);
    let Some(GeneratedPps::Apply { key: object, new: true, .. }) = world.index.generated_pps(&workload("w"))
    else {
        panic!()
    };
    assert!(object.name.starts_with("w-") && object.name.len() == "w-00000000".len(), "{object}");
}
