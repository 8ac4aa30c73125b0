//! The index: facts go in, decisions come out.
//!
//! A synchronous state machine without a cluster, a clock or a task, so that tests apply objects
//! and compare the exact patches. It routes facts to the parts that keep them, and notes which
//! entries are dirty: a Pod event marks the entry of its name, a node event those of the Pods on
//! it. Decisions are made when a write is due, from the newest facts, so that any number of events
//! become one write.

mod decisions;
mod intake;
mod outcomes;
#[cfg(test)]
mod tests;
mod totals;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_core::Reason;

pub use self::decisions::PodEviction;
pub use self::totals::Totals;
use super::events::Reported;
use super::generated_pps::Aliases;
use super::nodes::{Absence, Nodes};
use super::pods::Pods;
use super::pps_objects::PpsObjects;
use super::scope::Scope;
pub use super::status::form::CompactForm;
pub use super::status::{LossCheck, StatusWrite};
use super::tracked_pps::TrackedPps;
use super::workloads::Workloads;
use crate::facts::interest::Interest;
use crate::facts::interner::Interner;
use crate::facts::{GroupKind, NamespacedName, Notice, Subject, WorkloadFact, WorkloadKey};

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
    /// How many Pods were bound to a node, by where that is compared with their recorded state (the
    /// value of a metric's label), and by whether they carry the policy's annotation.
    pub bound_pods: BTreeMap<(&'static str, bool), u64>,
    pub notices: Vec<Notice>,
    /// The PPS objects have to be listed again, in a list of this revision: their definition has
    /// changed.
    pub relist_objects: Option<u64>,
}

#[derive(Debug, Default)]
pub struct Index {
    interest: Interest,
    interner: Interner,
    pods: Pods,
    nodes: Nodes,
    workloads: Workloads,
    objects: PpsObjects,
    aliases: Aliases,
    scope: Scope,
    reported: Reported,
    /// The size below which an object is kept, in bytes.
    pub size_limit: usize,
    compact_form: CompactForm,
    work: Work,
}

impl Index {
    /// An index that knows nothing yet. StatefulSets are watched; other kinds can be added.
    pub fn new(interest: Interest) -> Self {
        Self {
            interest,
            workloads: Workloads::new(GroupKind::stateful_set()),
            size_limit: pps_core::size::DEFAULT_LIMIT,
            ..Self::default()
        }
    }

    /// Limits the scope to the namespaces with these labels. The API server evaluates the selector.
    pub fn select_namespaces(&mut self, selector: &str) {
        selector.clone_into(&mut self.scope.selector);
    }

    /// A definition without the compact form is `OpenKruise`'s: there each entry has about as many
    /// bytes of managed fields, and what the `PolicyServer` gets includes them.
    fn object_limit(&self) -> usize {
        if self.compact_form.is_kept == Some(false) {
            self.size_limit / 2
        } else {
            self.size_limit
        }
    }

    /// Changes which objects get the compact form, and examines all again if that has changed
    /// anything.
    pub fn change_compact_form(&mut self, change: impl FnOnce(&mut CompactForm)) {
        let before = self.compact_form;
        change(&mut self.compact_form);
        let compact_form = self.compact_form;
        if before == compact_form {
            return;
        }
        let hidden = self
            .objects
            .tracked
            .iter()
            .filter(|(_, pps)| pps.fact.is_hidden_by_definition());
        let hidden: Vec<NamespacedName> = hidden.map(|(key, _)| key.clone()).collect();
        if before.is_kept != compact_form.is_kept
            && (before.is_kept.is_some() || !hidden.is_empty())
        {
            self.on_definition_changed();
        }
        self.reconsider_forms();
        // The limit may be another one.
        self.retry_exceeded();
        for key in hidden {
            self.report_unreadable(&key);
        }
    }

    /// Changes objects. Those for which `change` returns true may need a write.
    fn change_all(&mut self, mut change: impl FnMut(&mut TrackedPps) -> bool) {
        let changed = self
            .objects
            .tracked
            .iter_mut()
            .filter_map(|(key, object)| change(object).then_some(key));
        self.work.statuses.extend(changed.cloned());
    }

    fn reconsider_forms(&mut self) {
        self.change_all(|object| {
            object.reconsider_form();
            true
        });
    }

    /// The definition of PersistentPodState has changed: what was shown of the objects may be less
    /// than what is stored, until they are listed again. They are not listed at once, because the
    /// API server learns of the definition as late as the sidecar.
    pub fn on_definition_changed(&mut self) {
        self.objects.definition_revision += 1;
        self.work.relist_objects = Some(self.objects.definition_revision);
    }

    /// Whether the API server shows all states of an object that has the compact form.
    fn shows_packed(&self) -> bool {
        self.compact_form.is_kept == Some(true) && self.objects.is_current()
    }

    /// What is known of the compact form. That the definition has it means nothing until the API
    /// server uses it.
    fn compact_form_in_use(&self) -> CompactForm {
        let is_kept = self
            .compact_form
            .is_kept
            .filter(|is_kept| !is_kept || self.objects.is_current());
        CompactForm {
            is_kept,
            ..self.compact_form
        }
    }

    /// Whether complete lists of everything have been seen, apart from the kinds of workloads that
    /// were added. Before that nothing is decided, because an object that is not listed yet looks
    /// like one that is gone. Nor is anything decided about a PPS before the kind of its workload
    /// is listed.
    pub fn is_complete(&self) -> bool {
        self.pods.facts.complete().is_some()
            && self.nodes.facts.complete().is_some()
            && self.scope.is_listed()
            && self.is_interest_known()
    }

    /// Whether StatefulSets and PPS objects are known, and so the keys that are of interest in Pods
    /// and Nodes.
    pub fn is_interest_known(&self) -> bool {
        self.workloads.is_listed(&GroupKind::stateful_set())
            && self.objects.listed.complete().is_some()
    }

    pub fn take_work(&mut self) -> Work {
        std::mem::take(&mut self.work)
    }

    /// The nodes that the API server has to confirm as gone before their states are dropped.
    pub fn take_unconfirmed_nodes(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.nodes.unconfirmed)
    }

    /// Whether a recorded state that can be forgotten names this node, and the node does not exist.
    pub fn is_missing(&self, node: &str) -> bool {
        self.nodes.missing.contains_key(node)
    }

    pub fn workload(&self, key: &WorkloadKey) -> Option<&WorkloadFact> {
        self.workloads.get(key)
    }

    pub fn resource_version(&self, key: &NamespacedName) -> Option<&str> {
        self.objects
            .tracked
            .get(key)
            .map(|object| object.fact.resource_version.as_str())
    }

    pub fn pending_uid(&self, pod: &NamespacedName) -> Option<&str> {
        self.pods
            .facts
            .get(pod)?
            .pending
            .as_deref()
            .map(|pending| pending.uid.as_str())
    }

    /// Brings up all work again that could not be decided while a list was incomplete, or on a
    /// standby.
    pub fn retry_all(&mut self) {
        self.retry(|_| true);
    }

    /// Does the same for some namespaces.
    fn retry(&mut self, is_meant: impl Fn(&str) -> bool) {
        if self.is_complete() {
            let dirty = self
                .objects
                .tracked
                .iter()
                .filter(|(_, object)| !object.dirty.is_clean());
            let dirty = dirty
                .map(|(key, _)| key)
                .filter(|key| is_meant(&key.namespace));
            self.work.statuses.extend(dirty.cloned());
            let (targets, aliased) = (self.objects.by_target.keys(), self.aliases.waiting.values());
            let workloads = self.workloads.by_uid.values().chain(targets).chain(aliased);
            let workloads = workloads.filter(|workload| is_meant(&workload.object.namespace));
            self.work.generated.extend(workloads.cloned());
            let pending = self
                .pods
                .pending
                .iter()
                .filter(|pod| is_meant(&pod.namespace));
            self.work.evictions.extend(pending.cloned());
        }
    }

    /// Retries every write that the API server refused as too large or did not store completely. It
    /// may accept it by now.
    pub fn retry_exceeded(&mut self) {
        self.change_all(TrackedPps::retry_exceeded);
    }

    /// Tries again every drop and change that the API server has not confirmed.
    pub fn retry_held(&mut self) {
        self.change_all(TrackedPps::release_held);
    }

    /// Ends a round and examines the surplus entries. A round takes as long as the grace period of
    /// nodes.
    pub fn end_surplus_round(&mut self) {
        for (key, object) in &mut self.objects.tracked {
            let living = |workload: &WorkloadFact| self.pods.living(&key.namespace, &workload.uid);
            let workload = self.workloads.get(&object.workload);
            let is_met =
                workload.is_some_and(|workload| workload.demand.is_met_by(living(workload)));
            for (pod, rounds) in &mut object.surplus {
                *rounds = if is_met { rounds.saturating_add(1) } else { 0 };
                object.dirty.mark_entries([pod]);
                self.work.statuses.insert(key.clone());
            }
        }
    }

    /// This process begins to lead. Another one may have recorded states until now.
    pub fn begin_term(&mut self) {
        for object in self.objects.tracked.values_mut() {
            object.renewals.is_complete = false;
        }
        self.retry_all();
    }

    /// Reports to users, unless [`Reported`] remembers it.
    pub fn report(&mut self, workload: &WorkloadKey, reason: Reason, message: String) {
        let Some(fact) = self.workloads.get(workload) else {
            return;
        };
        if !self.reported.is_news(workload, reason, &message) {
            return;
        }
        let kind = &workload.kind.kind;
        let subject = Subject::new(&fact.api_version, kind, workload.object.clone(), &fact.uid);
        self.work.notices.push(Notice {
            subject,
            reason,
            message,
        });
    }

    fn report_on_target(&mut self, object: &NamespacedName, reason: Reason, message: String) {
        if let Some(workload) = self
            .objects
            .tracked
            .get(object)
            .map(|object| object.workload.clone())
        {
            self.report(&workload, reason, message);
        }
    }

    /// Reports an object that cannot be read on its workload: nothing can be written into the
    /// object itself.
    fn report_unreadable(&mut self, key: &NamespacedName) {
        let Some(fact) = self.objects.tracked.get(key).map(|object| &object.fact) else {
            return;
        };
        let (is_hidden, name) = (fact.is_hidden_by_definition(), &key.name);
        let Some(error) = &fact.unreadable else {
            return;
        };
        let message = match self.compact_form.is_kept {
            Some(false) if is_hidden => format!(
                "apply this product's definition of PersistentPodState again: the present one has \
                 no field status.packed and hides the states of {name}; do not change or delete \
                 the object until then, nothing is recorded in it"
            ),
            _ if is_hidden => return,
            _ => format!(
                "correct PersistentPodState {name}: it cannot be read, so nothing is recorded in \
                 it: {error}"
            ),
        };
        self.report_on_target(key, Reason::UnreadableObject, message);
    }

    fn mark(&mut self, key: &NamespacedName, mark: impl FnOnce(&mut TrackedPps)) {
        if let Some(object) = self.objects.tracked.get_mut(key) {
            mark(object);
            self.work.statuses.insert(key.clone());
        }
    }

    /// Marks the entry of a Pod in the objects of its owners, past and present, and in all others
    /// that have an entry of its name: the Pod may be one of theirs after an orphaning delete, or
    /// if they targeted its workload before.
    fn mark_pod(&mut self, key: &NamespacedName, owners: &[Option<Arc<str>>]) {
        let workloads = owners
            .iter()
            .flatten()
            .filter_map(|uid| self.workloads.key_of(&key.namespace, uid));
        let claims = workloads
            .flat_map(|workload| self.objects.claims(workload))
            .cloned();
        let concerned: BTreeSet<NamespacedName> =
            claims.chain(self.objects.with_entry(key)).collect();
        for object in concerned {
            self.mark(&object, |object| object.note_entry(&key.name));
        }
    }

    /// Marks the entries that have the name of a Pod of this workload, in whichever object: whether
    /// the Pod is a former one depends on whether its workload exists.
    fn mark_pods_of(&mut self, workload: &WorkloadKey, uid: &Arc<str>) {
        let namespace = &workload.object.namespace;
        for name in self
            .pods
            .names_of(namespace, uid)
            .cloned()
            .collect::<Vec<_>>()
        {
            let pod = NamespacedName {
                namespace: namespace.clone(),
                name,
            };
            for object in self.objects.with_entry(&pod) {
                self.mark(&object, |object| object.note_entry(&pod.name));
            }
        }
    }

    fn mark_node(&mut self, node: &Arc<str>) {
        for pod in self.pods.on_node(node).cloned().collect::<Vec<_>>() {
            let owner = self
                .pods
                .facts
                .get(&pod)
                .and_then(|fact| fact.owner.clone());
            self.mark_pod(&pod, &[owner]);
        }
    }

    fn mark_target(&mut self, workload: &WorkloadKey) {
        for object in self.objects.claims(workload).cloned().collect::<Vec<_>>() {
            self.mark(&object, TrackedPps::note_all);
        }
    }

    fn mark_kind(&mut self, kind: &GroupKind) {
        let claims = self
            .objects
            .by_target
            .iter()
            .filter(|(workload, _)| workload.kind == *kind);
        for object in claims
            .flat_map(|(_, objects)| objects)
            .cloned()
            .collect::<Vec<_>>()
        {
            self.mark(&object, TrackedPps::note_all);
        }
    }

    /// Follows whether a node that recorded states name exists.
    fn follow_node(&mut self, node: &Arc<str>) {
        let nodes = &mut self.nodes;
        let exists = nodes.facts.complete().is_none() || nodes.facts.get(node).is_some();
        let is_missing = !exists && nodes.entries.contains_key(node);
        if is_missing == nodes.missing.contains_key(node) {
            return;
        }
        if is_missing {
            nodes.missing.insert(node.clone(), Absence::InGracePeriod);
        } else {
            nodes.missing.remove(node);
        }
        self.work.absences.insert(node.clone());
    }
}
