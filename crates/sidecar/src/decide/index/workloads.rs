//! Workloads by kind. Kinds come and go; what is known of one says nothing about another.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{Index, generation, object};
use crate::facts::store::{Put, Store, Update};
use crate::facts::{GroupKind, NamespacedName, WorkloadFact, WorkloadKey};

/// How much is known of a kind of workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// All its workloads.
    Listed,
    /// Perhaps not all of them: its first list has not come yet.
    Unlisted,
    /// Nothing: it may not be listed.
    Forbidden,
    /// Nothing: it is not watched.
    NotWatched,
}

/// The workloads of all kinds that are watched.
#[derive(Debug, Default)]
pub(super) struct Workloads {
    kinds: BTreeMap<GroupKind, Kind>,
    by_uid: HashMap<Arc<str>, WorkloadKey>,
}

#[derive(Debug, Default)]
struct Kind {
    facts: Store<NamespacedName, WorkloadFact>,
    forbidden: bool,
}

impl Workloads {
    pub(super) fn of(kind: GroupKind) -> Self {
        Self { kinds: [(kind, Kind::default())].into(), by_uid: HashMap::new() }
    }

    pub(super) fn kinds(&self) -> impl Iterator<Item = &GroupKind> {
        self.kinds.keys()
    }

    pub(super) fn knowledge(&self, kind: &GroupKind) -> Knowledge {
        match self.kinds.get(kind) {
            None => Knowledge::NotWatched,
            Some(kind) if kind.facts.complete().is_some() => Knowledge::Listed,
            Some(Kind { forbidden: true, .. }) => Knowledge::Forbidden,
            Some(_) => Knowledge::Unlisted,
        }
    }

    pub(super) fn is_listed(&self, kind: &GroupKind) -> bool {
        self.knowledge(kind) == Knowledge::Listed
    }

    pub(super) fn get(&self, key: &WorkloadKey) -> Option<&WorkloadFact> {
        self.kinds.get(&key.kind)?.facts.get(&key.object)
    }

    /// The workload with this UID.
    pub(super) fn key_of(&self, uid: &Arc<str>) -> Option<&WorkloadKey> {
        self.by_uid.get(uid)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &WorkloadKey> {
        self.by_uid.values()
    }

    pub(super) fn len(&self) -> usize {
        self.kinds.values().map(|kind| kind.facts.len()).sum()
    }

    fn put(&mut self, key: &WorkloadKey, fact: WorkloadFact) -> Put<WorkloadFact> {
        let Some(kind) = self.kinds.get_mut(&key.kind) else { return Put::Known };
        let uid = fact.uid.clone();
        let put = kind.facts.put(&key.object, fact);
        if let Put::Changed(before) = &put {
            self.by_uid.remove(&before.uid);
        }
        if put != Put::Known {
            self.by_uid.insert(uid, key.clone());
        }
        put
    }

    fn remove(&mut self, key: &WorkloadKey) -> Option<WorkloadFact> {
        let before = self.kinds.get_mut(&key.kind)?.facts.remove(&key.object)?;
        self.by_uid.remove(&before.uid);
        Some(before)
    }
}

impl Index {
    /// Workloads of this kind are going to be told, too. Until they are listed, nothing is decided
    /// about the objects that name one.
    pub fn watch_kind(&mut self, kind: GroupKind) {
        self.workloads.kinds.entry(kind).or_default();
    }

    /// Workloads of this kind are no longer told. What is recorded of them stays as it is.
    pub fn unwatch_kind(&mut self, kind: &GroupKind) {
        if self.workloads.kinds.remove(kind).is_some() {
            self.workloads.by_uid.retain(|_, key| key.kind != *kind);
            self.told.retain(|key, _| key.kind != *kind);
            self.touch_kind(kind);
        }
    }

    /// Workloads of this kind may not be listed, or may be after all.
    pub fn forbid_kind(&mut self, kind: &GroupKind, forbidden: bool) {
        if let Some(known) = self.workloads.kinds.get_mut(kind)
            && known.forbidden != forbidden
        {
            known.forbidden = forbidden;
            self.touch_kind(kind);
        }
    }

    /// It is known which kinds there are to watch: from now on, one that is not watched is none of
    /// these, and users are told.
    pub fn kinds_are_known(&mut self) {
        if !self.kinds_known {
            self.kinds_known = true;
            self.retry_all();
        }
    }

    /// Takes what the watch of a kind of workloads tells; nothing if the kind is not watched any longer.
    pub fn apply_workloads(&mut self, kind: &GroupKind, update: Update<NamespacedName, WorkloadFact>) {
        let key = |object| WorkloadKey { object, kind: kind.clone() };
        match update {
            Update::Begin(revision) => {
                if let Some(known) = self.workloads.kinds.get_mut(kind) {
                    known.facts.begin(revision);
                }
            }
            Update::Apply(object, fact) => self.apply_workload(&key(object), fact),
            Update::Delete(object) => self.delete_workload(&key(object)),
            Update::Done => {
                let first = !self.workloads.is_listed(kind);
                let Some(known) = self.workloads.kinds.get_mut(kind) else { return };
                for object in known.facts.done() {
                    self.delete_workload(&key(object));
                }
                if first {
                    self.touch_kind(kind);
                }
                self.retry_all();
            }
        }
    }

    fn apply_workload(&mut self, key: &WorkloadKey, mut fact: WorkloadFact) {
        if !self.workloads.kinds.contains_key(&key.kind) {
            return;
        }
        let key = self.names.intern_workload_key(key);
        fact.uid = self.names.share(&fact.uid);
        let target = generation::target_of(&key, &fact);
        if let Some(request) = pps_core::generate::request(&target, &fact.annotations) {
            self.take_up(&request.spec);
        }
        if self.workloads.put(&key, fact) != Put::Known {
            self.touch_claims(&key);
            self.work.generated.insert(key);
        }
    }

    fn delete_workload(&mut self, key: &WorkloadKey) {
        if self.workloads.remove(key).is_some() {
            self.told.remove(key);
            self.touch_claims(key);
        }
    }

    /// Touches every entry of every object that names the workload.
    pub(super) fn touch_claims(&mut self, workload: &WorkloadKey) {
        let claims: Vec<NamespacedName> = self.claims.get(workload).into_iter().flatten().cloned().collect();
        for object in claims {
            self.touch(&object, object::Dirty::everything);
        }
    }

    /// Touches every entry of every object that names a workload of this kind.
    fn touch_kind(&mut self, kind: &GroupKind) {
        let claimed = self.claims.iter().filter(|(workload, _)| workload.kind == *kind);
        let objects: Vec<NamespacedName> = claimed.flat_map(|(_, objects)| objects).cloned().collect();
        for object in objects {
            self.touch(&object, object::Dirty::everything);
        }
    }

    /// Whether it is known what becomes of the objects that name workloads of this kind.
    pub(super) fn is_decidable(&self, kind: &GroupKind) -> bool {
        match self.workloads.knowledge(kind) {
            Knowledge::Listed | Knowledge::Forbidden => true,
            Knowledge::Unlisted => false,
            Knowledge::NotWatched => self.kinds_known,
        }
    }
}
