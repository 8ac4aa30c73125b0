//! Tracks which Nodes have only just appeared. A kubelet registers its Node, and starts Pods on it, before the cloud
//! provider's controller has labelled it with its zone.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The new Nodes, each with the time from which it counts as settled.
#[derive(Debug)]
pub struct NewNodes {
    period: Duration,
    /// In the order in which the Nodes appeared, which is that of the times.
    queue: VecDeque<(Instant, Arc<str>)>,
    settled_from: HashMap<Arc<str>, Instant>,
}

impl NewNodes {
    /// A Node is new for this long.
    pub fn new(period: Duration) -> Self {
        Self { period, queue: VecDeque::new(), settled_from: HashMap::new() }
    }

    /// A Node has appeared, perhaps again.
    pub fn observe(&mut self, node: &Arc<str>, now: Instant) {
        let from = now + self.period;
        self.settled_from.insert(node.clone(), from);
        self.queue.push_back((from, node.clone()));
    }

    /// Takes one Node that is new no longer.
    pub fn take_settled(&mut self, now: Instant) -> Option<Arc<str>> {
        while self.queue.front().is_some_and(|(from, _)| *from <= now) {
            let (from, node) = self.queue.pop_front()?;
            // Otherwise it was deleted and has appeared again since.
            if self.settled_from.get(&node) == Some(&from) {
                self.settled_from.remove(&node);
                return Some(node);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_new_for_the_period_since_it_appeared_last() {
        let period = Duration::from_mins(5);
        let (mut nodes, start) = (NewNodes::new(period), Instant::now());
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        nodes.observe(&a, start);
        nodes.observe(&b, start);
        nodes.observe(&a, start + period / 2);
        assert_eq!(nodes.take_settled(start), None);
        assert_eq!(nodes.take_settled(start + period), Some(b));
        assert_eq!(nodes.take_settled(start + period), None);
        assert_eq!(nodes.take_settled(start + period * 2), Some(a));
        assert!(nodes.queue.is_empty() && nodes.settled_from.is_empty());
    }
}
