//! What is due, and when: writes, lookups of nodes, and evictions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::fallbacks::Fallbacks;
use super::missing_nodes::MissingNodes;
use super::refused_writes::RefusedWrites;
use super::schedule::{Batch, Candidates, Deadlines, Waiting};
use super::unschedulable_pods::UnschedulablePods;
use crate::facts::{NamespacedName, WorkloadKey};

/// How long a new node may lack a label, unless the grace period of missing nodes is shorter. A
/// kubelet registers its Node, and starts Pods on it, before the cloud provider's controller has
/// labelled it with its zone.
pub const LABEL_GRACE_PERIOD: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub struct Agenda {
    pub statuses: Batch<NamespacedName>,
    pub generated: Batch<WorkloadKey>,
    pub evictions: Batch<NamespacedName>,
    pub refused_writes: RefusedWrites,
    pub missing_nodes: MissingNodes,
    pub unschedulable_pods: UnschedulablePods,
    pub fallbacks: Fallbacks,
    /// When each new node is new no longer.
    new_nodes: Deadlines<Arc<str>>,
}

impl Agenda {
    /// An empty agenda. `grace_period` is how long a node has to be missing, and a Pod
    /// unschedulable, before anything follows.
    pub fn new(grace_period: Duration) -> Self {
        Self {
            statuses: Batch::default(),
            generated: Batch::default(),
            evictions: Batch::default(),
            refused_writes: RefusedWrites::default(),
            missing_nodes: MissingNodes::new(grace_period),
            unschedulable_pods: UnschedulablePods::new(grace_period),
            fallbacks: Fallbacks::default(),
            new_nodes: Deadlines::default(),
        }
    }

    /// A node has appeared.
    pub fn add_new_node(&mut self, node: &Arc<str>, now: Instant) {
        let period = self.missing_nodes.period.min(LABEL_GRACE_PERIOD);
        self.new_nodes.set(node, now + period);
    }

    /// Takes a node that is new no longer.
    pub fn take_settled_node(&mut self, now: Instant) -> Option<Arc<str>> {
        self.new_nodes.take_due(now)
    }

    /// When the next write, lookup or eviction is due.
    pub fn next(&self, candidates: Candidates, may_generate: bool) -> Option<Instant> {
        let generated = self.generated.next(candidates).filter(|_| may_generate);
        let times = [
            generated,
            self.statuses.next(candidates),
            self.evictions.next(candidates),
            self.missing_nodes.next(candidates),
        ];
        times.into_iter().flatten().min()
    }

    /// Clears the queues of decisions: another process decided meanwhile. A standby goes on to
    /// observe how long nodes have been missing or new.
    pub fn clear(&mut self) {
        self.statuses.take_all();
        self.generated.take_all();
        self.evictions.take_all();
        self.refused_writes.clear();
        self.unschedulable_pods.clear();
        self.fallbacks.clear();
    }

    pub fn sweep(&mut self, now: Instant) {
        self.statuses.sweep(now);
        self.generated.sweep(now);
        self.evictions.sweep(now);
    }

    /// How many objects wait for a write, and since when the first of them has.
    pub fn waiting(&self) -> Waiting {
        self.statuses
            .waiting()
            .and(self.generated.waiting())
            .and(self.evictions.waiting())
    }
}
