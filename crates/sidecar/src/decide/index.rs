//! The world as the watches tell it, and what has to be written because of it.
//!
//! A synchronous state machine: facts go in, writes come out. It knows no cluster, no clock and no
//! task, so that its tests apply objects and look at the exact patches.
//!
//! An event touches only the entries that it is about: a Pod touches the one entry of its name, a node
//! those of the Pods on it. What a touched entry should be is decided when the write is made, so that
//! any number of events become one write, and a write is made from the newest facts.

mod condition;
mod forget;
mod generation;
mod object;
mod patch;
mod room;
#[cfg(test)]
mod tests;
mod workloads;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use pps_core::Reason;
use pps_core::workload::{PodOwnership, WorkloadPresence};

use self::forget::Named;
pub use self::forget::PodEviction;
pub use self::generation::GeneratedPps;
use self::object::Object;
pub use self::object::StatusWrite;
use self::workloads::Workloads;
use crate::facts::interest::{Interest, NewKeys};
use crate::facts::interner::Interner;
use crate::facts::store::{Store, Update};
use crate::facts::{GroupKind, NamespacedName, NodeFact, Notice, PodFact, PpsFact, WorkloadKey};

/// Work that has come up and not been asked for yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// PPS objects whose status may have to be written.
    pub statuses: BTreeSet<NamespacedName>,
    /// Workloads whose generated PPS may have to be made, changed or deleted.
    pub generated: BTreeSet<WorkloadKey>,
    /// Nodes that went missing, or are missing no longer.
    pub absences: BTreeSet<Arc<str>>,
    /// Pods that may have to be deleted, since they wait for a node that no longer exists.
    pub evictions: BTreeSet<NamespacedName>,
    /// What users must know.
    pub notices: Vec<Notice>,
    /// What has to be listed anew, since more of it is needed than was kept.
    pub relist: NewKeys,
}

/// The state machine.
#[derive(Debug)]
pub struct Index {
    interest: Interest,
    names: Interner,
    pods: Store<NamespacedName, PodFact>,
    pods_by_owner: HashMap<Arc<str>, Owned>,
    pods_by_node: HashMap<Arc<str>, HashSet<NamespacedName>>,
    /// Objects with an entry of a Pod's name, by the Pod, where the Pod belongs to another workload: what
    /// becomes of the entry when the Pod changes does not follow from its owner.
    borrowed: HashMap<NamespacedName, BTreeSet<NamespacedName>>,
    nodes: Store<Arc<str>, NodeFact>,
    named: Named,
    workloads: Workloads,
    /// Whether it is known which kinds of workloads can be watched at all.
    kinds_known: bool,
    objects: BTreeMap<NamespacedName, Object>,
    /// Follows the lists of the objects; the objects themselves are in `objects`, which is sorted.
    listed_objects: Store<NamespacedName, ()>,
    claims: HashMap<WorkloadKey, BTreeSet<NamespacedName>>,
    /// Workloads for which something is on its way, and whether there was a question meanwhile.
    generating: HashMap<WorkloadKey, bool>,
    told: HashMap<WorkloadKey, (Reason, String)>,
    /// How large an object can be, in bytes.
    limit: usize,
    work: Work,
}

/// The Pods of one owner.
#[derive(Debug, Default)]
struct Owned {
    names: BTreeSet<Arc<str>>,
    /// How many of them are not being deleted.
    living: usize,
}

impl Index {
    /// An index that knows nothing yet, for StatefulSets and what kinds of workloads will be added.
    pub fn new(interest: Interest) -> Self {
        Self {
            interest,
            names: Interner::default(),
            pods: Store::default(),
            pods_by_owner: HashMap::new(),
            pods_by_node: HashMap::new(),
            borrowed: HashMap::new(),
            nodes: Store::default(),
            named: Named::default(),
            workloads: Workloads::of(GroupKind::stateful_set()),
            kinds_known: false,
            objects: BTreeMap::new(),
            listed_objects: Store::default(),
            claims: HashMap::new(),
            generating: HashMap::new(),
            told: HashMap::new(),
            limit: pps_core::size::DEFAULT_LIMIT,
            work: Work::default(),
        }
    }

    /// Whether complete lists of everything have been seen, apart from the kinds of workloads that were
    /// added. Before that nothing is decided: what is not known yet looks like what is gone. Nor is
    /// anything decided about an object before its own workload's kind is listed.
    pub fn is_complete(&self) -> bool {
        self.pods.complete().is_some() && self.nodes.complete().is_some() && self.is_interest_known()
    }

    /// Whether the objects and the workloads are known, and with them what is of interest in Pods and
    /// Nodes.
    pub fn is_interest_known(&self) -> bool {
        self.workloads.is_listed(&GroupKind::stateful_set()) && self.listed_objects.complete().is_some()
    }

    /// Hands over what has come up since the last call.
    pub fn take_work(&mut self) -> Work {
        std::mem::take(&mut self.work)
    }

    /// How many Pods, nodes, workloads, objects and recorded states are kept, and how many nodes are
    /// missing.
    pub fn counts(&self) -> [(&'static str, usize); 6] {
        [
            ("pods", self.pods.len()),
            ("nodes", self.nodes.len()),
            ("workloads", self.workloads.len()),
            ("objects", self.objects.len()),
            ("states", self.objects.values().map(Object::recorded).sum()),
            ("missing_nodes", self.named.missing()),
        ]
    }

    // ---- Pods ------------------------------------------------------------------------------------

    /// Takes what the Pod watch tells.
    pub fn apply_pods(&mut self, update: Update<NamespacedName, PodFact>) {
        match update {
            Update::Begin(revision) => self.pods.begin(revision),
            Update::Apply(key, fact) => self.apply_pod(&key, fact),
            Update::Delete(key) => self.delete_pod(&key),
            Update::Done => {
                for key in self.pods.done() {
                    self.delete_pod(&key);
                }
                self.retry_all();
            }
        }
    }

    fn apply_pod(&mut self, key: &NamespacedName, mut fact: PodFact) {
        let key = &self.names.intern_name(key);
        self.follow_waiting(key, Some(&fact));
        if self.pods.get(key) != Some(&fact) {
            for name in [&mut fact.owner, &mut fact.node].into_iter().flatten() {
                *name = self.names.share(name);
            }
            self.names.intern_pairs(&mut fact.annotations);
        }
        let (owner, node, terminating) = (fact.owner.clone(), fact.node.clone(), fact.terminating);
        let Some(before) = self.pods.put(key, fact).news() else { return };
        if let Some(before) = &before {
            self.unlink_pod(key, before);
        }
        if let Some(owner) = &owner {
            let owned = self.pods_by_owner.entry(owner.clone()).or_default();
            owned.names.insert(key.name.clone());
            owned.living += usize::from(!terminating);
        }
        if let Some(node) = node {
            self.pods_by_node.entry(node).or_default().insert(key.clone());
        }
        self.touch_pod(key, &[before.and_then(|before| before.owner), owner]);
    }

    fn delete_pod(&mut self, key: &NamespacedName) {
        if let Some(before) = self.pods.remove(key) {
            self.follow_waiting(key, None);
            self.unlink_pod(key, &before);
            self.touch_pod(key, &[before.owner, None]);
        }
    }

    fn unlink_pod(&mut self, key: &NamespacedName, fact: &PodFact) {
        if let Some(owner) = &fact.owner
            && let Some(owned) = self.pods_by_owner.get_mut(owner)
        {
            owned.names.remove(&key.name);
            owned.living -= usize::from(!fact.terminating);
            if owned.names.is_empty() {
                self.pods_by_owner.remove(owner);
            }
        }
        if let Some(node) = &fact.node
            && let Some(keys) = self.pods_by_node.get_mut(node)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.pods_by_node.remove(node);
            }
        }
    }

    /// Touches the entry of a Pod in the objects of its owners, past and present. A Pod without a
    /// known owner may still bear the name of an entry, after an orphaning delete.
    fn touch_pod(&mut self, key: &NamespacedName, owners: &[Option<Arc<str>>; 2]) {
        let claimed: Vec<NamespacedName> = owners
            .iter()
            .flatten()
            .filter_map(|uid| self.claims.get(self.workloads.key_of(uid)?))
            .flatten()
            .cloned()
            .collect();
        let concerned = if claimed.is_empty() { self.objects_with_entry(key) } else { claimed };
        for object in concerned.into_iter().chain(self.borrowed.remove(key).into_iter().flatten()) {
            self.touch(&object, |touched| touched.pod(&key.name));
            self.touch_spare(&object);
        }
    }

    /// Whether a Pod of somebody else bears the name of an entry.
    fn is_borrowed(&self, object: &Object, name: &Arc<str>) -> bool {
        let key = NamespacedName { namespace: object.workload.object.namespace.clone(), name: name.clone() };
        let owner = self.pods.get(&key).and_then(|pod| pod.owner.as_ref());
        let workload = self.workloads.get(&object.workload);
        owner.is_some_and(|owner| workload.is_none_or(|workload| workload.uid != *owner))
    }

    /// These entries have to be looked at again when the Pods of their names change.
    fn follow_borrowed(&mut self, object: &NamespacedName, names: Vec<Arc<str>>) {
        for name in names {
            let pod = NamespacedName { namespace: object.namespace.clone(), name };
            self.borrowed.entry(pod).or_default().insert(object.clone());
        }
    }

    /// Touches the entries that were kept only because the workload lacked Pods, if it lacks none now.
    fn touch_spare(&mut self, key: &NamespacedName) {
        let Some(object) = self.objects.get(key).filter(|object| object.has_spare()) else { return };
        let workload = self.workloads.get(&object.workload);
        if workload.is_some_and(|workload| workload.demand.is_met_by(self.living(&workload.uid))) {
            self.touch_object(key, Object::touch_spare);
        }
    }

    /// How many Pods of this owner are not being deleted.
    fn living(&self, owner: &Arc<str>) -> usize {
        self.pods_by_owner.get(owner).map_or(0, |owned| owned.living)
    }

    fn objects_with_entry(&self, pod: &NamespacedName) -> Vec<NamespacedName> {
        self.objects
            .range(NamespacedName::new(pod.namespace.clone(), "")..)
            .take_while(|(key, _)| key.namespace == pod.namespace)
            .filter(|(_, object)| object.has_entry(&pod.name))
            .map(|(key, _)| key.clone())
            .collect()
    }

    // ---- Nodes -----------------------------------------------------------------------------------

    /// Takes what the Node watch tells.
    pub fn apply_nodes(&mut self, update: Update<Arc<str>, NodeFact>) {
        match update {
            Update::Begin(revision) => self.nodes.begin(revision),
            Update::Apply(name, mut fact) => {
                let name = self.names.share(&name);
                self.names.intern_pairs(&mut fact.labels);
                if self.nodes.put(&name, fact).news().is_some() {
                    self.touch_node(&name);
                    self.follow_node(&name);
                    self.retry_waiting();
                }
            }
            Update::Delete(name) => {
                if self.nodes.remove(&name).is_some() {
                    self.touch_node(&name);
                    self.follow_node(&name);
                    self.retry_waiting();
                }
            }
            Update::Done => {
                for name in self.nodes.done() {
                    self.nodes.remove(&name);
                    self.touch_node(&name);
                }
                self.follow_nodes();
                self.retry_all();
            }
        }
    }

    fn touch_node(&mut self, node: &Arc<str>) {
        let pods: Vec<NamespacedName> = self.pods_by_node.get(node).into_iter().flatten().cloned().collect();
        for pod in pods {
            let owner = self.pods.get(&pod).and_then(|fact| fact.owner.clone());
            self.touch_pod(&pod, &[owner, None]);
        }
    }

    // ---- Objects ---------------------------------------------------------------------------------

    /// Takes what the watch of PPS objects tells.
    pub fn apply_objects(&mut self, update: Update<NamespacedName, Box<PpsFact>>) {
        match update {
            Update::Begin(revision) => self.listed_objects.begin(revision),
            Update::Apply(key, fact) => {
                self.listed_objects.put(&key, ());
                self.apply_object(&key, *fact);
            }
            Update::Delete(key) => self.delete_object(&key),
            Update::Done => {
                for key in self.listed_objects.done() {
                    self.delete_object(&key);
                }
                self.retry_all();
            }
        }
    }

    fn apply_object(&mut self, key: &NamespacedName, mut fact: PpsFact) {
        let key = &self.names.intern_name(key);
        self.take_up(&fact.spec);
        fact.status.pod_states.share(&mut self.names);
        let workload = WorkloadKey::of_target(&key.namespace, &fact.spec.target_ref);
        let workload = self.names.intern_workload_key(&workload);
        let before = self.objects.get(key).map(|object| object.workload.clone());
        let replaced = if let Some(object) = self.objects.get_mut(key)
            && object.fact.uid == fact.uid
        {
            let Some(replaced) = object.refresh(fact) else { return };
            object.workload = workload.clone();
            Some(replaced)
        } else {
            let object = Object::new(workload.clone(), fact);
            self.objects.insert(key.clone(), object).map(|replaced| replaced.fact)
        };
        self.object_names(key, replaced.as_ref());
        if let Some(before) = before.filter(|before| *before != workload) {
            self.unclaim(&before, key);
        }
        self.claims.entry(workload.clone()).or_default().insert(key.clone());
        self.object_changed(key, &workload);
    }

    fn delete_object(&mut self, key: &NamespacedName) {
        self.listed_objects.remove(key);
        if let Some(object) = self.objects.remove(key) {
            self.object_names(key, Some(&object.fact));
            self.unclaim(&object.workload, key);
            self.object_changed(key, &object.workload);
        }
    }

    fn unclaim(&mut self, workload: &WorkloadKey, object: &NamespacedName) {
        if let Some(claims) = self.claims.get_mut(workload) {
            claims.remove(object);
            if claims.is_empty() {
                self.claims.remove(workload);
            }
        }
    }

    /// An object came, changed or went: which of several is in charge may have changed, and a workload
    /// may need a generated one.
    fn object_changed(&mut self, key: &NamespacedName, workload: &WorkloadKey) {
        self.touch_claims(workload);
        self.work.generated.insert(workload.clone());
        for kind in self.workloads.kinds() {
            self.work.generated.insert(WorkloadKey { object: key.clone(), kind: kind.clone() });
        }
    }

    fn take_up(&mut self, spec: &pps_core::Spec) {
        let grown = self.interest.add_keys(spec);
        self.work.relist.labels |= grown.labels;
        self.work.relist.annotations |= grown.annotations;
        if self.interest.is_crowded() {
            let specs = self.objects.values().flat_map(Object::specs);
            self.interest.keep_only(specs.chain([spec]));
        }
    }

    fn touch(&mut self, key: &NamespacedName, touch: impl FnOnce(&mut object::Dirty)) {
        self.touch_object(key, |object| touch(&mut object.touched));
    }

    fn touch_object(&mut self, key: &NamespacedName, touch: impl FnOnce(&mut Object)) {
        if let Some(object) = self.objects.get_mut(key) {
            touch(object);
            self.work.statuses.insert(key.clone());
        }
    }

    /// Brings up again what could not be decided while a list was incomplete, or was not asked for when
    /// it had come up.
    pub fn retry_all(&mut self) {
        if self.is_complete() {
            let touched = self.objects.iter().filter(|(_, object)| !object.touched.is_empty());
            self.work.statuses.extend(touched.map(|(key, _)| key.clone()));
            self.work.generated.extend(self.workloads.keys().cloned());
            self.retry_waiting();
        }
    }

    /// Whether what is kept of Pods and Nodes has all that an object names. Others wait for a list of their
    /// own: whoever names ever new keys holds up no one else.
    fn is_interest_met(&self, object: &Object) -> bool {
        self.interest.is_met(&object.fact.spec, self.nodes.complete(), self.pods.complete())
    }

    /// Which of the objects that name a workload is in charge: the one of the workload's own name, for
    /// which the policy asks first; else the oldest, of equally old ones the first by name.
    fn in_charge(&self, workload: &WorkloadKey) -> Option<&NamespacedName> {
        let claims = self.claims.get(workload)?.iter();
        claims
            .filter_map(|key| Some((&self.objects.get(key)?.fact, key)))
            .filter(|(fact, _)| !fact.terminating)
            .min_by_key(|(fact, key)| (key.name != workload.object.name, fact.created.as_str(), *key))
            .map(|(_, key)| key)
    }

    fn presence(&self, object: &Object) -> WorkloadPresence {
        match self.workloads.get(&object.workload) {
            Some(workload) if !workload.terminating => match &object.fact.status.target_uid {
                Some(uid) if **uid != *workload.uid => WorkloadPresence::Replaced,
                _ => WorkloadPresence::Present,
            },
            _ => WorkloadPresence::Gone,
        }
    }

    fn bearer(&self, object: &Object, name: &Arc<str>) -> PodOwnership {
        let key = NamespacedName { namespace: object.workload.object.namespace.clone(), name: name.clone() };
        let workload = self.workloads.get(&object.workload);
        let Some(pod) = self.pods.get(&key) else { return PodOwnership::Absent };
        match (&pod.owner, workload, pod.terminating) {
            (Some(owner), Some(workload), true) if *owner == workload.uid => PodOwnership::Terminating,
            (Some(owner), Some(workload), false) if *owner == workload.uid => PodOwnership::Adopted,
            (Some(_), Some(_), _) => PodOwnership::Foreign,
            // The workload is gone, and the garbage collector has not come to this Pod yet.
            (Some(_), None, false) => PodOwnership::Adopted,
            (None, _, false) => PodOwnership::Orphan,
            (_, _, true) => PodOwnership::Absent,
        }
    }
}
