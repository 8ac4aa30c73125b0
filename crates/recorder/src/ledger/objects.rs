//! All PPS objects: by name, by their entries and by the workload that they target; and the state
//! of their lists.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use pps_core::governing::{Candidate, governing};

use super::tracked_pps::{ChangedEntry, Freshness, TrackedPps};
use crate::facts::states::States;
use crate::facts::store::Store;
use crate::facts::{GroupKind, NamespacedName, PpsFact, WorkloadKey};

#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(super) tracked: BTreeMap<NamespacedName, TrackedPps>,
    entries: EntryIndex,
    by_target: HashMap<WorkloadKey, BTreeSet<NamespacedName>>,
    governing: HashMap<WorkloadKey, NamespacedName>,
    /// Follows the lists, which also have aliases.
    pub(super) listed: Store<NamespacedName, ()>,
    /// The first revision whose lists show the objects as the present definition does; earlier ones
    /// may hide states. It is 0 until a list was asked for because of a definition.
    pub(super) definition_revision: u64,
}

impl Objects {
    pub(crate) fn get(&self, key: &NamespacedName) -> Option<&TrackedPps> {
        self.tracked.get(key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &TrackedPps> {
        self.tracked.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.tracked.len()
    }

    /// The objects that target this workload.
    pub(crate) fn claims(&self, workload: &WorkloadKey) -> impl Iterator<Item = &NamespacedName> {
        self.by_target.get(workload).into_iter().flatten()
    }

    pub(crate) fn governing(
        &self,
        workload: &WorkloadKey,
    ) -> Option<(&NamespacedName, &TrackedPps)> {
        let key = self.governing.get(workload)?;
        Some((key, self.tracked.get(key)?))
    }

    pub(crate) fn governed(&self) -> impl Iterator<Item = (&WorkloadKey, &TrackedPps)> {
        self.governing
            .iter()
            .filter_map(|(workload, key)| Some((workload, self.tracked.get(key)?)))
    }

    /// Chooses again which object governs a workload. Returns whether another one governs it now.
    pub(super) fn choose_governing(&mut self, workload: &WorkloadKey) -> bool {
        let candidates = self.claims(workload).filter_map(|key| {
            let observed = &self.tracked.get(key)?.observed;
            let candidate = Candidate {
                name: &key.name,
                target: &observed.spec.target_ref,
                created: &observed.created,
                is_terminating: observed.terminating,
            };
            Some((candidate, key))
        });
        let chosen = governing(&workload.target(), candidates).cloned();
        let before = match &chosen {
            Some(chosen) => self.governing.insert(workload.clone(), chosen.clone()),
            None => self.governing.remove(workload),
        };
        before != chosen
    }

    /// The objects that target workloads of this kind.
    pub(super) fn claims_of_kind(&self, kind: &GroupKind) -> impl Iterator<Item = &NamespacedName> {
        self.by_target
            .iter()
            .filter(|(workload, _)| workload.kind == *kind)
            .flat_map(|(_, objects)| objects)
    }

    /// The workloads that objects target.
    pub(super) fn targets(&self) -> impl Iterator<Item = &WorkloadKey> {
        self.by_target.keys()
    }

    pub(super) fn link(&mut self, workload: &WorkloadKey, object: &NamespacedName) {
        self.by_target
            .entry(workload.clone())
            .or_default()
            .insert(object.clone());
    }

    pub(super) fn unlink(&mut self, workload: &WorkloadKey, object: &NamespacedName) {
        if let Some(claims) = self.by_target.get_mut(workload) {
            claims.remove(object);
            if claims.is_empty() {
                self.by_target.remove(workload);
            }
        }
    }

    pub(super) fn with_entry(&self, pod: &NamespacedName) -> Vec<NamespacedName> {
        let has_entry = |key: &NamespacedName| {
            self.tracked
                .get(key)
                .is_some_and(|pps| pps.has_entry(&pod.name))
        };
        self.entries.candidates(pod).filter(has_entry).collect()
    }

    /// An object has the entries that it has now in place of those that it had.
    pub(super) fn reindex_entries(&mut self, object: &NamespacedName, before: Option<&PpsFact>) {
        let before = before.map(|fact| &fact.status.pod_states);
        let after = self
            .tracked
            .get(object)
            .map(|pps| &pps.observed.status.pod_states);
        if before == after {
            return;
        }
        for (pod, _) in before.into_iter().flat_map(States::nodes) {
            self.entries.remove(object, pod);
        }
        for (pod, _) in after.into_iter().flat_map(States::nodes) {
            self.entries.add(object, pod);
        }
    }

    pub(super) fn reindex_entry(&mut self, object: &NamespacedName, moved: &ChangedEntry) {
        match (&moved.before, &moved.after) {
            (None, Some(_)) => self.entries.add(object, &moved.pod),
            (Some(_), None) => self.entries.remove(object, &moved.pod),
            _ => {}
        }
    }

    /// A watch has reported an object, or an alias.
    pub(super) fn note_listed(&mut self, key: &NamespacedName) -> Freshness {
        self.listed.put(key, ());
        if self.listed.listing().is_some() {
            Freshness::Authoritative
        } else {
            Freshness::MayBeStale
        }
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.listed.complete().is_some()
    }

    /// Whether complete lists were seen, but none since the definition has changed.
    pub(super) fn is_outdated(&self) -> bool {
        let complete = self.listed.complete();
        complete.is_some_and(|revision| revision < self.definition_revision)
    }

    /// Whether the objects are known as the present definition shows them.
    pub(crate) fn is_current(&self) -> bool {
        let revision = self.listed.listing().or(self.listed.complete());
        revision.unwrap_or_default() >= self.definition_revision
    }
}

/// How many entries an object has, by their stem and the name of the object. The entries of an
/// object mostly have one stem, the name of its workload: one item for each stem takes less memory
/// than one for each entry.
#[derive(Debug, Default)]
struct EntryIndex(BTreeMap<StemOfObject, usize>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct StemOfObject {
    stem: NamespacedName,
    object: Arc<str>,
}

/// The name of a Pod without its ordinal.
fn stem(namespace: &Arc<str>, pod: &str) -> NamespacedName {
    let numbered = pod
        .rsplit_once('-')
        .filter(|(_, ordinal)| ordinal.bytes().all(|byte| byte.is_ascii_digit()));
    NamespacedName {
        namespace: namespace.clone(),
        name: numbered.map_or(pod, |(stem, _)| stem).into(),
    }
}

impl StemOfObject {
    fn of(object: &NamespacedName, pod: &str) -> Self {
        Self {
            stem: stem(&object.namespace, pod),
            object: object.name.clone(),
        }
    }
}

impl EntryIndex {
    /// The objects that may have an entry of this Pod.
    fn candidates(&self, pod: &NamespacedName) -> impl Iterator<Item = NamespacedName> {
        let stem = stem(&pod.namespace, &pod.name);
        let first = StemOfObject {
            stem: stem.clone(),
            object: "".into(),
        };
        self.0
            .range(first..)
            .map(|(key, _)| key)
            .take_while(move |key| key.stem == stem)
            .map(|key| pod.sibling(&key.object))
    }

    fn add(&mut self, object: &NamespacedName, pod: &str) {
        *self.0.entry(StemOfObject::of(object, pod)).or_default() += 1;
    }

    fn remove(&mut self, object: &NamespacedName, pod: &str) {
        if let Entry::Occupied(mut entries) = self.0.entry(StemOfObject::of(object, pod)) {
            *entries.get_mut() -= 1;
            if *entries.get() == 0 {
                entries.remove();
            }
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
            index.add(
                &NamespacedName::new("n", format!("p{number}")),
                &format!("w{number}-0"),
            );
        }
        let looked_at = |index: &EntryIndex, namespace: &str, pod: &str| {
            index
                .candidates(&NamespacedName::new(namespace, pod))
                .map(|key| key.name.to_string())
                .collect()
        };
        let candidates = |index: &EntryIndex, pod| -> Vec<String> { looked_at(index, "n", pod) };
        assert_eq!(candidates(&index, "foreign-0"), [""; 0]);
        assert_eq!(
            candidates(&index, "w7-3"),
            ["p7"],
            "the other Pods of a stem are not told apart"
        );
        assert_eq!(candidates(&index, "w7"), ["p7"]);
        assert_eq!(looked_at(&index, "m", "w7-0"), Vec::<String>::new());
        index.add(&NamespacedName::new("n", "p8"), "w7-1");
        index.remove(&NamespacedName::new("n", "p7"), "w7-0");
        assert_eq!(candidates(&index, "w7-0"), ["p8"]);
    }
}
