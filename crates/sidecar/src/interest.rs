//! Which node labels and Pod annotations any PPS speaks of. Nothing else is kept of Nodes and Pods.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use pps_core::Spec;

/// The keys that are kept, shared between the watches and the index. It only grows.
#[derive(Clone, Debug, Default)]
pub struct Interest {
    labels: Keys,
    annotations: Keys,
}

/// One set of keys with a number that tells one extent of the set from the next.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    set: Arc<RwLock<(u64, HashSet<Arc<str>>)>>,
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
            annotations: self
                .annotations
                .extend(spec.persistent_pod_annotations.iter().map(|annotation| annotation.key.as_str())),
        }
    }
}

impl Keys {
    /// The number of the present extent. What was read with this number or a later one has all the
    /// keys.
    pub fn extent(&self) -> u64 {
        self.set.read().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Of these pairs, those whose key is in the set, sorted by key.
    pub fn pick<'a>(&self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<(Arc<str>, Arc<str>)> {
        let set = self.set.read().unwrap_or_else(PoisonError::into_inner);
        let mut picked: Vec<_> = pairs
            .into_iter()
            .filter_map(|(key, value)| set.1.get(key).map(|key| (key.clone(), value.into())))
            .collect();
        picked.sort_unstable();
        picked.shrink_to_fit();
        picked
    }

    fn extend<'a>(&self, keys: impl Iterator<Item = &'a str>) -> bool {
        let mut set = self.set.write().unwrap_or_else(PoisonError::into_inner);
        let before = set.1.len();
        for key in keys {
            if !set.1.contains(key) {
                set.1.insert(key.into());
            }
        }
        let grown = set.1.len() > before;
        set.0 += u64::from(grown);
        grown
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
        assert_eq!(keys.extent(), 1);
        let picked = keys.pick([("b", "2"), ("c", "3"), ("a", "1")]);
        assert_eq!(picked, [("a".into(), "1".into()), ("b".into(), "2".into())]);
    }
}
