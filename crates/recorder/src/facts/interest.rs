//! Which node labels and Pod annotations some PPS names. Only these are kept of Nodes and Pods. Shared
//! between `observe`, which filters by them, and `decide`, which adds them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use pps_core::Spec;

/// How many keys that no PPS names any longer may remain, however few are named.
const SURPLUS: usize = 1000;

/// The keys whose values are kept. A key that no PPS names any longer stays for a while.
#[derive(Clone, Debug, Default)]
pub struct Interest {
    labels: Keys,
    annotations: Keys,
}

/// One set of keys, with a revision that increases with each new key.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    set: Arc<RwLock<Set>>,
    /// How many keys were named at the last [`Interest::keep_only`].
    named: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Set {
    revision: u64,
    /// Each key with the first revision that contains it.
    keys: HashMap<Arc<str>, u64>,
}

/// Which sets got new keys from a spec: objects of that kind have to be listed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewKeys {
    pub labels: bool,
    pub annotations: bool,
}

impl Interest {
    pub fn labels(&self) -> &Keys {
        &self.labels
    }

    pub fn annotations(&self) -> &Keys {
        &self.annotations
    }

    pub fn add_keys(&self, spec: &Spec) -> NewKeys {
        NewKeys {
            labels: self.labels.extend(spec.topology_keys()),
            annotations: self.annotations.extend(annotation_keys(spec)),
        }
    }

    /// Whether lists read with these revisions of labels and annotations contain every key that a spec names.
    pub fn is_met(&self, spec: &Spec, labels: Option<u64>, annotations: Option<u64>) -> bool {
        labels >= Some(self.labels.revision_with(spec.topology_keys()))
            && annotations >= Some(self.annotations.revision_with(annotation_keys(spec)))
    }

    /// Whether so many keys are unused that they should be dropped. Without a limit, anyone with permission
    /// to write a PPS could exhaust the sidecar's memory by naming new keys.
    pub fn is_crowded(&self) -> bool {
        self.labels.is_crowded() || self.annotations.is_crowded()
    }

    pub fn keep_only<'a>(&self, specs: impl Iterator<Item = &'a Spec> + Clone) {
        self.labels.keep_only(specs.clone().flat_map(Spec::topology_keys));
        self.annotations.keep_only(specs.flat_map(annotation_keys));
    }
}

fn annotation_keys(spec: &Spec) -> impl Iterator<Item = &str> {
    spec.persistent_pod_annotations.iter().map(|annotation| annotation.key.as_str())
}

impl Keys {
    /// The current revision. Objects read with this revision or a later one have the values of all current
    /// keys.
    pub fn revision(&self) -> u64 {
        self.set.read().unwrap_or_else(PoisonError::into_inner).revision
    }

    /// The first revision that contains all of these keys.
    fn revision_with<'a>(&self, keys: impl Iterator<Item = &'a str>) -> u64 {
        let set = self.set.read().unwrap_or_else(PoisonError::into_inner);
        keys.map(|key| set.keys.get(key).copied().unwrap_or(u64::MAX)).max().unwrap_or_default()
    }

    /// Returns the pairs whose key is in the set, sorted by key.
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

    /// Leaves the revision unchanged: lists read with it contain all remaining keys, and a dropped key that
    /// is named again counts as new.
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
    fn picks_only_known_keys_and_each_new_key_increases_the_revision() {
        let keys = Keys::default();
        assert!(keys.extend(["a", "b"].into_iter()));
        assert!(!keys.extend(["b"].into_iter()));
        assert_eq!(keys.revision(), 1);
        let picked = keys.pick([("b", "2"), ("c", "3"), ("a", "1")]);
        assert_eq!(picked, [("a".into(), "1".into()), ("b".into(), "2".into())]);
    }

    #[test]
    fn drops_unnamed_keys_once_they_are_many() {
        let keys = Keys::default();
        let names: Vec<String> = (0..=SURPLUS).map(|number| format!("k{number}")).collect();
        keys.extend(names[1..].iter().map(String::as_str));
        assert!(!keys.is_crowded());
        keys.extend(["k0"].into_iter());
        assert!(keys.is_crowded());

        keys.keep_only(["k1", "k2"].into_iter());
        assert!(!keys.is_crowded());
        assert_eq!(keys.pick([("k1", ""), ("k3", "")]), [("k1".into(), "".into())]);
        assert_eq!(keys.revision(), 2, "nothing has to be listed again");
        assert!(!keys.extend(["k1"].into_iter()) && keys.extend(["k3"].into_iter()));
        assert_eq!(keys.revision(), 3, "a dropped key that is named again is new");
    }
}
