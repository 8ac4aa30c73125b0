//! Tracks which Nodes have only just appeared. A kubelet registers its Node, and starts Pods on it, before
//! the cloud provider's controller has labelled it with its zone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::deadlines::Deadlines;

#[derive(Debug)]
pub struct NewNodes {
    /// A Node is new for this long.
    period: Duration,
    settled_from: Deadlines<Arc<str>>,
}

impl NewNodes {
    pub fn new(period: Duration) -> Self {
        Self { period, settled_from: Deadlines::default() }
    }

    /// A Node has appeared, perhaps again.
    pub fn observe(&mut self, node: &Arc<str>, now: Instant) {
        self.settled_from.set(node, now + self.period);
    }

    /// Takes one Node that is new no longer.
    pub fn take_settled(&mut self, now: Instant) -> Option<Arc<str>> {
        self.settled_from.take_due(now)
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
        assert_eq!(nodes.settled_from.next(), None);
    }
}
