//! The decision whether a Pending Pod is deleted, so that its controller creates it without the old affinity.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::inventory::{TrackedPps, forgets_nodes};
use crate::facts::store::Store;
use crate::facts::{NamespacedName, NodeFact, PodFact, WorkloadKey};

/// A Pod that waits for a node that no longer exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEviction {
    /// The Pod.
    pub pod: NamespacedName,
    /// Its UID.
    pub uid: String,
    /// Its resource version: the scheduler may just be binding it.
    pub resource_version: String,
    /// Its workload.
    pub workload: WorkloadKey,
    /// The PPS that had its state.
    pub pps: NamespacedName,
    /// Label selectors of the nodes that could take it: the API server must not have such a node.
    pub node_selectors: BTreeSet<String>,
}

/// A Pending Pod with the policy's annotation, its workload, and the PPS that the annotation names.
pub(crate) struct View<'a> {
    pub(crate) key: &'a NamespacedName,
    pub(crate) pod: &'a PodFact,
    pub(crate) workload: &'a WorkloadKey,
    pub(crate) pps: &'a TrackedPps,
    pub(crate) nodes: &'a Store<Arc<str>, NodeFact>,
}

/// Decides whether the Pod has to be deleted: no node has the values that its required affinity names, and the state
/// that they came from has been dropped. Otherwise its successor would get the same affinity.
pub(crate) fn decide(view: &View<'_>) -> Option<PodEviction> {
    let pending = view.pod.pending.as_deref().filter(|pending| !pending.required_affinity.is_empty())?;
    let pps = &view.pps.fact;
    if view.pod.terminating
        || pps.terminating
        || view.pps.workload != *view.workload
        || !forgets_nodes(pps)
        || view.pps.has_entry(&view.key.name)
    {
        return None;
    }
    let keys: Vec<&str> = pps.spec.required_keys().collect();
    let excludes = |node: &NodeFact| pending.required_affinity.exclude(&keys, |key| node.label(key));
    view.nodes.values().all(excludes).then(|| PodEviction {
        pod: view.key.clone(),
        uid: pending.uid.clone(),
        resource_version: pending.resource_version.clone(),
        workload: view.workload.clone(),
        pps: NamespacedName { name: pending.pps.clone(), ..view.key.clone() },
        node_selectors: pending.required_affinity.node_selectors(&keys),
    })
}
