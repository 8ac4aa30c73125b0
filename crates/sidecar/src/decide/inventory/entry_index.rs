//! Which objects have an entry for a Pod: an event of a Pod whose workload has no object may concern any of its namespace.
//!
//! The entries of an object mostly have one stem, the name of its workload. So there is one item for each stem of an
//! object, not for each entry.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use crate::facts::states::States;
use crate::facts::{NamespacedName, PpsFact};

/// How many entries an object has, by their stem and the name of the object.
#[derive(Debug, Default)]
pub(crate) struct EntryIndex(BTreeMap<(NamespacedName, Arc<str>), usize>);

/// The name of a Pod without its ordinal.
fn stem(namespace: &Arc<str>, pod: &str) -> NamespacedName {
    let numbered =
        pod.rsplit_once('-').filter(|(_, ordinal)| ordinal.bytes().all(|byte| byte.is_ascii_digit()));
    NamespacedName { namespace: namespace.clone(), name: numbered.map_or(pod, |(stem, _)| stem).into() }
}

impl EntryIndex {
    /// The objects that may have an entry for this Pod.
    pub(crate) fn candidates(&self, pod: &NamespacedName) -> impl Iterator<Item = NamespacedName> {
        let stem = stem(&pod.namespace, &pod.name);
        let objects = self.0.range((stem.clone(), "".into())..).map(|(key, _)| key);
        let objects = objects.take_while(move |(of, _)| *of == stem);
        objects.map(|(_, name)| NamespacedName { name: name.clone(), ..pod.clone() })
    }

    pub(crate) fn add(&mut self, object: &NamespacedName, pod: &str) {
        *self.0.entry((stem(&object.namespace, pod), object.name.clone())).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, object: &NamespacedName, pod: &str) {
        if let Entry::Occupied(mut entries) =
            self.0.entry((stem(&object.namespace, pod), object.name.clone()))
        {
            *entries.get_mut() -= 1;
            if *entries.get() == 0 {
                entries.remove();
            }
        }
    }

    /// Replaces the entries of an object.
    pub(crate) fn replace(&mut self, object: &NamespacedName, states: [Option<&PpsFact>; 2]) {
        let [before, after] = states.map(|fact| fact.map(|fact| &fact.status.pod_states));
        if before != after {
            before.into_iter().flat_map(States::nodes).for_each(|(pod, _)| self.remove(object, pod));
            after.into_iter().flat_map(States::nodes).for_each(|(pod, _)| self.add(object, pod));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_looks_at_no_object_without_an_entry_of_its_pods_stem() {
        let mut index = EntryIndex::default();
        for number in 0..1000 {
            index.add(&NamespacedName::new("n", format!("p{number}")), &format!("w{number}-0"));
        }
        let looked_at = |index: &EntryIndex, namespace: &str, pod: &str| {
            index.candidates(&NamespacedName::new(namespace, pod)).map(|key| key.name.to_string()).collect()
        };
        let candidates = |index: &EntryIndex, pod| -> Vec<String> { looked_at(index, "n", pod) };
        assert_eq!(candidates(&index, "foreign-0"), [""; 0]);
        assert_eq!(candidates(&index, "w7-3"), ["p7"], "the other Pods of a stem are not told apart");
        assert_eq!(candidates(&index, "w7"), ["p7"]);
        assert_eq!(looked_at(&index, "m", "w7-0"), Vec::<String>::new());
        index.add(&NamespacedName::new("n", "p8"), "w7-1");
        index.remove(&NamespacedName::new("n", "p7"), "w7-0");
        assert_eq!(candidates(&index, "w7-0"), ["p8"]);
    }
}
