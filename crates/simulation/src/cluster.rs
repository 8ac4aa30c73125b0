//! The state of a simulated cluster. Holds data; decides nothing.

pub(crate) mod budget;
pub(crate) mod fallback;
mod others;
mod pods;
pub(crate) mod recorder;
#[cfg(test)]
mod tests;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_core::{PodState, TargetReference, edit};
use pps_scheduler::Volumes;
use pps_scheduler::fields::{list, text};
use serde_json::Value;

pub(crate) use self::others::Others;
pub(crate) use self::pods::{Pod, Pods, RecordedPlace};
use self::recorder::Sidecar;
pub use self::workload::wanted;
pub(crate) use self::workload::{Lifecycle, Workload, replicas};
use crate::addresses::Addresses;
use crate::limits::Limits;
use crate::result::{Event, EventKind, Refusal};
use crate::scenario::Scenario;

/// The label that says in which zone a node is.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

/// A cluster, as far as it is simulated: one namespace, and what is around it.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) limits: Limits,
    pub(crate) namespace: String,
    /// Whether the objects are those of a running cluster.
    pub(crate) is_live: bool,
    pub(crate) with_pps: bool,
    /// Whether the sidecar evicts Pods that wait for a deleted node.
    pub(crate) evict_pending_pods: bool,
    pub(crate) settings: Value,
    nodes: BTreeMap<String, Node>,
    pub(crate) workloads: BTreeMap<String, Workload>,
    /// The Pods of workloads.
    pub(crate) pods: Pods,
    /// Pods that no simulated workload controls.
    pub(crate) others: Others,
    /// The nodes that exist as the scheduler has read them last, by name.
    pub(crate) scheduler_nodes: Vec<pps_scheduler::Node>,
    /// How often the scheduler has read a node.
    pub(crate) scheduler_revision: u64,
    /// Nodes that the scheduler has to read again.
    stale_nodes: BTreeSet<String>,
    pub(crate) volumes: Volumes,
    pub(crate) budgets: Vec<Value>,
    pub(crate) pps: BTreeMap<String, Pps>,
    /// The nodes on which Pods ran last, by the Pods' names.
    pub(crate) last_nodes: BTreeMap<String, String>,
    /// Pods whose creation was refused in this step.
    pub(crate) refusals: BTreeMap<String, Refusal>,
    /// Pods that cannot be evicted from the node that is drained, and why.
    pub(crate) kept: BTreeMap<String, String>,
    pub(crate) addresses: Addresses,
    /// Where a real scheduler has placed Pods in this step.
    pub(crate) observed: BTreeMap<String, String>,
    /// The sidecar; none without the product.
    pub(crate) sidecar: Option<Sidecar>,
    /// Pods that the sidecar has to examine; none if it has to list everything again.
    pub(crate) dirty: Option<BTreeSet<String>>,
    /// Workloads that their controller has to examine.
    pub(crate) uncontrolled: BTreeSet<String>,
    pub(crate) events: Vec<Event>,
    /// What the sidecar has reported in this step, so that it reports it once.
    pub(crate) reported: BTreeSet<String>,
    pub(crate) created_pods: usize,
    /// Minutes since the beginning.
    pub(crate) minutes: u32,
    pub(crate) uids: u64,
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
        Self {
            object,
            exists: true,
            is_new: false,
        }
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.object["metadata"]["labels"][key].as_str()
    }

    pub(crate) fn is_cordoned(&self) -> bool {
        self.object["spec"]["unschedulable"] == true
    }
}

#[derive(Debug)]
pub(crate) struct Pps {
    pub(crate) object: Value,
    pub(crate) target: TargetReference,
}

impl Pps {
    pub(crate) fn new(object: Value) -> Self {
        Self {
            target: TargetReference::read(&object["spec"]["targetRef"]),
            object,
        }
    }

    /// What is recorded; nothing if that cannot be read.
    pub(crate) fn states(&self) -> BTreeMap<String, PodState> {
        edit::states(&self.object).unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> &str {
        text(&self.object["metadata"]["uid"])
    }

    /// Whether all its owners have this UID, and it has one.
    pub(crate) fn is_owned_only_by(&self, uid: &str) -> bool {
        let mut owners = list(&self.object["metadata"]["ownerReferences"])
            .filter_map(|owner| owner["uid"].as_str())
            .peekable();
        owners.peek().is_some() && owners.all(|owner| owner == uid)
    }
}

impl Cluster {
    pub(crate) fn new(scenario: &Scenario, limits: Limits) -> Self {
        Self {
            limits,
            is_live: scenario.live,
            namespace: scenario.namespace.clone(),
            with_pps: scenario.with_pps,
            evict_pending_pods: scenario.evict_pending_pods,
            sidecar: scenario.with_pps.then(Sidecar::new),
            settings: scenario.settings.clone(),
            ..Self::default()
        }
    }

    /// Begins a step, in which a real scheduler placed Pods on these nodes.
    pub(crate) fn begin_step(&mut self, observed: BTreeMap<String, String>) {
        self.minutes += 1;
        self.refusals.clear();
        self.reported.clear();
        self.kept.clear();
        self.observed = observed;
    }

    pub(crate) fn tell(
        &mut self,
        kind: EventKind,
        object: impl Into<String>,
        text: impl Into<String>,
    ) {
        self.events.push(Event {
            kind,
            object: object.into(),
            text: text.into(),
        });
    }

    /// Warns of something once in each step.
    pub(crate) fn warn_once(&mut self, object: String, text: String) {
        if self.reported.insert(format!("{object} {text}")) {
            self.tell(EventKind::Warning, object, text);
        }
    }

    pub(crate) fn new_uid(&mut self) -> String {
        self.uids += 1;
        format!("00000000-0000-4000-8000-{:012}", self.uids)
    }

    pub(crate) fn new_version(&mut self) -> String {
        self.uids += 1;
        self.uids.to_string()
    }

    /// Sets the metadata of a PPS that the API server sets. `before` is the object that it
    /// replaces.
    pub(crate) fn set_server_fields(&mut self, object: &mut Value, before: Option<&Value>) {
        let version = self.new_version();
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = version.into();
        if let Some(before) = before {
            let generation = before["metadata"]["generation"].as_i64().unwrap_or(0);
            let is_new_spec = before["spec"] != object["spec"];
            object["metadata"]["generation"] = (generation + i64::from(is_new_spec)).into();
            return;
        }
        for (field, value) in [
            ("uid", self.new_uid().into()),
            ("creationTimestamp", self.now().into()),
            ("generation", 1.into()),
        ] {
            if metadata[field].is_null() {
                metadata[field] = value;
            }
        }
    }

    /// The time of the simulation in RFC 3339. It begins at the same moment each time.
    pub(crate) fn now(&self) -> String {
        format!(
            "2026-01-01T{:02}:{:02}:00Z",
            self.minutes / 60 % 24,
            self.minutes % 60
        )
    }

    pub(crate) fn has_node(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|node| node.exists)
    }

    /// A node, also a lost one.
    pub(crate) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// A node that is to be changed.
    pub(crate) fn node_mut(&mut self, name: &str) -> Option<&mut Node> {
        self.stale_nodes.insert(name.to_owned());
        self.nodes.get_mut(name)
    }

    /// Adds a node, or replaces a lost one.
    pub(crate) fn put_node(&mut self, name: &str, node: Node) {
        self.stale_nodes.insert(name.to_owned());
        self.nodes.insert(name.to_owned(), node);
    }

    /// All nodes have all their labels now.
    pub(crate) fn settle_nodes(&mut self) {
        for node in self.nodes.values_mut() {
            node.is_new = false;
        }
    }

    /// All nodes, also lost ones.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&String, &Node)> {
        self.nodes.iter()
    }

    pub(crate) fn existing_nodes(&self) -> impl Iterator<Item = (&String, &Node)> {
        self.nodes.iter().filter(|(_, node)| node.exists)
    }

    /// A node as the scheduler sees it, without one of its Pods; none if it does not exist.
    pub(crate) fn scheduler_node(&self, name: &str, but: &str) -> Option<pps_scheduler::Node> {
        let node = self.nodes.get(name).filter(|node| node.exists)?;
        let own = self
            .pods
            .on(name)
            .filter(|(pod, _)| *pod != but)
            .map(|(_, pod)| &*pod.object);
        let others = self.others.on(name).iter().map(Arc::as_ref);
        Some(pps_scheduler::Node::of(&node.object, own.chain(others)))
    }

    /// Lets the scheduler read the nodes as they are now.
    pub(crate) fn refresh_scheduler_nodes(&mut self) {
        for name in std::mem::take(&mut self.stale_nodes) {
            self.scheduler_revision += 1;
            let node = self.scheduler_node(&name, "");
            let nodes = &mut self.scheduler_nodes;
            match (nodes.binary_search_by(|known| known.name.cmp(&name)), node) {
                (Ok(index), Some(node)) => nodes[index] = node,
                (Ok(index), None) => drop(nodes.remove(index)),
                (Err(index), Some(node)) => nodes.insert(index, node),
                (Err(_), None) => {}
            }
        }
    }

    /// Everything may have changed.
    pub(crate) fn mark_all(&mut self) {
        self.dirty = None;
        self.uncontrolled.extend(self.workloads.keys().cloned());
    }

    fn mark_pod(&mut self, name: &str) {
        let Some(pod) = self.pods.get(name) else {
            return;
        };
        if let Some(dirty) = &mut self.dirty {
            dirty.insert(name.to_owned());
        }
        self.uncontrolled.insert(pod.workload.clone());
    }

    pub(crate) fn add_pod(&mut self, name: &str, pod: Pod) {
        self.pods.insert(name, pod);
        self.mark_pod(name);
    }

    pub(crate) fn bind_pod(&mut self, name: &str, node: &str) {
        self.pods.bind(name, node);
        self.stale_nodes.insert(node.to_owned());
    }

    pub(crate) fn run_pod(&mut self, name: &str, ips: Vec<String>, ready: bool) {
        self.pods.run(name, ips, ready);
        self.mark_pod(name);
    }

    /// Deletes a Pod, and remembers where it ran.
    pub(crate) fn remove_pod(&mut self, name: &str) {
        self.mark_pod(name);
        let Some(pod) = self.pods.remove(name) else {
            return;
        };
        let Some(node) = pod.node() else { return };
        self.stale_nodes.insert(node.to_owned());
        if pod.is_ready() {
            self.last_nodes.insert(name.to_owned(), node.to_owned());
        }
    }

    pub(crate) fn add_other(&mut self, pod: Arc<Value>) {
        self.stale_nodes
            .insert(text(&pod["spec"]["nodeName"]).to_owned());
        self.others.insert(pod, &self.namespace);
    }

    /// Removes those of the other Pods on a node for which this holds.
    pub(crate) fn remove_others(&mut self, node: &str, is_removed: impl Fn(&Value) -> bool) {
        self.stale_nodes.insert(node.to_owned());
        self.others.remove(node, &self.namespace, is_removed);
    }
}
