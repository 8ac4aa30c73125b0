//! When a write is due.
//!
//! The API server rewrites the whole object at each status write, so that a write costs the more the
//! more is recorded in it. An object that was quiet is written at once; after that, changes are
//! gathered for a while that grows with the object, or until they pause.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// How long changes are gathered: at least this.
const BASE: Duration = Duration::from_millis(250);
/// And this more for each recorded entry.
const PER_ENTRY: Duration = Duration::from_micros(400);
/// But at most this.
const LONGEST: Duration = Duration::from_secs(5);
/// A pause of this part of the gathering time ends it.
const PAUSE_PART: u32 = 8;
/// After a failure, wait this long, and twice as long each time.
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// How long changes to an object with so many entries are gathered.
pub fn window(entries: usize) -> Duration {
    let entries = u32::try_from(entries).unwrap_or(u32::MAX);
    BASE.saturating_add(PER_ENTRY.saturating_mul(entries)).min(LONGEST)
}

/// How long to wait after so many failures and one more.
pub fn backoff(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(1 << failures.min(16)).min(LAST_RETRY)
}

/// Keys with the times at which they are due. Holds each key once, however often it is marked.
#[derive(Debug)]
pub struct Batch<K> {
    due: BTreeSet<(Instant, K)>,
    keys: HashMap<K, Timing>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Timing {
    /// When it is due, if it is marked.
    due: Option<Instant>,
    /// Not before this: a retry.
    not_before: Option<Instant>,
    /// The end of the gathering that the last write began.
    window_end: Option<Instant>,
    window: Duration,
    failures: u32,
}

impl<K> Default for Batch<K> {
    fn default() -> Self {
        Self { due: BTreeSet::new(), keys: HashMap::new() }
    }
}

impl<K: Clone + Ord + Hash> Batch<K> {
    /// Something changed that concerns this key.
    pub fn mark(&mut self, key: &K, now: Instant) {
        let timing = self.keys.entry(key.clone()).or_default();
        let mut due = match timing.window_end {
            Some(end) if end > now => end.min(now + timing.window / PAUSE_PART),
            _ => now,
        };
        if let Some(not_before) = timing.not_before {
            due = due.max(not_before);
        }
        if let Some(before) = timing.due.replace(due) {
            self.due.remove(&(before, key.clone()));
        }
        self.due.insert((due, key.clone()));
    }

    /// How many keys are marked.
    pub fn len(&self) -> usize {
        self.due.len()
    }

    /// Whether no key is marked.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// When the next key is due.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Takes a key that is due.
    pub fn take(&mut self, now: Instant) -> Option<K> {
        if self.next()? > now {
            return None;
        }
        let (_, key) = self.due.pop_first()?;
        if let Some(timing) = self.keys.get_mut(&key) {
            timing.due = None;
            if timing.is_idle(now) {
                self.keys.remove(&key);
            }
        }
        Some(key)
    }

    /// Takes all keys, due or not.
    pub fn take_all(&mut self) -> Vec<K> {
        self.keys.clear();
        std::mem::take(&mut self.due).into_iter().map(|(_, key)| key).collect()
    }

    /// A write of this key went through; the object has so many entries now.
    pub fn written(&mut self, key: &K, entries: usize, now: Instant) {
        let timing = self.keys.entry(key.clone()).or_default();
        timing.window = window(entries);
        timing.window_end = Some(now + timing.window);
        timing.failures = 0;
        timing.not_before = None;
    }

    /// A write of this key did not go through. The next waits, twice as long each time, or as long as
    /// the server asks for.
    pub fn failed(&mut self, key: &K, asked: Option<Duration>, now: Instant) {
        let timing = self.keys.entry(key.clone()).or_default();
        let wait = backoff(timing.failures);
        timing.failures += 1;
        timing.not_before = Some(now + wait.max(asked.unwrap_or_default()));
    }

    /// Forgets a key.
    pub fn forget(&mut self, key: &K) {
        if let Some(Timing { due: Some(due), .. }) = self.keys.remove(key) {
            self.due.remove(&(due, key.clone()));
        }
    }

    /// Forgets the timing of keys that have been quiet; otherwise every object that was ever written
    /// would be remembered.
    pub fn sweep(&mut self, now: Instant) {
        self.keys.retain(|_, timing| {
            let waits = timing.not_before.is_some_and(|time| time + LAST_RETRY > now);
            timing.due.is_some() || waits || timing.window_end.is_some_and(|end| end > now)
        });
    }
}

impl Timing {
    fn is_idle(&self, now: Instant) -> bool {
        self.failures == 0 && self.window_end.is_none_or(|end| end <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_quiet_key_is_due_at_once() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        batch.mark(&"a", now);
        batch.mark(&"a", now);
        assert_eq!((batch.take(now), batch.take(now)), (Some("a"), None));
    }

    #[test]
    fn after_a_write_changes_are_gathered_until_the_window_ends() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        batch.written(&"a", 1000, now);
        let end = now + window(1000);
        assert_eq!(window(1000), 650 * MS);
        // Changes that never pause wait for the end of the window.
        let mut at = now;
        while at < end {
            batch.mark(&"a", at);
            assert!(batch.next().unwrap() <= end);
            assert_eq!(batch.take(at), None);
            at += 20 * MS;
        }
        assert_eq!(batch.take(end), Some("a"));
    }

    #[test]
    fn a_pause_ends_the_window() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        batch.written(&"a", 1000, now);
        batch.mark(&"a", now + 10 * MS);
        assert_eq!(batch.next(), Some(now + 10 * MS + window(1000) / PAUSE_PART));
    }

    #[test]
    fn failures_wait_longer_each_time_and_success_ends_that() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        for wait in [250_u32, 500, 1000] {
            batch.failed(&"a", None, now);
            batch.mark(&"a", now);
            assert_eq!(batch.next(), Some(now + wait * MS));
        }
        batch.failed(&"a", Some(60_000 * MS), now);
        batch.mark(&"a", now);
        assert_eq!(batch.next(), Some(now + 60_000 * MS), "as long as the server asks for");
        batch.written(&"a", 0, now);
        batch.mark(&"a", now + LONGEST);
        assert_eq!(batch.take(now + LONGEST), Some("a"));
    }

    #[test]
    fn quiet_keys_are_forgotten() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        batch.written(&"a", 0, now);
        batch.sweep(now);
        assert_eq!(batch.keys.len(), 1);
        batch.sweep(now + BASE);
        assert_eq!(batch.keys.len(), 0);
        batch.failed(&"gone", None, now);
        batch.sweep(now + BASE);
        assert_eq!(batch.keys.len(), 1);
        batch.sweep(now + 2 * LAST_RETRY);
        assert_eq!(batch.keys.len(), 0);
    }
}
