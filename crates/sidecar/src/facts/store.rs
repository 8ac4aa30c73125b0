//! Facts by key, kept in step with a watch.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// What a watch tells about objects of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Update<K, F> {
    /// A complete list begins; the number says which extent of the interest it is read with.
    Begin(u64),
    /// An object is like this now.
    Apply(K, F),
    /// An object is gone.
    Delete(K),
    /// The list is complete: what it did not name is gone.
    Done,
}

/// What a fact is, compared to what was known of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put<F> {
    /// The same.
    Known,
    /// The first.
    New,
    /// Another than this one.
    Changed(F),
}

impl<F> Put<F> {
    /// The fact that was replaced, if there was one; nothing at all if nothing is new.
    pub fn news(self) -> Option<Option<F>> {
        match self {
            Self::Known => None,
            Self::New => Some(None),
            Self::Changed(before) => Some(Some(before)),
        }
    }
}

/// Facts by key. Knows whether a complete list has been seen, and what a new list did not name.
#[derive(Debug)]
pub struct Store<K, F> {
    facts: HashMap<K, F>,
    listing: Option<(u64, HashSet<K>)>,
    complete: Option<u64>,
}

impl<K, F> Default for Store<K, F> {
    fn default() -> Self {
        Self { facts: HashMap::new(), listing: None, complete: None }
    }
}

impl<K: Clone + Eq + Hash, F> Store<K, F> {
    /// The fact of a key.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&F>
    where
        K: Borrow<Q>,
    {
        self.facts.get(key)
    }

    /// All facts.
    pub fn values(&self) -> impl Iterator<Item = &F> {
        self.facts.values()
    }

    /// Takes what a watch tells, where nothing else follows from it.
    pub fn take(&mut self, update: Update<K, F>)
    where
        F: PartialEq,
    {
        match update {
            Update::Begin(revision) => self.begin(revision),
            Update::Apply(key, fact) => {
                self.put(&key, fact);
            }
            Update::Delete(key) => {
                self.remove(&key);
            }
            Update::Done => {
                for key in self.done() {
                    self.remove(&key);
                }
            }
        }
    }

    /// How many facts there are.
    pub fn len(&self) -> usize {
        self.facts.len()
    }

    /// Whether there are no facts.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    /// The extent of the interest that the newest complete list was read with; nothing before the
    /// first.
    pub fn complete(&self) -> Option<u64> {
        self.complete
    }

    /// A complete list begins.
    pub fn begin(&mut self, revision: u64) {
        self.listing = Some((revision, HashSet::new()));
    }

    /// Takes a fact.
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

    /// Drops a fact; gives it back.
    pub fn remove(&mut self, key: &K) -> Option<F> {
        if let Some((_, listed)) = &mut self.listing {
            listed.remove(key);
        }
        self.facts.remove(key)
    }

    /// The list is complete. Gives the keys that it did not name; they are still there.
    pub fn done(&mut self) -> Vec<K> {
        let Some((revision, listed)) = self.listing.take() else { return Vec::new() };
        self.complete = Some(revision);
        self.facts.keys().filter(|key| !listed.contains(*key)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_new_list_does_not_name_is_told() {
        let mut store = Store::default();
        store.begin(1);
        store.put(&"a", 1);
        store.put(&"b", 1);
        assert_eq!((store.complete(), store.done(), store.complete()), (None, vec![], Some(1)));

        store.begin(2);
        assert_eq!(store.put(&"b", 2), Put::Changed(1));
        assert_eq!(store.get("a"), Some(&1), "facts stay in force until the list is complete");
        assert_eq!(store.done(), ["a"]);
        assert_eq!(store.complete(), Some(2));
        assert_eq!(store.remove(&"a"), Some(1));
    }
}
