//! Nodes, those that have only just appeared, and those that recorded states name and that do not
//! exist, where the PPS says `nodeDeletionPolicy: Forget`.
//!
//! Whether a node has been missing for long enough needs a clock, and whether it is gone at all
//! needs a question to the API server. Both answers come from outside; here they are only kept.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::facts::states::States;
use crate::facts::store::Store;
use crate::facts::{NamespacedName, NodeFact, PpsFact};

#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// Read-only outside, apart from the begin of a list.
    pub(super) facts: Store<Arc<str>, NodeFact>,
    /// Nodes that may not have all their labels yet, and whether a state has a label that a node
    /// may get back.
    pub(super) new: HashMap<Arc<str>, bool>,
    /// The entries that would be dropped with their node, each as PPS and Pod name, by node.
    pub(super) entries: HashMap<Arc<str>, BTreeSet<(NamespacedName, Arc<str>)>>,
    pub(super) missing: HashMap<Arc<str>, Absence>,
    /// Nodes about which the API server has to be asked.
    pub(super) unconfirmed: BTreeSet<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// Its grace period has not ended; it may come back.
    InGracePeriod,
    /// Its grace period has ended. Before anything is dropped, the API server has to confirm that
    /// it is gone.
    Overdue,
    /// The API server has just confirmed that there is no such node.
    Confirmed,
}

impl Nodes {
    pub(crate) fn remove(&mut self, name: &Arc<str>) -> bool {
        self.new.remove(name);
        self.facts.remove(name).is_some()
    }

    /// Replaces the entries of a PPS. Returns the nodes that they name or named.
    pub(crate) fn replace_entries(
        &mut self,
        key: &NamespacedName,
        before: Option<&PpsFact>,
        after: Option<&PpsFact>,
    ) -> BTreeSet<Arc<str>> {
        let mut nodes = BTreeSet::new();
        for (pod, node) in before.into_iter().flat_map(forgettable) {
            self.remove_entry(node, key, pod);
            nodes.insert(node.clone());
        }
        for (pod, node) in after.into_iter().flat_map(forgettable) {
            self.add_entry(node, key, pod);
            nodes.insert(node.clone());
        }
        nodes
    }

    pub(crate) fn add_entry(&mut self, node: &Arc<str>, pps: &NamespacedName, pod: &Arc<str>) {
        if !node.is_empty() {
            self.entries
                .entry(node.clone())
                .or_default()
                .insert((pps.clone(), pod.clone()));
        }
    }

    pub(crate) fn remove_entry(&mut self, node: &str, pps: &NamespacedName, pod: &Arc<str>) {
        if let Some(entries) = self.entries.get_mut(node) {
            entries.remove(&(pps.clone(), pod.clone()));
            if entries.is_empty() {
                self.entries.remove(node);
            }
        }
    }
}

/// Pod and node of the entries that would be dropped with their node.
fn forgettable(fact: &PpsFact) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
    let states = fact.forgets_nodes().then_some(&fact.status.pod_states);
    states.into_iter().flat_map(States::nodes)
}
