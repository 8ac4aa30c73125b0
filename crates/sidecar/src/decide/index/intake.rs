//! Facts in: what the watches report, and which entries that makes dirty.

use std::sync::Arc;

use pps_core::{Reason, Spec, generate};

use super::Index;
use crate::decide::alias::Alias;
use crate::decide::generated_pps::target_of;
use crate::decide::inventory::{Source, TrackedPps};
use crate::decide::placement;
use crate::facts::store::{Put, Update};
use crate::facts::{GroupKind, NamespacedName, NodeFact, PodFact, PpsFact, WorkloadFact, WorkloadKey};

impl Index {
    // ---- Pods ------------------------------------------------------------------------------------

    /// Takes an update of the Pod watch.
    pub fn apply_pods(&mut self, update: Update<NamespacedName, PodFact>) {
        match update {
            Update::Begin(revision) => self.pods.begin_list(revision),
            Update::Apply(key, fact) => self.apply_pod(&key, fact),
            Update::Delete(key) => self.delete_pod(&key),
            Update::Done => {
                for key in self.pods.end_list() {
                    self.delete_pod(&key);
                }
                self.retry_all();
            }
        }
    }

    fn apply_pod(&mut self, key: &NamespacedName, mut fact: PodFact) {
        let key = &self.interner.intern_name(key);
        fact.annotations.sort_unstable();
        if self.pods.set_pending(key, fact.pending.is_some()) {
            self.work.evictions.insert(key.clone());
        }
        if self.pods.get(key) != Some(&fact) {
            for name in [&mut fact.owner, &mut fact.node].into_iter().flatten() {
                *name = self.interner.intern(name);
            }
            self.interner.intern_pairs(&mut fact.annotations);
        }
        let (owner, node) = (fact.owner.clone(), fact.node.clone().filter(|_| !fact.terminating));
        let owner_before = match self.pods.apply(key, fact) {
            Put::Known => return,
            Put::New => None,
            Put::Changed(before) => {
                if before.node.is_none() {
                    self.count_bound_pod(key);
                } else if before.node == node
                    && let Some(owner) = owner.as_ref().filter(|owner| before.owner.as_ref() != Some(owner))
                {
                    // A workload has adopted the Pod, which may be gone before the next decision.
                    for object in self.objects_with_entry(key) {
                        let adopted = (key.name.clone(), owner.clone());
                        self.mark(&object, |object| object.renewals.workloads.extend([adopted]));
                    }
                }
                before.owner
            }
        };
        self.mark_pod(key, &[owner_before, owner]);
    }

    /// Counts a Pod that has just been bound to a node, if a PPS governs its workload. The Pod is not Ready yet, so its
    /// state is that of its predecessor.
    fn count_bound_pod(&mut self, key: &NamespacedName) {
        let Some(pod) = self.pods.get(key) else { return };
        let pps = pod.owner.as_ref().and_then(|owner| self.workloads.key_of(&key.namespace, owner));
        let pps = pps.and_then(|workload| self.objects.get(self.governing.get(workload)?));
        if let Some(node) = &pod.node
            && let Some(pps) = pps.filter(|pps| pps.fact.unreadable.is_none() && self.is_complete())
        {
            let state = pps.fact.status.pod_states.get(&key.name);
            let placement = placement::compare(&pps.fact.spec, state.as_ref(), node, self.nodes.get(node));
            *self.work.bound_pods.entry((placement, pod.injected)).or_default() += 1;
        }
    }

    fn delete_pod(&mut self, key: &NamespacedName) {
        if let Some(before) = self.pods.remove(key) {
            if self.pods.set_pending(key, false) {
                self.work.evictions.insert(key.clone());
            }
            self.mark_pod(key, &[before.owner]);
        }
    }

    // ---- Nodes -----------------------------------------------------------------------------------

    /// Takes an update of the Node watch.
    pub fn apply_nodes(&mut self, update: Update<Arc<str>, NodeFact>) {
        match update {
            Update::Begin(revision) => self.nodes.begin(revision),
            Update::Apply(name, mut fact) => {
                let name = self.interner.intern(&name);
                fact.labels.sort_unstable();
                self.interner.intern_pairs(&mut fact.labels);
                let put = self.nodes.put(&name, fact);
                match &put {
                    Put::New => {
                        self.new_nodes.insert(name.clone(), false);
                        self.work.new_nodes.insert(name.clone());
                    }
                    // A label that the node has had was taken away.
                    Put::Changed(before) if self.has_lost_label(&name, before) => self.on_node_settled(&name),
                    Put::Changed(_) | Put::Known => {}
                }
                if put != Put::Known {
                    self.on_node_changed(&name);
                }
            }
            Update::Delete(name) => {
                if self.nodes.remove(&name).is_some() {
                    self.new_nodes.remove(&name);
                    self.on_node_changed(&name);
                }
            }
            Update::Done => {
                for name in self.nodes.done() {
                    self.nodes.remove(&name);
                    self.new_nodes.remove(&name);
                    self.mark_node(&name);
                }
                for node in self.absences.named() {
                    self.follow_node(&node);
                }
                self.retry_all();
            }
        }
    }

    fn has_lost_label(&self, node: &Arc<str>, before: &NodeFact) -> bool {
        let now = self.nodes.get(node);
        now.is_some_and(|now| before.labels.iter().any(|(key, _)| now.label(key).is_none()))
    }

    /// A node has existed for so long that a label which it lacks is not on its way.
    pub fn on_node_settled(&mut self, node: &Arc<str>) {
        if self.new_nodes.remove(node) == Some(true) {
            self.mark_node(node);
        }
    }

    fn on_node_changed(&mut self, name: &Arc<str>) {
        self.mark_node(name);
        self.follow_node(name);
        self.retry_evictions();
    }

    // ---- Workloads -------------------------------------------------------------------------------

    /// Starts to accept workloads of this kind. Until they are listed, nothing is decided about the objects that name
    /// one.
    pub fn watch_kind(&mut self, kind: GroupKind) {
        self.workloads.watch(kind);
    }

    /// Stops accepting workloads of this kind. Their recorded states stay unchanged.
    pub fn unwatch_kind(&mut self, kind: &GroupKind) {
        if self.workloads.unwatch(kind) {
            self.reported.retain(|key| key.kind != *kind);
            self.mark_kind(kind);
        }
    }

    /// Sets whether the API server refuses to list or watch workloads of this kind.
    pub fn forbid_kind(&mut self, kind: &GroupKind, forbidden: bool) {
        if self.workloads.set_forbidden(kind, forbidden) {
            self.mark_kind(kind);
        }
    }

    /// Sets whether the watch of this kind fails.
    pub fn set_kind_failing(&mut self, kind: &GroupKind, failing: bool) {
        if self.workloads.set_failing(kind, failing) {
            self.mark_kind(kind);
        }
    }

    /// Notes that all kinds that can be watched are known: from now on, the condition of a PPS says if the kind that it
    /// names is not one of them.
    pub fn set_kinds_known(&mut self) {
        if !self.kinds_known {
            self.kinds_known = true;
            self.retry_all();
        }
    }

    /// Takes an update of the watch of a kind of workloads; ignores it if the kind is not watched any longer.
    pub fn apply_workloads(&mut self, kind: &GroupKind, update: Update<NamespacedName, WorkloadFact>) {
        let key = |object| WorkloadKey { object, kind: kind.clone() };
        match update {
            Update::Begin(revision) => self.workloads.begin_list(kind, revision),
            Update::Apply(object, fact) => self.apply_workload(&key(object), fact),
            Update::Delete(object) => self.delete_workload(&key(object)),
            Update::Done => {
                let first = !self.workloads.is_listed(kind);
                let Some(gone) = self.workloads.end_list(kind) else { return };
                for object in gone {
                    self.delete_workload(&key(object));
                }
                if first {
                    self.mark_kind(kind);
                }
                self.retry_all();
            }
        }
    }

    fn apply_workload(&mut self, key: &WorkloadKey, mut fact: WorkloadFact) {
        if !self.workloads.is_watched(&key.kind) {
            return;
        }
        let key = self.interner.intern_workload_key(key);
        fact.uid = self.interner.intern(&fact.uid);
        let before = self.workloads.get(&key);
        let uid_before = before.map(|before| before.uid.clone());
        if before.is_none_or(|before| before.annotations != fact.annotations) {
            self.reported.forget(&key);
            let request = generate::read_request(&target_of(&key, &fact), &fact.annotations);
            if let Ok(Some(request)) = request {
                self.extend_interest(&request.spec);
            }
        }
        let uid = fact.uid.clone();
        if self.workloads.apply(&key, fact) {
            self.mark_target(&key);
            if uid_before.as_ref() != Some(&uid) {
                uid_before.into_iter().chain([uid]).for_each(|uid| self.mark_borrowed_from(&key, &uid));
            }
            self.work.generated.insert(key);
        }
    }

    fn delete_workload(&mut self, key: &WorkloadKey) {
        if let Some(before) = self.workloads.remove(key) {
            self.reported.forget(key);
            self.mark_target(key);
            self.mark_borrowed_from(key, &before.uid);
        }
    }

    // ---- PPS objects -----------------------------------------------------------------------------

    /// Takes an update of the watch of PPS objects.
    pub fn apply_objects(&mut self, update: Update<NamespacedName, Box<PpsFact>>) {
        match update {
            Update::Begin(revision) => {
                self.is_listing_objects = true;
                self.objects_revision = revision;
                self.listed_objects.begin(revision);
            }
            Update::Apply(key, fact) => {
                self.listed_objects.put(&key, ());
                let source = if self.is_listing_objects { Source::List } else { Source::Event };
                self.apply_object(&key, *fact, source);
            }
            Update::Delete(key) => self.delete_object(&key),
            Update::Done => {
                self.is_listing_objects = false;
                let was_outdated =
                    self.listed_objects.complete().is_some_and(|of| of < self.definition_revision);
                for key in self.listed_objects.done() {
                    self.delete_object(&key);
                }
                if was_outdated && self.has_current_objects() {
                    self.reconsider_forms();
                }
                self.retry_all();
            }
        }
    }

    /// Takes what a read of an object has shown; nothing if there is no such object. `known_version` is the version that was
    /// known when the read began: if an event has brought another one since, the read may be older.
    pub fn on_object_read(&mut self, key: &NamespacedName, known_version: &str, fact: Option<Box<PpsFact>>) {
        if self.resource_version(key) != Some(known_version) {
            return;
        }
        match fact {
            Some(fact) => self.apply_object(key, *fact, Source::List),
            None => self.delete_object(key),
        }
    }

    /// The version of an object that is known.
    pub fn resource_version(&self, key: &NamespacedName) -> Option<&str> {
        self.objects.get(key).map(|object| object.fact.resource_version.as_str())
    }

    pub(super) fn apply_object(&mut self, key: &NamespacedName, mut fact: PpsFact, source: Source) {
        let key = &self.interner.intern_name(key);
        self.forget_alias(key);
        if let Some(alias) = Alias::of(&fact) {
            self.forget_object(key);
            self.aliases.insert(key, alias);
            return self.on_alias_changed(key);
        }
        self.extend_interest(&fact.spec);
        fact.status.pod_states.intern(&mut self.interner);
        let is_known = self
            .objects
            .get(key)
            .is_some_and(|known| known.fact.uid == fact.uid && known.fact.unreadable.is_none());
        let is_first_definition = self.definition_revision == 0;
        let shows_packed = self.shows_packed();
        if !is_known
            && fact.unreadable.is_none()
            && fact.status.may_hide_states()
            && (is_first_definition || !shows_packed)
        {
            fact.hide();
            // Perhaps the API server has begun to use the definition only after the first list.
            if is_first_definition && shows_packed {
                self.on_definition_changed();
            }
        }
        let workload = WorkloadKey::of_target(&key.namespace, &fact.spec.target_ref);
        let workload = self.interner.intern_workload_key(&workload);
        let before = self.objects.get(key).map(|object| object.workload.clone());
        let replaced = if let Some(object) = self.objects.get_mut(key)
            && object.fact.uid == fact.uid
        {
            let Some(replaced) = object.refresh(fact, source, shows_packed) else { return };
            object.workload = workload.clone();
            Some(replaced)
        } else {
            let object = TrackedPps::new(workload.clone(), fact);
            self.objects.insert(key.clone(), object).map(|replaced| replaced.fact)
        };
        self.follow_entries(key, replaced.as_ref());
        if let Some(before) = before.filter(|before| *before != workload) {
            self.unlink_target(&before, key);
            self.on_target_changed(&before);
        }
        self.by_target.entry(workload.clone()).or_default().insert(key.clone());
        self.on_object_changed(key, &workload);
        self.report_unreadable(key);
    }

    /// Reports an object that cannot be read on its workload, because nothing can be written into the object itself.
    pub(super) fn report_unreadable(&mut self, key: &NamespacedName) {
        let Some(object) = self.objects.get(key) else { return };
        let is_hidden = object.is_hidden_by_definition();
        if is_hidden && self.compact_form.is_kept != Some(false) {
            return;
        }
        if let Some(error) = &object.fact.unreadable {
            let name = &key.name;
            let message = if is_hidden {
                format!(
                    "apply this product's definition of PersistentPodState again: the present one has no field status.packed and hides the states of {name}; do not change or delete the object until then, nothing is recorded in it"
                )
            } else {
                format!(
                    "correct PersistentPodState {name}: it cannot be read, so nothing is recorded in it: {error}"
                )
            };
            let workload = object.workload.clone();
            self.report(&workload, Reason::UnreadableObject, message);
        }
    }

    fn delete_object(&mut self, key: &NamespacedName) {
        self.listed_objects.remove(key);
        self.forget_alias(key);
        self.forget_object(key);
    }

    fn forget_alias(&mut self, key: &NamespacedName) {
        if self.aliases.remove(key) {
            self.on_alias_changed(key);
        }
    }

    fn forget_object(&mut self, key: &NamespacedName) {
        if let Some(object) = self.objects.remove(key) {
            self.follow_entries(key, Some(&object.fact));
            self.unlink_target(&object.workload, key);
            self.on_object_changed(key, &object.workload);
        }
    }

    fn unlink_target(&mut self, workload: &WorkloadKey, object: &NamespacedName) {
        if let Some(claims) = self.by_target.get_mut(workload) {
            claims.remove(object);
            if claims.is_empty() {
                self.by_target.remove(workload);
            }
        }
    }

    /// An object was created, changed or deleted: another one may govern the workload now, and a workload may need a
    /// generated one.
    fn on_object_changed(&mut self, key: &NamespacedName, workload: &WorkloadKey) {
        self.mark(key, TrackedPps::note_all);
        self.on_target_changed(workload);
        self.on_alias_changed(key);
    }

    /// The objects that name this workload are others now, or one of them has changed. The rest concerns that only if
    /// another one governs the workload.
    fn on_target_changed(&mut self, workload: &WorkloadKey) {
        if self.choose_governing(workload) {
            self.mark_target(workload);
        }
        self.work.generated.insert(workload.clone());
    }

    /// An object of this name, alias or not, was created, changed or deleted: workloads may want the name.
    fn on_alias_changed(&mut self, key: &NamespacedName) {
        self.work.generated.extend(self.aliases.waiting_for(key).cloned());
        for kind in self.workloads.kinds() {
            self.work.generated.insert(WorkloadKey { object: key.clone(), kind: kind.clone() });
        }
    }

    /// Follows the entries of an object, and the nodes that they name now, or named before. Only after both were taken into
    /// account, so that nothing changes for a node that is named as before.
    fn follow_entries(&mut self, key: &NamespacedName, before: Option<&PpsFact>) {
        let after = self.objects.get(key).map(|object| &object.fact);
        self.entries.replace(key, [before, after]);
        for node in self.absences.replace(key, before, after) {
            self.follow_node(&node);
        }
    }

    /// Adds the keys that a spec names to what is kept of Pods and Nodes.
    fn extend_interest(&mut self, spec: &Spec) {
        if spec.exceeds_limits().is_some() {
            return;
        }
        let grown = self.interest.add_keys(spec);
        self.work.relist.labels |= grown.labels;
        self.work.relist.annotations |= grown.annotations;
        if self.interest.is_crowded() {
            let specs = self.objects.values().flat_map(TrackedPps::specs);
            self.interest.keep_only(specs.chain([spec]));
        }
    }
}
