//! When a write is due. Pure: times go in, keys come out.
//!
//! The API server rewrites the whole object at each status write, so the cost of a write grows with
//! the number of states in the object. An object without recent writes is written at once. After a
//! write, changes are batched for a window that grows with the object, or until they pause.
//!
//! A failed write is retried later. Keys whose last write failed wait in a queue of their own: a
//! write may take long to fail, and many of those must not hold up the others.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

const BASE: Duration = Duration::from_millis(250);
const PER_ENTRY: Duration = Duration::from_micros(400);
const LONGEST: Duration = Duration::from_secs(5);
/// A pause of this part of the window ends it. A smaller part would end most windows early where
/// Pods become Ready one after another: on a busy machine their changes do not arrive evenly.
const PAUSE_PART: u32 = 4;
const BACKOFF: Backoff = Backoff {
    first: FIRST_RETRY,
    longest: LAST_RETRY,
};
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(30);
/// For how long a write may be in flight. Each request is given up before; only checks of many
/// objects that the API server is slow to answer take so long.
const LONGEST_WRITE: Duration = Duration::from_mins(2);
/// Conflicts count as at most this many failures, so that the wait stays at a second.
const MAX_CONFLICT_FAILURES: u32 = 2;

/// How long to wait after failures: twice as long after each further one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    pub(super) first: Duration,
    pub(super) longest: Duration,
}

impl Backoff {
    pub(super) fn after(self, failures_before: u32) -> Duration {
        self.first
            .saturating_mul(1 << failures_before.min(16))
            .min(self.longest)
    }
}

/// How long changes to an object are batched, by the cost of a write: as a number of entries in
/// `podStates`.
fn window(cost: usize) -> Duration {
    let entries = u32::try_from(cost).unwrap_or(u32::MAX);
    BASE.saturating_add(PER_ENTRY.saturating_mul(entries))
        .min(LONGEST)
}

/// Keys with the times at which something is due.
#[derive(Debug, Default)]
pub struct Deadlines<K> {
    queue: BTreeSet<(Instant, K)>,
    by_key: HashMap<K, Instant>,
}

impl<K: Clone + Ord + Hash> Deadlines<K> {
    /// Sets the deadline of a key in place of the one that it had.
    pub fn set(&mut self, key: &K, deadline: Instant) {
        self.cancel(key);
        self.by_key.insert(key.clone(), deadline);
        self.queue.insert((deadline, key.clone()));
    }

    pub fn cancel(&mut self, key: &K) {
        if let Some(deadline) = self.by_key.remove(key) {
            self.queue.remove(&(deadline, key.clone()));
        }
    }

    pub fn contains(&self, key: &K) -> bool {
        self.by_key.contains_key(key)
    }

    pub fn next(&self) -> Option<Instant> {
        self.queue.first().map(|(deadline, _)| *deadline)
    }

    /// Takes one key whose deadline has passed.
    pub fn take_due(&mut self, now: Instant) -> Option<K> {
        if self.next()? > now {
            return None;
        }
        let (_, key) = self.queue.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    /// Takes all keys, the next ones first.
    pub fn take_all(&mut self) -> impl Iterator<Item = K> + use<K> {
        self.by_key.clear();
        std::mem::take(&mut self.queue)
            .into_iter()
            .map(|(_, key)| key)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidates {
    All,
    /// Only keys whose last write did not fail.
    NotFailing,
}

/// A key whose time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due<K> {
    pub key: K,
    /// Whether its last write failed.
    pub is_retry: bool,
}

/// The keys that wait for a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    pub count: usize,
    /// When the oldest of their changes was marked; failed writes do not reset it.
    pub oldest: Option<Instant>,
}

impl Waiting {
    fn since(time: Instant) -> Self {
        Self {
            count: 1,
            oldest: Some(time),
        }
    }

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            oldest: self.oldest.into_iter().chain(other.oldest).min(),
        }
    }
}

/// Keys with the times at which they are due. Contains each key once, however often it is marked.
#[derive(Debug, Default)]
pub struct Batch<K> {
    due: Deadlines<K>,
    /// Marked keys whose last write failed.
    failing: Deadlines<K>,
    keys: HashMap<K, Pending>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    /// When the oldest change was marked that has not been written.
    marked_at: Option<Instant>,
    /// When it was taken, until a write of it has succeeded or failed. None follows if nothing had
    /// to change.
    taken_at: Option<Instant>,
    not_before: Option<Instant>,
    /// The end of the window that the last write began.
    window_end: Option<Instant>,
    window: Duration,
    failures: u32,
    /// How many writes in a row met another writer's.
    conflicts: u32,
}

impl<K: Clone + Ord + Hash> Batch<K> {
    /// Schedules a write of this key after a change.
    pub fn mark(&mut self, key: &K, now: Instant) {
        let is_marked = self.is_marked(key);
        let timing = self.keys.entry(key.clone()).or_default();
        if timing.marked_at.is_none() || !(is_marked || timing.failures > 0) {
            timing.marked_at = Some(now);
        }
        let due = match timing.window_end {
            Some(end) if end > now => end.min(now + timing.window / PAUSE_PART),
            _ => now,
        };
        self.queue(key, due);
    }

    /// Has this key examined again at this time, unless it is marked: nothing has changed, so no
    /// write waits.
    pub fn revisit(&mut self, key: &K, time: Instant) {
        if !self.is_marked(key) {
            self.keys.entry(key.clone()).or_default().marked_at = None;
            self.queue(key, time);
        }
    }

    /// Puts a key into one of the queues: its last write may have failed or succeeded since it was
    /// there.
    fn queue(&mut self, key: &K, due: Instant) {
        let Pending {
            not_before,
            failures,
            ..
        } = self.keys.get(key).copied().unwrap_or_default();
        self.due.cancel(key);
        self.failing.cancel(key);
        let queue = if failures > 0 {
            &mut self.failing
        } else {
            &mut self.due
        };
        queue.set(
            key,
            not_before.map_or(due, |not_before| due.max(not_before)),
        );
    }

    fn is_marked(&self, key: &K) -> bool {
        self.due.contains(key) || self.failing.contains(key)
    }

    /// The keys that wait for a write. Looks at all keys, so call it now and then, not for each
    /// event.
    pub fn waiting(&self) -> Waiting {
        let marked = self.keys.iter().filter(|(key, _)| self.is_marked(key));
        let times = marked.filter_map(|(_, timing)| timing.marked_at);
        times
            .map(Waiting::since)
            .fold(Waiting::default(), Waiting::and)
    }

    /// How many keys have met at least so many conflicts in a row.
    pub fn conflicting(&self, at_least: u32) -> usize {
        self.keys
            .values()
            .filter(|timing| timing.conflicts >= at_least)
            .count()
    }

    pub fn next(&self, candidates: Candidates) -> Option<Instant> {
        let failing = self
            .failing
            .next()
            .filter(|_| candidates == Candidates::All);
        self.due.next().into_iter().chain(failing).min()
    }

    /// Takes a key that is due.
    pub fn take(&mut self, candidates: Candidates, now: Instant) -> Option<Due<K>> {
        let next = self.next(candidates)?;
        let queue = if self.due.next() == Some(next) {
            &mut self.due
        } else {
            &mut self.failing
        };
        let key = queue.take_due(now)?;
        let timing = self.keys.entry(key.clone()).or_default();
        timing.taken_at = Some(now);
        let is_retry = timing.failures > 0;
        Some(Due { key, is_retry })
    }

    pub fn take_all(&mut self) -> Vec<K> {
        self.keys.clear();
        self.due.take_all().chain(self.failing.take_all()).collect()
    }

    /// A write of this key succeeded, and the next one costs as much as so many entries in
    /// `podStates`.
    pub fn written(&mut self, key: &K, cost: usize, now: Instant) {
        let timing = self.keys.entry(key.clone()).or_default();
        timing.window = window(cost);
        timing.window_end = Some(now + timing.window);
        timing.taken_at = None;
        timing.failures = 0;
        timing.conflicts = 0;
        timing.not_before = None;
    }

    /// A write of this key failed. The next one waits, twice as long after each failure, but at
    /// least as long as the API server asks for.
    pub fn failed(&mut self, key: &K, retry_after: Option<Duration>, now: Instant) {
        let timing = self.keys.entry(key.clone()).or_default();
        let wait = BACKOFF.after(timing.failures);
        timing.taken_at = None;
        timing.failures += 1;
        timing.not_before = Some(now + wait.max(retry_after.unwrap_or_default()));
    }

    /// How many writes of this key in a row were not stored.
    pub fn failures(&self, key: &K) -> u32 {
        self.keys.get(key).map_or(0, |timing| timing.failures)
    }

    /// A write conflicted. Returns the number of conflicts in a row.
    pub fn conflicted(&mut self, key: &K, now: Instant) -> u32 {
        self.retry_soon(key, now);
        let timing = self.keys.entry(key.clone()).or_default();
        timing.conflicts = timing.conflicts.saturating_add(1);
        timing.conflicts
    }

    /// A check refuted the write, so it was not sent. The first time it is retried at once,
    /// afterwards like a conflict.
    pub fn not_sent(&mut self, key: &K, now: Instant) {
        let is_first = self.failures(key) == 0;
        self.retry_soon(key, now);
        if let Some(timing) = self.keys.get_mut(key).filter(|_| is_first) {
            timing.not_before = None;
        }
    }

    /// The API server is healthy, so the wait stays short. A longer wait would lose to a frequent
    /// writer.
    fn retry_soon(&mut self, key: &K, now: Instant) {
        let timing = self.keys.entry(key.clone()).or_default();
        timing.failures = timing.failures.min(MAX_CONFLICT_FAILURES);
        self.failed(key, None, now);
    }

    pub fn forget(&mut self, key: &K) {
        self.keys.remove(key);
        self.due.cancel(key);
        self.failing.cancel(key);
    }

    /// Removes the timing of keys without recent writes. Otherwise the timing of every object ever
    /// written would stay in memory.
    pub fn sweep(&mut self, now: Instant) {
        let due = &self.due;
        let failing = &self.failing;
        self.keys.retain(|key, timing| {
            let is_marked = due.contains(key) || failing.contains(key);
            let is_backing_off = timing
                .not_before
                .is_some_and(|time| time + LAST_RETRY > now);
            let is_in_window = timing.window_end.is_some_and(|end| end > now);
            let is_in_flight = timing
                .taken_at
                .is_some_and(|time| time + LONGEST_WRITE > now);
            is_marked || is_backing_off || is_in_window || is_in_flight
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn take(batch: &mut Batch<&'static str>, now: Instant) -> Option<&'static str> {
        batch.take(Candidates::All, now).map(|due| due.key)
    }

    fn due(key: &'static str, is_retry: bool) -> Due<&'static str> {
        Due { key, is_retry }
    }

    #[test]
    fn a_key_without_recent_writes_is_due_at_once() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        batch.mark(&"a", now);
        batch.mark(&"a", now);
        assert_eq!(
            (take(&mut batch, now), take(&mut batch, now)),
            (Some("a"), None)
        );
    }

    #[test]
    fn batches_changes_after_a_write_until_the_window_ends() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        batch.written(&"a", 1000, now);
        let end = now + window(1000);
        assert_eq!(window(1000), 650 * MS);
        // Changes without a pause wait for the end of the window.
        let mut at = now;
        while at < end {
            batch.mark(&"a", at);
            assert!(batch.next(Candidates::All).unwrap() <= end);
            assert_eq!(take(&mut batch, at), None);
            at += 20 * MS;
        }
        assert_eq!(take(&mut batch, end), Some("a"));
    }

    #[test]
    fn a_pause_ends_the_window_early() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        batch.written(&"a", 1000, now);
        batch.mark(&"a", now + 10 * MS);
        assert_eq!(
            batch.next(Candidates::All),
            Some(now + 10 * MS + window(1000) / PAUSE_PART)
        );
    }

    #[test]
    fn backs_off_after_failures_until_a_write_succeeds() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        for wait in [250_u32, 500, 1000] {
            batch.failed(&"a", None, now);
            batch.mark(&"a", now);
            assert_eq!(batch.next(Candidates::All), Some(now + wait * MS));
        }
        batch.failed(&"a", Some(60_000 * MS), now);
        batch.mark(&"a", now);
        assert_eq!(
            batch.next(Candidates::All),
            Some(now + 60_000 * MS),
            "as long as the API server asks for"
        );
        assert_eq!(batch.failures(&"a"), 4);
        batch.written(&"a", 0, now);
        assert_eq!(batch.failures(&"a"), 0);
        batch.mark(&"a", now + LONGEST);
        assert_eq!(take(&mut batch, now + LONGEST), Some("a"));
    }

    #[test]
    fn waits_at_most_a_second_after_conflicts() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        for wait in [250_u32, 500, 1000, 1000, 1000] {
            batch.conflicted(&"a", now);
            batch.mark(&"a", now);
            assert_eq!(batch.next(Candidates::All), Some(now + wait * MS));
        }
    }

    #[test]
    fn what_is_not_sent_waits_from_the_second_time_in_a_row_on() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        for wait in [0_u32, 500, 1000, 1000] {
            batch.not_sent(&"a", now);
            batch.mark(&"a", now);
            assert_eq!(batch.next(Candidates::All), Some(now + wait * MS));
        }
        batch.written(&"a", 0, now);
        batch.not_sent(&"a", now + LONGEST);
        batch.mark(&"a", now + LONGEST);
        assert_eq!(batch.next(Candidates::All), Some(now + LONGEST));
    }

    #[test]
    fn failing_keys_do_not_hold_up_others() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        let later = now + FIRST_RETRY;
        // Marked before it fails, because something changed during the write.
        batch.mark(&"bad", now);
        batch.failed(&"bad", None, now);
        batch.mark(&"bad", now);
        batch.mark(&"good", later);
        assert_eq!(batch.waiting().count, 2);
        assert_eq!(batch.next(Candidates::NotFailing), Some(later));
        assert_eq!(
            batch.take(Candidates::NotFailing, later),
            Some(due("good", false))
        );
        assert_eq!(
            (
                batch.next(Candidates::NotFailing),
                batch.take(Candidates::NotFailing, later)
            ),
            (None, None)
        );
        assert_eq!(batch.take(Candidates::All, later), Some(due("bad", true)));
        assert_eq!(batch.waiting(), Waiting::default());

        // The write succeeded in the meantime.
        batch.mark(&"bad", later);
        batch.written(&"bad", 0, later);
        batch.mark(&"bad", later + LONGEST);
        assert_eq!(
            batch.take(Candidates::NotFailing, later + LONGEST),
            Some(due("bad", false))
        );
        batch.failed(&"bad", None, later);
        batch.mark(&"bad", later);
        batch.forget(&"bad");
        assert_eq!(batch.waiting(), Waiting::default());
        batch.failed(&"bad", None, later);
        batch.mark(&"bad", later);
        assert_eq!(batch.take_all(), ["bad"]);
        assert_eq!(batch.waiting(), Waiting::default());
    }

    #[test]
    fn sweeps_keys_without_recent_writes() {
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

    #[test]
    fn a_revisit_is_no_write_that_waits_and_delays_none() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        let later = now + LONGEST;
        batch.revisit(&"a", later);
        assert_eq!(
            (batch.waiting(), batch.next(Candidates::All)),
            (Waiting::default(), Some(later))
        );
        batch.mark(&"a", now);
        batch.revisit(&"a", later);
        assert_eq!(
            (batch.waiting(), batch.next(Candidates::All)),
            (Waiting::since(now), Some(now))
        );
    }

    #[test]
    fn the_oldest_change_keeps_its_age_until_its_write_succeeds() {
        let (mut batch, start) = (Batch::default(), Instant::now());
        let at = |seconds: u32| start + seconds * 1000 * MS;
        assert_eq!(batch.waiting().oldest, None);
        batch.mark(&"a", at(0));
        batch.mark(&"b", at(1));
        batch.mark(&"a", at(2));
        assert_eq!(
            batch.waiting().oldest,
            Some(at(0)),
            "marking again does not reset the age"
        );
        assert_eq!(take(&mut batch, at(2)), Some("b"));
        assert_eq!(take(&mut batch, at(2)), Some("a"));
        assert_eq!(batch.waiting().oldest, None, "both writes are in flight");

        // A write that takes long survives a sweep.
        batch.sweep(at(29));
        batch.failed(&"a", None, at(30));
        batch.mark(&"a", at(30));
        assert_eq!(batch.waiting().oldest, Some(at(0)));
        assert_eq!(take(&mut batch, at(31)), Some("a"));
        batch.written(&"a", 0, at(31));
        batch.mark(&"a", at(32));
        assert_eq!(batch.waiting().oldest, Some(at(32)));
        batch.sweep(at(121));
        assert_eq!(batch.keys.len(), 2);
        batch.sweep(at(122));
        assert_eq!(batch.keys.len(), 1, "no write followed");
    }

    #[test]
    fn failures_and_conflicts_outlive_a_sweep_during_a_retry() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        batch.conflicted(&"a", now);
        batch.mark(&"a", now);
        let later = now + LAST_RETRY + LONGEST;
        assert_eq!(batch.take(Candidates::All, later), Some(due("a", true)));
        batch.sweep(later);
        assert_eq!(
            (batch.conflicted(&"a", later), batch.failures(&"a")),
            (2, 2)
        );
    }

    #[test]
    fn counts_conflicts_in_a_row() {
        let (mut batch, now) = (Batch::default(), Instant::now());
        assert_eq!(
            [batch.conflicted(&"a", now), batch.conflicted(&"a", now)],
            [1, 2]
        );
        batch.failed(&"a", None, now);
        assert_eq!((batch.conflicting(2), batch.conflicting(3)), (1, 0));
        batch.written(&"a", 0, now);
        assert_eq!(batch.conflicted(&"a", now), 1);
    }
}
