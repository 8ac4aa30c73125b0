//! Totals of what the index keeps, for metrics. None of them is computed for each event.

use super::Index;
use crate::decide::capacity::OBJECT_OVERHEAD;
use crate::decide::tracked_pps::TrackedPps;
use crate::facts::{NamespacedName, PendingPod, WorkloadKey};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
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
}

impl Index {
    /// How many Pods, nodes, workloads, objects and recorded states are kept, and how many nodes
    /// are missing.
    pub fn counts(&self) -> [(&'static str, usize); 6] {
        let recorded = |object: &TrackedPps| object.fact.status.pod_states.len();
        [
            ("pods", self.pods.facts.count()),
            ("nodes", self.nodes.facts.count()),
            (
                "workloads",
                self.workloads
                    .kinds
                    .values()
                    .map(|kind| kind.facts.count())
                    .sum(),
            ),
            ("persistentpodstates", self.objects.tracked.len()),
            (
                "recorded_states",
                self.objects.tracked.values().map(recorded).sum(),
            ),
            ("missing_nodes", self.nodes.missing.len()),
        ]
    }

    /// The bytes of the largest object, and how many objects are near their capacity, and have
    /// exceeded it.
    pub fn sizes(&self) -> (usize, usize, usize) {
        self.objects
            .tracked
            .values()
            .fold((0, 0, 0), |(largest, near, exceeded), object| {
                let bytes = object.capacity.sizes.stored + OBJECT_OVERHEAD;
                let is_exceeded = object.capacity.is_exceeded();
                let is_near = !is_exceeded
                    && pps_core::size::nearly_full(bytes, self.object_limit(), false).is_some();
                (
                    largest.max(bytes),
                    near + usize::from(is_near),
                    exceeded + usize::from(is_exceeded),
                )
            })
    }

    pub fn unreadable_count(&self) -> usize {
        self.objects
            .tracked
            .values()
            .filter(|object| object.fact.unreadable.is_some())
            .count()
    }

    /// How far recording and injecting are. Costs time for each object and each Pod.
    pub fn totals(&self) -> Totals {
        let injected_pods = self.pods.facts.values().filter(|pod| pod.injected).count();
        let mut totals = Totals {
            injected_pods,
            ..Totals::default()
        };
        let is_in_scope =
            |(workload, _): &(&WorkloadKey, _)| self.scope.contains(&workload.object.namespace);
        for (workload, pps) in self.objects.governed().filter(is_in_scope) {
            let desired = self
                .workloads
                .get(workload)
                .and_then(|fact| fact.demand.replicas())
                .unwrap_or(0);
            let missing = desired.saturating_sub(pps.fact.status.pod_states.len() as u64);
            totals.desired_states = totals.desired_states.saturating_add(desired);
            totals.missing_states = totals.missing_states.saturating_add(missing);
        }
        for key in &self.pods.pending {
            let pending = self
                .pods
                .facts
                .get(key)
                .and_then(|fact| fact.pending.as_deref());
            if let Some(pending) = pending
                && let Some(since) = pending.unschedulable_since
                && self.is_pinned(key, pending)
            {
                totals.unschedulable_pods += 1;
                totals.unschedulable_since = Some(
                    totals
                        .unschedulable_since
                        .map_or(since, |first| first.min(since)),
                );
            }
        }
        totals
    }

    /// Whether the policy has limited a Pod to a topology, and not only its own template. A Pod
    /// keeps what was injected when the PPS is deleted.
    fn is_pinned(&self, pod: &NamespacedName, pending: &PendingPod) -> bool {
        let key = NamespacedName {
            namespace: pod.namespace.clone(),
            name: pending.pps.clone(),
        };
        let pps = self.objects.tracked.get(&key);
        !pending.required_affinity.is_empty()
            && pps.is_none_or(|pps| pps.fact.spec.required_keys().next().is_some())
    }
}
