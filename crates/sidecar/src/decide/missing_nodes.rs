//! How long a node has been missing, and when to ask whether it is gone.
//!
//! A node that is not there may come back: nothing happens for the grace period. After that its absence is
//! confirmed by a question to the API server whenever something would be dropped because of it. An
//! answer counts only for a while.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::decide::schedule::backoff;

/// How long an answer counts.
const FRESH: Duration = Duration::from_secs(10);

/// The nodes that are missing, each with the time at which it is overdue.
#[derive(Debug)]
pub struct MissingNodes {
    period: Duration,
    due: BTreeSet<(Instant, Arc<str>)>,
    nodes: HashMap<Arc<str>, Countdown>,
    questions: BTreeSet<Arc<str>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Countdown {
    due: Option<Instant>,
    /// A question is waiting or on its way.
    asked: bool,
    failures: u32,
}

impl MissingNodes {
    /// Nodes are excused for this long.
    pub fn new(period: Duration) -> Self {
        Self { period, due: BTreeSet::new(), nodes: HashMap::new(), questions: BTreeSet::new() }
    }

    /// How long nodes are excused.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// A node is missing from now on. What was asked before is void: it may have been back meanwhile.
    pub fn begins(&mut self, node: &Arc<str>, now: Instant) {
        self.ends(node);
        self.nodes.insert(node.clone(), Countdown::default());
        self.wait(node, self.period, now);
    }

    /// A node is back, or nobody cares for it any longer.
    pub fn ends(&mut self, node: &Arc<str>) {
        self.questions.remove(node);
        if let Some(Countdown { due: Some(due), .. }) = self.nodes.remove(node) {
            self.due.remove(&(due, node.clone()));
        }
    }

    /// When the next node is overdue.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Takes a node that is overdue: because its grace period has ended, or the last answer is too old.
    pub fn take(&mut self, now: Instant) -> Option<Arc<str>> {
        if self.next()? > now {
            return None;
        }
        let (_, node) = self.due.pop_first()?;
        if let Some(timing) = self.nodes.get_mut(&node) {
            timing.due = None;
        }
        Some(node)
    }

    /// Whether a missing node is gone is to be asked.
    pub fn ask(&mut self, node: &Arc<str>) {
        if let Some(timing) = self.nodes.get_mut(node)
            && timing.due.is_none()
            && !std::mem::replace(&mut timing.asked, true)
        {
            self.questions.insert(node.clone());
        }
    }

    /// Takes a question.
    pub fn question(&mut self) -> Option<Arc<str>> {
        self.questions.pop_first()
    }

    /// The answer is that the node is gone. False if the question is no longer of interest.
    pub fn gone(&mut self, node: &Arc<str>, now: Instant) -> bool {
        let asked = self.answered(node);
        if asked {
            self.nodes.insert(node.clone(), Countdown::default());
            self.wait(node, FRESH, now);
        }
        asked
    }

    /// The answer is that the node is there: it is excused anew.
    pub fn there(&mut self, node: &Arc<str>, now: Instant) -> bool {
        let asked = self.answered(node);
        if asked {
            self.begins(node, now);
        }
        asked
    }

    /// There was no answer that counts. The question is put again later, after a longer time at each
    /// failure. Gives how many failures went before.
    pub fn unknown(&mut self, node: &Arc<str>, asked_to_wait: Option<Duration>, now: Instant) -> u32 {
        let asked = self.answered(node);
        let Some(timing) = self.nodes.get_mut(node).filter(|_| asked) else { return 0 };
        let failures = timing.failures;
        timing.failures += 1;
        self.wait(node, backoff(failures).max(asked_to_wait.unwrap_or_default()), now);
        failures
    }

    /// Whether the answer is to a question of this absence: the node may have come and gone meanwhile.
    fn answered(&mut self, node: &Arc<str>) -> bool {
        self.nodes.get_mut(node).is_some_and(|timing| std::mem::take(&mut timing.asked))
    }

    fn wait(&mut self, node: &Arc<str>, time: Duration, now: Instant) {
        if let Some(timing) = self.nodes.get_mut(node) {
            let due = now + time;
            if let Some(before) = timing.due.replace(due) {
                self.due.remove(&(before, node.clone()));
            }
            self.due.insert((due, node.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_mins(5);
    const ALMOST: Duration = Duration::from_secs(299);

    fn missing(node: &str) -> (MissingNodes, Arc<str>, Instant) {
        let (mut grace, node, now) = (MissingNodes::new(PERIOD), Arc::from(node), Instant::now());
        grace.begins(&node, now);
        (grace, node, now)
    }

    #[test]
    fn a_node_is_overdue_after_the_grace_period_and_not_before() {
        let (mut grace, node, now) = missing("n");
        grace.ask(&node);
        assert_eq!(grace.question(), None, "it is excused");
        assert_eq!(grace.take(now + ALMOST), None);
        assert_eq!(grace.take(now + PERIOD), Some(node.clone()));
        assert_eq!(grace.next(), None);
        grace.ask(&node);
        grace.ask(&node);
        assert_eq!((grace.question(), grace.question()), (Some(node), None));
    }

    #[test]
    fn a_node_that_comes_back_is_forgotten_and_begins_anew() {
        for seen in [true, false] {
            let (mut grace, node, now) = missing("n");
            grace.take(now + PERIOD);
            grace.ask(&node);
            assert!(grace.question().is_some());
            // It may be gone again before anybody has looked.
            if seen {
                grace.ends(&node);
            }
            grace.begins(&node, now + PERIOD);
            assert!(!grace.gone(&node, now + PERIOD), "an answer about its last absence");
            assert_eq!(grace.take(now + PERIOD + ALMOST), None);
            assert_eq!(grace.take(now + PERIOD + PERIOD), Some(node));
            assert_eq!(grace.next(), None);
        }
    }

    #[test]
    fn a_grace_period_that_begins_anew_ends_later() {
        let (mut grace, node, now) = missing("n");
        grace.begins(&node, now + ALMOST);
        assert_eq!(grace.take(now + PERIOD), None);
        assert_eq!(grace.take(now + ALMOST + PERIOD), Some(node));
    }

    #[test]
    fn an_answer_counts_for_a_while() {
        let (mut grace, node, now) = missing("n");
        let now = now + PERIOD;
        grace.take(now);
        grace.ask(&node);
        grace.question();
        assert!(grace.gone(&node, now));
        grace.ask(&node);
        assert_eq!(grace.question(), None, "it is known");
        assert_eq!(grace.take(now + FRESH), Some(node.clone()));
        grace.ask(&node);
        assert_eq!(grace.question(), Some(node.clone()));
        assert!(grace.there(&node, now + FRESH));
        assert_eq!(grace.next(), Some(now + FRESH + PERIOD));
    }

    #[test]
    fn without_an_answer_it_is_asked_again_ever_later() {
        let (mut grace, node, now) = missing("n");
        let mut now = now + PERIOD;
        let mut waits = Vec::new();
        for _ in 0..4 {
            assert_eq!(grace.take(now), Some(node.clone()));
            grace.ask(&node);
            grace.question();
            assert_eq!(grace.unknown(&node, None, now) as usize, waits.len());
            let due = grace.next().unwrap();
            waits.push(due - now);
            now = due;
        }
        assert!(waits.is_sorted_by(|a, b| a < b), "{waits:?}");
        grace.take(now);
        grace.ask(&node);
        grace.unknown(&node, Some(PERIOD), now);
        assert_eq!(grace.next(), Some(now + PERIOD), "as long as the server asks for");
    }
}
