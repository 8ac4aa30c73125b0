//! Nodes, and those that have only just appeared.

use std::collections::HashSet;
use std::sync::Arc;

use crate::facts::NodeFact;
use crate::facts::store::{Put, Store};

#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// Read-only outside, apart from the begin and the end of a list.
    pub(crate) facts: Store<Arc<str>, NodeFact>,
    /// Nodes that may not have all their labels yet.
    new: HashSet<Arc<str>>,
}

impl Nodes {
    pub(super) fn apply(&mut self, name: &Arc<str>, fact: NodeFact) -> Put<NodeFact> {
        let put = self.facts.put(name, fact);
        match &put {
            Put::Known => {}
            Put::New => {
                self.new.insert(name.clone());
            }
            Put::Changed(before) => {
                if self.has_lost_a_label(name, before) {
                    self.new.remove(name);
                }
            }
        }
        put
    }

    /// Whether a label that the node has had was taken away.
    fn has_lost_a_label(&self, name: &str, before: &NodeFact) -> bool {
        self.facts.get(name).is_some_and(|now| {
            let mut keys = before.labels.iter().map(|(key, _)| key);
            keys.any(|key| now.label(key).is_none())
        })
    }

    /// Returns whether the node was known.
    pub(super) fn remove(&mut self, name: &Arc<str>) -> bool {
        self.new.remove(name);
        self.facts.remove(name).is_some()
    }

    /// Returns whether the node was new until now.
    pub(super) fn settle(&mut self, name: &Arc<str>) -> bool {
        self.new.remove(name)
    }

    pub(crate) fn is_new(&self, name: &str) -> bool {
        self.new.contains(name)
    }
}
