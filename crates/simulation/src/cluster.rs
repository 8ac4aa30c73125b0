//! The state of a simulated cluster. Holds data; decides nothing.

mod pps;
mod workload;

use std::collections::{BTreeMap, BTreeSet};

use pps_core::PodState;
use serde_json::Value;

pub(crate) use self::pps::Pps;
pub(crate) use self::workload::{Lifecycle, Workload, replicas};
use crate::addresses::Addresses;
use crate::result::{Event, EventKind, Refusal};
use crate::scheduler::{NodeView, Selection};

/// The label that says in which zone a node is.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

/// A cluster, as far as it is simulated: one namespace, and what is around it.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) namespace: String,
    pub(crate) with_pps: bool,
    /// Whether the sidecar evicts Pods that wait for a deleted node.
    pub(crate) evict_pending_pods: bool,
    pub(crate) settings: Value,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) workloads: BTreeMap<String, Workload>,
    /// The Pods of workloads.
    pub(crate) pods: BTreeMap<String, Pod>,
    /// Pods that no simulated workload controls. They take room, and nothing happens to them.
    pub(crate) other_pods: Vec<Value>,
    pub(crate) pps: BTreeMap<String, Pps>,
    /// Nodes that recorded states name and that have been gone for the grace period.
    pub(crate) overdue: BTreeSet<String>,
    /// Where Pods ran last, by name.
    pub(crate) last_places: BTreeMap<String, Place>,
    /// Pods whose creation was refused in this step.
    pub(crate) refusals: BTreeMap<String, Refusal>,
    pub(crate) addresses: Addresses,
    /// Where a real scheduler has placed Pods in this step.
    pub(crate) observed: BTreeMap<String, String>,
    /// What the sidecar has to examine.
    pub(crate) dirty: Dirty,
    pub(crate) events: Vec<Event>,
    /// What the sidecar has reported in this step, so that it reports it once.
    pub(crate) reported: BTreeSet<String>,
    pub(crate) created_pods: usize,
    /// Minutes since the beginning.
    pub(crate) minutes: u32,
    pub(crate) uids: u64,
}

/// What the sidecar has to examine.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    pub(crate) all: bool,
    pub(crate) pods: BTreeSet<String>,
}

/// A node, which may be lost.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) object: Value,
    pub(crate) exists: bool,
    /// Whether it may not have all its labels yet.
    pub(crate) is_new: bool,
}

impl Node {
    pub(crate) fn new(object: Value) -> Self {
        Self { object, exists: true, is_new: false }
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.object["metadata"]["labels"][key].as_str()
    }

    pub(crate) fn is_cordoned(&self) -> bool {
        self.object["spec"]["unschedulable"] == true
    }
}

/// Where a Pod runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) node: String,
    pub(crate) ip: Option<String>,
}

/// A Pod of a workload.
#[derive(Debug)]
pub(crate) struct Pod {
    /// The Pod as it is now.
    pub(crate) object: Value,
    /// As the controller created it.
    pub(crate) before: Value,
    /// As the API server stored it.
    pub(crate) after: Value,
    pub(crate) workload: String,
    /// The workload's template from which it was made.
    pub(crate) revision: usize,
    pub(crate) node: Option<String>,
    pub(crate) ready: bool,
    pub(crate) ips: Vec<String>,
    /// What was recorded when it was created.
    pub(crate) recorded: Option<Home>,
    pub(crate) injected: bool,
    pub(crate) warnings: Vec<String>,
    /// What the scheduler said last.
    pub(crate) selection: Option<Selection>,
    pub(crate) came_home: bool,
    /// What was last said about why it does not run.
    pub(crate) complaint: String,
}

/// A recorded state, and the part of it that the PPS still asks for.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) state: PodState,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Cluster {
    pub(crate) fn tell(&mut self, kind: EventKind, object: impl Into<String>, text: impl Into<String>) {
        self.events.push(Event { kind, object: object.into(), text: text.into() });
    }

    /// Reports something once in each step.
    pub(crate) fn warn_once(&mut self, object: impl Into<String>, text: impl Into<String>) {
        let (object, text) = (object.into(), text.into());
        if self.reported.insert(format!("{object} {text}")) {
            self.tell(EventKind::Warning, object, text);
        }
    }

    /// A UID that no object has yet.
    pub(crate) fn new_uid(&mut self) -> String {
        self.uids += 1;
        format!("00000000-0000-4000-8000-{:012}", self.uids)
    }

    /// The time of the simulation in RFC 3339. It begins at the same moment each time.
    pub(crate) fn now(&self) -> String {
        format!("2026-01-01T{:02}:{:02}:00Z", self.minutes / 60 % 24, self.minutes % 60)
    }

    pub(crate) fn has_node(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|node| node.exists)
    }

    pub(crate) fn existing_nodes(&self) -> impl Iterator<Item = (&String, &Node)> {
        self.nodes.iter().filter(|(_, node)| node.exists)
    }

    /// The nodes as the scheduler sees them.
    pub(crate) fn node_views(&self) -> Vec<NodeView<'_>> {
        let mut on: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for pod in self.pods.values() {
            if let Some(node) = &pod.node {
                on.entry(node).or_default().push(&pod.object);
            }
        }
        for pod in &self.other_pods {
            on.entry(pod["spec"]["nodeName"].as_str().unwrap_or_default()).or_default().push(pod);
        }
        self.existing_nodes()
            .map(|(name, node)| NodeView {
                node: &node.object,
                pods: on.remove(name.as_str()).unwrap_or_default(),
            })
            .collect()
    }

    /// Deletes a Pod, and remembers where it ran.
    pub(crate) fn remove_pod(&mut self, name: &str) {
        let Some(pod) = self.pods.remove(name) else { return };
        if let Some(node) = pod.node.filter(|_| pod.ready) {
            self.last_places.insert(name.to_owned(), Place { node, ip: pod.ips.first().cloned() });
        }
        self.dirty.pods.insert(name.to_owned());
    }

    /// Whether an address belongs to a Pod other than this one.
    pub(crate) fn is_taken(&self, ip: &str, pod: &str) -> bool {
        let is_other = |(name, other): (&String, &Pod)| name != pod && other.ips.iter().any(|one| one == ip);
        self.pods.iter().any(is_other)
    }
}
