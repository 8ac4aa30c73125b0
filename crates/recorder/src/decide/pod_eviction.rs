//! The decision whether a Pending Pod is deleted, so that its controller creates it without the old affinity.

use std::collections::BTreeSet;

use super::nodes::Nodes;
use super::tracked_pps::TrackedPps;
use crate::facts::{NamespacedName, NodeFact, PodFact, WorkloadKey};

/// A Pod that waits for a node that no longer exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEviction {
    pub pod: NamespacedName,
    pub uid: String,
    /// The scheduler may just be binding it.
    pub resource_version: String,
    pub workload: WorkloadKey,
    /// The PPS that had its state.
    pub pps: NamespacedName,
    /// Label selectors of the nodes that could take it: the API server must not have such a node.
    pub node_selectors: BTreeSet<String>,
}

pub(super) struct View<'a> {
    pub key: &'a NamespacedName,
    pub pod: &'a PodFact,
    pub workload: &'a WorkloadKey,
    pub pps: &'a TrackedPps,
    pub nodes: &'a Nodes,
}

/// Decides whether the Pod has to be deleted: no node has the values that its required affinity names, and
/// the state that they came from has been dropped. Otherwise its successor would get the same affinity.
pub(super) fn decide(view: &View<'_>) -> Option<PodEviction> {
    let pending = view.pod.pending.as_deref().filter(|pending| !pending.required_affinity.is_empty())?;
    let pps = &view.pps.fact;
    if view.pod.terminating
        || pps.terminating
        || view.pps.workload != *view.workload
        || !pps.forgets_nodes()
        || view.pps.has_entry(&view.key.name)
    {
        return None;
    }
    let keys: Vec<&str> = pps.spec.required_keys().collect();
    let excludes = |node: &NodeFact| pending.required_affinity.exclude(&keys, |key| node.label(key));
    view.nodes.facts.values().all(excludes).then(|| PodEviction {
        pod: view.key.clone(),
        uid: pending.uid.clone(),
        resource_version: pending.resource_version.clone(),
        workload: view.workload.clone(),
        pps: NamespacedName { name: pending.pps.clone(), ..view.key.clone() },
        node_selectors: pending.required_affinity.node_selectors(&keys),
    })
}
