//! Workloads by kind. Kinds are added and removed at run time; what is known of one says nothing
//! about another.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::facts::store::{Put, Store};
use crate::facts::{GroupKind, NamespacedName, WatchState, WorkloadFact, WorkloadKey};

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
    pub(super) kinds: BTreeMap<GroupKind, Kind>,
    pub(super) by_uid: HashMap<Arc<str>, WorkloadKey>,
    /// Whether it is known which kinds can be watched at all.
    pub(super) kinds_known: bool,
}

#[derive(Debug, Default)]
pub(super) struct Kind {
    pub(super) facts: Store<NamespacedName, WorkloadFact>,
    pub(super) watch: WatchState,
}

impl Workloads {
    pub(crate) fn new(kind: GroupKind) -> Self {
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

    pub(crate) fn get(&self, key: &WorkloadKey) -> Option<&WorkloadFact> {
        self.kinds.get(&key.kind)?.facts.get(&key.object)
    }

    /// The workload of this namespace with this UID.
    pub(crate) fn key_of(&self, namespace: &str, uid: &str) -> Option<&WorkloadKey> {
        self.by_uid
            .get(uid)
            .filter(|key| *key.object.namespace == *namespace)
    }

    /// Forgets a kind and its workloads. Returns whether it was watched.
    pub(crate) fn unwatch(&mut self, kind: &GroupKind) -> bool {
        let watched = self.kinds.remove(kind).is_some();
        if watched {
            self.by_uid.retain(|_, key| key.kind != *kind);
        }
        watched
    }

    pub(crate) fn apply(&mut self, key: &WorkloadKey, fact: WorkloadFact) -> bool {
        let Some(kind) = self.kinds.get_mut(&key.kind) else {
            return false;
        };
        let uid = fact.uid.clone();
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

    pub(crate) fn remove(&mut self, key: &WorkloadKey) -> Option<WorkloadFact> {
        let before = self.kinds.get_mut(&key.kind)?.facts.remove(&key.object)?;
        self.by_uid.remove(&before.uid);
        Some(before)
    }
}
