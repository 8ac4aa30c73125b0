//! Since when Pods have waited that no node can take.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::facts::NamespacedName;

/// Pods that no node can take, each with the time from which on it may be deleted. A node that could take
/// it may just have been away for a moment.
#[derive(Debug)]
pub struct UnschedulablePods {
    period: Duration,
    from: HashMap<NamespacedName, Instant>,
    due: BTreeSet<(Instant, NamespacedName)>,
}

impl UnschedulablePods {
    /// Pods have to be hopeless for this long.
    pub fn new(period: Duration) -> Self {
        Self { period, from: HashMap::new(), due: BTreeSet::new() }
    }

    /// A Pod is found to be hopeless. Whether it has been so for long enough; otherwise it becomes due.
    pub fn found(&mut self, pod: &NamespacedName, now: Instant) -> bool {
        let from = *self.from.entry(pod.clone()).or_insert(now + self.period);
        if from > now {
            self.due.insert((from, pod.clone()));
        }
        from <= now
    }

    /// A Pod waits for a node that has been gone for long enough.
    pub fn at_once(&mut self, pod: &NamespacedName, now: Instant) {
        self.ends(pod);
        self.from.insert(pod.clone(), now);
    }

    /// A Pod is not hopeless, or not there.
    pub fn ends(&mut self, pod: &NamespacedName) {
        if let Some(from) = self.from.remove(pod) {
            self.due.remove(&(from, pod.clone()));
        }
    }

    /// When the next Pod is due.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Takes a Pod that is due, to be looked at again.
    pub fn take(&mut self, now: Instant) -> Option<NamespacedName> {
        if self.next()? > now {
            return None;
        }
        self.due.pop_first().map(|(_, pod)| pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_mins(5);
    const ALMOST: Duration = Duration::from_secs(299);

    #[test]
    fn a_pod_has_to_be_hopeless_for_the_whole_period() {
        let (mut pods, pod, now) =
            (UnschedulablePods::new(PERIOD), NamespacedName::new("n", "w-0"), Instant::now());
        assert!(!pods.found(&pod, now));
        assert!(!pods.found(&pod, now + ALMOST));
        assert_eq!((pods.next(), pods.take(now + ALMOST)), (Some(now + PERIOD), None));
        assert_eq!(pods.take(now + PERIOD), Some(pod.clone()));
        assert_eq!(pods.next(), None);
        assert!(pods.found(&pod, now + PERIOD));

        pods.ends(&pod);
        assert!(!pods.found(&pod, now + PERIOD), "there was hope meanwhile");
        pods.ends(&pod);
        assert_eq!(pods.next(), None);
    }

    #[test]
    fn a_pod_whose_node_has_been_gone_for_the_period_waits_no_longer() {
        let (mut pods, pod, now) =
            (UnschedulablePods::new(PERIOD), NamespacedName::new("n", "w-0"), Instant::now());
        assert!(!pods.found(&pod, now));
        pods.at_once(&pod, now);
        assert!(pods.found(&pod, now));
        assert_eq!(pods.next(), None);
    }
}
