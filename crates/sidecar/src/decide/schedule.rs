//! When a write is due.
//!
//! The API server rewrites the whole object at each status write, so that a write costs the more the
//! more is recorded in it. An object that was quiet is written at once; after that, changes are
//! gathered for a while that grows with the object, or until they pause.
//!
//! A write that did not go through is tried again later. Such keys wait in a queue of their own: a write
//! may take long to fail, and many that do must not be in the way of those that would not.

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
/// After so many conflicts the waits become no longer: up to a second.
const CONFLICTS: u32 = 2;

/// How long changes to an object with so many entries are gathered.
pub fn window(entries: usize) -> Duration {
    let entries = u32::try_from(entries).unwrap_or(u32::MAX);
    BASE.saturating_add(PER_ENTRY.saturating_mul(entries)).min(LONGEST)
}

/// How long to wait after so many failures and one more.
pub fn backoff(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(1 << failures.min(16)).min(LAST_RETRY)
}

/// Of which keys one is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Of all.
    All,
    /// Of those whose last write did not fail.
    Sound,
}

/// Keys with the times at which they are due. Holds each key once, however often it is marked.
#[derive(Debug)]
pub struct Batch<K> {
    due: BTreeSet<(Instant, K)>,
    /// The same of keys whose last write has failed.
    failing: BTreeSet<(Instant, K)>,
    keys: HashMap<K, Pending>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pending {
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
        Self { due: BTreeSet::new(), failing: BTreeSet::new(), keys: HashMap::new() }
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
        let before = timing.due.replace(due);
        let failing = timing.failures > 0;
        if let Some(before) = before {
            self.unmark(before, key);
        }
        if failing { &mut self.failing } else { &mut self.due }.insert((due, key.clone()));
    }

    /// It may have failed, or gone through, since it was marked.
    fn unmark(&mut self, due: Instant, key: &K) {
        let marked = (due, key.clone());
        if !self.due.remove(&marked) {
            self.failing.remove(&marked);
        }
    }

    /// How many keys are marked.
    pub fn len(&self) -> usize {
        self.due.len() + self.failing.len()
    }

    /// Whether no key is marked.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the next key is due.
    pub fn next(&self, of: Of) -> Option<Instant> {
        let sound = self.due.first();
        let failing = self.failing.first().filter(|_| of == Of::All);
        sound.into_iter().chain(failing).map(|(due, _)| *due).min()
    }

    /// Takes a key that is due, and says whether its last write has failed.
    pub fn take(&mut self, of: Of, now: Instant) -> Option<(K, bool)> {
        let next = self.next(of).filter(|next| *next <= now)?;
        let is_sound = self.due.first().is_some_and(|(due, _)| *due == next);
        let (_, key) = if is_sound { self.due.pop_first()? } else { self.failing.pop_first()? };
        let mut failing = false;
        if let Some(timing) = self.keys.get_mut(&key) {
            timing.due = None;
            failing = timing.failures > 0;
            if timing.is_idle(now) {
                self.keys.remove(&key);
            }
        }
        Some((key, failing))
    }

    /// Takes all keys, due or not.
    pub fn take_all(&mut self) -> Vec<K> {
        self.keys.clear();
        let all = std::mem::take(&mut self.due).into_iter().chain(std::mem::take(&mut self.failing));
        all.map(|(_, key)| key).collect()
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

    /// A write of this key met one of somebody else. The API server is well, so there is no reason to wait ever
    /// longer; and whoever waits long meets a writer that never rests each time.
    pub fn contended(&mut self, key: &K, now: Instant) {
        let timing = self.keys.entry(key.clone()).or_default();
        timing.failures = timing.failures.min(CONFLICTS);
        self.failed(key, None, now);
    }

    /// Forgets a key.
    pub fn forget(&mut self, key: &K) {
        if let Some(Pending { due: Some(due), .. }) = self.keys.remove(key) {
            self.unmark(due, key);
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

impl Pending {
    fn is_idle(&self, now: Instant) -> bool {
        self.failures == 0 && self.window_end.is_none_or(|end| end <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn take(batch: &mut Batch<&'static str>, now: Instant) -> Option<&'static str> {
        batch.take(Of::All, now).map(|(key, _)| key)
    }

    #[test]
    fn a_quiet_key_is_due_at_once() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        batch.mark(&"a", now);
        batch.mark(&"a", now);
        assert_eq!((take(&mut batch, now), take(&mut batch, now)), (Some("a"), None));
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
            assert!(batch.next(Of::All).unwrap() <= end);
            assert_eq!(take(&mut batch, at), None);
            at += 20 * MS;
        }
        assert_eq!(take(&mut batch, end), Some("a"));
    }

    #[test]
    fn a_pause_ends_the_window() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        batch.written(&"a", 1000, now);
        batch.mark(&"a", now + 10 * MS);
        assert_eq!(batch.next(Of::All), Some(now + 10 * MS + window(1000) / PAUSE_PART));
    }

    #[test]
    fn failures_wait_longer_each_time_and_success_ends_that() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        for wait in [250_u32, 500, 1000] {
            batch.failed(&"a", None, now);
            batch.mark(&"a", now);
            assert_eq!(batch.next(Of::All), Some(now + wait * MS));
        }
        batch.failed(&"a", Some(60_000 * MS), now);
        batch.mark(&"a", now);
        assert_eq!(batch.next(Of::All), Some(now + 60_000 * MS), "as long as the server asks for");
        batch.written(&"a", 0, now);
        batch.mark(&"a", now + LONGEST);
        assert_eq!(take(&mut batch, now + LONGEST), Some("a"));
    }

    #[test]
    fn conflicts_do_not_wait_ever_longer() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        for wait in [250_u32, 500, 1000, 1000, 1000] {
            batch.contended(&"a", now);
            batch.mark(&"a", now);
            assert_eq!(batch.next(Of::All), Some(now + wait * MS));
        }
    }

    #[test]
    fn what_fails_is_not_in_the_way_of_what_does_not() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        let later = now + FIRST_RETRY;
        // Marked before it fails, as it is when something changes while a write is on its way.
        batch.mark(&"bad", now);
        batch.failed(&"bad", None, now);
        batch.mark(&"bad", now);
        batch.mark(&"good", later);
        assert_eq!(batch.len(), 2);
        assert_eq!(batch.next(Of::Sound), Some(later));
        assert_eq!(batch.take(Of::Sound, later), Some(("good", false)));
        assert_eq!((batch.next(Of::Sound), batch.take(Of::Sound, later)), (None, None));
        assert_eq!(batch.take(Of::All, later), Some(("bad", true)));
        assert!(batch.is_empty());

        // It went through meanwhile.
        batch.mark(&"bad", later);
        batch.written(&"bad", 0, later);
        batch.mark(&"bad", later + LONGEST);
        assert_eq!(batch.take(Of::Sound, later + LONGEST), Some(("bad", false)));
        batch.failed(&"bad", None, later);
        batch.mark(&"bad", later);
        batch.forget(&"bad");
        assert!(batch.is_empty());
        batch.failed(&"bad", None, later);
        batch.mark(&"bad", later);
        assert_eq!(batch.take_all(), ["bad"]);
        assert!(batch.is_empty());
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
