//! The facts of one kind by key, kept in sync with a watch. Knows which keys a relist no longer
//! contains.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

#[derive(Clone, Debug, PartialEq)]
pub enum Update<K, F> {
    /// A complete list begins. The number is the revision of the interest with which it is read.
    Begin(u64),
    Apply(K, F),
    Delete(K),
    /// The list is complete. Objects that it did not contain no longer exist.
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put<F> {
    Known,
    New,
    Changed(F),
}

/// What an [`Update`] changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes<K, F> {
    /// Objects with their new facts, or with none if they are gone.
    pub objects: Vec<(K, Option<F>)>,
    pub ends_list: bool,
}

#[derive(Debug, Default)]
pub struct Store<K, F> {
    facts: HashMap<K, F>,
    listing: Option<(u64, HashSet<K>)>,
    complete: Option<u64>,
}

impl<K: Clone + Eq + Hash, F> Store<K, F> {
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&F>
    where
        K: Borrow<Q>,
    {
        self.facts.get(key)
    }

    pub fn values(&self) -> impl Iterator<Item = &F> {
        self.facts.values()
    }

    /// What an update changes. The caller applies the changes.
    pub fn changes<G>(&mut self, update: Update<K, G>) -> Changes<K, G> {
        let (objects, ends_list) = match update {
            Update::Begin(revision) => {
                self.begin(revision);
                (Vec::new(), false)
            }
            Update::Apply(key, fact) => (vec![(key, Some(fact))], false),
            Update::Delete(key) => (vec![(key, None)], false),
            Update::Done => {
                let deleted = self.done().into_iter();
                (deleted.map(|key| (key, None)).collect(), true)
            }
        };
        Changes { objects, ends_list }
    }

    /// Applies an update. Returns the keys that were added, changed or removed, and whether it ends
    /// a list.
    pub fn apply(&mut self, update: Update<K, F>) -> (Vec<K>, bool)
    where
        F: PartialEq,
    {
        let mut changes = self.changes(update);
        changes.objects.retain_mut(|(key, fact)| match fact.take() {
            Some(fact) => self.put(key, fact) != Put::Known,
            None => self.remove(key).is_some(),
        });
        let changed = changes.objects.into_iter().map(|(key, _)| key).collect();
        (changed, changes.ends_list)
    }

    pub fn count(&self) -> usize {
        self.facts.len()
    }

    /// The revision of the interest with which the newest complete list was read; `None` before the
    /// first.
    pub fn complete(&self) -> Option<u64> {
        self.complete
    }

    /// The revision of the list that has begun and is not complete.
    pub(crate) fn listing(&self) -> Option<u64> {
        self.listing.as_ref().map(|(revision, _)| *revision)
    }

    pub(crate) fn begin(&mut self, revision: u64) {
        self.listing = Some((revision, HashSet::new()));
    }

    pub fn put(&mut self, key: &K, fact: F) -> Put<F>
    where
        F: PartialEq,
    {
        if let Some((_, listed)) = &mut self.listing {
            listed.insert(key.clone());
        }
        match self.facts.get_mut(key) {
            Some(known) if *known == fact => Put::Known,
            Some(known) => Put::Changed(std::mem::replace(known, fact)),
            None => {
                self.facts.insert(key.clone(), fact);
                Put::New
            }
        }
    }

    pub fn remove(&mut self, key: &K) -> Option<F> {
        if let Some((_, listed)) = &mut self.listing {
            listed.remove(key);
        }
        self.facts.remove(key)
    }

    /// Ends a list. Returns the keys that it did not contain; the caller removes them.
    fn done(&mut self) -> Vec<K> {
        let Some((revision, listed)) = self.listing.take() else {
            return Vec::new();
        };
        self.complete = Some(revision);
        self.facts
            .keys()
            .filter(|key| !listed.contains(*key))
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn done_returns_the_keys_that_a_relist_does_not_contain() {
        let mut store = Store::default();
        store.begin(1);
        store.put(&"a", 1);
        store.put(&"b", 1);
        assert_eq!(
            (store.complete(), store.done(), store.complete()),
            (None, vec![], Some(1))
        );

        store.begin(2);
        assert_eq!(store.put(&"b", 2), Put::Changed(1));
        assert_eq!(
            store.get("a"),
            Some(&1),
            "facts stay until the list is complete"
        );
        assert_eq!(store.done(), ["a"]);
        assert_eq!(store.complete(), Some(2));
        assert_eq!(store.remove(&"a"), Some(1));
    }
}
