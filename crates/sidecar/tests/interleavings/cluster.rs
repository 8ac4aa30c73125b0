//! The cluster as it is: what its API server holds, and how that changes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// API version, kind and name of each workload.
pub(crate) const WORKLOADS: [(&str, &str, &str); 3] = [
    ("apps/v1", "StatefulSet", "w"),
    ("apps.kruise.io/v1beta1", "StatefulSet", "v"),
    ("a.io/v1", "Database", "d"),
];
/// Each Pod that there can be, with the number of its workload.
pub(crate) const PODS: [(&str, usize); 13] = [
    ("w-0", 0),
    ("w-1", 0),
    ("w-2", 0),
    ("w-3", 0),
    ("w-4", 0),
    ("v-0", 1),
    ("v-1", 1),
    ("v-2", 1),
    ("d-0", 2),
    ("d-1", 2),
    ("d-2", 2),
    ("d-red", 2),
    ("d-blue", 2),
];
pub(crate) const NODES: [&str; 4] = ["n0", "n1", "n2", "n3"];
/// The same, and one that never was.
pub(crate) const NAMED_NODES: [&str; 5] = ["n0", "n1", "n2", "n3", "n9"];
/// Each object that there can be, with the numbers of the workloads that it may name. Two of them compete.
pub(crate) const OBJECTS: [(&str, &[usize]); 4] = [("w", &[0]), ("p", &[0, 1]), ("v", &[1]), ("d", &[2])];

pub(crate) type Name = &'static str;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pod {
    pub(crate) owner: Option<String>,
    pub(crate) node: Option<Name>,
    pub(crate) ready: bool,
    pub(crate) terminating: bool,
    /// The annotation `ip`: none, blank, or some value.
    pub(crate) ip: Option<u8>,
    /// `status.podIP`.
    pub(crate) address: Option<u8>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Node {
    pub(crate) zone: Option<u8>,
    pub(crate) host: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Workload {
    pub(crate) uid: String,
    pub(crate) terminating: bool,
    pub(crate) spec: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Object {
    pub(crate) uid: String,
    pub(crate) version: u64,
    pub(crate) generation: i64,
    pub(crate) created: String,
    pub(crate) terminating: bool,
    /// The number of the workload that it names.
    pub(crate) target: usize,
    pub(crate) spec: Value,
    pub(crate) status: Value,
}

/// What an object's spec says.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they say what is named")]
pub(crate) struct Choice {
    pub(crate) target: u8,
    pub(crate) zone: bool,
    pub(crate) host: bool,
    pub(crate) ip: bool,
    pub(crate) net: bool,
    pub(crate) retention: u8,
    pub(crate) forget: bool,
}

impl Choice {
    fn spec(self, target: usize) -> Value {
        let (api_version, kind, name) = WORKLOADS[target];
        let mut annotations = Vec::new();
        if self.ip {
            annotations.push(json!({"key": "ip"}));
        }
        if self.net {
            annotations.push(json!({"key": "net", "valueFrom": "PodIPsCSV"}));
        }
        let retention = ["WhenScaled", "WhenDeleted", "Retain"][usize::from(self.retention % 3)];
        let mut spec = json!({
            "targetRef": {"apiVersion": api_version, "kind": kind, "name": name},
            "persistentPodAnnotations": annotations,
            "persistentPodStateRetentionPolicy": retention,
            "nodeDeletionPolicy": if self.forget { "Forget" } else { "Keep" },
        });
        if self.zone {
            spec["requiredPersistentTopology"] = json!({"nodeTopologyKeys": ["zone"]});
        }
        if self.host {
            spec["preferredPersistentTopology"] =
                json!([{"weight": 1, "preference": {"nodeTopologyKeys": ["host"]}}]);
        }
        spec
    }
}

/// What an API server says to a write of a status.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    ApplyResult(u64),
    Conflict,
    Gone,
}

#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) pods: BTreeMap<Name, Pod>,
    pub(crate) nodes: BTreeMap<Name, Node>,
    pub(crate) workloads: BTreeMap<usize, Workload>,
    pub(crate) objects: BTreeMap<Name, Object>,
    /// Each version of each object that there ever was.
    pub(crate) history: BTreeMap<u64, Object>,
    /// Pods that were Ready on a node at some time.
    pub(crate) ever_ready: BTreeSet<String>,
    /// Entries that somebody else wrote, by the object's UID.
    pub(crate) foreign: BTreeSet<(String, String)>,
    version: u64,
    made: u64,
}

impl Cluster {
    pub(crate) fn new(choices: &[Choice]) -> Self {
        let mut cluster = Self { version: 100, ..Self::default() };
        for (number, replicas) in [(0, 3), (1, 2), (2, 2)] {
            cluster.make_workload(number, json!({"replicas": replicas}));
        }
        for node in &NODES[..3] {
            cluster.nodes.insert(node, Node { zone: Some(1), host: true });
        }
        for (number, choice) in choices.iter().enumerate().skip(1) {
            cluster.make_object(number, *choice);
        }
        cluster
    }

    fn new_uid(&mut self) -> String {
        self.made += 1;
        format!("uid-{}", self.made)
    }

    pub(crate) fn make_workload(&mut self, number: usize, spec: Value) {
        if !self.workloads.contains_key(&number) {
            let uid = self.new_uid();
            self.workloads.insert(number, Workload { uid, terminating: false, spec });
        }
    }

    pub(crate) fn put_pod(&mut self, name: Name, pod: Pod) {
        if pod.ready && pod.node.is_some() {
            self.ever_ready.insert(name.to_owned());
        }
        self.pods.insert(name, pod);
    }

    /// Makes an object, unless it is there. Some are made in the same second.
    pub(crate) fn make_object(&mut self, number: usize, choice: Choice) -> bool {
        let (name, targets) = OBJECTS[number];
        if self.objects.contains_key(name) {
            return false;
        }
        let target = targets[usize::from(choice.target) % targets.len()];
        let uid = self.new_uid();
        let created = format!("2026-01-01T00:{:02}:00Z", self.made / 2 % 60);
        let spec = choice.spec(target);
        let object = Object {
            uid,
            version: 0,
            generation: 1,
            created,
            terminating: false,
            target,
            spec,
            status: json!({}),
        };
        self.store(name, object);
        true
    }

    /// Changes what an object names; false if nothing changes.
    pub(crate) fn edit_object(&mut self, number: usize, choice: Choice) -> bool {
        let (name, targets) = OBJECTS[number];
        let Some(mut object) = self.objects.get(name).cloned() else { return false };
        object.target = targets[usize::from(choice.target) % targets.len()];
        let spec = choice.spec(object.target);
        if object.spec == spec {
            return false;
        }
        object.spec = spec;
        object.generation += 1;
        self.store(name, object);
        true
    }

    /// Somebody asks for the deletion of an object that has a finalizer.
    pub(crate) fn object_goes(&mut self, name: Name) -> bool {
        let Some(mut object) = self.objects.get(name).filter(|object| !object.terminating).cloned() else {
            return false;
        };
        object.terminating = true;
        self.store(name, object);
        true
    }

    /// Somebody else writes a status.
    pub(crate) fn foreign_status(&mut self, name: Name, patch: &Value) -> bool {
        let Some(mut object) = self.objects.get(name).cloned() else { return false };
        let before = object.status.clone();
        json_patch::merge(&mut object.status, patch);
        for pod in patch["podStates"].as_object().into_iter().flat_map(|states| states.keys()) {
            self.foreign.insert((object.uid.clone(), pod.clone()));
        }
        if object.status == before {
            return false;
        }
        self.store(name, object);
        true
    }

    /// A status patch arrives. It counts only for the object that it was made for.
    pub(crate) fn patch_status(&mut self, name: &str, patch: &Value) -> Answer {
        let Some((name, current)) = self.objects.get_key_value(name) else { return Answer::Gone };
        let (name, mut object) = (*name, current.clone());
        let version = object.version.to_string();
        if patch["metadata"]["uid"] != object.uid || patch["metadata"]["resourceVersion"] != version {
            return Answer::Conflict;
        }
        let before = object.status.clone();
        json_patch::merge(&mut object.status, &patch["status"]);
        assert_ne!(before, object.status, "a write that changes nothing: {patch}");
        self.store(name, object);
        Answer::ApplyResult(self.version)
    }

    fn store(&mut self, name: Name, mut object: Object) {
        self.version += 1;
        object.version = self.version;
        self.history.insert(self.version, object.clone());
        self.objects.insert(name, object);
    }
}
