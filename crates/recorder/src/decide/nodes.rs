//! Nodes, those that have only just appeared, and those that recorded states name and that do not exist,
//! where the PPS says `nodeDeletionPolicy: Forget`.
//!
//! Whether a node has been missing for long enough needs a clock, and whether it is gone at all needs a
//! question to the API server. Both answers come from outside; here they are only kept.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::facts::states::States;
use crate::facts::store::{Put, Store};
use crate::facts::{NamespacedName, NodeFact, PpsFact};

#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// Read-only outside, apart from the begin of a list.
    pub(super) facts: Store<Arc<str>, NodeFact>,
    /// Nodes that may not have all their labels yet, and whether a state has a label that the node may get
    /// back.
    new: HashMap<Arc<str>, bool>,
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
    /// Its grace period has ended. Before anything is dropped, the API server has to confirm that it is gone.
    Overdue,
    /// The API server has just confirmed that there is no such node.
    Confirmed,
}

impl Nodes {
    /// Ends a list; returns the nodes that it did not contain, which are no longer here.
    pub(crate) fn end_list(&mut self) -> Vec<Arc<str>> {
        let gone = self.facts.done();
        for name in &gone {
            self.remove(name);
        }
        gone
    }

    /// Stores a node. A node that was not known is new until [`settle`](Self::settle).
    pub(crate) fn apply(&mut self, name: &Arc<str>, fact: NodeFact) -> Put<NodeFact> {
        let put = self.facts.put(name, fact);
        if put == Put::New {
            self.new.insert(name.clone(), false);
        }
        put
    }

    pub(crate) fn remove(&mut self, name: &Arc<str>) -> bool {
        self.new.remove(name);
        self.facts.remove(name).is_some()
    }

    pub(crate) fn is_new(&self, name: &str) -> bool {
        self.new.contains_key(name)
    }

    /// A state has kept a label that this new node does not have yet.
    pub(crate) fn await_label(&mut self, name: &Arc<str>) {
        if let Some(is_awaited) = self.new.get_mut(name) {
            *is_awaited = true;
        }
    }

    /// A node is new no longer. Returns whether a state has kept a label that it lacks.
    pub(crate) fn settle(&mut self, name: &Arc<str>) -> bool {
        self.new.remove(name) == Some(true)
    }

    pub(crate) fn absence(&self, node: &str) -> Option<Absence> {
        self.missing.get(node).copied()
    }

    /// Changes what is known of a missing node. Returns the entries that name it; none if it is not missing.
    pub(crate) fn set_absence(
        &mut self,
        node: &Arc<str>,
        absence: Absence,
    ) -> Vec<(NamespacedName, Arc<str>)> {
        let Some(known) = self.missing.get_mut(node) else { return Vec::new() };
        *known = absence;
        self.entries.get(node).into_iter().flatten().cloned().collect()
    }

    /// Follows whether a node that entries name exists. Returns whether it went missing, or is missing no
    /// longer.
    pub(crate) fn follow(&mut self, node: &Arc<str>) -> bool {
        let exists = self.facts.complete().is_none() || self.facts.get(node).is_some();
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
            self.entries.entry(node.clone()).or_default().insert((pps.clone(), pod.clone()));
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
