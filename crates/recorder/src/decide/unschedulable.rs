//! Tracks since when Pods have been unschedulable because the Node that they require is gone.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::deadlines::Deadlines;
use crate::facts::NamespacedName;

/// The unschedulable Pods, each with the time from which it may be evicted. Until then the sidecar waits: a
/// Node that fits the Pod may be missing only for a moment.
#[derive(Debug)]
pub struct UnschedulablePods {
    /// The grace period before a Pod may be evicted.
    period: Duration,
    pods: HashMap<NamespacedName, Unschedulable>,
    deadlines: Deadlines<NamespacedName>,
}

#[derive(Debug)]
struct Unschedulable {
    /// Another Pod of the same name has a grace period of its own.
    uid: String,
    evictable_from: Instant,
    is_reported: bool,
}

impl UnschedulablePods {
    pub fn new(period: Duration) -> Self {
        Self { period, pods: HashMap::new(), deadlines: Deadlines::default() }
    }

    /// Records that a Pod is unschedulable now. Returns whether it has been so for the whole grace period;
    /// if not, [`Self::take_overdue`] yields it at the end of the period.
    pub fn observe(&mut self, pod: &NamespacedName, uid: &str, now: Instant) -> bool {
        if self.pods.get(pod).is_none_or(|known| known.uid != uid) {
            self.track(pod, uid, now + self.period);
        }
        let from = self.pods.get(pod).map_or(now, |known| known.evictable_from);
        if from > now {
            self.deadlines.set(pod, from);
        }
        from <= now
    }

    /// Makes a Pod evictable now: the Node that it requires has been missing for the grace period already.
    pub fn skip_grace_period(&mut self, pod: &NamespacedName, uid: &str, now: Instant) {
        self.track(pod, uid, now);
    }

    /// Whether a Pod that is not evicted is to be reported: once for each Pod.
    pub fn is_to_be_reported(&mut self, pod: &NamespacedName) -> bool {
        self.pods.get_mut(pod).is_some_and(|known| !std::mem::replace(&mut known.is_reported, true))
    }

    /// Stops tracking a Pod: it is schedulable, or deleted.
    pub fn cancel(&mut self, pod: &NamespacedName) {
        self.pods.remove(pod);
        self.deadlines.cancel(pod);
    }

    /// Stops tracking all Pods: another process led meanwhile, and nobody knows how they were.
    pub fn clear(&mut self) {
        *self = Self::new(self.period);
    }

    fn track(&mut self, pod: &NamespacedName, uid: &str, evictable_from: Instant) {
        self.cancel(pod);
        let known = Unschedulable { uid: uid.to_owned(), evictable_from, is_reported: false };
        self.pods.insert(pod.clone(), known);
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    /// Takes one Pod whose grace period has ended. The caller checks again whether it is unschedulable.
    pub fn take_overdue(&mut self, now: Instant) -> Option<NamespacedName> {
        self.deadlines.take_due(now)
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
        assert!(!pods.observe(&pod, "uid-1", now));
        assert!(!pods.observe(&pod, "uid-1", now + ALMOST));
        assert_eq!((pods.next_deadline(), pods.take_overdue(now + ALMOST)), (Some(now + PERIOD), None));
        assert_eq!(pods.take_overdue(now + PERIOD), Some(pod.clone()));
        assert_eq!(pods.next_deadline(), None);
        assert!(pods.observe(&pod, "uid-1", now + PERIOD));

        pods.cancel(&pod);
        assert!(!pods.observe(&pod, "uid-1", now + PERIOD), "it was schedulable in the meantime");
        pods.cancel(&pod);
        assert_eq!(pods.next_deadline(), None);
    }

    #[test]
    fn a_pod_whose_node_has_been_missing_for_the_grace_period_is_evictable_at_once() {
        let (mut pods, pod, now) = tracker();
        assert!(!pods.observe(&pod, "uid-1", now));
        pods.skip_grace_period(&pod, "uid-1", now);
        assert!(pods.observe(&pod, "uid-1", now));
        assert_eq!(pods.next_deadline(), None);
    }

    #[test]
    fn another_pod_of_the_same_name_and_another_term_have_a_grace_period_of_their_own() {
        let (mut pods, pod, now) = tracker();
        pods.observe(&pod, "uid-1", now);
        assert!(pods.observe(&pod, "uid-1", now + PERIOD));
        assert!(!pods.observe(&pod, "uid-2", now + PERIOD), "its controller has created it again");
        assert_eq!(pods.next_deadline(), Some(now + PERIOD + PERIOD));
        assert!(pods.observe(&pod, "uid-2", now + PERIOD + PERIOD));
        assert!(pods.is_to_be_reported(&pod) && !pods.is_to_be_reported(&pod));

        pods.clear();
        assert!(!pods.observe(&pod, "uid-2", now + PERIOD + PERIOD), "another process led meanwhile");
        pods.skip_grace_period(&pod, "uid-2", now);
        assert!(!pods.observe(&pod, "uid-3", now));
    }
}
