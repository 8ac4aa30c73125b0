//! Whether a Pending Pod has to be deleted, so that its controller creates it without the old
//! affinity: no node has the values that its required affinity names, and the state that they came
//! from has been dropped. Otherwise its successor would get the same affinity.

use std::collections::BTreeSet;

use super::status::{View, obstacle};
use crate::cluster::Cluster;
use crate::facts::{NamespacedName, WorkloadKey};
use crate::ledger::Ledger;

/// A Pod that waits for a node that no longer exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodEviction {
    pub pod: NamespacedName,
    pub uid: String,
    /// The scheduler may just be binding it.
    pub resource_version: String,
    pub workload: WorkloadKey,
    /// The PPS that had its state, and its version: it must not have the state again.
    pub pps: NamespacedName,
    pub pps_version: String,
    /// Label selectors of the nodes that could take it: the API server must not have such a node.
    pub node_selectors: BTreeSet<String>,
}

pub(crate) fn decide(
    key: &NamespacedName,
    cluster: &Cluster,
    ledger: &Ledger,
) -> Option<PodEviction> {
    let pod = cluster.pods.facts.get(key)?;
    let pending = cluster.pods.pending(key)?;
    let affinity = &pending.required_affinity;
    if affinity.is_empty() || pod.terminating {
        return None;
    }
    let workload = cluster
        .workloads
        .key_of(&key.namespace, pod.owner.as_ref()?)?;
    let pps_key = key.sibling(&pending.pps);
    let view = View::of(&pps_key, cluster, ledger)?;
    let observed = &view.pps.observed;
    // What cannot be read may have a state of the Pod.
    if !view.is_usable()
        || view.pps.workload != *workload
        || !observed.forgets_nodes()
        || view.pps.has_entry(&key.name)
        || obstacle(&view).is_some()
    {
        return None;
    }
    let keys: Vec<&str> = observed.spec.required_keys().collect();
    let mut nodes = cluster.nodes.facts.values();
    if !nodes.all(|node| affinity.exclude(&keys, |key| node.label(key))) {
        return None;
    }
    Some(PodEviction {
        pod: key.clone(),
        uid: pending.uid.clone(),
        resource_version: pending.resource_version.clone(),
        workload: workload.clone(),
        node_selectors: affinity.node_selectors(&keys),
        pps_version: observed.resource_version.clone(),
        pps: pps_key,
    })
}
