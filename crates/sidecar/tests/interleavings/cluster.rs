//! The simulated cluster: what its API server stores, and how that changes.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::pps::RetentionPolicy;
use serde_json::{Value, json};

use super::states::{changed_states, parse_status};

/// API version, kind and name of each workload.
pub(crate) const WORKLOADS: [(&str, &str, &str); 3] = [
    ("apps/v1", "StatefulSet", "w"),
    ("apps.kruise.io/v1beta1", "StatefulSet", "v"),
    ("a.io/v1", "Database", "d"),
];
/// Every Pod name that occurs, with the number of its workload.
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
/// Where a workload of the custom kind lists the names of its Pods, if it does.
pub(crate) const NAMES_PATH: &str = "spec.pods[*].metadata.name";
pub(crate) const NODES: [&str; 4] = ["n0", "n1", "n2", "n3"];
/// The Nodes that recorded states may name: `NODES`, and one that never existed.
pub(crate) const NAMED_NODES: [&str; 5] = ["n0", "n1", "n2", "n3", "n9"];
/// Every PPS name that occurs, with the numbers of the workloads that it may target. `p` competes
/// with `w` and with `v`.
pub(crate) const PPS_OBJECTS: [(&str, &[usize]); 4] =
    [("w", &[0]), ("p", &[0, 1]), ("v", &[1]), ("d", &[2])];

/// By so much the versions go back when etcd is restored.
const RESTORE_STEP: u64 = 1_000_000;

pub(crate) type Name = &'static str;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pod {
    /// UID of the controller owner.
    pub(crate) owner: Option<String>,
    pub(crate) node: Option<Name>,
    pub(crate) ready: bool,
    pub(crate) terminating: bool,
    /// Whether its annotation forbids that it is recorded.
    pub(crate) exempt: bool,
    /// The annotation `ip`: `None` is absent, 0 is blank.
    pub(crate) ip: Option<u8>,
    /// `status.podIP`.
    pub(crate) address: Option<u8>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Node {
    /// The label `zone`.
    pub(crate) zone: Option<u8>,
    /// Whether it has the label `host`.
    pub(crate) host: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Workload {
    pub(crate) uid: String,
    pub(crate) terminating: bool,
    /// Whether its annotations ask for a generated PPS that requires `zone`.
    pub(crate) annotated: bool,
    /// Whether the list of kinds says where it lists the names of its Pods: at [`NAMES_PATH`].
    pub(crate) lists_names: bool,
    pub(crate) spec: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pps {
    pub(crate) uid: String,
    pub(crate) version: u64,
    pub(crate) generation: i64,
    pub(crate) created: String,
    pub(crate) terminating: bool,
    /// UID of the workload for which the sidecar generated it, if it did.
    pub(crate) generated_for: Option<String>,
    /// The number of the targeted workload.
    pub(crate) target: usize,
    /// What `spec` was made from; the model reads these options instead of the spec.
    pub(crate) options: SpecOptions,
    pub(crate) spec: Value,
    pub(crate) status: Value,
}

/// What the spec of a PPS asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "independent options")]
pub(crate) struct SpecOptions {
    /// Chooses among the workloads that the PPS may target.
    pub(crate) target: u8,
    /// Required topology key `zone`.
    pub(crate) zone: bool,
    /// Preferred topology key `host`.
    pub(crate) host: bool,
    /// Annotation `ip`.
    pub(crate) ip: bool,
    /// Annotation `net`, which is made from the Pod's address.
    pub(crate) net: bool,
    pub(crate) retention: RetentionPolicy,
    /// `nodeDeletionPolicy: Forget`.
    pub(crate) forget: bool,
    /// `recordingPolicy: IfNotPresent`.
    pub(crate) home: bool,
}

impl SpecOptions {
    fn spec(self, target: usize) -> Value {
        let (api_version, kind, name) = WORKLOADS[target];
        let mut annotations = Vec::new();
        if self.ip {
            annotations.push(json!({"key": "ip"}));
        }
        if self.net {
            annotations.push(json!({"key": "net", "valueFrom": "PodIPsCSV"}));
        }
        let retention = match self.retention {
            RetentionPolicy::WhenScaled => "WhenScaled",
            RetentionPolicy::WhenDeleted => "WhenDeleted",
            RetentionPolicy::Retain => "Retain",
            RetentionPolicy::Unknown => "of a newer version",
        };
        let mut spec = json!({
            "targetRef": {"apiVersion": api_version, "kind": kind, "name": name},
            "persistentPodAnnotations": annotations,
            "persistentPodStateRetentionPolicy": retention,
            "nodeDeletionPolicy": if self.forget { "Forget" } else { "Keep" },
            "recordingPolicy": if self.home { "IfNotPresent" } else { "Always" },
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

/// The spec of a workload that wants the first Pods of its names.
pub(crate) fn spec_with_pods(number: usize, replicas: usize) -> Value {
    let own = PODS.iter().filter(|(_, workload)| *workload == number);
    let first: Vec<Name> = own.take(replicas).map(|(name, _)| *name).collect();
    json!({"replicas": replicas, "pods": listed(&first)})
}

/// The items of a workload that lists these names.
pub(crate) fn listed(names: &[Name]) -> Value {
    names
        .iter()
        .map(|name| json!({"metadata": {"name": name}}))
        .collect()
}

/// How the API server answers a status patch.
#[derive(Clone, Debug)]
pub(crate) enum PatchResponse {
    /// Applied; the object now has this resource version.
    Applied(u64),
    Conflict,
    NotFound,
}

#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) pods: BTreeMap<Name, Pod>,
    pub(crate) nodes: BTreeMap<Name, Node>,
    pub(crate) workloads: BTreeMap<usize, Workload>,
    pub(crate) objects: BTreeMap<Name, Pps>,
    /// Whether the workload of the custom kind lists the names of its Pods.
    lists_names: bool,
    /// Whether the namespace lacks the label that takes it into scope.
    pub(crate) is_disabled: bool,
    /// The aliases, as the API server has them.
    pub(crate) aliases: BTreeMap<String, Value>,
    /// Every version of every PPS.
    pub(crate) history: BTreeMap<u64, Pps>,
    /// Pods that were Ready on a Node at some time.
    pub(crate) ever_ready: BTreeSet<String>,
    /// Entries that another writer has put into a status: UID of the PPS, and Pod name.
    pub(crate) foreign: BTreeSet<(String, String)>,
    /// By UID of the PPS and Pod name: UID of the workload for which the entry was recorded, as far
    /// as the sidecar's process can know it.
    pub(crate) recorders: BTreeMap<(String, String), String>,
    version: u64,
    uids: u64,
    workload_uids: u64,
}

impl Cluster {
    pub(crate) fn new(options: &[SpecOptions]) -> Self {
        let mut cluster = Self {
            version: 1000 * RESTORE_STEP,
            ..Self::default()
        };
        for (number, replicas) in [(0, 3), (1, 2), (2, 2)] {
            cluster.create_workload(number, json!({"replicas": replicas}));
        }
        for node in &NODES[..3] {
            cluster.nodes.insert(
                node,
                Node {
                    zone: Some(1),
                    host: true,
                },
            );
        }
        for (number, options) in options.iter().enumerate().skip(1) {
            cluster.create_pps(number, *options);
        }
        cluster
    }

    /// The same cluster, in which the workload of the custom kind lists the names of its Pods.
    pub(crate) fn with_listed_names(mut self) -> Self {
        self.lists_names = true;
        let workload = self.workloads.get_mut(&2).unwrap();
        workload.lists_names = true;
        workload.spec = spec_with_pods(2, 2);
        self
    }

    fn new_uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{}", self.uids)
    }

    pub(crate) fn create_workload(&mut self, number: usize, spec: Value) {
        if !self.workloads.contains_key(&number) {
            self.workload_uids += 1;
            let uid = format!("uid-w{}", self.workload_uids);
            self.workloads.insert(
                number,
                Workload {
                    uid,
                    terminating: false,
                    annotated: false,
                    lists_names: self.lists_names && number == 2,
                    spec,
                },
            );
        }
    }

    pub(crate) fn put_pod(&mut self, name: Name, pod: Pod) {
        if pod.ready && pod.node.is_some() {
            self.ever_ready.insert(name.to_owned());
        }
        self.pods.insert(name, pod);
    }

    /// Creates a PPS; false if it exists. Some of them share a creation time.
    pub(crate) fn create_pps(&mut self, number: usize, options: SpecOptions) -> bool {
        let (name, targets) = PPS_OBJECTS[number];
        if self.objects.contains_key(name) {
            return false;
        }
        let target = targets[usize::from(options.target) % targets.len()];
        let uid = self.new_uid();
        let created = format!("2026-01-01T00:{:02}:00Z", self.uids / 2 % 60);
        let object = Pps {
            uid,
            version: 0,
            generation: 1,
            created,
            terminating: false,
            generated_for: None,
            target,
            options,
            spec: options.spec(target),
            status: json!({}),
        };
        self.store(name, object);
        true
    }

    /// Changes the spec of a PPS; false if nothing changes.
    pub(crate) fn edit_pps(&mut self, number: usize, options: SpecOptions) -> bool {
        let (name, targets) = PPS_OBJECTS[number];
        let Some(mut object) = self.objects.get(name).cloned() else {
            return false;
        };
        let options = if object.generated_for.is_none() {
            options
        } else {
            // Users set only the fields that the annotations do not give.
            let SpecOptions {
                retention,
                forget,
                home,
                ..
            } = options;
            SpecOptions {
                retention,
                forget,
                home,
                ..object.options
            }
        };
        object.target = targets[usize::from(options.target) % targets.len()];
        self.forget_recorders(&object.uid);
        let spec = options.spec(object.target);
        if object.spec == spec {
            return false;
        }
        object.options = options;
        object.spec = spec;
        object.generation += 1;
        self.store(name, object);
        true
    }

    /// Requests the deletion of a PPS that has a finalizer.
    pub(crate) fn terminate_pps(&mut self, name: Name) -> bool {
        let Some(mut object) = self
            .objects
            .get(name)
            .filter(|object| !object.terminating)
            .cloned()
        else {
            return false;
        };
        object.terminating = true;
        self.store(name, object);
        true
    }

    /// Another client patches the status.
    pub(crate) fn patch_status_as_other(&mut self, name: Name, patch: &Value) -> bool {
        let Some(mut object) = self.objects.get(name).cloned() else {
            return false;
        };
        let before = object.status.clone();
        json_patch::merge(&mut object.status, patch);
        for pod in patch["podStates"]
            .as_object()
            .into_iter()
            .flat_map(|states| states.keys())
        {
            self.foreign.insert((object.uid.clone(), pod.clone()));
        }
        if object.status == before {
            return false;
        }
        self.forget_recorders(&object.uid);
        self.store(name, object);
        true
    }

    /// The Pods of a workload that are not terminating.
    pub(crate) fn living(&self, workload_uid: &str) -> BTreeSet<Name> {
        let is_living = |pod: &Pod| pod.owner.as_deref() == Some(workload_uid) && !pod.terminating;
        let living = self.pods.iter().filter(|(_, pod)| is_living(pod));
        living.map(|(name, _)| *name).collect()
    }

    /// An entry is known to belong to this workload.
    pub(crate) fn note_recorder(&mut self, pps_uid: &str, pod: &str, workload_uid: &str) {
        self.recorders.insert(
            (pps_uid.to_owned(), pod.to_owned()),
            workload_uid.to_owned(),
        );
    }

    /// Receives a status patch. It applies only to the object and the version that it names.
    /// `recorder` is the workload whose Pods it records.
    pub(crate) fn patch_status(
        &mut self,
        name: &str,
        patch: &Value,
        recorder: Option<&String>,
    ) -> PatchResponse {
        let Some((name, current)) = self.objects.get_key_value(name) else {
            return PatchResponse::NotFound;
        };
        let (name, mut object) = (*name, current.clone());
        let version = object.version.to_string();
        if patch["metadata"]["uid"] != object.uid || patch["metadata"]["resourceVersion"] != version
        {
            return PatchResponse::Conflict;
        }
        let before = object.status.clone();
        json_patch::merge(&mut object.status, &patch["status"]);
        assert_ne!(before, object.status, "this patch changes nothing: {patch}");
        let target = patch["status"]["targetUID"].as_str();
        // What was erased is written back with the workload for which it was recorded.
        let recorder = recorder.filter(|recorder| target.is_none_or(|target| target == *recorder));
        let changed = changed_states(&before, &patch["status"]);
        for pod in parse_status(&object.status).pod_states.keys() {
            if target.is_some() || changed.contains_key(pod) {
                let recorder = recorder.cloned().unwrap_or_default();
                self.recorders
                    .insert((object.uid.clone(), pod.clone()), recorder);
            }
        }
        self.store(name, object);
        PatchResponse::Applied(self.version)
    }

    /// Receives a generated PPS, which has the zone alone. Returns whether it was created.
    pub(crate) fn create_generated(&mut self, name: Name, body: &Value) -> bool {
        let owner = &body["metadata"]["ownerReferences"][0];
        let number = (0..WORKLOADS.len())
            .find(|number| WORKLOADS[*number].2 == owner["name"])
            .unwrap();
        let object = PPS_OBJECTS
            .iter()
            .position(|(object, _)| *object == name)
            .unwrap();
        let options = SpecOptions {
            target: 0,
            zone: true,
            host: false,
            ip: false,
            net: false,
            retention: RetentionPolicy::WhenScaled,
            forget: false,
            home: false,
        };
        let is_created = self.create_pps(object, options);
        if is_created && let Some(mut object) = self.objects.get(name).cloned() {
            assert_eq!(object.target, number);
            object.generated_for = owner["uid"].as_str().map(str::to_owned);
            self.store(name, object);
        }
        is_created
    }

    /// Receives a change of a generated PPS: its owner, since users cannot change what the
    /// annotations give. Returns whether it was accepted.
    pub(crate) fn update_generated(&mut self, name: Name, patch: &Value) -> bool {
        let metadata = &patch["metadata"];
        let Some(mut object) = self.objects.get(name).cloned() else {
            return false;
        };
        let version = object.version.to_string();
        if metadata["uid"] != object.uid || metadata["resourceVersion"] != version {
            return false;
        }
        assert!(
            object.generated_for.is_some(),
            "{name} is not the sidecar's"
        );
        assert!(patch["spec"].is_null(), "{patch}");
        let owner = self
            .workloads
            .get(&object.target)
            .filter(|workload| !workload.terminating);
        assert!(
            owner.is_some_and(|owner| metadata["ownerReferences"][0]["uid"] == owner.uid),
            "{name} gets an owner that does not live, and the garbage collector deletes it: \
             {patch}"
        );
        object.generated_for = metadata["ownerReferences"][0]["uid"]
            .as_str()
            .map(str::to_owned);
        self.store(name, object);
        true
    }

    /// Receives an alias. Returns whether it was created.
    pub(crate) fn create_alias(&mut self, name: &str, body: &Value) -> bool {
        if self.aliases.contains_key(name) {
            return false;
        }
        self.version += 1;
        let mut alias = body.clone();
        alias["metadata"]["uid"] = self.new_uid().into();
        alias["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.aliases.insert(name.to_owned(), alias);
        true
    }

    /// Receives the deletion of an alias. Returns whether it is gone.
    pub(crate) fn delete_alias(&mut self, name: &str, uid: &str, version: &str) -> bool {
        let Some(alias) = self.aliases.get(name) else {
            return true;
        };
        if alias["metadata"]["uid"] != uid || alias["metadata"]["resourceVersion"] != version {
            return false;
        }
        self.aliases.remove(name);
        true
    }

    /// Receives the deletion of a generated PPS.
    pub(crate) fn delete_generated(&mut self, name: Name, uid: &str, version: &str) -> bool {
        let Some(object) = self.objects.get(name) else {
            return true;
        };
        if object.uid != uid || object.version.to_string() != version {
            return false;
        }
        assert!(
            object.generated_for.is_some(),
            "{name} is not the sidecar's"
        );
        let workload = self.workloads.get(&object.target);
        assert!(
            workload.is_none_or(|workload| !workload.annotated),
            "{name} is deleted although the annotations of its workload ask for it\n{self:?}"
        );
        self.objects.remove(name);
        true
    }

    /// Each PPS is as it was some versions ago, if it existed, and versions start again from a
    /// lower number.
    pub(crate) fn restore_backup(&mut self) {
        let earlier = |uid: &str| {
            let versions: Vec<&Pps> = self.history.values().filter(|pps| pps.uid == uid).collect();
            versions.get(versions.len() / 2).map(|pps| (*pps).clone())
        };
        let restored: Vec<(Name, Pps)> = self
            .objects
            .iter()
            .map(|(name, object)| {
                (
                    *name,
                    earlier(&object.uid).unwrap_or_else(|| object.clone()),
                )
            })
            .collect();
        self.recorders.clear();
        // No version is used twice: of an object with the same UID, etcd could not tell the two
        // apart.
        self.version = self.version / RESTORE_STEP * RESTORE_STEP - RESTORE_STEP;
        for (name, object) in restored {
            self.store(name, object);
        }
    }

    /// What other clients write says nothing about the workloads for which the entries were
    /// recorded.
    fn forget_recorders(&mut self, pps_uid: &str) {
        self.recorders.retain(|(uid, _), _| uid != pps_uid);
    }

    fn store(&mut self, name: Name, mut object: Pps) {
        self.version += 1;
        object.version = self.version;
        self.history.insert(self.version, object.clone());
        self.objects.insert(name, object);
    }
}
