//! Tracks how long each Node has been missing, and when to ask the API server whether it is really gone.
//!
//! A missing Node may come back, so nothing happens during the grace period. After it, the sidecar reads the
//! Node from the API server before it drops any state because of it. A confirmation is valid for
//! `CONFIRMATION_VALIDITY` only; then the Node is overdue again and needs another one.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::deadlines::Deadlines;
use super::schedule::backoff;

const CONFIRMATION_VALIDITY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct MissingNodes {
    /// The grace period.
    period: Duration,
    /// A missing Node without a deadline is overdue.
    deadlines: Deadlines<Arc<str>>,
    nodes: HashMap<Arc<str>, Confirmation>,
    /// Nodes whose absence is to be confirmed by a read.
    requests: BTreeSet<Arc<str>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Confirmation {
    /// Whether one is requested or in flight.
    requested: bool,
    failures: u32,
}

impl MissingNodes {
    pub fn new(period: Duration) -> Self {
        let (deadlines, nodes, requests) = (Deadlines::default(), HashMap::new(), BTreeSet::new());
        Self { period, deadlines, nodes, requests }
    }

    pub fn period(&self) -> Duration {
        self.period
    }

    /// Starts the grace period of a Node, from the beginning if one was running. Discards any confirmation
    /// that is in flight: the Node may have been back in the meantime.
    pub fn start_grace_period(&mut self, node: &Arc<str>, now: Instant) {
        self.requests.remove(node);
        self.nodes.insert(node.clone(), Confirmation::default());
        self.deadlines.set(node, now + self.period);
    }

    /// Stops tracking a Node: it is back, or no recorded state names it any more.
    pub fn cancel(&mut self, node: &Arc<str>) {
        self.requests.remove(node);
        self.nodes.remove(node);
        self.deadlines.cancel(node);
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    /// Takes one overdue Node: its grace period has ended, its confirmation has expired, or the wait after a
    /// failed confirmation is over.
    pub fn take_overdue(&mut self, now: Instant) -> Option<Arc<str>> {
        self.deadlines.take_due(now)
    }

    /// Requests a confirmation that an overdue Node is gone. Does nothing for other Nodes, or while one is
    /// requested already.
    pub fn request_confirmation(&mut self, node: &Arc<str>) {
        if let Some(known) = self.nodes.get_mut(node)
            && !self.deadlines.contains(node)
            && !std::mem::replace(&mut known.requested, true)
        {
            self.requests.insert(node.clone());
        }
    }

    pub fn take_confirmation(&mut self) -> Option<Arc<str>> {
        self.requests.pop_first()
    }

    /// Takes one Node whose absence the caller must confirm, and whose confirmation has not failed yet.
    pub fn take_first_confirmation(&mut self) -> Option<Arc<str>> {
        let node = self.requests.iter().find(|node| !self.has_failed(node))?.clone();
        self.requests.take(&node)
    }

    pub fn has_failed(&self, node: &Arc<str>) -> bool {
        self.nodes.get(node).is_some_and(|known| known.failures > 0)
    }

    /// The API server has no such Node. Returns false if the confirmation is obsolete.
    pub fn confirm_missing(&mut self, node: &Arc<str>, now: Instant) -> bool {
        let is_current = self.end_confirmation(node);
        if is_current {
            self.nodes.insert(node.clone(), Confirmation::default());
            self.deadlines.set(node, now + CONFIRMATION_VALIDITY);
        }
        is_current
    }

    /// The API server has the Node, so its grace period starts again. Returns false if the confirmation is
    /// obsolete.
    pub fn confirm_present(&mut self, node: &Arc<str>, now: Instant) -> bool {
        let is_current = self.end_confirmation(node);
        if is_current {
            self.start_grace_period(node, now);
        }
        is_current
    }

    /// The confirmation failed. The Node becomes overdue again after a backoff, or after `retry_after` if the
    /// server asked for a longer wait. Returns the number of earlier failures.
    pub fn confirmation_failed(
        &mut self,
        node: &Arc<str>,
        retry_after: Option<Duration>,
        now: Instant,
    ) -> u32 {
        let is_current = self.end_confirmation(node);
        let Some(known) = self.nodes.get_mut(node).filter(|_| is_current) else { return 0 };
        let failures = known.failures;
        known.failures += 1;
        self.deadlines.set(node, now + backoff(failures).max(retry_after.unwrap_or_default()));
        failures
    }

    /// Whether a confirmation of this absence was in flight. It is obsolete if the Node was back in the
    /// meantime.
    fn end_confirmation(&mut self, node: &Arc<str>) -> bool {
        self.nodes.get_mut(node).is_some_and(|known| std::mem::take(&mut known.requested))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_mins(5);
    const ALMOST: Duration = Duration::from_secs(299);

    fn missing(node: &str) -> (MissingNodes, Arc<str>, Instant) {
        let (mut nodes, node, now) = (MissingNodes::new(PERIOD), Arc::from(node), Instant::now());
        nodes.start_grace_period(&node, now);
        (nodes, node, now)
    }

    #[test]
    fn requests_a_confirmation_once_the_grace_period_has_ended() {
        let (mut nodes, node, now) = missing("n");
        nodes.request_confirmation(&node);
        assert_eq!(nodes.take_confirmation(), None, "the grace period is still running");
        assert_eq!(nodes.take_overdue(now + ALMOST), None);
        assert_eq!(nodes.take_overdue(now + PERIOD), Some(node.clone()));
        assert_eq!(nodes.next_deadline(), None);
        nodes.request_confirmation(&node);
        nodes.request_confirmation(&node);
        assert_eq!((nodes.take_confirmation(), nodes.take_confirmation()), (Some(node), None));
    }

    #[test]
    fn ignores_a_confirmation_of_an_earlier_absence() {
        for is_return_seen in [true, false] {
            let (mut nodes, node, now) = missing("n");
            nodes.take_overdue(now + PERIOD);
            nodes.request_confirmation(&node);
            assert!(nodes.take_confirmation().is_some());
            // The Node may be missing again before the sidecar has seen it back.
            if is_return_seen {
                nodes.cancel(&node);
            }
            nodes.start_grace_period(&node, now + PERIOD);
            assert!(!nodes.confirm_missing(&node, now + PERIOD), "an answer about the earlier absence");
            assert_eq!(nodes.take_overdue(now + PERIOD + ALMOST), None);
            assert_eq!(nodes.take_overdue(now + PERIOD + PERIOD), Some(node));
            assert_eq!(nodes.next_deadline(), None);
        }
    }

    #[test]
    fn restarting_a_grace_period_moves_its_end() {
        let (mut nodes, node, now) = missing("n");
        nodes.start_grace_period(&node, now + ALMOST);
        assert_eq!(nodes.take_overdue(now + PERIOD), None);
        assert_eq!(nodes.take_overdue(now + ALMOST + PERIOD), Some(node));
    }

    #[test]
    fn a_confirmation_expires() {
        let (mut nodes, node, now) = missing("n");
        let now = now + PERIOD;
        nodes.take_overdue(now);
        nodes.request_confirmation(&node);
        nodes.take_confirmation();
        assert!(nodes.confirm_missing(&node, now));
        nodes.request_confirmation(&node);
        assert_eq!(nodes.take_confirmation(), None, "the confirmation is still valid");
        let expired = now + CONFIRMATION_VALIDITY;
        assert_eq!(nodes.take_overdue(expired), Some(node.clone()));
        nodes.request_confirmation(&node);
        assert_eq!(nodes.take_confirmation(), Some(node.clone()));
        assert!(nodes.confirm_present(&node, expired));
        assert_eq!(nodes.next_deadline(), Some(expired + PERIOD));
    }

    #[test]
    fn retries_a_failed_confirmation_with_backoff() {
        let (mut nodes, node, now) = missing("n");
        let mut now = now + PERIOD;
        let mut waits = Vec::new();
        for _ in 0..4 {
            assert_eq!(nodes.take_overdue(now), Some(node.clone()));
            nodes.request_confirmation(&node);
            nodes.take_confirmation();
            assert_eq!(nodes.confirmation_failed(&node, None, now) as usize, waits.len());
            let deadline = nodes.next_deadline().unwrap();
            waits.push(deadline - now);
            now = deadline;
        }
        assert!(waits.is_sorted_by(|a, b| a < b), "{waits:?}");
        nodes.take_overdue(now);
        nodes.request_confirmation(&node);
        assert_eq!(nodes.take_first_confirmation(), None, "it is a retry");
        assert_eq!(nodes.take_confirmation(), Some(node.clone()));
        nodes.confirmation_failed(&node, Some(PERIOD), now);
        assert_eq!(nodes.next_deadline(), Some(now + PERIOD), "waits as long as the server asks for");
    }
}
