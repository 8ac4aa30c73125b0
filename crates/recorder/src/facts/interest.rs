//! Which node labels and Pod annotations some PPS names. Only these are kept of Nodes and Pods.
//! Shared between `observe`, which filters by them, and the ledger, which adds them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use pps_core::Spec;

/// How many keys that no PPS names any longer may remain, however few are named.
const SURPLUS: usize = 1000;

/// The keys whose values are kept, of labels and annotations alike. A key that no PPS names any
/// longer stays for a while.
#[derive(Clone, Debug, Default)]
pub struct Interest(Arc<RwLock<Keys>>);

#[derive(Debug, Default)]
struct Keys {
    /// Increases with each new key.
    revision: u64,
    /// Each key with the first revision that contains it.
    revisions: HashMap<Arc<str>, u64>,
    /// How many keys were named at the last [`Interest::keep_only`].
    named: usize,
}

fn keys_of(spec: &Spec) -> impl Iterator<Item = &str> {
    let annotations = spec
        .persistent_pod_annotations
        .iter()
        .map(|annotation| annotation.key.as_str());
    spec.topology_keys().chain(annotations)
}

impl Interest {
    fn read<T>(&self, read: impl FnOnce(&Keys) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Keys) -> T) -> T {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// The current revision. Objects read with this revision or a later one have the values of all
    /// keys.
    pub fn revision(&self) -> u64 {
        self.read(|keys| keys.revision)
    }

    /// Adds the keys that a spec names. If some are new, Pods and Nodes have to be listed again.
    pub fn add_keys(&self, spec: &Spec) {
        self.change(|keys| {
            let before = keys.revisions.len();
            let next = keys.revision + 1;
            for key in keys_of(spec) {
                keys.revisions.entry(key.into()).or_insert(next);
            }
            keys.revision += u64::from(keys.revisions.len() > before);
        });
    }

    /// Whether lists read with this revision contain every key that a spec names.
    pub fn is_met(&self, spec: &Spec, listed: Option<u64>) -> bool {
        self.read(|keys| {
            let needed = keys_of(spec)
                .map(|key| keys.revisions.get(key).copied().unwrap_or(u64::MAX))
                .max();
            listed >= Some(needed.unwrap_or_default())
        })
    }

    /// Returns the pairs whose key is of interest, sorted by key.
    pub fn pick<'a>(
        &self,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Vec<(Arc<str>, Arc<str>)> {
        let mut picked: Vec<_> = self.read(|keys| {
            let known = |(key, value): (&str, &str)| {
                keys.revisions
                    .get_key_value(key)
                    .map(|(key, _)| (key.clone(), value.into()))
            };
            pairs.into_iter().filter_map(known).collect()
        });
        picked.sort_unstable();
        picked.shrink_to_fit();
        picked
    }

    /// Whether so many keys are unused that they should be dropped. Without a limit, anyone with
    /// permission to write a PPS could exhaust the sidecar's memory by naming new keys.
    pub fn is_crowded(&self) -> bool {
        self.read(|keys| keys.revisions.len() > 2 * keys.named + SURPLUS)
    }

    /// Leaves the revision unchanged: lists read with it contain all remaining keys, and a dropped
    /// key that is named again counts as new.
    pub fn keep_only<'a>(&self, specs: impl Iterator<Item = &'a Spec>) {
        let named: HashSet<&str> = specs.flat_map(keys_of).collect();
        self.change(|keys| {
            keys.revisions.retain(|key, _| named.contains(&**key));
            keys.revisions.shrink_to_fit();
            keys.named = keys.revisions.len();
        });
    }
}

#[cfg(test)]
mod tests {
    use pps_core::pps::{PodAnnotation, RequiredTopologyTerm};

    use super::*;

    fn spec(label: &str, annotations: &[&str]) -> Spec {
        let annotation = |key: &&str| PodAnnotation {
            key: (*key).into(),
            value_from: None,
        };
        Spec {
            required_persistent_topology: Some(RequiredTopologyTerm {
                fallback_after_seconds: None,
                node_topology_keys: vec![label.into()],
            }),
            persistent_pod_annotations: annotations.iter().map(annotation).collect(),
            ..Spec::default()
        }
    }

    #[test]
    fn picks_only_known_keys_and_each_new_key_increases_the_revision() {
        let (interest, spec) = (Interest::default(), spec("a", &["b"]));
        assert!(!interest.is_met(&spec, Some(0)));
        interest.add_keys(&spec);
        interest.add_keys(&spec);
        assert_eq!(interest.revision(), 1);
        assert_eq!(
            [None, Some(0), Some(1)].map(|listed| interest.is_met(&spec, listed)),
            [false, false, true]
        );
        let picked = interest.pick([("b", "2"), ("c", "3"), ("a", "1")]);
        assert_eq!(picked, [("a".into(), "1".into()), ("b".into(), "2".into())]);
    }

    #[test]
    fn drops_unnamed_keys_once_they_are_many() {
        let interest = Interest::default();
        let names: Vec<String> = (0..SURPLUS).map(|number| format!("k{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        interest.add_keys(&spec("k0", &names));
        assert!(!interest.is_crowded());
        interest.add_keys(&spec("more", &[]));
        assert!(interest.is_crowded());

        let kept = spec("k1", &["k2"]);
        interest.keep_only([&kept].into_iter());
        assert!(!interest.is_crowded());
        assert_eq!(
            interest.pick([("k1", ""), ("k3", "")]),
            [("k1".into(), "".into())]
        );
        assert_eq!(interest.revision(), 2, "nothing has to be listed again");
        interest.add_keys(&kept);
        assert_eq!(interest.revision(), 2, "no key is new");
        interest.add_keys(&spec("k3", &[]));
        assert_eq!(
            interest.revision(),
            3,
            "a dropped key that is named again is new"
        );
    }
}
