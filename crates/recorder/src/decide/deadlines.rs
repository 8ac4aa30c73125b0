//! Keys with the times at which something is due.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Instant;

#[derive(Debug)]
pub struct Deadlines<K> {
    queue: BTreeSet<(Instant, K)>,
    by_key: HashMap<K, Instant>,
}

impl<K> Default for Deadlines<K> {
    fn default() -> Self {
        Self { queue: BTreeSet::new(), by_key: HashMap::new() }
    }
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

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
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
        std::mem::take(self).queue.into_iter().map(|(_, key)| key)
    }
}
