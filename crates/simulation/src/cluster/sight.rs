//! The nodes as the scheduler sees them: read once, and again where something has changed.

use std::collections::BTreeMap;

use serde_json::Value;

use pps_scheduler::Node;

/// What has changed of a node since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    Pods,
    Node,
}

/// The nodes that exist, by name, with their Pods.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    nodes: Vec<Node>,
    stale: BTreeMap<String, Change>,
    /// How often a node has joined or left.
    shape: u64,
    /// The places of the nodes that were read again since then, in this order.
    log: Vec<usize>,
}

impl Sight {
    pub(super) fn mark(&mut self, node: &str, change: Change) {
        if let Some(known) = self.stale.get_mut(node) {
            *known = change.max(*known);
        } else {
            self.stale.insert(node.to_owned(), change);
        }
    }

    /// Reads again what has changed. `node` and `pods` find the objects: no node if it does not exist.
    pub(super) fn refresh<'a, P: IntoIterator<Item = &'a Value>>(
        &mut self,
        node: impl Fn(&str) -> Option<&'a Value>,
        pods: impl Fn(&str) -> P,
    ) {
        for (name, change) in std::mem::take(&mut self.stale) {
            let place = self.nodes.binary_search_by(|node| node.name().cmp(&name));
            match (place, node(&name)) {
                (Ok(index), Some(_)) if change == Change::Pods => {
                    self.nodes[index].set_pods(pods(&name));
                    self.log.push(index);
                }
                (Ok(index), Some(node)) => {
                    self.nodes[index] = Node::of(node, pods(&name));
                    self.log.push(index);
                }
                (Ok(index), None) => {
                    self.nodes.remove(index);
                    self.reshape();
                }
                (Err(index), Some(node)) => {
                    self.nodes.insert(index, Node::of(node, pods(&name)));
                    self.reshape();
                }
                (Err(_), None) => {}
            }
        }
    }

    fn reshape(&mut self) {
        self.shape += 1;
        self.log.clear();
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// What can be seen now, to compare later.
    pub(crate) fn now(&self) -> (u64, usize) {
        (self.shape, self.log.len())
    }

    /// The places of the nodes that have changed since then; nothing if other nodes are there.
    pub(crate) fn changed_since(&self, (shape, length): (u64, usize)) -> Option<&[usize]> {
        if shape == self.shape { self.log.get(length..) } else { None }
    }
}
