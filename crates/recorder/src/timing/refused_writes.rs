//! Writes of generated objects that the API server or a policy has refused. The same write would be
//! refused again, so it waits long. Another write, which a change of the workload asks for, is made
//! at once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::schedule::Backoff;
use crate::decide::generated::GeneratedPps;
use crate::facts::WorkloadKey;

const BACKOFF: Backoff = Backoff {
    first: Duration::from_secs(15),
    longest: Duration::from_mins(16),
};

#[derive(Debug, Default)]
pub struct RefusedWrites(HashMap<WorkloadKey, Refused>);

#[derive(Debug)]
struct Refused {
    write: GeneratedPps,
    retry_at: Instant,
    /// How often it was refused before.
    times: u32,
}

impl RefusedWrites {
    /// Until when this write has to wait; nothing if it may be made now.
    pub fn until(
        &self,
        workload: &WorkloadKey,
        write: &GeneratedPps,
        now: Instant,
    ) -> Option<Instant> {
        let refused = self.0.get(workload)?;
        let is_the_same = refused.write == write.clone().without_version();
        (is_the_same && refused.retry_at > now).then_some(refused.retry_at)
    }

    /// A write was refused. Returns when to try it again.
    pub fn hold(&mut self, workload: &WorkloadKey, write: GeneratedPps, now: Instant) -> Instant {
        let write = write.without_version();
        let before = self.0.get(workload).filter(|before| before.write == write);
        let times = before.map_or(0, |before| before.times + 1);
        let retry_at = now + BACKOFF.after(times);
        let refused = Refused {
            write,
            retry_at,
            times,
        };
        self.0.insert(workload.clone(), refused);
        retry_at
    }

    pub fn forget(&mut self, workload: &WorkloadKey) {
        self.0.remove(workload);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::NamespacedName;

    fn delete(uid: &str, resource_version: &str) -> GeneratedPps {
        GeneratedPps::Delete {
            key: NamespacedName::new("n", "w"),
            uid: uid.into(),
            resource_version: resource_version.into(),
            is_alias: false,
        }
    }

    #[test]
    fn the_same_write_waits_twice_as_long_each_time_and_another_one_does_not() {
        let (mut refused_writes, now) = (RefusedWrites::default(), Instant::now());
        let workload = WorkloadKey::default();
        let waits: Vec<u64> = (0..8)
            .map(|_| (refused_writes.hold(&workload, delete("1", "7"), now) - now).as_secs())
            .collect();
        assert_eq!(waits, [15, 30, 60, 120, 240, 480, 960, 960]);
        let retry_at = now + BACKOFF.longest;
        let until = |write: &GeneratedPps, now| refused_writes.until(&workload, write, now);
        assert_eq!(until(&delete("1", "8"), now), Some(retry_at));
        assert_eq!(until(&delete("1", "8"), retry_at), None);
        assert_eq!(until(&delete("2", "7"), now), None);
    }
}
