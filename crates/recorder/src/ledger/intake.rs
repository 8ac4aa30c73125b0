//! PPS objects, as watches and reads show them. What comes in meets what is recorded and what is on
//! its way.

use pps_core::governing::aliased;
use pps_core::{Reason, Spec};

use super::tracked_pps::Freshness;
use super::{CompactForm, Ledger, TrackedPps};
use crate::cluster::Cluster;
use crate::facts::store::Update;
use crate::facts::{NamespacedName, PpsFact, WorkloadKey};

impl Ledger {
    /// Takes an update of the watch of PPS objects.
    pub(crate) fn apply(
        &mut self,
        update: Update<NamespacedName, Box<PpsFact>>,
        cluster: &mut Cluster,
    ) {
        let was_outdated = self.objects.is_outdated();
        let changes = self.objects.listed.changes(update);
        for (key, fact) in changes.objects {
            if let Some(fact) = fact {
                let freshness = self.objects.note_listed(&key);
                self.apply_object(&key, *fact, freshness, cluster);
            } else {
                self.delete_object(&key, cluster);
            }
        }
        if changes.ends_list {
            // This list is the first one that shows the objects as the present definition does.
            if was_outdated && self.objects.is_current() {
                self.reconsider_forms();
            }
            self.retry_all(cluster);
        }
    }

    /// Takes what a read of an object has shown; nothing if there is no such object.
    /// `known_version` is the version that was known when the read began: if an event has brought
    /// another version since, which may wait for a write in flight, the read may be older.
    pub(crate) fn on_read(
        &mut self,
        key: &NamespacedName,
        known_version: &str,
        fact: Option<Box<PpsFact>>,
        cluster: &mut Cluster,
    ) {
        let Some(object) = self.objects.get(key) else {
            return;
        };
        if object.pending_update.is_some() || object.observed.resource_version != known_version {
            return;
        }
        match fact {
            Some(fact) => self.apply_object(key, *fact, Freshness::Authoritative, cluster),
            None => self.delete_object(key, cluster),
        }
    }

    pub(super) fn apply_object(
        &mut self,
        key: &NamespacedName,
        mut fact: PpsFact,
        freshness: Freshness,
        cluster: &mut Cluster,
    ) {
        let key = &cluster.interner.intern_name(key);
        self.forget_alias(key, cluster);
        if aliased(&fact.spec.target_ref).is_some() {
            self.forget_object(key, cluster);
            self.aliases.refused.remove(key);
            self.aliases.objects.insert(key.clone(), fact);
            return self.on_name_changed(key, cluster);
        }
        self.extend_interest(&fact.spec, cluster);
        fact.status.pod_states.intern(&mut cluster.interner);
        let shows_packed = self.shows_packed();
        self.hide_if_unknown(key, &mut fact, shows_packed);
        let workload = WorkloadKey::of_target(&key.namespace, &fact.spec.target_ref);
        let workload = cluster.interner.intern_workload_key(&workload);
        let workload_before = self.objects.get(key).map(|object| object.workload.clone());
        let replaced = if let Some(object) = self.objects.tracked.get_mut(key)
            && object.observed.uid == fact.uid
        {
            let Some(replaced) = object.refresh(fact, freshness, shows_packed) else {
                return;
            };
            object.workload = workload.clone();
            Some(replaced)
        } else {
            let object = TrackedPps::new(workload.clone(), fact);
            let replaced = self.objects.tracked.insert(key.clone(), object);
            replaced.map(|replaced| replaced.observed)
        };
        self.reindex_entries(key, replaced.as_ref(), cluster);
        if let Some(before) = workload_before.filter(|before| *before != workload) {
            self.objects.unlink(&before, key);
            self.on_claims_changed(&before);
        }
        self.objects.link(&workload, key);
        self.on_object_changed(key, &workload, cluster);
        self.report_unreadable(key, cluster);
    }

    /// Marks an object that was never read before as unreadable, if the definition may hide states
    /// of it.
    fn hide_if_unknown(&mut self, key: &NamespacedName, fact: &mut PpsFact, shows_packed: bool) {
        let is_first_definition = self.objects.definition_revision == 0;
        let was_read = self.objects.get(key).is_some_and(|known| {
            known.observed.uid == fact.uid && known.observed.unreadable.is_none()
        });
        if was_read
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

    fn delete_object(&mut self, key: &NamespacedName, cluster: &Cluster) {
        self.objects.listed.remove(key);
        self.forget_alias(key, cluster);
        self.forget_object(key, cluster);
    }

    fn forget_alias(&mut self, key: &NamespacedName, cluster: &Cluster) {
        if self.aliases.objects.remove(key).is_some() {
            self.on_name_changed(key, cluster);
        }
    }

    fn forget_object(&mut self, key: &NamespacedName, cluster: &Cluster) {
        if let Some(object) = self.objects.tracked.remove(key) {
            self.reindex_entries(key, Some(&object.observed), cluster);
            self.objects.unlink(&object.workload, key);
            self.on_object_changed(key, &object.workload, cluster);
        }
    }

    /// An object was created, changed or deleted: another one may govern the workload now, and a
    /// workload may need a generated one.
    fn on_object_changed(
        &mut self,
        key: &NamespacedName,
        workload: &WorkloadKey,
        cluster: &Cluster,
    ) {
        self.mark_all_of(key);
        self.on_claims_changed(workload);
        self.on_name_changed(key, cluster);
    }

    /// The objects that target this workload are others now, or one of them has changed. The others
    /// have to be examined only if another object governs the workload now.
    fn on_claims_changed(&mut self, workload: &WorkloadKey) {
        if self.objects.choose_governing(workload) {
            self.mark_claims(workload);
        }
        self.work.generated.insert(workload.clone());
    }

    /// An object of this name, alias or not, was created, changed or deleted: workloads may want
    /// the name.
    fn on_name_changed(&mut self, key: &NamespacedName, cluster: &Cluster) {
        let waiting = self.aliases.waiting.get(key).cloned();
        let namesakes = cluster.workloads.kinds().map(|kind| WorkloadKey {
            object: key.clone(),
            kind: kind.clone(),
        });
        self.work
            .generated
            .extend(waiting.into_iter().chain(namesakes));
    }

    /// Follows the entries of an object, and the nodes that they name now, or named before. Only
    /// after both were taken into account, so that nothing changes for a node that is named as
    /// before.
    fn reindex_entries(
        &mut self,
        key: &NamespacedName,
        before: Option<&PpsFact>,
        cluster: &Cluster,
    ) {
        self.objects.reindex_entries(key, before);
        let after = self.objects.get(key).map(|object| &object.observed);
        for node in self.node_entries.replace(key, before, after) {
            self.update_absence(&node, cluster);
        }
    }

    /// Adds the keys that a spec names to what is kept of Pods and Nodes.
    fn extend_interest(&self, spec: &Spec, cluster: &Cluster) {
        if spec.exceeds_limits().is_some() {
            return;
        }
        cluster.interest.add_keys(spec);
        if cluster.interest.is_crowded() {
            let specs = self.objects.values().flat_map(TrackedPps::specs);
            cluster.interest.keep_only(specs.chain([spec]));
        }
    }

    /// Changes which objects get the compact form, and examines all again if that has changed
    /// anything.
    pub(crate) fn change_compact_form(
        &mut self,
        change: impl FnOnce(&mut CompactForm),
        cluster: &Cluster,
    ) {
        let before = self.compact_form;
        change(&mut self.compact_form);
        if before == self.compact_form {
            return;
        }
        let hidden: Vec<NamespacedName> = self
            .objects
            .tracked
            .iter()
            .filter(|(_, pps)| pps.observed.is_hidden_by_definition())
            .map(|(key, _)| key.clone())
            .collect();
        if before.is_kept != self.compact_form.is_kept
            && (before.is_kept.is_some() || !hidden.is_empty())
        {
            self.on_definition_changed();
        }
        self.reconsider_forms();
        // The limit may be another one.
        self.retry_exceeded();
        for key in hidden {
            self.report_unreadable(&key, cluster);
        }
    }

    pub(crate) fn reconsider_forms(&mut self) {
        self.change_all(|object| {
            object.progress.reconsider_form();
            true
        });
    }

    /// The definition of PersistentPodState has changed: what was shown of the objects may be less
    /// than what is stored, until they are listed again. They are not listed at once, because the
    /// API server learns of the definition as late as the sidecar.
    pub(crate) fn on_definition_changed(&mut self) {
        self.objects.definition_revision += 1;
        self.work.relist_objects = Some(self.objects.definition_revision);
    }

    /// Reports an object that cannot be read on its workload: nothing can be written into the
    /// object itself.
    fn report_unreadable(&mut self, key: &NamespacedName, cluster: &Cluster) {
        let Some(object) = self.objects.get(key) else {
            return;
        };
        let Some(error) = &object.observed.unreadable else {
            return;
        };
        let is_hidden = object.observed.is_hidden_by_definition();
        let name = &key.name;
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
        self.report_on_target(key, Reason::UnreadableObject, message, cluster);
    }
}
