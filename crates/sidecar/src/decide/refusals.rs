//! Writes of generated objects that the API server or a policy refuses. The same write would be refused again, so it
//! waits long; another one, which a change of the workload asks for, is made at once.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::GeneratedPps;
use crate::facts::WorkloadKey;

/// The wait after the first refusal. It doubles with each further one of the same write, up to [`LONGEST`].
const FIRST: Duration = Duration::from_secs(15);
const LONGEST: Duration = Duration::from_mins(16);

/// The refused writes, at most one for each workload.
#[derive(Debug, Default)]
pub struct Refusals {
    by_workload: HashMap<WorkloadKey, Refused>,
    deadlines: BTreeSet<(Instant, WorkloadKey)>,
}

#[derive(Debug)]
struct Refused {
    write: GeneratedPps,
    retry_at: Instant,
    times: u32,
}

impl Refusals {
    /// Notes that a write was refused.
    pub fn refused(&mut self, workload: &WorkloadKey, write: GeneratedPps, now: Instant) {
        let before = self.remove(workload).filter(|before| before.write.is_same_wish(&write));
        let times = before.map_or(0, |before| before.times + 1);
        let retry_at = now + FIRST.saturating_mul(1 << times.min(16)).min(LONGEST);
        self.deadlines.insert((retry_at, workload.clone()));
        self.by_workload.insert(workload.clone(), Refused { write, retry_at, times });
    }

    /// Whether this write was refused and has to wait. Forgets the refusal if another write is wanted now.
    pub fn holds_back(&mut self, workload: &WorkloadKey, write: &GeneratedPps, now: Instant) -> bool {
        let Some(refused) = self.by_workload.get(workload) else { return false };
        if !refused.write.is_same_wish(write) {
            self.remove(workload);
            return false;
        }
        now < refused.retry_at
    }

    /// A write of this workload succeeded, or none is wanted any longer.
    pub fn forget(&mut self, workload: &WorkloadKey) {
        self.remove(workload);
    }

    /// Forgets everything: another process decided meanwhile.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// When the next wait ends.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Takes a workload whose wait has ended. Its refusal is remembered until a write succeeds.
    pub fn take_due(&mut self, now: Instant) -> Option<WorkloadKey> {
        if self.next_deadline()? > now {
            return None;
        }
        self.deadlines.pop_first().map(|(_, workload)| workload)
    }

    fn remove(&mut self, workload: &WorkloadKey) -> Option<Refused> {
        let refused = self.by_workload.remove(workload)?;
        self.deadlines.remove(&(refused.retry_at, workload.clone()));
        Some(refused)
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
        assert!(refusals.by_workload.is_empty() && refusals.deadlines.is_empty());
    }
}
