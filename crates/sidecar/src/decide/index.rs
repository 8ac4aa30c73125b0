//! The index: facts go in, decisions come out.
//!
//! A synchronous state machine without a cluster, a clock or a task, so that tests apply objects and compare the exact
//! patches. It keeps the [inventory](super::inventory) and notes which entries are dirty: a Pod event marks the entry of
//! its name, a node event those of the Pods on it. Decisions are made when a write is due, from the newest facts, so that
//! any number of events become one write.
//!
//! `intake` takes facts, `decisions` builds the views for the pure decisions, `outcomes` takes the results of writes and
//! lookups, `totals` counts.

mod decisions;
mod intake;
mod outcomes;
#[cfg(test)]
mod tests;
mod totals;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use pps_core::Reason;

pub use self::decisions::StatusWrite;
pub use self::totals::Totals;
use super::alias::Aliases;
use super::inventory::{
    CompactForm, Dirty, EntryIndex, KindCoverage, NodeAbsences, Pods, TrackedPps, Workloads,
};
use super::notices::Notices;
pub use super::placement::Placement;
pub use super::status::DropCheck;
use crate::facts::interest::{Interest, NewKeys};
use crate::facts::interner::Interner;
use crate::facts::store::Store;
use crate::facts::{GroupKind, NamespacedName, NodeFact, Notice, Subject, WorkloadFact, WorkloadKey};

/// Work that has come up since it was last taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// PPS objects whose status may have to be written.
    pub statuses: BTreeSet<NamespacedName>,
    /// Workloads whose generated PPS may have to be created, changed or deleted.
    pub generated: BTreeSet<WorkloadKey>,
    /// Nodes that went missing, or are missing no longer.
    pub absences: BTreeSet<Arc<str>>,
    /// Nodes that have appeared. Each is new until [`Index::on_node_settled`].
    pub new_nodes: BTreeSet<Arc<str>>,
    /// Pods that may have to be deleted, since they wait for a node that no longer exists.
    pub evictions: BTreeSet<NamespacedName>,
    /// How many Pods were bound to a node, by where that is, and by whether they carry the policy's annotation.
    pub bound_pods: BTreeMap<(Placement, bool), u64>,
    /// What users must know.
    pub notices: Vec<Notice>,
    /// What has to be listed again, because a PPS names a key whose values were not kept.
    pub relist: NewKeys,
    /// The PPS objects have to be listed again, in a list of this revision: their definition has changed.
    pub relist_objects: Option<u64>,
}

/// The state machine.
#[derive(Debug)]
pub struct Index {
    interest: Interest,
    interner: Interner,
    pods: Pods,
    nodes: Store<Arc<str>, NodeFact>,
    absences: NodeAbsences,
    /// Nodes that have only just appeared, and whether a state has a label that the node may get back.
    new_nodes: HashMap<Arc<str>, bool>,
    workloads: Workloads,
    /// Whether it is known which kinds of workloads can be watched at all.
    kinds_known: bool,
    objects: BTreeMap<NamespacedName, TrackedPps>,
    /// Follows the lists of the objects; the objects themselves are in `objects`, which is sorted.
    listed_objects: Store<NamespacedName, ()>,
    /// Whether a list of the objects is being read.
    is_listing_objects: bool,
    /// The revision of the newest list of the objects.
    objects_revision: u64,
    /// The first revision whose lists show the objects as the present definition does; earlier ones may hide states. It is
    /// 0 until a list was asked for because of a definition.
    definition_revision: u64,
    /// The objects by the names of their entries.
    entries: EntryIndex,
    /// The objects that name each workload.
    by_target: HashMap<WorkloadKey, BTreeSet<NamespacedName>>,
    /// Which of them governs each workload.
    governing: HashMap<WorkloadKey, NamespacedName>,
    /// For a Pod of one workload: the objects of other workloads that have an entry with its name, and must be examined
    /// when the Pod changes.
    borrowed: HashMap<NamespacedName, BTreeSet<NamespacedName>>,
    /// Workloads whose generated PPS is being written, and whether another write was asked for meanwhile.
    generating: HashMap<WorkloadKey, bool>,
    /// The aliases, which are no objects to record in.
    aliases: Aliases,
    reported: Notices,
    /// The size below which an object is kept, in bytes.
    size_limit: usize,
    compact_form: CompactForm,
    work: Work,
}

impl Index {
    /// An index that knows nothing yet. StatefulSets are watched; other kinds can be added.
    pub fn new(interest: Interest) -> Self {
        Self {
            interest,
            interner: Interner::default(),
            pods: Pods::default(),
            nodes: Store::default(),
            absences: NodeAbsences::default(),
            new_nodes: HashMap::new(),
            workloads: Workloads::new(GroupKind::stateful_set()),
            kinds_known: false,
            objects: BTreeMap::new(),
            listed_objects: Store::default(),
            is_listing_objects: false,
            objects_revision: 0,
            definition_revision: 0,
            entries: EntryIndex::default(),
            by_target: HashMap::new(),
            governing: HashMap::new(),
            borrowed: HashMap::new(),
            generating: HashMap::new(),
            aliases: Aliases::default(),
            reported: Notices::default(),
            size_limit: pps_core::size::DEFAULT_LIMIT,
            compact_form: CompactForm::default(),
            work: Work::default(),
        }
    }

    /// Sets the size below which an object is kept, in bytes.
    pub fn limit_object_size(&mut self, bytes: usize) {
        self.size_limit = bytes;
    }

    /// The size below which an object is kept, in bytes. A definition without the compact form is `OpenKruise`'s: there each
    /// entry has about as many bytes of managed fields, and what the `PolicyServer` gets includes them.
    fn object_limit(&self) -> usize {
        if self.compact_form.is_kept == Some(false) { self.size_limit / 2 } else { self.size_limit }
    }

    /// Sets whether large objects get the compact form; if not, those that have it lose it.
    pub fn allow_compact_form(&mut self, is_allowed: bool) {
        self.set_compact_form(CompactForm { is_off: !is_allowed, ..self.compact_form });
    }

    /// Sets whether the definition of PersistentPodState keeps the compact form. Until this is known, no object gets or
    /// loses it.
    pub fn set_compact_form_kept(&mut self, is_kept: bool) {
        self.set_compact_form(CompactForm { is_kept: Some(is_kept), ..self.compact_form });
    }

    /// Sets from how many states on an object gets the compact form, and below how many it loses it.
    pub fn set_compact_form_limits(&mut self, from: usize, until: usize) {
        self.set_compact_form(CompactForm { limits: (from, until), ..self.compact_form });
    }

    fn set_compact_form(&mut self, compact_form: CompactForm) {
        let before = std::mem::replace(&mut self.compact_form, compact_form);
        if before == compact_form {
            return;
        }
        let is_other_definition = before.is_kept != compact_form.is_kept;
        if is_other_definition
            && (before.is_kept.is_some() || self.objects_hidden_by_definition().next().is_some())
        {
            self.on_definition_changed();
        }
        self.reconsider_forms();
        // The limit may be another one.
        self.retry_exceeded();
        let hidden: Vec<NamespacedName> = self.objects_hidden_by_definition().cloned().collect();
        for key in hidden {
            self.report_unreadable(&key);
        }
    }

    fn reconsider_forms(&mut self) {
        for (key, object) in &mut self.objects {
            object.reconsider_form();
            self.work.statuses.insert(key.clone());
        }
    }

    /// The definition of PersistentPodState has changed: what was shown of the objects may be less than what is stored,
    /// until they are listed again. They are not listed at once, because the API server learns of the definition as late
    /// as the sidecar.
    pub fn on_definition_changed(&mut self) {
        self.definition_revision += 1;
        self.work.relist_objects = Some(self.definition_revision);
    }

    /// Whether the objects are known as the present definition shows them.
    fn has_current_objects(&self) -> bool {
        self.objects_revision >= self.definition_revision
    }

    /// Whether the API server shows all states of an object that has the compact form.
    fn shows_packed(&self) -> bool {
        self.compact_form.is_kept == Some(true) && self.has_current_objects()
    }

    /// What is known of the compact form. That the definition has it says nothing before the API server uses it.
    fn compact_form_in_use(&self) -> CompactForm {
        let is_kept = self.compact_form.is_kept.filter(|is_kept| !is_kept || self.has_current_objects());
        CompactForm { is_kept, ..self.compact_form }
    }

    fn objects_hidden_by_definition(&self) -> impl Iterator<Item = &NamespacedName> {
        self.objects.iter().filter(|(_, object)| object.is_hidden_by_definition()).map(|(key, _)| key)
    }

    /// Whether complete lists of everything have been seen, apart from the kinds of workloads that were added. Before
    /// that nothing is decided, because an object that is not listed yet looks like one that is gone. Nor is anything
    /// decided about a PPS before the kind of its workload is listed.
    pub fn is_complete(&self) -> bool {
        self.pods.complete().is_some() && self.nodes.complete().is_some() && self.is_interest_known()
    }

    /// Whether the PPS objects and the StatefulSets are known, and with them what is of interest in Pods and Nodes.
    pub fn is_interest_known(&self) -> bool {
        self.workloads.is_listed(&GroupKind::stateful_set()) && self.listed_objects.complete().is_some()
    }

    /// Takes the work that has come up.
    pub fn take_work(&mut self) -> Work {
        std::mem::take(&mut self.work)
    }

    /// Whether a recorded state that can be forgotten names this node, and the node does not exist.
    pub fn is_missing(&self, node: &str) -> bool {
        self.absences.of(node).is_some()
    }

    /// A workload, as the watches have shown it.
    pub fn workload(&self, key: &WorkloadKey) -> Option<&WorkloadFact> {
        self.workloads.get(key)
    }

    /// Whether a write of this object's status is on its way.
    pub fn is_status_write_in_flight(&self, key: &NamespacedName) -> bool {
        self.objects.get(key).is_some_and(TrackedPps::is_write_in_flight)
    }

    /// Whether this Pod has the policy's annotation and waits for a node.
    pub fn is_pending(&self, pod: &NamespacedName) -> bool {
        self.pods.is_pending(pod)
    }

    /// The UID of this Pod, if it has the policy's annotation and waits for a node.
    pub fn pending_uid(&self, pod: &NamespacedName) -> Option<&str> {
        self.pods.get(pod)?.pending.as_deref().map(|pending| pending.uid.as_str())
    }

    /// Brings up again all work that could not be decided while a list was incomplete, or was dropped by a standby.
    pub fn retry_all(&mut self) {
        if self.is_complete() {
            let dirty = self.objects.iter().filter(|(_, object)| !object.dirty.is_clean());
            self.work.statuses.extend(dirty.map(|(key, _)| key.clone()));
            self.work.generated.extend(self.workloads.keys().cloned());
            self.work.generated.extend(self.by_target.keys().chain(self.aliases.workloads()).cloned());
            self.retry_evictions();
        }
    }

    /// Retries every write that the API server refused as too large or did not store completely. It may accept it by now.
    pub fn retry_exceeded(&mut self) {
        for (key, object) in &mut self.objects {
            if object.compaction.is_refused() {
                object.reconsider_form();
                self.work.statuses.insert(key.clone());
            }
            if let Some(deferred) = object.capacity.reset() {
                object.dirty.mark_header();
                for pod in &deferred {
                    object.dirty.mark_entry(pod);
                }
                self.work.statuses.insert(key.clone());
            }
        }
    }

    /// This process begins to lead. Another one may have recorded states until now.
    pub fn begin_term(&mut self) {
        for object in self.objects.values_mut() {
            object.renewals.doubt();
        }
        self.retry_all();
    }

    /// Tries again every drop that the API server has not confirmed.
    pub fn retry_held_drops(&mut self) {
        for (key, object) in &mut self.objects {
            if object.release_drops() {
                self.work.statuses.insert(key.clone());
            }
        }
    }

    /// Reports to users, once until the workload's annotations change.
    pub fn report(&mut self, workload: &WorkloadKey, reason: Reason, message: String) {
        let Some(fact) = self.workloads.get(workload) else { return };
        if !self.reported.is_news(workload, reason, &message) {
            return;
        }
        let subject = Subject {
            api_version: fact.api_version.clone(),
            kind: workload.kind.kind.to_string(),
            object: workload.object.clone(),
            uid: fact.uid.to_string(),
        };
        self.work.notices.push(Notice { subject, reason, message });
    }

    // ---- What is dirty -------------------------------------------------------------------------------

    fn mark(&mut self, key: &NamespacedName, mark: impl FnOnce(&mut TrackedPps)) {
        if let Some(object) = self.objects.get_mut(key) {
            mark(object);
            self.work.statuses.insert(key.clone());
        }
    }

    /// Marks the entry of a Pod in the objects of its owners, past and present. A Pod without a known owner may still
    /// have the name of an entry, after an orphaning delete.
    fn mark_pod(&mut self, key: &NamespacedName, owners: &[Option<Arc<str>>]) {
        let claimed: Vec<NamespacedName> = owners
            .iter()
            .flatten()
            .filter_map(|uid| self.by_target.get(self.workloads.key_of(&key.namespace, uid)?))
            .flatten()
            .cloned()
            .collect();
        let concerned = if claimed.is_empty() { self.objects_with_entry(key) } else { claimed };
        for object in concerned.into_iter().chain(self.borrowed.remove(key).into_iter().flatten()) {
            self.mark(&object, |object| object.note_entry(&key.name));
            self.mark_surplus(&object);
        }
    }

    /// Marks the entries that have the name of a Pod of this workload although their object names another one: whether the
    /// Pod is a former one depends on whether its workload exists.
    fn mark_borrowed_from(&mut self, workload: &WorkloadKey, uid: &Arc<str>) {
        let namespace = &workload.object.namespace;
        let pods = self
            .pods
            .names_of(namespace, uid)
            .map(|name| NamespacedName { namespace: namespace.clone(), name: name.clone() });
        let borrowed: Vec<_> = pods.filter_map(|pod| self.borrowed.remove_entry(&pod)).collect();
        for (pod, objects) in borrowed {
            for object in objects {
                self.mark(&object, |object| object.note_entry(&pod.name));
            }
        }
    }

    /// Marks the surplus entries, if the workload has all the Pods that it wants by now.
    fn mark_surplus(&mut self, key: &NamespacedName) {
        let Some(object) = self.objects.get_mut(key).filter(|object| !object.surplus.is_empty()) else {
            return;
        };
        let workload = self.workloads.get(&object.workload);
        let living = |uid| self.pods.living(&key.namespace, uid);
        if workload.is_some_and(|workload| workload.demand.is_met_by(living(&workload.uid))) {
            object.mark_surplus();
            self.work.statuses.insert(key.clone());
        }
    }

    fn objects_with_entry(&self, pod: &NamespacedName) -> Vec<NamespacedName> {
        let has_entry =
            |key: &NamespacedName| self.objects.get(key).is_some_and(|object| object.has_entry(&pod.name));
        self.entries.candidates(pod).filter(has_entry).collect()
    }

    /// Marks the entries of the Pods on a node.
    fn mark_node(&mut self, node: &Arc<str>) {
        let pods: Vec<NamespacedName> = self.pods.on_node(node).cloned().collect();
        for pod in pods {
            let owner = self.pods.get(&pod).and_then(|fact| fact.owner.clone());
            self.mark_pod(&pod, &[owner]);
        }
    }

    /// Marks every entry of every object that names the workload.
    fn mark_target(&mut self, workload: &WorkloadKey) {
        let claims: Vec<NamespacedName> =
            self.by_target.get(workload).into_iter().flatten().cloned().collect();
        for object in claims {
            self.mark(&object, TrackedPps::note_all);
        }
    }

    /// Marks every entry of every object that names a workload of this kind.
    fn mark_kind(&mut self, kind: &GroupKind) {
        let claimed = self.by_target.iter().filter(|(workload, _)| workload.kind == *kind);
        let objects: Vec<NamespacedName> = claimed.flat_map(|(_, objects)| objects).cloned().collect();
        for object in objects {
            self.mark(&object, TrackedPps::note_all);
        }
    }

    /// Has the eviction of every Pending Pod examined: a node that could take one may have come or gone.
    fn retry_evictions(&mut self) {
        self.work.evictions.extend(self.pods.pending().cloned());
    }

    /// Follows whether a node that recorded states name exists.
    fn follow_node(&mut self, node: &Arc<str>) {
        let exists = self.nodes.complete().is_none() || self.nodes.get(node).is_some();
        if self.absences.follow(node, exists) {
            self.work.absences.insert(node.clone());
        }
    }

    /// Whether objects that target workloads of this kind can be decided.
    fn is_decidable(&self, kind: &GroupKind) -> bool {
        match self.workloads.coverage(kind) {
            KindCoverage::Listed | KindCoverage::Forbidden | KindCoverage::Unavailable => true,
            KindCoverage::Unlisted => false,
            KindCoverage::NotWatched => self.kinds_known,
        }
    }
}
