//! How long Pods that require a Node which is gone have been unschedulable.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::facts::NamespacedName;

/// The unschedulable Pods, each with the time from which it may be evicted. Until then the sidecar
/// waits: a Node that fits the Pod may be missing only for a moment.
#[derive(Debug)]
pub struct UnschedulablePods {
    /// The grace period before a Pod may be evicted.
    period: Duration,
    pods: HashMap<NamespacedName, Unschedulable>,
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
        Self {
            period,
            pods: HashMap::new(),
        }
    }

    /// Records that a Pod is unschedulable now. Returns from when on it may be evicted.
    pub fn observe(&mut self, pod: &NamespacedName, uid: &str, now: Instant) -> Instant {
        let known = self.pods.get(pod).filter(|known| known.uid == uid);
        let evictable_from = known.map(|known| known.evictable_from);
        evictable_from.unwrap_or_else(|| self.track(pod, uid, now + self.period))
    }

    /// Makes a Pod evictable now: the Node that it requires has been missing for the grace period
    /// already.
    pub fn skip_grace_period(&mut self, pod: &NamespacedName, uid: &str, now: Instant) {
        self.track(pod, uid, now);
    }

    /// Whether a Pod that is not evicted is to be reported: once for each Pod.
    pub fn is_to_be_reported(&mut self, pod: &NamespacedName) -> bool {
        self.pods
            .get_mut(pod)
            .is_some_and(|known| !std::mem::replace(&mut known.is_reported, true))
    }

    /// Stops tracking a Pod: it is schedulable, or deleted.
    pub fn cancel(&mut self, pod: &NamespacedName) {
        self.pods.remove(pod);
    }

    /// Stops tracking all Pods: another process led meanwhile, and nobody knows how they were.
    pub fn clear(&mut self) {
        self.pods.clear();
    }

    fn track(&mut self, pod: &NamespacedName, uid: &str, evictable_from: Instant) -> Instant {
        let known = Unschedulable {
            uid: uid.to_owned(),
            evictable_from,
            is_reported: false,
        };
        self.pods.insert(pod.clone(), known);
        evictable_from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_mins(5);

    #[test]
    fn a_pod_is_evictable_after_a_grace_period_of_its_own() {
        let (mut pods, pod, now) = (
            UnschedulablePods::new(PERIOD),
            NamespacedName::new("n", "w-0"),
            Instant::now(),
        );
        let later = now + PERIOD;
        assert_eq!(
            [now, later].map(|now| pods.observe(&pod, "uid-1", now)),
            [later, later]
        );
        assert!(pods.is_to_be_reported(&pod) && !pods.is_to_be_reported(&pod));
        assert_eq!(
            pods.observe(&pod, "uid-2", later),
            later + PERIOD,
            "its controller has created it again"
        );
        pods.skip_grace_period(&pod, "uid-2", later);
        assert_eq!(pods.observe(&pod, "uid-2", later), later);
        pods.cancel(&pod);
        assert_eq!(
            pods.observe(&pod, "uid-2", later),
            later + PERIOD,
            "it was schedulable in the meantime"
        );
        pods.skip_grace_period(&pod, "uid-2", now);
        pods.clear();
        assert_eq!(
            pods.observe(&pod, "uid-2", later),
            later + PERIOD,
            "another process led meanwhile"
        );
    }
}
