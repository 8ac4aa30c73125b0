//! Counts of what the recorder keeps, for metrics. None of them is computed for each event.

use pps_core::Reason;
use pps_core::size::nearly_full;

use crate::cluster::Cluster;
use crate::facts::{NamespacedName, PendingPod};
use crate::ledger::Ledger;
use crate::ledger::capacity::OBJECT_OVERHEAD;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub pods: usize,
    pub nodes: usize,
    pub workloads: usize,
    pub persistent_pod_states: usize,
    pub recorded_states: usize,
    /// Missing nodes that states with `nodeDeletionPolicy: Forget` name.
    pub missing_nodes: usize,
    /// How many Pods the workloads want whose PPS govern them.
    pub desired_states: u64,
    /// How many of them have no recorded state.
    pub missing_states: u64,
    /// How many Pods carry the policy's annotation.
    pub injected_pods: usize,
    /// For how many of them the scheduler finds no node although a PPS requires a topology.
    pub unschedulable_pods: usize,
    /// Since when the scheduler has found none for the first of them, in Unix seconds.
    pub unschedulable_since: Option<i64>,
    /// The size of the largest object.
    pub largest_object_bytes: usize,
    /// How many objects are near their capacity.
    pub near_capacity: usize,
    /// How many objects have exceeded their capacity.
    pub exceeded_capacity: usize,
    pub unreadable_objects: usize,
}

/// Costs time for each object and each Pod.
pub(crate) fn count(cluster: &Cluster, ledger: &Ledger) -> Counts {
    let mut counts = Counts {
        pods: cluster.pods.facts.count(),
        nodes: cluster.nodes.facts.count(),
        workloads: cluster.workloads.count(),
        persistent_pod_states: ledger.objects.len(),
        missing_nodes: ledger.node_entries.missing_count(),
        injected_pods: cluster
            .pods
            .facts
            .values()
            .filter(|pod| pod.injected)
            .count(),
        ..Counts::default()
    };
    counts.add_objects(ledger);
    counts.add_desired_states(cluster, ledger);
    counts.add_unschedulable_pods(cluster, ledger);
    counts
}

impl Counts {
    fn add_objects(&mut self, ledger: &Ledger) {
        let limit = ledger.object_limit();
        for pps in ledger.objects.values() {
            let capacity = &pps.progress.capacity;
            let bytes = capacity.sizes.stored + OBJECT_OVERHEAD;
            // As the condition says, unless it says something worse.
            let is_near = pps.observed.status.reports(Reason::NearCapacity)
                || nearly_full(bytes, limit, false).is_some();
            self.recorded_states += pps.observed.status.pod_states.len();
            self.largest_object_bytes = self.largest_object_bytes.max(bytes);
            self.unreadable_objects += usize::from(pps.observed.unreadable.is_some());
            if capacity.is_exceeded() {
                self.exceeded_capacity += 1;
            } else if is_near {
                self.near_capacity += 1;
            }
        }
    }

    fn add_desired_states(&mut self, cluster: &Cluster, ledger: &Ledger) {
        for (workload, pps) in ledger.objects.governed() {
            if !cluster.scope.contains(&workload.object.namespace) {
                continue;
            }
            let desired = cluster
                .workloads
                .get(workload)
                .and_then(|fact| fact.demand.replicas())
                .unwrap_or(0);
            let recorded = pps.observed.status.pod_states.len() as u64;
            let missing = desired.saturating_sub(recorded);
            self.desired_states = self.desired_states.saturating_add(desired);
            self.missing_states = self.missing_states.saturating_add(missing);
        }
    }

    fn add_unschedulable_pods(&mut self, cluster: &Cluster, ledger: &Ledger) {
        for key in &cluster.pods.waiting {
            let Some(pending) = cluster.pods.pending(key) else {
                continue;
            };
            if let Some(since) = pending.unschedulable_since
                && is_pinned(key, pending, ledger)
            {
                self.unschedulable_pods += 1;
                let first = self.unschedulable_since.unwrap_or(since);
                self.unschedulable_since = Some(first.min(since));
            }
        }
    }
}

/// Whether the policy has limited a Pod to a topology, and not only its own template. A Pod keeps
/// what was injected when the PPS is deleted.
fn is_pinned(pod: &NamespacedName, pending: &PendingPod, ledger: &Ledger) -> bool {
    let key = pod.sibling(&pending.pps);
    let pps = ledger.objects.get(&key);
    let requires_topology =
        pps.is_none_or(|pps| pps.observed.spec.required_keys().next().is_some());
    !pending.required_affinity.is_empty() && requires_topology
}
