//! What the watches have delivered so far, kept as plainly as possible, and the facts that they
//! deliver.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pps_recorder::demand::{Naming, ReplicasPath};
use pps_recorder::facts::interest::Interest;
use pps_recorder::facts::store::Update;
use pps_recorder::facts::{GroupKind, NodeFact, PodFact, PpsFact, WorkloadFact};
use pps_sidecar::observe::objects;
use serde_json::{Value, json};

use super::cluster::{NAMES_PATH, Name, Node, Pod, Pps, WORKLOADS, Workload};

/// An event of a watch. It carries the object for the model, and the fact made of it for the recorder.
#[derive(Debug)]
pub(crate) enum WatchEvent<T, F> {
    /// A list starts, read with this revision of the interest.
    ListStart(u64),
    Apply(Name, T, F),
    Delete(Name),
    /// The list is complete.
    ListEnd,
}

/// Events that a watch has yet to deliver, in order.
pub(crate) type WatchQueue<T, F> = VecDeque<WatchEvent<T, F>>;

/// The objects of one resource, as the events delivered so far describe them.
#[derive(Clone, Debug)]
pub(crate) struct WatchCache<T> {
    pub(crate) objects: BTreeMap<Name, T>,
    /// The list in progress: its revision, and the names that it had so far.
    listing: Option<(u64, BTreeSet<Name>)>,
    /// The revision of the last complete list.
    pub(crate) listed: Option<u64>,
}

impl<T> Default for WatchCache<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            listing: None,
            listed: None,
        }
    }
}

impl<T> WatchCache<T> {
    pub(crate) fn start_list(&mut self, revision: u64) {
        self.listing = Some((revision, BTreeSet::new()));
    }

    pub(crate) fn is_listing(&self) -> bool {
        self.listing.is_some()
    }

    pub(crate) fn note_listed(&mut self, name: Name) {
        if let Some((_, listed)) = &mut self.listing {
            listed.insert(name);
        }
    }

    pub(crate) fn delete(&mut self, name: Name) {
        self.objects.remove(name);
        if let Some((_, listed)) = &mut self.listing {
            listed.remove(name);
        }
    }

    pub(crate) fn end_list(&mut self) {
        let Some((revision, listed)) = self.listing.take() else {
            return;
        };
        self.listed = Some(revision);
        self.objects.retain(|name, _| listed.contains(name));
    }

    /// Applies an event, and converts it to the recorder's form.
    pub(crate) fn apply<K, F>(
        &mut self,
        event: WatchEvent<T, F>,
        key: impl Fn(Name) -> K,
    ) -> Update<K, F> {
        match event {
            WatchEvent::ListStart(revision) => {
                self.start_list(revision);
                Update::Begin(revision)
            }
            WatchEvent::Apply(name, object, fact) => {
                self.note_listed(name);
                self.objects.insert(name, object);
                Update::Apply(key(name), fact)
            }
            WatchEvent::Delete(name) => {
                self.delete(name);
                Update::Delete(key(name))
            }
            WatchEvent::ListEnd => {
                self.end_list();
                Update::Done
            }
        }
    }
}

/// What is known of a Node that a recorded state names and that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeAbsence {
    InGracePeriod,
    Overdue,
    ConfirmedGone,
}

/// The entries of one PPS that belong to the workload that exists now, although the status names
/// another one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Renewed {
    /// Whether this process has seen them all.
    pub(crate) is_complete: bool,
    /// By Pod: UID of the workload.
    pub(crate) pods: BTreeMap<String, String>,
}

/// Everything that a sidecar process knows.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) pods: WatchCache<Pod>,
    pub(crate) nodes: WatchCache<Node>,
    /// The namespaces in scope.
    pub(crate) namespaces: WatchCache<()>,
    pub(crate) pps: WatchCache<Pps>,
    /// The watched workload kinds, by number.
    pub(crate) kinds: BTreeMap<usize, WatchCache<Workload>>,
    /// The watched kinds that the sidecar may not list.
    pub(crate) forbidden: BTreeSet<usize>,
    /// The watched kinds whose watch fails.
    pub(crate) failing: BTreeSet<usize>,
    /// Whether discovery has finished.
    pub(crate) kinds_known: bool,
    pub(crate) absences: BTreeMap<Name, NodeAbsence>,
    /// Nodes that have appeared and may not have all their labels yet.
    pub(crate) new_nodes: BTreeSet<Name>,
    /// The label keys that each Node was last delivered with.
    pub(crate) node_labels: BTreeMap<Name, BTreeSet<String>>,
    /// PPS and Pod of entries whose drop the cluster has not confirmed since the last rest.
    pub(crate) held: BTreeSet<(Name, String)>,
    /// By UID of the PPS: the entries that were recorded for the workload that exists now, while
    /// the status named another one, and those whose Pods were adopted.
    pub(crate) renewed: BTreeMap<String, Renewed>,
}

impl Snapshot {
    pub(crate) fn workload(&self, number: usize) -> Option<&Workload> {
        self.kinds.get(&number)?.objects.get(WORKLOADS[number].2)
    }
}

pub(crate) fn group_kind(number: usize) -> GroupKind {
    let (api_version, kind, _) = WORKLOADS[number];
    GroupKind {
        group: pps_core::pps::group_of(api_version).into(),
        kind: kind.into(),
    }
}

/// The annotation `ip`.
pub(crate) fn ip_annotation(pod: &Pod) -> Option<String> {
    pod.ip.map(|ip| {
        if ip == 0 {
            String::new()
        } else {
            format!("10.0.0.{ip}")
        }
    })
}

pub(crate) fn pod_ip(pod: &Pod) -> Option<String> {
    pod.address.map(|address| format!("10.1.0.{address}"))
}

pub(crate) fn zone_label(node: &Node) -> Option<String> {
    node.zone.map(|zone| format!("z{zone}"))
}

pub(crate) fn host_label(name: Name, node: &Node) -> Option<String> {
    node.host.then(|| name.to_owned())
}

pub(crate) fn pod_fact(name: Name, pod: &Pod, interest: &Interest) -> PodFact {
    let mut metadata = json!({"name": name, "namespace": "n", "annotations": {"other": "x"}});
    if let Some(owner) = &pod.owner {
        metadata["ownerReferences"] = json!([{"apiVersion": "a.io/v1", "kind": "Any", "name": "x", "uid": owner, "controller": true}]);
    }
    if let Some(ip) = ip_annotation(pod) {
        metadata["annotations"]["ip"] = ip.into();
    }
    if pod.exempt {
        metadata["annotations"]["kruise.io/record-persistent-pod-state"] = "false".into();
    }
    if pod.terminating {
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    let ready = if pod.ready { "True" } else { "False" };
    let mut status = json!({"conditions": [{"type": "Ready", "status": ready}]});
    if let Some(ip) = pod_ip(pod) {
        status["podIP"] = ip.into();
    }
    let pod = json!({"metadata": metadata, "spec": {"nodeName": pod.node}, "status": status});
    objects::read_pod(&pod.to_string(), interest)
        .unwrap()
        .fact
        .unwrap()
}

pub(crate) fn node_fact(name: Name, node: &Node, interest: &Interest) -> NodeFact {
    let labels = [("zone", zone_label(node)), ("host", host_label(name, node))];
    let labels: BTreeMap<&str, String> = labels
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
        .collect();
    let node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
    objects::read_node(&node.to_string(), interest)
        .unwrap()
        .fact
        .unwrap()
}

pub(crate) fn workload_fact(number: usize, workload: &Workload) -> WorkloadFact {
    let (api_version, _, name) = WORKLOADS[number];
    let mut metadata = json!({"name": name, "namespace": "n", "uid": workload.uid});
    if workload.terminating {
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    if workload.annotated {
        metadata["annotations"] = json!({"kruise.io/auto-generate-persistent-pod-state": "true",
            "kruise.io/required-persistent-topology": "zone"});
    }
    let text = &json!({"metadata": metadata, "spec": workload.spec}).to_string();
    let item = match number {
        0 => objects::read_stateful_set(text),
        1 => objects::read_custom_workload(text, api_version, &Naming::StatefulSet),
        _ if workload.lists_names => {
            let naming = Naming::Listed {
                names: NAMES_PATH.parse().unwrap(),
                replicas: ReplicasPath::default(),
            };
            objects::read_custom_workload(text, api_version, &naming)
        }
        _ => objects::read_custom_workload(
            text,
            api_version,
            &Naming::Custom(ReplicasPath::default()),
        ),
    };
    item.unwrap().fact.unwrap()
}

pub(crate) fn pps_fact(name: &str, object: &Pps) -> Box<PpsFact> {
    let mut metadata = json!({"name": name, "namespace": "n", "uid": object.uid,
        "resourceVersion": object.version.to_string(), "generation": object.generation,
        "creationTimestamp": object.created});
    if object.terminating {
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    let mut managed = Vec::new();
    if let Some(uid) = &object.generated_for {
        let (api_version, kind, name) = WORKLOADS[object.target];
        metadata["labels"] = json!({"app.kubernetes.io/managed-by": "pps-sidecar"});
        managed = own_fields(&json!({"f:targetRef": {}, "f:requiredPersistentTopology": {}}));
        metadata["ownerReferences"] = json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true}]);
    }
    // The API server keeps who has written which field of the status.
    let fields = object
        .status
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null());
    let fields: Value = fields
        .map(|(field, _)| (format!("f:{field}"), json!({})))
        .collect();
    managed.push(
        json!({"manager": "pps-sidecar", "operation": "Update", "fieldsV1": {"f:status": fields}}),
    );
    metadata["managedFields"] = managed.into();
    let object = json!({"metadata": metadata, "spec": object.spec, "status": object.status});
    Box::new(pps_recorder::facts::object_fact(
        serde_json::from_value(object).unwrap(),
    ))
}

/// The fields that the sidecar owns when it has made an object.
fn own_fields(spec: &Value) -> Vec<Value> {
    vec![json!({"manager": "pps-sidecar", "operation": "Update", "fieldsV1": {"f:spec": spec}})]
}

pub(crate) fn alias_fact(alias: &Value) -> Box<PpsFact> {
    let mut alias = alias.clone();
    alias["metadata"]["managedFields"] = own_fields(&json!({"f:targetRef": {}})).into();
    Box::new(pps_recorder::facts::object_fact(
        serde_json::from_value(alias).unwrap(),
    ))
}
