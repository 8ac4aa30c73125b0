//! Facts in, exact patches out.

mod aliases;
mod capacity;
mod compact;
mod condition;
mod fallback;
mod generated;
mod interest;
mod kinds;
mod limits;
mod names;
mod node_deletion;
mod recording;
mod recording_policy;
mod recreations;
mod retention;
mod scope;
mod stale;
mod totals;
mod writes;

use crate::demand::Demand;
use pps_core::pps::Status;
use pps_core::reason::stops_recording;
use serde_json::{Value, json};

use super::*;
use crate::facts::read_pps;
use crate::facts::{Generation, GroupKind, NodeFact, PodFact};
use crate::ledger::{CompactLimits, TrackedPps};

const NOW: &str = "2026-01-01T00:00:00Z";

/// A recorder, and a namespace `n` to play scenarios in.
struct World {
    recorder: Recorder,
    version: u64,
    /// The nodes that decisions have asked the API server about.
    unconfirmed_nodes: BTreeSet<Arc<str>>,
}

impl World {
    /// Two nodes in two zones, and nothing else; all lists are complete.
    fn new() -> Self {
        let mut world = Self::with_unknown_kinds();
        world.recorder.apply(Fact::KindsKnown);
        world
    }

    fn with_unknown_kinds() -> Self {
        let mut world = Self {
            recorder: Recorder::new(Interest::default()),
            version: 100,
            unconfirmed_nodes: BTreeSet::new(),
        };
        world.recorder.apply_pps(Update::Begin(0));
        world
            .recorder
            .apply(Fact::Workloads(GroupKind::stateful_set(), Update::Begin(0)));
        world.recorder.apply_pps(Update::Done);
        world
            .recorder
            .apply(Fact::Workloads(GroupKind::stateful_set(), Update::Done));
        world.recorder.apply(Fact::Pods(Update::Begin(u64::MAX)));
        world.recorder.apply(Fact::Pods(Update::Done));
        world.recorder.apply(Fact::Nodes(Update::Begin(u64::MAX)));
        world.node("node-1", &[("zone", "a"), ("host", "node-1")]);
        world.node("node-2", &[("zone", "b"), ("host", "node-2")]);
        world.recorder.apply(Fact::Nodes(Update::Done));
        for node in ["node-1", "node-2"] {
            world.recorder.apply(Fact::NodeSettled(node.into()));
        }
        world
    }

    /// A StatefulSet `w` with three replicas, and its PPS `p`, which records zone and ip.
    fn with_workload() -> Self {
        let mut world = Self::new();
        world.workload("w", "uid-w", 3, &[]);
        world.object("p", &spec("w"), &json!({}));
        world.settle("p");
        world
    }

    fn node(&mut self, name: &str, labels: &[(&str, &str)]) {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect();
        self.recorder
            .apply(Fact::Nodes(Update::Apply(name.into(), NodeFact { labels })));
    }

    fn workload(&mut self, name: &str, uid: &str, replicas: u64, annotations: &[(&str, &str)]) {
        let fact = WorkloadFact {
            api_version: "apps/v1".into(),
            uid: uid.into(),
            terminating: false,
            demand: Demand::numbered(0, replicas),
            annotations: annotations
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect(),
            generation: Generation::default(),
        };
        self.recorder.apply(Fact::Workloads(
            GroupKind::stateful_set(),
            Update::Apply(key(name), fact),
        ));
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
        if metadata.get("managedFields").is_none() {
            metadata["managedFields"] = json!([{"manager": "m", "fieldsV1": {"f:status": {}}}]);
        }
        let object = json!({"metadata": metadata, "spec": spec, "status": status});
        let fact = read_pps(&object).unwrap();
        self.recorder
            .apply_pps(Update::Apply(key(name), Box::new(fact)));
    }

    fn pod(&mut self, name: &str, pod: PodFact) {
        self.recorder
            .apply(Fact::Pods(Update::Apply(key(name), pod)));
    }

    /// The status patch that an object needs now, without its preconditions.
    fn patch(&mut self, object: &str) -> Option<Value> {
        let decision = self.recorder.decide_status(&key(object), NOW);
        self.unconfirmed_nodes.extend(decision.unconfirmed_nodes);
        let write = decision.write?;
        assert_eq!(write.patch["metadata"]["uid"], format!("uid-{object}"));
        // A workload that does not exist has its states dropped.
        if let Some(reason) = write.patch["status"]["conditions"][0]["reason"].as_str()
            && stops_recording(reason)
            && reason != "WorkloadNotFound"
        {
            assert_eq!(write.entries, 0, "{reason}");
        }
        Some(write.patch["status"].clone())
    }

    fn pod_states(&mut self, object: &str) -> Value {
        self.patch(object)
            .map_or(Value::Null, |mut status| status["podStates"].take())
    }

    /// The API server stores the write in flight.
    fn accept(&mut self, object: &str) {
        self.version += 1;
        let uid = format!("uid-{object}");
        self.recorder.on_status_done(
            &key(object),
            &uid,
            StatusOutcome::Stored {
                resource_version: &self.version.to_string(),
            },
        );
    }

    fn tracked(&self, object: &str) -> &TrackedPps {
        self.recorder.ledger.objects.get(&key(object)).unwrap()
    }

    fn take_unconfirmed_nodes(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.unconfirmed_nodes)
    }

    /// Writes until the object is up to date.
    fn settle(&mut self, object: &str) {
        while self.patch(object).is_some() {
            self.accept(object);
        }
    }

    /// The status of an object, as the API server has it.
    fn status(&self, object: &str) -> Value {
        let status = self.tracked(object).observed.status.clone();
        let states = status
            .pod_states
            .nodes()
            .map(|(pod, _)| (pod.to_string(), status.pod_states.get(pod).unwrap()));
        serde_json::to_value(Status {
            observed_generation: status.header.observed_generation,
            pod_states: states.collect(),
            packed: None,
            target_uid: status.header.target_uid,
            recorded: status.header.recorded,
            desired: status.header.desired,
            conditions: status.header.conditions,
        })
        .unwrap()
    }

    fn states(&self, object: &str) -> Vec<String> {
        self.tracked(object)
            .observed
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
    WorkloadKey {
        object: key(name),
        kind: GroupKind::stateful_set(),
    }
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

const ASK: &[(&str, &str)] = &[
    ("kruise.io/auto-generate-persistent-pod-state", "true"),
    ("kruise.io/required-persistent-topology", "zone"),
];

fn generated(target: &str, uid: &str) -> (Value, Value) {
    let metadata = json!({
        "uid": format!("uid-{target}"), "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app.kubernetes.io/managed-by": "pps-sidecar"},
        "managedFields": [{"manager": "pps-sidecar", "operation": "Update",
            "fieldsV1": {"f:spec": {"f:targetRef": {}, "f:requiredPersistentTopology": {}}}}],
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": target, "uid": uid, "controller": true}],
    });
    let spec = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": target},
        "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
        "persistentPodStateRetentionPolicy": "WhenDeleted",
    });
    (metadata, spec)
}
