//! Tracks how long each Node has been missing, and when to ask the API server whether it is really
//! gone.
//!
//! A missing Node may come back, so nothing happens during the grace period. After it, the sidecar
//! reads the Node from the API server before it drops any state because of it. A confirmation is
//! valid for `CONFIRMATION_VALIDITY` only; then the Node is overdue again and needs another one.
//!
//! The ledger has the [`Absence`] that decisions see, and here is when it changes:
//!
//! | the ledger has | here is | next |
//! |---|---|---|
//! | in grace period | a deadline | overdue |
//! | overdue | a lookup, once a decision asks for it | confirmed, or a new grace period |
//! | confirmed | a deadline | overdue |

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::schedule::{Batch, Candidates, Deadlines};
use crate::ledger::Absence;

const CONFIRMATION_VALIDITY: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub struct MissingNodes {
    /// The grace period.
    pub period: Duration,
    /// A missing Node without a deadline is overdue.
    deadlines: Deadlines<Arc<str>>,
    nodes: HashMap<Arc<str>, Confirmation>,
    /// The Nodes whose absence has to be confirmed.
    pub lookups: Batch<Arc<str>>,
}

/// What is being done to confirm that a missing Node is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Confirmation {
    NotRequested,
    /// Requested, or in flight.
    Requested,
}

impl MissingNodes {
    pub fn new(period: Duration) -> Self {
        Self {
            period,
            ..Self::default()
        }
    }

    /// Starts the grace period of a Node, from the beginning if one was running. Discards any
    /// confirmation that is in flight: the Node may have been back in the meantime.
    pub fn start_grace_period(&mut self, node: &Arc<str>, now: Instant) {
        self.cancel(node);
        self.nodes.insert(node.clone(), Confirmation::NotRequested);
        self.deadlines.set(node, now + self.period);
    }

    /// Stops tracking a Node: it is back, or no recorded state names it any more.
    pub fn cancel(&mut self, node: &Arc<str>) {
        self.lookups.forget(node);
        self.nodes.remove(node);
        self.deadlines.cancel(node);
    }

    /// When the next Node is overdue, or the next lookup is due.
    pub fn next(&self, candidates: Candidates) -> Option<Instant> {
        self.deadlines
            .next()
            .into_iter()
            .chain(self.lookups.next(candidates))
            .min()
    }

    /// Takes one overdue Node: its grace period has ended, or its confirmation has expired.
    pub fn take_overdue(&mut self, now: Instant) -> Option<Arc<str>> {
        self.deadlines.take_due(now)
    }

    /// Requests a confirmation that an overdue Node is gone. Does nothing for other Nodes, or while
    /// one is requested already.
    pub fn request_confirmation(&mut self, node: &Arc<str>, now: Instant) {
        if let Some(confirmation) = self.nodes.get_mut(node)
            && !self.deadlines.contains(node)
            && *confirmation == Confirmation::NotRequested
        {
            *confirmation = Confirmation::Requested;
            self.lookups.mark(node, now);
        }
    }

    fn is_requested(&self, node: &Arc<str>) -> bool {
        self.nodes.get(node) == Some(&Confirmation::Requested)
    }

    /// The API server has answered whether it has the Node. Returns what is known now; nothing if
    /// the answer is to an earlier question.
    pub fn on_answer(&mut self, node: &Arc<str>, exists: bool, now: Instant) -> Option<Absence> {
        if !self.is_requested(node) {
            return None;
        }
        if exists {
            // The watch has not reported it yet.
            self.start_grace_period(node, now);
            return Some(Absence::InGracePeriod);
        }
        self.nodes.insert(node.clone(), Confirmation::NotRequested);
        self.lookups.forget(node);
        self.deadlines.set(node, now + CONFIRMATION_VALIDITY);
        Some(Absence::Confirmed)
    }

    /// The confirmation failed. It is tried again after a backoff, or after `retry_after` if the
    /// server asked for a longer wait. Returns the number of earlier failures.
    pub fn confirmation_failed(
        &mut self,
        node: &Arc<str>,
        retry_after: Option<Duration>,
        now: Instant,
    ) -> u32 {
        if !self.is_requested(node) {
            return 0;
        }
        let failures = self.lookups.failures(node);
        self.lookups.failed(node, retry_after, now);
        self.lookups.mark(node, now);
        failures
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::Due;
    use super::*;

    const PERIOD: Duration = Duration::from_mins(5);
    const ALMOST: Duration = Duration::from_secs(299);

    fn missing(node: &str) -> (MissingNodes, Arc<str>, Instant) {
        let (mut nodes, node, now) = (MissingNodes::new(PERIOD), Arc::from(node), Instant::now());
        nodes.start_grace_period(&node, now);
        (nodes, node, now)
    }

    fn take(nodes: &mut MissingNodes, now: Instant) -> Option<Arc<str>> {
        nodes.lookups.take(Candidates::All, now).map(|due| due.key)
    }

    #[test]
    fn requests_a_confirmation_once_the_grace_period_has_ended() {
        let (mut nodes, node, now) = missing("n");
        nodes.request_confirmation(&node, now);
        assert_eq!(
            take(&mut nodes, now),
            None,
            "the grace period is still running"
        );
        assert_eq!(nodes.take_overdue(now + ALMOST), None);
        let now = now + PERIOD;
        assert_eq!(nodes.take_overdue(now), Some(node.clone()));
        assert_eq!(nodes.next(Candidates::All), None);
        nodes.request_confirmation(&node, now);
        nodes.request_confirmation(&node, now);
        assert_eq!(
            (take(&mut nodes, now), take(&mut nodes, now)),
            (Some(node), None)
        );
    }

    #[test]
    fn ignores_a_confirmation_of_an_earlier_absence() {
        for is_return_seen in [true, false] {
            let (mut nodes, node, now) = missing("n");
            let now = now + PERIOD;
            nodes.take_overdue(now);
            nodes.request_confirmation(&node, now);
            assert!(take(&mut nodes, now).is_some());
            // The Node may be missing again before the sidecar has seen it back.
            if is_return_seen {
                nodes.cancel(&node);
            }
            nodes.start_grace_period(&node, now);
            assert!(
                nodes.on_answer(&node, false, now).is_none(),
                "an answer about the earlier absence"
            );
            assert_eq!(nodes.take_overdue(now + ALMOST), None);
            assert_eq!(nodes.take_overdue(now + PERIOD), Some(node));
            assert_eq!(nodes.next(Candidates::All), None);
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
        nodes.request_confirmation(&node, now);
        take(&mut nodes, now);
        assert_eq!(nodes.on_answer(&node, false, now), Some(Absence::Confirmed));
        nodes.request_confirmation(&node, now);
        assert_eq!(
            take(&mut nodes, now),
            None,
            "the confirmation is still valid"
        );
        let expired = now + CONFIRMATION_VALIDITY;
        assert_eq!(nodes.take_overdue(expired), Some(node.clone()));
        nodes.request_confirmation(&node, expired);
        assert_eq!(take(&mut nodes, expired), Some(node.clone()));
        assert_eq!(
            nodes.on_answer(&node, true, expired),
            Some(Absence::InGracePeriod)
        );
        assert_eq!(nodes.next(Candidates::All), Some(expired + PERIOD));
    }

    #[test]
    fn retries_a_failed_confirmation_with_backoff() {
        let (mut nodes, node, now) = missing("n");
        let mut now = now + PERIOD;
        nodes.take_overdue(now);
        nodes.request_confirmation(&node, now);
        let mut waits = Vec::new();
        for _ in 0..4 {
            let is_retry = !waits.is_empty();
            assert_eq!(
                nodes.lookups.take(Candidates::All, now),
                Some(Due {
                    key: node.clone(),
                    is_retry
                })
            );
            assert_eq!(
                nodes.confirmation_failed(&node, None, now) as usize,
                waits.len()
            );
            assert_eq!(nodes.next(Candidates::NotFailing), None, "it is a retry");
            let next = nodes.next(Candidates::All).unwrap();
            waits.push(next - now);
            now = next;
        }
        assert!(waits.is_sorted_by(|a, b| a < b), "{waits:?}");
        nodes.confirmation_failed(&node, Some(PERIOD), now);
        assert_eq!(
            nodes.next(Candidates::All),
            Some(now + PERIOD),
            "waits as long as the server asks for"
        );
    }
}
