//! The entries that would be dropped with their node (`nodeDeletionPolicy: Forget`), by node, and
//! which of these nodes are missing.
//!
//! Whether a node has been missing for long enough needs a clock, and whether it is gone at all
//! needs a question to the API server. Both answers come from outside; here they are only kept.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::cluster::Nodes;
use crate::facts::states::States;
use crate::facts::{NamespacedName, PpsFact};

/// What is known of a node that recorded states name and that the watch does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// Its grace period has not ended; it may come back.
    InGracePeriod,
    /// Its grace period has ended, or the last confirmation is too old. Before anything is dropped,
    /// the API server has to confirm that it is gone.
    Overdue,
    /// The API server has just confirmed that there is no such node.
    Confirmed,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryKey {
    pub(crate) pps: NamespacedName,
    pub(crate) pod: Arc<str>,
}

#[derive(Debug, Default)]
pub(crate) struct NodeEntries {
    by_node: HashMap<Arc<str>, BTreeSet<EntryKey>>,
    missing: HashMap<Arc<str>, Absence>,
}

impl NodeEntries {
    /// Replaces the entries of a PPS. Returns the nodes that they name or named.
    pub(super) fn replace(
        &mut self,
        pps: &NamespacedName,
        before: Option<&PpsFact>,
        after: Option<&PpsFact>,
    ) -> BTreeSet<Arc<str>> {
        let mut nodes = BTreeSet::new();
        for (pod, node) in before.into_iter().flat_map(forgettable) {
            self.remove(node, pps, pod);
            nodes.insert(node.clone());
        }
        for (pod, node) in after.into_iter().flat_map(forgettable) {
            self.add(node, pps, pod);
            nodes.insert(node.clone());
        }
        nodes
    }

    pub(super) fn add(&mut self, node: &Arc<str>, pps: &NamespacedName, pod: &Arc<str>) {
        if !node.is_empty() {
            let entries = self.by_node.entry(node.clone()).or_default();
            entries.insert(EntryKey {
                pps: pps.clone(),
                pod: pod.clone(),
            });
        }
    }

    pub(super) fn remove(&mut self, node: &str, pps: &NamespacedName, pod: &Arc<str>) {
        if let Some(entries) = self.by_node.get_mut(node) {
            entries.remove(&EntryKey {
                pps: pps.clone(),
                pod: pod.clone(),
            });
            if entries.is_empty() {
                self.by_node.remove(node);
            }
        }
    }

    pub(super) fn on(&self, node: &str) -> impl Iterator<Item = &EntryKey> {
        self.by_node.get(node).into_iter().flatten()
    }

    /// The nodes that entries name.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_node.keys()
    }

    /// Follows whether a node that entries name exists. Returns whether it has gone missing, or is
    /// missing no longer.
    pub(super) fn update_absence(&mut self, node: &Arc<str>, nodes: &Nodes) -> bool {
        let exists = nodes.facts.complete().is_none() || nodes.facts.get(node).is_some();
        let is_missing = !exists && self.by_node.contains_key(node);
        if is_missing == self.missing.contains_key(node) {
            return false;
        }
        if is_missing {
            self.missing.insert(node.clone(), Absence::InGracePeriod);
        } else {
            self.missing.remove(node);
        }
        true
    }

    pub(crate) fn absence(&self, node: &str) -> Option<Absence> {
        self.missing.get(node).copied()
    }

    /// Returns whether the node is missing.
    pub(super) fn set_absence(&mut self, node: &str, absence: Absence) -> bool {
        let known = self.missing.get_mut(node);
        known.map(|known| *known = absence).is_some()
    }

    pub(crate) fn missing_count(&self) -> usize {
        self.missing.len()
    }
}

/// Pod and node of the entries that would be dropped with their node.
fn forgettable(fact: &PpsFact) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
    let states = fact.forgets_nodes().then_some(&fact.status.pod_states);
    states.into_iter().flat_map(States::nodes)
}
