//! The last check before entries are dropped, or name another node. What the watches have shown may be late, and a state
//! that was dropped or overwritten is lost. So the shell reads the workload, and the Pods and nodes of these entries, from the API server, and the same rules decide
//! again from what it answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_core::pps::{NodeDeletionPolicy, RetentionPolicy};
use pps_core::workload::{WorkloadPresence, retains_state};

use super::view::{View, is_forgettable, ownership};
use crate::facts::{NamespacedName, PodFact, WorkloadFact, WorkloadKey};

/// What has to be true of the workload and of Pods for a write that drops entries.
#[derive(Clone, Debug, PartialEq)]
pub struct DropCheck {
    /// The workload that has to be read.
    pub workload: WorkloadKey,
    /// The workload from which the drops were decided.
    decided_from: Option<WorkloadFact>,
    former_uid: Option<String>,
    retention: RetentionPolicy,
    node_deletion: NodeDeletionPolicy,
    drops: Vec<DroppedEntry>,
    moves: Vec<MovedPod>,
}

/// A Pod whose entry names another node than before.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MovedPod {
    pub(super) pod: Arc<str>,
    pub(super) node: String,
}

/// An entry that is dropped.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DroppedEntry {
    pub(super) pod: Arc<str>,
    pub(super) node: String,
    pub(super) cause: DropCause,
}

/// Why an entry is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DropCause {
    /// The retention policy does not keep it; says whether the workload may want the Pod, and whether it is the workload for
    /// which the entry was recorded.
    /// `is_counted` says whether the name is unwanted only because the workload has all the Pods that it wants.
    NotRetained { wanted: bool, presence: WorkloadPresence, is_counted: bool },
    /// Its node is gone.
    NodeGone,
}

impl DroppedEntry {
    fn is_counted(&self) -> bool {
        matches!(self.cause, DropCause::NotRetained { is_counted: true, .. })
    }
}

impl DropCheck {
    /// The check of these drops and moves; none if there are none.
    pub(super) fn new(view: &View<'_>, drops: Vec<DroppedEntry>, moves: Vec<MovedPod>) -> Option<Self> {
        (!drops.is_empty() || !moves.is_empty()).then(|| Self {
            workload: view.pps.workload.clone(),
            decided_from: view.workload.cloned(),
            former_uid: view.former_uid.map(str::to_owned),
            retention: view.pps.fact.spec.retention(),
            node_deletion: view.pps.fact.spec.node_deletion(),
            drops,
            moves,
        })
    }

    /// Whether entries are dropped: only then does the workload have to be read.
    pub fn has_drops(&self) -> bool {
        !self.drops.is_empty()
    }

    /// The Pods that have to be read.
    pub fn pods(&self) -> impl Iterator<Item = NamespacedName> {
        let namespace = &self.workload.object.namespace;
        self.names().map(|name| NamespacedName { namespace: namespace.clone(), name: name.clone() })
    }

    /// The names of the Pods whose entries are dropped, or name another node.
    pub fn all(&self) -> BTreeSet<Arc<str>> {
        self.names().cloned().collect()
    }

    fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.drops.iter().map(|drop| &drop.pod).chain(self.moves.iter().map(|moved| &moved.pod))
    }

    /// The nodes that have to be looked for.
    pub fn nodes(&self) -> BTreeSet<Arc<str>> {
        let of_gone_nodes = self.drops.iter().filter(|drop| drop.cause == DropCause::NodeGone);
        of_gone_nodes.map(|drop| drop.node.as_str().into()).collect()
    }

    /// The entries that are dropped because one of these nodes is gone.
    pub fn on_nodes(&self, nodes: &BTreeSet<Arc<str>>) -> BTreeSet<Arc<str>> {
        let is_on =
            |drop: &&DroppedEntry| drop.cause == DropCause::NodeGone && nodes.contains(drop.node.as_str());
        self.drops.iter().filter(is_on).map(|drop| drop.pod.clone()).collect()
    }

    /// The workload whose living Pods have to be counted, if a drop depends on their number.
    pub fn counted(&self) -> Option<&WorkloadFact> {
        self.decided_from.as_ref().filter(|_| self.drops.iter().any(DroppedEntry::is_counted))
    }

    /// The entries that must stay if the workload has so many living Pods; nothing if they could not be counted.
    pub fn refuted_by_count(&self, living: Option<usize>) -> BTreeSet<Arc<str>> {
        let is_met = |workload: &WorkloadFact| living.is_some_and(|living| workload.demand.is_met_by(living));
        if self.counted().is_none_or(is_met) {
            return BTreeSet::new();
        }
        self.drops.iter().filter(|drop| drop.is_counted()).map(|drop| drop.pod.clone()).collect()
    }

    /// The entries that must stay, given the workload, the Pods and the nodes that the API server has now.
    pub fn refuted(
        &self,
        workload: Option<&WorkloadFact>,
        pods: &BTreeMap<Arc<str>, PodFact>,
        nodes: &BTreeSet<Arc<str>>,
    ) -> BTreeSet<Arc<str>> {
        let owner = self.decided_from.as_ref().map(|workload| &workload.uid);
        let must_not_move = |moved: &&MovedPod| {
            pods.get(&moved.pod).is_none_or(|pod| {
                pod.terminating
                    || !pod.ready
                    || pod.exempt
                    || pod.node.as_deref() != Some(&moved.node)
                    || pod.owner.as_ref() != owner
            })
        };
        let refuted_moves = self.moves.iter().filter(must_not_move).map(|moved| moved.pod.clone());
        if self.has_drops() && self.decided_from.as_ref() != workload {
            return refuted_moves.chain(self.drops.iter().map(|drop| drop.pod.clone())).collect();
        }
        let must_stay = |drop: &&DroppedEntry| {
            let pod = pods.get(&drop.pod);
            let ownership = ownership(pod, workload, self.former_uid.as_deref());
            match drop.cause {
                DropCause::NotRetained { wanted, presence, .. } => {
                    retains_state(self.retention, presence, wanted, ownership)
                }
                DropCause::NodeGone => {
                    nodes.contains(drop.node.as_str())
                        || !is_forgettable(self.node_deletion, ownership, pod, &drop.node)
                }
            }
        };
        let refuted_drops = self.drops.iter().filter(must_stay).map(|drop| drop.pod.clone());
        refuted_moves.chain(refuted_drops).collect()
    }
}
