//! What the watches have told so far, kept in the plainest way, and the facts that they tell it with.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pps_core::demand::{Naming, ReplicasPath};
use pps_sidecar::facts::interest::Interest;
use pps_sidecar::facts::store::Update;
use pps_sidecar::facts::{GroupKind, NodeFact, PodFact, PpsFact, WorkloadFact};
use pps_sidecar::observe::wire;
use serde_json::{Value, json};

use super::cluster::{Name, Node, Object, Pod, WORKLOADS, Workload};

/// What a watch tells: what there is, and the fact that is made of it when it is told.
#[derive(Debug)]
pub(crate) enum Told<T, F> {
    Begin(u64),
    Apply(Name, T, F),
    Delete(Name),
    Done,
}

/// Facts on their way, in the order in which they happened.
pub(crate) type Queue<T, F> = VecDeque<Told<T, F>>;

/// What is known of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Known<T> {
    pub(crate) facts: BTreeMap<Name, T>,
    listing: Option<(u64, BTreeSet<Name>)>,
    /// With which extent of the interest it was listed last.
    pub(crate) listed: Option<u64>,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self { facts: BTreeMap::new(), listing: None, listed: None }
    }
}

impl<T> Known<T> {
    pub(crate) fn begin(&mut self, revision: u64) {
        self.listing = Some((revision, BTreeSet::new()));
    }

    pub(crate) fn names(&mut self, name: Name) {
        if let Some((_, named)) = &mut self.listing {
            named.insert(name);
        }
    }

    pub(crate) fn delete(&mut self, name: Name) {
        self.facts.remove(name);
        if let Some((_, named)) = &mut self.listing {
            named.remove(name);
        }
    }

    /// Takes what a watch tells, and gives it as the index is told it.
    pub(crate) fn hear<K, F>(&mut self, told: Told<T, F>, key: impl Fn(Name) -> K) -> Update<K, F> {
        match told {
            Told::Begin(revision) => {
                self.begin(revision);
                Update::Begin(revision)
            }
            Told::Apply(name, one, fact) => {
                self.names(name);
                self.facts.insert(name, one);
                Update::Apply(key(name), fact)
            }
            Told::Delete(name) => {
                self.delete(name);
                Update::Delete(key(name))
            }
            Told::Done => {
                self.done();
                Update::Done
            }
        }
    }

    pub(crate) fn done(&mut self) {
        let Some((revision, named)) = self.listing.take() else { return };
        self.listed = Some(revision);
        self.facts.retain(|name, _| named.contains(name));
    }
}

/// Whether a node that is named and missing counts as gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    Excused,
    Overdue,
    Confirmed,
}

/// All that is known.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) pods: Known<Pod>,
    pub(crate) nodes: Known<Node>,
    pub(crate) objects: Known<Object>,
    /// Of the kinds that are watched.
    pub(crate) kinds: BTreeMap<usize, Known<Workload>>,
    pub(crate) forbidden: BTreeSet<usize>,
    pub(crate) kinds_known: bool,
    pub(crate) absences: BTreeMap<Name, Absence>,
}

impl View {
    pub(crate) fn workload(&self, number: usize) -> Option<&Workload> {
        self.kinds.get(&number)?.facts.get(WORKLOADS[number].2)
    }
}

pub(crate) fn group_kind(number: usize) -> GroupKind {
    let (api_version, kind, _) = WORKLOADS[number];
    GroupKind { group: pps_core::pps::group_of(api_version).into(), kind: kind.into() }
}

pub(crate) fn naming(number: usize) -> Naming {
    if number == 2 { Naming::Custom(ReplicasPath::default()) } else { Naming::StatefulSet }
}

/// The value of the annotation `ip`.
pub(crate) fn ip(pod: &Pod) -> Option<String> {
    pod.ip.map(|ip| if ip == 0 { String::new() } else { format!("10.0.0.{ip}") })
}

pub(crate) fn address(pod: &Pod) -> Option<String> {
    pod.address.map(|address| format!("10.1.0.{address}"))
}

pub(crate) fn label(name: Name, node: &Node, key: &str) -> Option<String> {
    match key {
        "zone" => node.zone.map(|zone| format!("z{zone}")),
        "host" if node.host => Some(name.to_owned()),
        _ => None,
    }
}

fn parse<T: serde::de::DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).unwrap()
}

pub(crate) fn pod_fact(name: Name, pod: &Pod, interest: &Interest) -> PodFact {
    let mut metadata = json!({"name": name, "namespace": "n", "annotations": {"other": "x"}});
    if let Some(owner) = &pod.owner {
        metadata["ownerReferences"] =
            json!([{"apiVersion": "a.io/v1", "kind": "Any", "name": "x", "uid": owner, "controller": true}]);
    }
    if let Some(ip) = ip(pod) {
        metadata["annotations"]["ip"] = ip.into();
    }
    if pod.terminating {
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    let ready = if pod.ready { "True" } else { "False" };
    let mut status = json!({"conditions": [{"type": "Ready", "status": ready}]});
    if let Some(address) = address(pod) {
        status["podIP"] = address.into();
    }
    let pod = json!({"metadata": metadata, "spec": {"nodeName": pod.node}, "status": status});
    wire::pod_fact(&parse(pod), interest).unwrap()
}

pub(crate) fn node_fact(name: Name, node: &Node, interest: &Interest) -> NodeFact {
    let labels: BTreeMap<&str, String> =
        ["zone", "host"].into_iter().filter_map(|key| Some((key, label(name, node, key)?))).collect();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
    wire::node_fact(&parse(node), interest)
}

pub(crate) fn workload_fact(number: usize, workload: &Workload) -> WorkloadFact {
    let (api_version, _, name) = WORKLOADS[number];
    let mut metadata = json!({"name": name, "namespace": "n", "uid": workload.uid});
    if workload.terminating {
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    let workload = json!({"metadata": metadata, "spec": workload.spec});
    if number == 0 {
        wire::workload_fact(&parse(workload))
    } else {
        wire::custom_workload_fact(&parse(workload), api_version, &naming(number))
    }
}

pub(crate) fn object_fact(name: &str, object: &Object) -> Box<PpsFact> {
    let mut metadata = json!({"name": name, "namespace": "n", "uid": object.uid,
        "resourceVersion": object.version.to_string(), "generation": object.generation,
        "creationTimestamp": object.created});
    if object.terminating {
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    let object = json!({"metadata": metadata, "spec": object.spec, "status": object.status});
    Box::new(wire::object_fact(parse(object)))
}
