//! Which node labels and Pod annotations any PPS speaks of. Nothing else is kept of Nodes and Pods.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use pps_core::Spec;

/// How many keys there may be for which nobody asks any longer, however few are named.
const SURPLUS: usize = 1000;

/// The keys that are kept, shared between the watches and the index. A key that nobody names any longer stays
/// for a while.
#[derive(Clone, Debug, Default)]
pub struct Interest {
    labels: Keys,
    annotations: Keys,
}

/// One set of keys, with a number that tells one extent of the set from the next.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    set: Arc<RwLock<Set>>,
    /// How many were named when it was last tidied up.
    named: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Set {
    revision: u64,
    /// Each key with the first extent that had it.
    keys: HashMap<Arc<str>, u64>,
}

/// Which sets a spec has made larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grown {
    /// The node labels.
    pub labels: bool,
    /// The Pod annotations.
    pub annotations: bool,
}

impl Interest {
    /// Node labels.
    pub fn labels(&self) -> &Keys {
        &self.labels
    }

    /// Pod annotations.
    pub fn annotations(&self) -> &Keys {
        &self.annotations
    }

    /// Takes up the keys that a spec names.
    pub fn take_up(&self, spec: &Spec) -> Grown {
        Grown {
            labels: self.labels.extend(spec.topology_keys()),
            annotations: self.annotations.extend(annotation_keys(spec)),
        }
    }

    /// Whether what was read with these extents of labels and annotations has all that a spec names.
    pub fn is_met(&self, spec: &Spec, labels: Option<u64>, annotations: Option<u64>) -> bool {
        labels >= Some(self.labels.extent_with(spec.topology_keys()))
            && annotations >= Some(self.annotations.extent_with(annotation_keys(spec)))
    }

    /// Whether so many keys have come that it is time to let go of those that nobody names: who may write
    /// a PPS could otherwise fill the memory by naming ever new ones.
    pub fn is_crowded(&self) -> bool {
        self.labels.is_crowded() || self.annotations.is_crowded()
    }

    /// Lets go of all keys but those of these specs.
    pub fn keep_only<'a>(&self, specs: impl Iterator<Item = &'a Spec> + Clone) {
        self.labels.keep_only(specs.clone().flat_map(Spec::topology_keys));
        self.annotations.keep_only(specs.flat_map(annotation_keys));
    }
}

fn annotation_keys(spec: &Spec) -> impl Iterator<Item = &str> {
    spec.persistent_pod_annotations.iter().map(|annotation| annotation.key.as_str())
}

impl Keys {
    /// The number of the present extent. What was read with this number or a later one has all the
    /// keys.
    pub fn revision(&self) -> u64 {
        self.set.read().unwrap_or_else(PoisonError::into_inner).revision
    }

    /// The first extent that has all of these keys, each of which was taken up.
    fn extent_with<'a>(&self, keys: impl Iterator<Item = &'a str>) -> u64 {
        let set = self.set.read().unwrap_or_else(PoisonError::into_inner);
        keys.map(|key| set.keys.get(key).copied().unwrap_or(u64::MAX)).max().unwrap_or_default()
    }

    /// Of these pairs, those whose key is in the set, sorted by key.
    pub fn pick<'a>(&self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<(Arc<str>, Arc<str>)> {
        let set = self.set.read().unwrap_or_else(PoisonError::into_inner);
        let mut picked: Vec<_> = pairs
            .into_iter()
            .filter_map(|(key, value)| {
                set.keys.get_key_value(key).map(|(key, _)| (key.clone(), value.into()))
            })
            .collect();
        picked.sort_unstable();
        picked.shrink_to_fit();
        picked
    }

    fn extend<'a>(&self, keys: impl Iterator<Item = &'a str>) -> bool {
        let mut set = self.set.write().unwrap_or_else(PoisonError::into_inner);
        let (before, next) = (set.keys.len(), set.revision + 1);
        for key in keys {
            if !set.keys.contains_key(key) {
                set.keys.insert(key.into(), next);
            }
        }
        let grown = set.keys.len() > before;
        if grown {
            set.revision = next;
        }
        grown
    }

    fn is_crowded(&self) -> bool {
        let count = self.set.read().unwrap_or_else(PoisonError::into_inner).keys.len();
        count > 2 * self.named.load(Ordering::Relaxed) + SURPLUS
    }

    /// The extent stays: what was read with it has all that is named now, and a key that is named again is a
    /// new one.
    fn keep_only<'a>(&self, named: impl Iterator<Item = &'a str>) {
        let named: HashSet<&str> = named.collect();
        let mut set = self.set.write().unwrap_or_else(PoisonError::into_inner);
        set.keys.retain(|key, _| named.contains(&**key));
        set.keys.shrink_to_fit();
        self.named.store(set.keys.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_keys_are_picked_and_each_new_key_is_a_new_extent() {
        let keys = Keys::default();
        assert!(keys.extend(["a", "b"].into_iter()));
        assert!(!keys.extend(["b"].into_iter()));
        assert_eq!(keys.revision(), 1);
        let picked = keys.pick([("b", "2"), ("c", "3"), ("a", "1")]);
        assert_eq!(picked, [("a".into(), "1".into()), ("b".into(), "2".into())]);
    }

    #[test]
    fn keys_that_nobody_names_are_let_go_when_they_become_many() {
        let keys = Keys::default();
        let names: Vec<String> = (0..=SURPLUS).map(|number| format!("k{number}")).collect();
        keys.extend(names[1..].iter().map(String::as_str));
        assert!(!keys.is_crowded());
        keys.extend(["k0"].into_iter());
        assert!(keys.is_crowded());

        keys.keep_only(["k1", "k2"].into_iter());
        assert!(!keys.is_crowded());
        assert_eq!(keys.pick([("k1", ""), ("k3", "")]), [("k1".into(), "".into())]);
        assert_eq!(keys.revision(), 2, "nothing has to be read again");
        assert!(!keys.extend(["k1"].into_iter()) && keys.extend(["k3"].into_iter()));
        assert_eq!(keys.revision(), 3, "a key that is named again is a new one");
    }
}
