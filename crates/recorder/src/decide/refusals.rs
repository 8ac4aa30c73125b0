//! Writes of generated objects that the API server or a policy refuses. The same write would be refused
//! again, so it waits long; another one, which a change of the workload asks for, is made at once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::GeneratedPps;
use super::deadlines::Deadlines;
use crate::facts::WorkloadKey;

/// The wait after the first refusal. It doubles with each further one of the same write, up to [`LONGEST`].
const FIRST: Duration = Duration::from_secs(15);
const LONGEST: Duration = Duration::from_mins(16);

/// At most one refused write for each workload.
#[derive(Debug, Default)]
pub struct Refusals {
    by_workload: HashMap<WorkloadKey, Refused>,
    deadlines: Deadlines<WorkloadKey>,
}

#[derive(Debug)]
struct Refused {
    write: GeneratedPps,
    retry_at: Instant,
    times: u32,
}

impl Refusals {
    pub fn refused(&mut self, workload: &WorkloadKey, write: GeneratedPps, now: Instant) {
        let before = self.by_workload.get(workload).filter(|before| before.write.is_same_wish(&write));
        let times = before.map_or(0, |before| before.times + 1);
        let retry_at = now + FIRST.saturating_mul(1 << times.min(16)).min(LONGEST);
        self.deadlines.set(workload, retry_at);
        self.by_workload.insert(workload.clone(), Refused { write, retry_at, times });
    }

    /// Whether this write was refused and has to wait. Forgets the refusal if another write is wanted now.
    pub fn holds_back(&mut self, workload: &WorkloadKey, write: &GeneratedPps, now: Instant) -> bool {
        let Some(refused) = self.by_workload.get(workload) else { return false };
        if !refused.write.is_same_wish(write) {
            self.forget(workload);
            return false;
        }
        now < refused.retry_at
    }

    /// A write of this workload succeeded, or none is wanted any longer.
    pub fn forget(&mut self, workload: &WorkloadKey) {
        self.by_workload.remove(workload);
        self.deadlines.cancel(workload);
    }

    /// Forgets everything: another process decided meanwhile.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    /// Takes a workload whose wait has ended. Its refusal is remembered until a write succeeds.
    pub fn take_due(&mut self, now: Instant) -> Option<WorkloadKey> {
        self.deadlines.take_due(now)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::facts::{GroupKind, NamespacedName};

    fn update(version: &str, key: &str) -> GeneratedPps {
        let patch = json!({"metadata": {"uid": "u", "resourceVersion": version}, "spec": {"k": key}});
        GeneratedPps::Update { key: NamespacedName::new("n", "w"), patch }
    }

    #[test]
    fn a_refused_write_waits_longer_each_time_and_another_one_does_not_wait() {
        let workload = WorkloadKey { object: NamespacedName::new("n", "w"), kind: GroupKind::stateful_set() };
        let (mut refusals, mut now) = (Refusals::default(), Instant::now());
        assert!(!refusals.holds_back(&workload, &update("1", "a"), now));
        for wait in [15, 30, 60, 120, 240, 480, 960, 960] {
            refusals.refused(&workload, update("1", "a"), now);
            assert!(refusals.holds_back(&workload, &update("2", "a"), now), "only the version differs");
            assert_eq!(refusals.take_due(now), None);
            now += Duration::from_secs(wait);
            assert_eq!(refusals.take_due(now), Some(workload.clone()));
            assert_eq!(refusals.next_deadline(), None);
            assert!(!refusals.holds_back(&workload, &update("2", "a"), now));
        }
        refusals.refused(&workload, update("2", "a"), now);
        assert!(!refusals.holds_back(&workload, &update("2", "b"), now), "the annotations have changed");
        assert_eq!(refusals.next_deadline(), None);
        refusals.refused(&workload, update("2", "a"), now);
        refusals.forget(&workload);
        assert!(refusals.by_workload.is_empty() && refusals.next_deadline().is_none());
    }
}
