//! Decisions out: builds the view that each pure decision needs, and notes what follows from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::Reason;
use pps_core::alias::precedence;
use pps_core::status::{self, Recording};
use serde_json::Value;

use super::Index;
use crate::decide::alias;
use crate::decide::generated_pps::{self, GeneratedPps};
use crate::decide::inventory::TrackedPps;
use crate::decide::pod_eviction::{self, PodEviction};
use crate::decide::schedule::write_cost;
use crate::decide::status::{DropCheck, View, decide, is_blocked};
use crate::facts::{NamespacedName, StoredForm, WorkloadKey};

/// A status to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusWrite {
    /// The object.
    pub key: NamespacedName,
    /// Its UID.
    pub uid: String,
    /// A merge patch for its status subresource, which applies only to this UID and resource version.
    pub patch: Value,
    /// How many entries it sets or removes.
    pub entries: usize,
    /// How many entries the object has after it.
    pub recorded: usize,
    /// The workload that it is about.
    pub workload: WorkloadKey,
    /// What has to be read and checked before it is sent, if it drops entries or replaces recorded values.
    pub drops: Option<DropCheck>,
    /// The form that all states of the object get with it, if it writes all of them.
    pub moves_to: Option<StoredForm>,
    /// Whether the object has the compact form and keeps it: what this write does not name must still be there.
    pub keeps_compact_form: bool,
    /// How much it costs the API server, as a number of entries in `podStates`.
    pub cost: usize,
    /// Since when the Pods have been Ready that it records on their node for the first time, in Unix seconds.
    pub newly_recorded: Vec<i64>,
}

impl Index {
    /// Decides the write that an object needs now. Returns nothing if the object is up to date, if a write of it is in
    /// flight, or if it cannot be decided yet. `now` is RFC 3339.
    pub fn status_write(&mut self, key: &NamespacedName, now: &str) -> Option<StatusWrite> {
        if !self.is_complete() {
            return None;
        }
        let object = self.objects.get(key)?;
        if object.is_write_in_flight()
            || object.fact.terminating
            || object.fact.unreadable.is_some()
            || !self.is_interest_met(object)
            || !self.is_decidable(&object.workload.kind)
        {
            return None;
        }
        let Some(decision) = decide(&self.view(key, object), self.object_limit(), now) else {
            self.report_pruned(key);
            return None;
        };
        if decision.status.is_empty() && self.objects.get_mut(key)?.release_refuted() {
            return self.status_write(key, now);
        }
        self.absences.request_confirmation(decision.unconfirmed_nodes);
        for node in &decision.awaited_labels {
            if let Some(is_awaited) = self.new_nodes.get_mut(node) {
                *is_awaited = true;
            }
        }
        self.follow_borrowed(key, decision.borrowed);
        self.report_capacity(key, decision.capacity.as_ref());
        let object = self.objects.get_mut(key)?;
        object.dirty = super::Dirty::default();
        for pod in &decision.postponed {
            object.dirty.mark_entry(pod);
        }
        object.missing_labels = decision.missing_labels;
        object.surplus = decision.surplus;
        if let Some(renewal) = decision.renewal {
            object.renewals.follow(renewal);
        }
        object.capacity.set_deferred(decision.deferred);
        // Whether or not there is something to write: the next decision must not examine all states again.
        if decision.compact_saves_nothing.is_some() {
            object.compaction.saved_nothing_at = decision.compact_saves_nothing;
        }
        if decision.status.is_empty() {
            return None;
        }
        let fact = &object.fact;
        let after = StoredForm::of(&decision.write.form);
        let write = StatusWrite {
            key: key.clone(),
            uid: fact.uid.clone(),
            patch: status::guarded_patch(&fact.uid, &fact.resource_version, &decision.status),
            entries: decision.write.changes.len(),
            recorded: decision.recorded,
            workload: object.workload.clone(),
            drops: decision.drops,
            moves_to: decision.moves_states.then_some(after),
            keeps_compact_form: !decision.moves_states && after == StoredForm::Compact,
            cost: write_cost(decision.recorded, after),
            newly_recorded: decision.write.changes.iter().filter_map(|change| change.ready_since).collect(),
        };
        object.begin_write(decision.write);
        Some(write)
    }

    fn view<'a>(&'a self, key: &NamespacedName, pps: &'a TrackedPps) -> View<'a> {
        View {
            pps,
            workload: self.workloads.get(&pps.workload),
            former_uid: self.former_uid(pps),
            coverage: self.workloads.coverage(&pps.workload.kind),
            superseded_by: self.governing.get(&pps.workload).filter(|other| *other != key),
            pods: &self.pods,
            nodes: &self.nodes,
            new_nodes: &self.new_nodes,
            absences: &self.absences,
            compact_form: self.compact_form_in_use(),
        }
    }

    fn former_uid<'a>(&self, pps: &'a TrackedPps) -> Option<&'a str> {
        let recorded_for = pps.fact.status.target_uid.as_deref();
        let key_of = |uid: &str| self.workloads.key_of(&pps.workload.object.namespace, uid);
        recorded_for.filter(|uid| key_of(uid).is_none_or(|key| *key == pps.workload))
    }

    /// Chooses again which of the objects that name a workload governs it: the one that takes
    /// [precedence](pps_core::alias::precedence). Returns whether another one governs it now.
    pub(super) fn choose_governing(&mut self, workload: &WorkloadKey) -> bool {
        let second = alias::name_for(workload);
        let claims = self.by_target.get(workload).into_iter().flatten();
        let chosen = claims
            .filter_map(|key| Some((&self.objects.get(key)?.fact, key)))
            .filter(|(fact, _)| !fact.terminating)
            .min_by_key(|(fact, key)| {
                precedence(&workload.object.name, &second.name, &key.name, &fact.created)
            })
            .map(|(_, key)| key.clone());
        let before = match &chosen {
            Some(chosen) => self.governing.insert(workload.clone(), chosen.clone()),
            None => self.governing.remove(workload),
        };
        before != chosen
    }

    /// Whether what is kept of Pods and Nodes has all the keys that an object names. Until then only this object
    /// waits.
    fn is_interest_met(&self, object: &TrackedPps) -> bool {
        object.exceeded_limit.is_some()
            || self.interest.is_met(&object.fact.spec, self.nodes.complete(), self.pods.complete())
    }

    /// Notes that these entries have to be examined when the Pods of their names change.
    fn follow_borrowed(&mut self, object: &NamespacedName, names: Vec<Arc<str>>) {
        for name in names {
            let pod = NamespacedName { namespace: object.namespace.clone(), name };
            self.borrowed.entry(pod).or_default().insert(object.clone());
        }
    }

    /// Reports an object whose states are only in memory and cannot be written.
    fn report_pruned(&mut self, key: &NamespacedName) {
        let Some(object) = self.objects.get(key) else { return };
        if !self.has_current_objects() {
            return;
        }
        let message = format!(
            "apply this product's definition of PersistentPodState again: the present one has no field status.packed and hides the states of {}, of which there are too many for status.podStates; nothing is recorded until then",
            key.name
        );
        let workload = object.workload.clone();
        self.report(&workload, Reason::UnreadableObject, message);
    }

    /// Reports to users, once, that there is little or no capacity left.
    fn report_capacity(&mut self, key: &NamespacedName, capacity: Option<&Recording>) {
        let Some(object) = self.objects.get_mut(key) else { return };
        if !object.capacity.report(capacity.map(|capacity| capacity.reason)) {
            return;
        }
        if let Some(Recording { reason, message, .. }) = capacity {
            let message = format!("PersistentPodState {}: {message}", key.name);
            let workload = object.workload.clone();
            self.report(&workload, *reason, message);
        }
    }

    /// Decides what has to be done now about the generated PPS of a workload, and about the alias of the PPS that governs
    /// it. Returns nothing if all is well, if a write of it is in flight, or if it cannot be decided yet.
    pub fn generated_pps(&mut self, workload: &WorkloadKey) -> Option<GeneratedPps> {
        if !self.is_complete() {
            return None;
        }
        if let Some(asked_again) = self.generating.get_mut(workload) {
            *asked_again = true;
            return None;
        }
        let generated = self.decide_generated_pps(workload).unwrap_or_default();
        let alias = self.decide_alias(workload);
        for (reason, message) in [generated.warning, alias.warning].into_iter().flatten() {
            self.report(workload, reason, message);
        }
        let write = generated.write.or(alias.write);
        if write.is_some() {
            self.generating.insert(workload.clone(), false);
        }
        write
    }

    fn decide_generated_pps(&self, workload: &WorkloadKey) -> Option<generated_pps::Decision> {
        let view = generated_pps::View {
            key: workload,
            workload: self.workloads.get(workload).filter(|fact| !fact.terminating)?,
            all: &self.objects,
            targeting: self.by_target.get(workload).into_iter().flatten().collect(),
            alias: &|key| self.aliases.is_generated(key),
        };
        Some(generated_pps::decide(&view))
    }

    /// The policy looks for a PPS whether or not its workload is watched.
    pub(super) fn decide_alias(&mut self, workload: &WorkloadKey) -> generated_pps::Decision {
        let name = alias::name_for(workload);
        let governing =
            self.governing.get(workload).and_then(|key| Some((key, &self.objects.get(key)?.fact)));
        let view = alias::View {
            name: &name,
            workload,
            governing,
            existing: self.aliases.get(&name),
            is_taken: self.objects.contains_key(&name),
        };
        let decision = alias::decide(&view);
        let hidden = view.hidden().map(|(key, _)| key.clone());
        let conflict = decision.warning.as_ref().map(|(_, message)| message);
        let advice = conflict.or_else(|| self.aliases.refusal(&name)).cloned();
        let is_needed = hidden.is_some();
        if let Some(object) = hidden.and_then(|key| self.objects.get_mut(&key).map(|object| (key, object))) {
            let (key, object) = object;
            if object.hidden != advice {
                object.hidden = advice;
                object.dirty.mark_header();
                self.work.statuses.insert(key);
            }
        }
        self.aliases.follow(name, workload, is_needed);
        decision
    }

    /// Decides whether a Pending Pod has to be deleted, so that its controller creates it without the old affinity.
    pub fn eviction(&self, pod: &NamespacedName) -> Option<PodEviction> {
        if !self.is_complete() {
            return None;
        }
        let fact = self.pods.get(pod)?;
        let workload = self.workloads.key_of(&pod.namespace, fact.owner.as_ref()?)?;
        let name = fact.pending.as_deref()?.pps.clone();
        let key = NamespacedName { namespace: pod.namespace.clone(), name };
        let pps = self.objects.get(&key)?;
        // What cannot be read may have a state of the Pod.
        if pps.fact.unreadable.is_some() || !self.is_interest_met(pps) || is_blocked(&self.view(&key, pps)) {
            return None;
        }
        pod_eviction::decide(&pod_eviction::View { key: pod, pod: fact, workload, pps, nodes: &self.nodes })
    }

    /// Takes the nodes that the API server has to confirm as gone before their states are dropped.
    pub fn take_unconfirmed_nodes(&mut self) -> BTreeSet<Arc<str>> {
        self.absences.take_unconfirmed()
    }
}
