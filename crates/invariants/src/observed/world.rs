//! A small cluster in the sidecar's recorder.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_recorder::demand::{Naming, ReplicasPath};
use pps_recorder::facts::interest::Interest;
use pps_recorder::facts::store::Update;
use pps_recorder::facts::{GroupKind, NamespacedName, NodeFact, PodFact, PpsFact, WorkloadFact};
use pps_recorder::{Fact, Recorder, StatusOutcome};
use pps_sidecar::observe::objects;
use serde_json::{Value, json};

/// How many writes an object may need until nothing is left to write.
const MOST_WRITES: usize = 8;

/// What was written: each object with the status patches.
pub(super) type Writes = BTreeMap<NamespacedName, Vec<Value>>;

pub(super) struct World {
    pub(super) recorder: Recorder,
    pub(super) interest: Interest,
    pods: Vec<String>,
    nodes: Vec<String>,
    version: u64,
    /// The revision of the last lists.
    listed_revision: u64,
}

/// The keys that the object of the world names.
pub(super) const LABELS: [&str; 2] = ["kubernetes.io/hostname", "zone"];
pub(super) const ANNOTATIONS: [&str; 2] = ["example.io/ip", "x"];

pub(super) fn database() -> GroupKind {
    GroupKind {
        group: "a.io".into(),
        kind: "Database".into(),
    }
}

pub(super) fn naming() -> Naming {
    Naming::Custom(ReplicasPath::new(".spec.shape.size"))
}

pub(super) fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "20",
            "annotations": {"example.io/ip": "10.0.0.1", "other": "y"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set", "controller": true}]},
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    })
}

pub(super) fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": "20", "labels": {"kubernetes.io/hostname": name, "zone": "a", "other": "y"}}})
}

pub(super) fn workload(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": "set", "resourceVersion": "20"}, "spec": {"replicas": 3}})
}

pub(super) fn object(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "n", "uid": format!("uid-{name}"), "resourceVersion": "20", "generation": 1},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
            "requiredPersistentTopology": {"nodeTopologyKeys": LABELS},
            "persistentPodAnnotations": ANNOTATIONS.map(|key| json!({"key": key})),
        },
        "status": {"podStates": {"web-2": {"nodeName": "node-2"}}},
    })
}

/// The object of a database, whose states name Pods that the workload may want no longer.
pub(super) fn object_of_database() -> Value {
    let mut object = object("database");
    object["spec"]["targetRef"] =
        json!({"apiVersion": "a.io/v1", "kind": "Database", "name": "web"});
    object["status"] =
        json!({"podStates": {"web-2": {"nodeName": "node-2"}, "web-a": {"nodeName": "node-1"}}});
    object
}

impl World {
    /// One StatefulSet with two of three Pods, its object, and two nodes.
    pub(super) fn new() -> Self {
        let interest = Interest::default();
        let mut world = Self {
            recorder: Recorder::new(interest.clone()),
            interest,
            pods: vec![pod("web-0").to_string(), pod("web-1").to_string()],
            nodes: vec![node("node-1").to_string(), node("node-2").to_string()],
            version: 1000,
            listed_revision: 0,
        };
        let recorder = &mut world.recorder;
        recorder.apply_pps(Update::Begin(0));
        let item = objects::read_pps(&object("web").to_string()).unwrap();
        recorder.apply_pps(Update::Apply(item.key, item.fact.unwrap()));
        recorder.apply_pps(Update::Done);
        let item = objects::read_stateful_set(&workload("web").to_string()).unwrap();
        recorder.apply(Fact::KindWatched(database()));
        for kind in [GroupKind::stateful_set(), database()] {
            recorder.apply(Fact::Workloads(kind.clone(), Update::Begin(0)));
            if kind == GroupKind::stateful_set() {
                recorder.apply(Fact::Workloads(
                    kind.clone(),
                    Update::Apply(item.key.clone(), item.fact.clone().unwrap()),
                ));
            }
            recorder.apply(Fact::Workloads(kind.clone(), Update::Done));
        }
        recorder.apply(Fact::KindsKnown);
        world.list();
        world.settle();
        world
    }

    /// Lists Pods and nodes again, with all keys of interest.
    fn list(&mut self) {
        self.listed_revision = self.interest.revision();
        self.recorder
            .apply(Fact::Nodes(Update::Begin(self.listed_revision)));
        for text in &self.nodes {
            let item = objects::read_node(text, &self.interest).unwrap();
            self.recorder
                .apply(Fact::Nodes(Update::Apply(item.key, item.fact.unwrap())));
        }
        self.recorder.apply(Fact::Nodes(Update::Done));
        self.recorder
            .apply(Fact::Pods(Update::Begin(self.listed_revision)));
        for text in &self.pods {
            if let Ok(item) = objects::read_pod(text, &self.interest)
                && let Some(fact) = item.fact
            {
                self.recorder
                    .apply(Fact::Pods(Update::Apply(item.key, fact)));
            }
        }
        self.recorder.apply(Fact::Pods(Update::Done));
    }

    pub(super) fn apply_pod(&mut self, text: &str, key: NamespacedName, fact: Option<PodFact>) {
        self.pods.retain(|known| {
            objects::read_pod(known, &self.interest).is_ok_and(|item| item.key != key)
        });
        self.pods.push(text.to_owned());
        self.recorder.apply(Fact::Pods(
            fact.map_or(Update::Delete(key.clone()), |fact| Update::Apply(key, fact)),
        ));
    }

    pub(super) fn apply_node(&mut self, text: &str, key: Arc<str>, fact: NodeFact) {
        self.nodes.retain(|known| {
            objects::read_node(known, &self.interest).is_ok_and(|item| item.key != key)
        });
        self.nodes.push(text.to_owned());
        self.recorder.apply(Fact::Nodes(Update::Apply(key, fact)));
    }

    pub(super) fn apply_workload(
        &mut self,
        kind: &GroupKind,
        key: NamespacedName,
        fact: WorkloadFact,
    ) {
        self.recorder
            .apply(Fact::Workloads(kind.clone(), Update::Apply(key, fact)));
    }

    pub(super) fn apply_object(&mut self, key: NamespacedName, fact: Box<PpsFact>) {
        self.recorder.apply_pps(Update::Apply(key, fact));
    }

    /// Writes what is due until nothing is left, and returns the writes. A world in which nothing
    /// happens any longer comes to rest.
    pub(super) fn settle(&mut self) -> Writes {
        let mut writes = Writes::new();
        let mut generated = BTreeSet::new();
        loop {
            let work = self.recorder.take_work();
            if self.listed_revision < self.interest.revision() {
                self.list();
            }
            let is_idle = work.statuses.is_empty() && work.generated.is_empty();
            for workload in work.generated {
                if let Some(write) = self.recorder.decide_generated(&workload) {
                    // The write is on its way, and is never asked for a second time meanwhile.
                    assert!(generated.insert(workload.clone()), "{workload}: {write:?}");
                    assert_eq!(write.key().namespace, workload.object.namespace);
                }
            }
            for pod in work.evictions {
                let _ = self.recorder.decide_eviction(&pod);
            }
            for key in work.statuses {
                while let Some(write) = self
                    .recorder
                    .decide_status(&key, "2026-01-01T00:00:00Z")
                    .write
                {
                    assert_eq!(
                        (&write.key, &write.patch["metadata"]["uid"]),
                        (&key, &Value::from(&*write.uid))
                    );
                    let all = writes.entry(key.clone()).or_default();
                    all.push(write.patch["status"].clone());
                    assert!(
                        all.len() <= MOST_WRITES,
                        "it writes again and again: {all:?}"
                    );
                    self.version += 1;
                    self.recorder.on_status_done(
                        &key,
                        &write.uid,
                        StatusOutcome::Stored {
                            resource_version: &self.version.to_string(),
                        },
                    );
                }
            }
            if is_idle {
                return writes;
            }
        }
    }
}

/// All labels and annotations in these patches.
pub(super) fn keys_in(patches: &[Value]) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let of = |field: &str| {
        let states = patches
            .iter()
            .filter_map(|patch| patch["podStates"].as_object())
            .flat_map(|states| states.values());
        let pairs = states
            .filter_map(|state| state[field].as_object())
            .flatten();
        pairs
            .filter(|(_, value)| !value.is_null())
            .map(|(key, _)| key.as_str())
            .collect()
    };
    (of("nodeTopologyLabels"), of("annotations"))
}
