//! Tracks since when Pods have been unschedulable because the Node that they require is gone.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::facts::NamespacedName;

/// The unschedulable Pods, each with the time from which it may be evicted. Until then the sidecar waits: a
/// Node that fits the Pod may be missing only for a moment.
#[derive(Debug)]
pub struct UnschedulablePods {
    period: Duration,
    evictable_from: HashMap<NamespacedName, Instant>,
    deadlines: BTreeSet<(Instant, NamespacedName)>,
}

impl UnschedulablePods {
    /// Waits for this grace period before a Pod may be evicted.
    pub fn new(period: Duration) -> Self {
        Self { period, evictable_from: HashMap::new(), deadlines: BTreeSet::new() }
    }

    /// Records that a Pod is unschedulable now. Returns whether it has been so for the whole grace period;
    /// if not, [`Self::take_overdue`] yields it at the end of the period.
    pub fn observe(&mut self, pod: &NamespacedName, now: Instant) -> bool {
        let from = *self.evictable_from.entry(pod.clone()).or_insert(now + self.period);
        if from > now {
            self.deadlines.insert((from, pod.clone()));
        }
        from <= now
    }

    /// Makes a Pod evictable now: the Node that it requires has been missing for the grace period already.
    pub fn skip_grace_period(&mut self, pod: &NamespacedName, now: Instant) {
        self.cancel(pod);
        self.evictable_from.insert(pod.clone(), now);
    }

    /// Stops tracking a Pod: it is schedulable, or deleted.
    pub fn cancel(&mut self, pod: &NamespacedName) {
        if let Some(from) = self.evictable_from.remove(pod) {
            self.deadlines.remove(&(from, pod.clone()));
        }
    }

    /// When the next grace period ends.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Takes one Pod whose grace period has ended. The caller checks again whether it is unschedulable.
    pub fn take_overdue(&mut self, now: Instant) -> Option<NamespacedName> {
        if self.next_deadline()? > now {
            return None;
        }
        self.deadlines.pop_first().map(|(_, pod)| pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_mins(5);
    const ALMOST: Duration = Duration::from_secs(299);

    fn tracker() -> (UnschedulablePods, NamespacedName, Instant) {
        (UnschedulablePods::new(PERIOD), NamespacedName::new("n", "w-0"), Instant::now())
    }

    #[test]
    fn a_pod_is_evictable_after_the_whole_grace_period() {
        let (mut pods, pod, now) = tracker();
        assert!(!pods.observe(&pod, now));
        assert!(!pods.observe(&pod, now + ALMOST));
        assert_eq!((pods.next_deadline(), pods.take_overdue(now + ALMOST)), (Some(now + PERIOD), None));
        assert_eq!(pods.take_overdue(now + PERIOD), Some(pod.clone()));
        assert_eq!(pods.next_deadline(), None);
        assert!(pods.observe(&pod, now + PERIOD));

        pods.cancel(&pod);
        assert!(!pods.observe(&pod, now + PERIOD), "it was schedulable in the meantime");
        pods.cancel(&pod);
        assert_eq!(pods.next_deadline(), None);
    }

    #[test]
    fn a_pod_whose_node_has_been_missing_for_the_grace_period_is_evictable_at_once() {
        let (mut pods, pod, now) = tracker();
        assert!(!pods.observe(&pod, now));
        pods.skip_grace_period(&pod, now);
        assert!(pods.observe(&pod, now));
        assert_eq!(pods.next_deadline(), None);
    }
}
