//! Facts in: what the watches report, and which entries that makes dirty.

use std::sync::Arc;

use pps_core::Spec;
use pps_core::governing::aliased;

use super::Index;
use crate::decide::tracked_pps::{Source, TrackedPps};
use crate::facts::store::{Put, Update};
use crate::facts::{
    GroupKind, NamespacedName, NodeFact, PodFact, PpsFact, WatchState, WorkloadFact, WorkloadKey,
};
use crate::record::compare_placement;

impl Index {
    pub fn apply_pods(&mut self, update: Update<NamespacedName, PodFact>) {
        let (changes, is_done) = self.pods.facts.changes(update);
        for (key, fact) in changes {
            match fact {
                Some(fact) => self.apply_pod(&key, fact),
                None => self.delete_pod(&key),
            }
        }
        if is_done {
            self.retry_all();
        }
    }

    fn apply_pod(&mut self, key: &NamespacedName, mut fact: PodFact) {
        let key = &self.interner.intern_name(key);
        fact.annotations.sort_unstable();
        if self.pods.set_pending(key, fact.pending.is_some()) {
            self.work.evictions.insert(key.clone());
        }
        if self.pods.facts.get(key) != Some(&fact) {
            for name in [&mut fact.owner, &mut fact.node].into_iter().flatten() {
                *name = self.interner.intern(name);
            }
            self.interner.intern_pairs(&mut fact.annotations);
        }
        let (owner, node) = (
            fact.owner.clone(),
            fact.node.clone().filter(|_| !fact.terminating),
        );
        let owner_before = match self.pods.apply(key, fact) {
            Put::Known => return,
            Put::New => None,
            Put::Changed(before) => {
                if before.node.is_none() {
                    self.count_bound_pod(key);
                } else if before.node == node
                    && let Some(owner) = owner
                        .as_ref()
                        .filter(|owner| before.owner.as_ref() != Some(owner))
                {
                    // A workload has adopted the Pod, which may be gone before the next decision.
                    for object in self.objects.with_entry(key) {
                        let adopted = (key.name.clone(), owner.clone());
                        self.mark(&object, |object| {
                            object.renewals.workloads.extend([adopted]);
                        });
                    }
                }
                before.owner
            }
        };
        self.mark_pod(key, &[owner_before, owner]);
    }

    /// Counts a Pod that has just been bound to a node, if a PPS governs its workload. The Pod is
    /// not Ready yet, so its state is that of its predecessor.
    fn count_bound_pod(&mut self, key: &NamespacedName) {
        let Some(pod) = self.pods.facts.get(key) else {
            return;
        };
        let workload = pod
            .owner
            .as_ref()
            .and_then(|owner| self.workloads.key_of(&key.namespace, owner));
        let governing = workload.and_then(|workload| self.objects.governing(workload));
        if let Some(node) = &pod.node
            && let Some((_, pps)) = governing.filter(|(_, pps)| pps.fact.unreadable.is_none())
            && self.is_complete()
            && self.scope.contains(&key.namespace)
        {
            let state = pps.fact.status.pod_states.get(&key.name);
            let fact = self.nodes.facts.get(node);
            let placement = compare_placement(&pps.fact.spec, state.as_ref(), node, fact);
            *self
                .work
                .bound_pods
                .entry((placement, pod.injected))
                .or_default() += 1;
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

    pub fn apply_nodes(&mut self, update: Update<Arc<str>, NodeFact>) {
        let (changes, is_done) = self.nodes.facts.changes(update);
        for (name, fact) in changes {
            match fact {
                Some(fact) => self.apply_node(&name, fact),
                None if !self.nodes.remove(&name) => {}
                None if is_done => self.mark_node(&name),
                None => self.on_node_changed(&name),
            }
        }
        if is_done {
            for node in self.nodes.entries.keys().cloned().collect::<Vec<_>>() {
                self.follow_node(&node);
            }
            self.retry_all();
        }
    }

    /// Takes an update of the watch of the namespaces in scope.
    pub fn apply_namespaces(&mut self, update: Update<Arc<str>, ()>) {
        let (changed, is_done) = self.scope.namespaces.apply(update);
        for name in changed {
            self.change_all(|object| {
                let is_in_it = object.workload.object.namespace == name;
                is_in_it.then(|| object.note_all()).is_some()
            });
            self.retry(|namespace| *namespace == *name);
        }
        if is_done {
            self.retry_all();
        }
    }

    fn apply_node(&mut self, name: &Arc<str>, mut fact: NodeFact) {
        let name = self.interner.intern(name);
        fact.labels.sort_unstable();
        self.interner.intern_pairs(&mut fact.labels);
        match self.nodes.facts.put(&name, fact) {
            Put::Known => return,
            Put::New => {
                self.nodes.new.insert(name.clone(), false);
                self.work.new_nodes.insert(name.clone());
            }
            Put::Changed(before) => {
                let now = self.nodes.facts.get(&name);
                let is_lost = |key: &str| now.is_some_and(|now| now.label(key).is_none());
                // A label that the node has had was taken away.
                if before.labels.iter().any(|(key, _)| is_lost(key)) {
                    self.on_node_settled(&name);
                }
            }
        }
        self.on_node_changed(&name);
    }

    /// A node has existed for so long that a label which it lacks is not on its way.
    pub fn on_node_settled(&mut self, node: &Arc<str>) {
        if self.nodes.new.remove(node) == Some(true) {
            self.mark_node(node);
        }
    }

    fn on_node_changed(&mut self, name: &Arc<str>) {
        self.mark_node(name);
        self.follow_node(name);
        // A node that could take a Pending Pod may have come or gone.
        self.work
            .evictions
            .extend(self.pods.pending.iter().cloned());
    }

    /// Starts to accept workloads of this kind from a new watch. Until they are listed, nothing is
    /// decided about the objects that name one.
    pub fn watch_kind(&mut self, kind: GroupKind) {
        self.set_watch_state(&kind, WatchState::Up);
        self.workloads.kinds.entry(kind).or_default();
    }

    /// Stops accepting workloads of this kind. Their recorded states stay unchanged.
    pub fn unwatch_kind(&mut self, kind: &GroupKind) {
        if self.workloads.unwatch(kind) {
            self.reported.forget_kind(kind);
            self.mark_kind(kind);
        }
    }

    pub fn set_watch_state(&mut self, kind: &GroupKind, state: WatchState) {
        let before = self.workloads.coverage(kind);
        if let Some(known) = self.workloads.kinds.get_mut(kind) {
            known.watch = state;
        }
        if self.workloads.coverage(kind) != before {
            self.mark_kind(kind);
        }
    }

    /// Notes that all kinds that can be watched are known: from now on, the condition of a PPS says
    /// if the kind that it names is not one of them.
    pub fn set_kinds_known(&mut self) {
        if !std::mem::replace(&mut self.workloads.kinds_known, true) {
            self.retry_all();
        }
    }

    /// Takes an update of the watch of a kind of workloads; ignores it if the kind is not watched
    /// any longer.
    pub fn apply_workloads(
        &mut self,
        kind: &GroupKind,
        update: Update<NamespacedName, WorkloadFact>,
    ) {
        let Some(known) = self.workloads.kinds.get_mut(kind) else {
            return;
        };
        let is_first = known.facts.complete().is_none();
        let (changes, is_done) = known.facts.changes(update);
        for (object, fact) in changes {
            let key = WorkloadKey {
                object,
                kind: kind.clone(),
            };
            match fact {
                Some(fact) => self.apply_workload(&key, fact),
                None => self.delete_workload(&key),
            }
        }
        if is_done {
            if is_first {
                self.mark_kind(kind);
            }
            self.retry_all();
        }
    }

    fn apply_workload(&mut self, key: &WorkloadKey, mut fact: WorkloadFact) {
        let key = self.interner.intern_workload_key(key);
        fact.uid = self.interner.intern(&fact.uid);
        let before = self.workloads.get(&key);
        let uid_before = before.map(|before| before.uid.clone());
        if before.is_none_or(|before| before.annotations != fact.annotations) {
            self.reported.forget(&key);
        }
        let uid = fact.uid.clone();
        if self.workloads.apply(&key, fact) {
            self.mark_target(&key);
            if uid_before.as_ref() != Some(&uid) {
                uid_before
                    .into_iter()
                    .chain([uid])
                    .for_each(|uid| self.mark_pods_of(&key, &uid));
            }
            self.work.generated.insert(key);
        }
    }

    fn delete_workload(&mut self, key: &WorkloadKey) {
        if let Some(before) = self.workloads.remove(key) {
            self.reported.forget(key);
            self.mark_target(key);
            self.mark_pods_of(key, &before.uid);
        }
    }

    pub fn apply_objects(&mut self, update: Update<NamespacedName, Box<PpsFact>>) {
        let was_outdated = self
            .objects
            .listed
            .complete()
            .is_some_and(|of| of < self.objects.definition_revision);
        let (changes, is_done) = self.objects.listed.changes(update);
        for (key, fact) in changes {
            if let Some(fact) = fact {
                let source = self.objects.note_listed(&key);
                self.apply_object(&key, *fact, source);
            } else {
                self.delete_object(&key);
            }
        }
        if is_done {
            // This list is the first one that shows the objects as the present definition does.
            if was_outdated && self.objects.is_current() {
                self.reconsider_forms();
            }
            self.retry_all();
        }
    }

    /// Takes what a read of an object has shown; nothing if there is no such object.
    /// `known_version` is the version that was known when the read began: if an event has brought
    /// another version since, which may wait for a write in flight, the read may be older.
    pub fn on_object_read(
        &mut self,
        key: &NamespacedName,
        known_version: &str,
        fact: Option<Box<PpsFact>>,
    ) {
        let waits = self
            .objects
            .tracked
            .get(key)
            .is_some_and(|object| object.superseding.is_some());
        if waits || self.resource_version(key) != Some(known_version) {
            return;
        }
        match fact {
            Some(fact) => self.apply_object(key, *fact, Source::List),
            None => self.delete_object(key),
        }
    }

    pub(super) fn apply_object(&mut self, key: &NamespacedName, mut fact: PpsFact, source: Source) {
        let key = &self.interner.intern_name(key);
        self.forget_alias(key);
        if aliased(&fact.spec.target_ref).is_some() {
            self.forget_object(key);
            self.aliases.refused.remove(key);
            self.aliases.objects.insert(key.clone(), fact);
            return self.on_name_changed(key);
        }
        self.extend_interest(&fact.spec);
        fact.status.pod_states.intern(&mut self.interner);
        let shows_packed = self.shows_packed();
        self.hide_if_unknown(key, &mut fact, shows_packed);
        let workload = WorkloadKey::of_target(&key.namespace, &fact.spec.target_ref);
        let workload = self.interner.intern_workload_key(&workload);
        let before = self
            .objects
            .tracked
            .get(key)
            .map(|object| object.workload.clone());
        let replaced = if let Some(object) = self.objects.tracked.get_mut(key)
            && object.fact.uid == fact.uid
        {
            let Some(replaced) = object.refresh(fact, source, shows_packed) else {
                return;
            };
            object.workload = workload.clone();
            Some(replaced)
        } else {
            let object = TrackedPps::new(workload.clone(), fact);
            self.objects
                .tracked
                .insert(key.clone(), object)
                .map(|replaced| replaced.fact)
        };
        self.follow_entries(key, replaced.as_ref());
        if let Some(before) = before.filter(|before| *before != workload) {
            self.objects.unlink(&before, key);
            self.on_claims_changed(&before);
        }
        self.objects.link(&workload, key);
        self.on_object_changed(key, &workload);
        self.report_unreadable(key);
    }

    /// Marks an object that was never read before as unreadable, if the definition may hide states
    /// of it.
    fn hide_if_unknown(&mut self, key: &NamespacedName, fact: &mut PpsFact, shows_packed: bool) {
        let is_it =
            |known: &TrackedPps| known.fact.uid == fact.uid && known.fact.unreadable.is_none();
        let is_first_definition = self.objects.definition_revision == 0;
        if self.objects.tracked.get(key).is_some_and(is_it)
            || fact.unreadable.is_some()
            || !fact.status.may_hide_states()
            || (shows_packed && !is_first_definition)
        {
            return;
        }
        // Whatever was written to it would make the loss of its states permanent.
        fact.unreadable = Some(
            "status.packed: the API server hides the recorded states; apply this product's \
             definition of PersistentPodState again"
                .into(),
        );
        // Perhaps the API server has begun to use the definition only after the first list.
        if is_first_definition && shows_packed {
            self.on_definition_changed();
        }
    }

    fn delete_object(&mut self, key: &NamespacedName) {
        self.objects.listed.remove(key);
        self.forget_alias(key);
        self.forget_object(key);
    }

    fn forget_alias(&mut self, key: &NamespacedName) {
        if self.aliases.objects.remove(key).is_some() {
            self.on_name_changed(key);
        }
    }

    fn forget_object(&mut self, key: &NamespacedName) {
        if let Some(object) = self.objects.tracked.remove(key) {
            self.follow_entries(key, Some(&object.fact));
            self.objects.unlink(&object.workload, key);
            self.on_object_changed(key, &object.workload);
        }
    }

    /// An object was created, changed or deleted: another one may govern the workload now, and a
    /// workload may need a generated one.
    fn on_object_changed(&mut self, key: &NamespacedName, workload: &WorkloadKey) {
        self.mark(key, TrackedPps::note_all);
        self.on_claims_changed(workload);
        self.on_name_changed(key);
    }

    /// The objects that target this workload are others now, or one of them has changed. The others
    /// have to be examined only if another object governs the workload now.
    fn on_claims_changed(&mut self, workload: &WorkloadKey) {
        if self.objects.choose_governing(workload) {
            self.mark_target(workload);
        }
        self.work.generated.insert(workload.clone());
    }

    /// An object of this name, alias or not, was created, changed or deleted: workloads may want
    /// the name.
    fn on_name_changed(&mut self, key: &NamespacedName) {
        self.work
            .generated
            .extend(self.aliases.waiting.get(key).cloned());
        for kind in self.workloads.kinds.keys() {
            self.work.generated.insert(WorkloadKey {
                object: key.clone(),
                kind: kind.clone(),
            });
        }
    }

    /// Follows the entries of an object, and the nodes that they name now, or named before. Only
    /// after both were taken into account, so that nothing changes for a node that is named as
    /// before.
    fn follow_entries(&mut self, key: &NamespacedName, before: Option<&PpsFact>) {
        self.objects.follow_entries(key, before);
        let after = self.objects.tracked.get(key).map(|object| &object.fact);
        for node in self.nodes.replace_entries(key, before, after) {
            self.follow_node(&node);
        }
    }

    /// Adds the keys that a spec names to what is kept of Pods and Nodes.
    fn extend_interest(&mut self, spec: &Spec) {
        if spec.exceeds_limits().is_some() {
            return;
        }
        self.interest.add_keys(spec);
        if self.interest.is_crowded() {
            let specs = self.objects.tracked.values().flat_map(TrackedPps::specs);
            self.interest.keep_only(specs.chain([spec]));
        }
    }
}
