//! Workloads by kind. Kinds are added and removed at run time; what is known of one says nothing
//! about another.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::facts::store::{Changes, Put, Store, Update};
use crate::facts::{Generation, GroupKind, NamespacedName, WatchState, WorkloadFact, WorkloadKey};

/// How much is known of a kind of workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KindCoverage {
    /// All its workloads.
    Listed,
    /// Perhaps not all of them: the first list is not complete.
    Unlisted,
    /// Nothing reliable: the API server refuses to list or watch the kind, perhaps after it was
    /// listed.
    Forbidden,
    /// Nothing: its first list has failed, and is retried.
    Unavailable,
    /// Nothing: it is not watched.
    NotWatched,
}

#[derive(Debug, Default)]
pub(crate) struct Workloads {
    kinds: BTreeMap<GroupKind, Kind>,
    by_uid: HashMap<Arc<str>, WorkloadKey>,
    /// `metadata.generation` of workloads of custom kinds.
    generations: HashMap<WorkloadKey, i64>,
    /// Whether it is known which kinds can be watched at all.
    kinds_known: bool,
}

#[derive(Debug, Default)]
struct Kind {
    facts: Store<NamespacedName, WorkloadFact>,
    watch: WatchState,
}

impl Workloads {
    pub(super) fn new(kind: GroupKind) -> Self {
        Self {
            kinds: [(kind, Kind::default())].into(),
            ..Self::default()
        }
    }

    /// Whether objects that target workloads of this kind can be decided.
    pub(crate) fn is_decidable(&self, kind: &GroupKind) -> bool {
        match self.coverage(kind) {
            KindCoverage::Listed | KindCoverage::Forbidden | KindCoverage::Unavailable => true,
            KindCoverage::Unlisted => false,
            KindCoverage::NotWatched => self.kinds_known,
        }
    }

    pub(crate) fn coverage(&self, kind: &GroupKind) -> KindCoverage {
        match self.kinds.get(kind) {
            None => KindCoverage::NotWatched,
            Some(Kind {
                watch: WatchState::Forbidden,
                ..
            }) => KindCoverage::Forbidden,
            Some(kind) if kind.facts.complete().is_some() => KindCoverage::Listed,
            Some(Kind {
                watch: WatchState::Down,
                ..
            }) => KindCoverage::Unavailable,
            Some(_) => KindCoverage::Unlisted,
        }
    }

    pub(crate) fn is_listed(&self, kind: &GroupKind) -> bool {
        self.kinds
            .get(kind)
            .is_some_and(|kind| kind.facts.complete().is_some())
    }

    /// Whether the kind is listed, and its watch works.
    pub(crate) fn is_current(&self, kind: &GroupKind) -> bool {
        self.is_listed(kind)
            && self
                .kinds
                .get(kind)
                .is_some_and(|kind| matches!(kind.watch, WatchState::Up | WatchState::Listed))
    }

    pub(crate) fn get(&self, key: &WorkloadKey) -> Option<&WorkloadFact> {
        self.kinds.get(&key.kind)?.facts.get(&key.object)
    }

    pub(crate) fn generation(&self, key: &WorkloadKey) -> Option<i64> {
        self.generations.get(key).copied()
    }

    /// The workload of this namespace with this UID.
    pub(crate) fn key_of(&self, namespace: &str, uid: &str) -> Option<&WorkloadKey> {
        self.by_uid
            .get(uid)
            .filter(|key| *key.object.namespace == *namespace)
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = &GroupKind> {
        self.kinds.keys()
    }

    /// All workloads, of all kinds.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &WorkloadKey> {
        self.by_uid.values()
    }

    pub(crate) fn count(&self) -> usize {
        self.kinds.values().map(|kind| kind.facts.count()).sum()
    }

    pub(crate) fn is_watched(&self, kind: &GroupKind) -> bool {
        self.kinds.contains_key(kind)
    }

    pub(super) fn watch(&mut self, kind: GroupKind) {
        self.kinds.entry(kind).or_default();
    }

    pub(super) fn set_watch_state(&mut self, kind: &GroupKind, state: WatchState) {
        if let Some(kind) = self.kinds.get_mut(kind) {
            kind.watch = state;
        }
    }

    /// Returns whether they were unknown until now.
    pub(super) fn set_kinds_known(&mut self) -> bool {
        !std::mem::replace(&mut self.kinds_known, true)
    }

    /// What an update of the watch of a kind changes; nothing if the kind is not watched.
    pub(super) fn changes(
        &mut self,
        kind: &GroupKind,
        update: Update<NamespacedName, WorkloadFact>,
    ) -> Option<Changes<NamespacedName, WorkloadFact>> {
        Some(self.kinds.get_mut(kind)?.facts.changes(update))
    }

    /// Forgets a kind and its workloads. Returns whether it was watched.
    pub(super) fn unwatch(&mut self, kind: &GroupKind) -> bool {
        let watched = self.kinds.remove(kind).is_some();
        if watched {
            self.by_uid.retain(|_, key| key.kind != *kind);
            self.generations.retain(|key, _| key.kind != *kind);
        }
        watched
    }

    pub(super) fn apply(&mut self, key: &WorkloadKey, fact: WorkloadFact) -> bool {
        let Some(kind) = self.kinds.get_mut(&key.kind) else {
            return false;
        };
        let uid = fact.uid.clone();
        if let Generation(Some(generation)) = fact.generation {
            self.generations.insert(key.clone(), generation);
        }
        let put = kind.facts.put(&key.object, fact);
        if let Put::Changed(before) = &put {
            self.by_uid.remove(&before.uid);
        }
        if put == Put::Known {
            return false;
        }
        self.by_uid.insert(uid, key.clone());
        true
    }

    pub(super) fn remove(&mut self, key: &WorkloadKey) -> Option<WorkloadFact> {
        let before = self.kinds.get_mut(&key.kind)?.facts.remove(&key.object)?;
        self.by_uid.remove(&before.uid);
        self.generations.remove(key);
        Some(before)
    }
}
