//! Nodes that recorded states name and that do not exist, where the PPS says `nodeDeletionPolicy: Forget`.
//!
//! Whether a node has been missing for long enough needs a clock, and whether it is gone at all needs a question to the
//! API server. Both answers come from outside; here they are only kept.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pps_core::pps::NodeDeletionPolicy;

use crate::facts::states::States;
use crate::facts::{NamespacedName, PpsFact};

/// What is known of a missing node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// Its grace period has not ended; it may come back.
    InGracePeriod,
    /// Its grace period has ended. Before anything is dropped, the API server has to confirm that it is gone.
    Overdue,
    /// The API server has just confirmed that there is no such node.
    Confirmed,
}

/// The nodes that recorded states name, and which of them are missing.
#[derive(Debug, Default)]
pub(crate) struct NodeAbsences {
    /// The entries, each as PPS and Pod name, by node.
    entries: HashMap<Arc<str>, BTreeSet<(NamespacedName, Arc<str>)>>,
    missing: HashMap<Arc<str>, Absence>,
    /// Nodes about which the API server has to be asked.
    unconfirmed: BTreeSet<Arc<str>>,
}

/// Whether the states of a PPS are dropped when their node is gone.
pub(crate) fn forgets_nodes(fact: &PpsFact) -> bool {
    fact.spec.node_deletion() == NodeDeletionPolicy::Forget
}

/// Pod and node of the entries that would be dropped with their node.
fn forgettable(fact: &PpsFact) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
    let states = forgets_nodes(fact).then_some(&fact.status.pod_states);
    states.into_iter().flat_map(States::nodes)
}

impl NodeAbsences {
    pub(crate) fn missing_count(&self) -> usize {
        self.missing.len()
    }

    pub(crate) fn of(&self, node: &str) -> Option<Absence> {
        self.missing.get(node).copied()
    }

    /// Changes what is known of a missing node. Returns the entries that name it; none if it is not missing.
    pub(crate) fn set(&mut self, node: &Arc<str>, absence: Absence) -> Vec<(NamespacedName, Arc<str>)> {
        let Some(known) = self.missing.get_mut(node) else { return Vec::new() };
        *known = absence;
        self.entries.get(node).into_iter().flatten().cloned().collect()
    }

    /// Follows whether a node exists. Returns whether it went missing, or is missing no longer.
    pub(crate) fn follow(&mut self, node: &Arc<str>, exists: bool) -> bool {
        let missing = !exists && self.entries.contains_key(node);
        if missing == self.missing.contains_key(node) {
            return false;
        }
        if missing {
            self.missing.insert(node.clone(), Absence::InGracePeriod);
        } else {
            self.missing.remove(node);
        }
        true
    }

    /// All nodes that entries name.
    pub(crate) fn named(&self) -> Vec<Arc<str>> {
        self.entries.keys().cloned().collect()
    }

    pub(crate) fn request_confirmation(&mut self, nodes: impl IntoIterator<Item = String>) {
        self.unconfirmed.extend(nodes.into_iter().map(Arc::from));
    }

    pub(crate) fn take_unconfirmed(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.unconfirmed)
    }

    /// Replaces the entries of a PPS. Returns the nodes that they name or named.
    pub(crate) fn replace(
        &mut self,
        key: &NamespacedName,
        before: Option<&PpsFact>,
        after: Option<&PpsFact>,
    ) -> BTreeSet<Arc<str>> {
        let mut nodes = BTreeSet::new();
        for (pod, node) in before.into_iter().flat_map(forgettable) {
            self.remove(node, key, pod);
            nodes.insert(node.clone());
        }
        for (pod, node) in after.into_iter().flat_map(forgettable) {
            self.add(node, key, pod);
            nodes.insert(node.clone());
        }
        nodes
    }

    pub(crate) fn add(&mut self, node: &Arc<str>, pps: &NamespacedName, pod: &Arc<str>) {
        let entry = (pps.clone(), pod.clone());
        if let Some(entries) = self.entries.get_mut(node) {
            entries.insert(entry);
        } else if !node.is_empty() {
            self.entries.insert(node.clone(), [entry].into());
        }
    }

    pub(crate) fn remove(&mut self, node: &str, pps: &NamespacedName, pod: &Arc<str>) {
        if let Some(entries) = self.entries.get_mut(node) {
            entries.remove(&(pps.clone(), pod.clone()));
            if entries.is_empty() {
                self.entries.remove(node);
            }
        }
    }
}
