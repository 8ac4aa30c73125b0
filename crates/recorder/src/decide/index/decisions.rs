//! Decisions out: builds the view that each pure decision needs, and notes what follows from it.

use std::sync::Arc;

use pps_core::{Reason, status};
use serde_json::Value;

use super::Index;
use crate::decide::alias;
use crate::decide::generated_pps::{self, GeneratedPps};
use crate::decide::pod_eviction::{self, PodEviction};
use crate::decide::schedule::write_cost;
use crate::decide::status::{DropCheck, View, decide, is_blocked};
use crate::decide::tracked_pps::TrackedPps;
use crate::facts::{NamespacedName, StoredForm, WorkloadKey};
use crate::recording::Recording;

#[derive(Clone, Debug, PartialEq)]
pub struct StatusWrite {
    pub key: NamespacedName,
    pub uid: String,
    /// A merge patch for its status subresource, which applies only to this UID and resource version.
    pub patch: Value,
    /// How many entries it sets or removes.
    pub entries: usize,
    /// How many entries the object has after it.
    pub recorded: usize,
    pub workload: WorkloadKey,
    /// What has to be read and checked before it is sent, if it drops entries or replaces recorded values.
    pub drops: Option<DropCheck>,
    /// The form that all states of the object get with it, if it writes all of them.
    pub moves_to: Option<StoredForm>,
    /// Whether the object has the compact form and keeps it: what this write does not name must still be
    /// there.
    pub keeps_compact_form: bool,
    /// How much it costs the API server, as a number of entries in `podStates`.
    pub cost: usize,
    /// Since when the Pods have been Ready that it records on their node for the first time, in Unix seconds.
    pub newly_recorded: Vec<i64>,
}

impl Index {
    /// Decides the write that an object needs now. Returns nothing if the object is up to date, if a write of
    /// it is in flight, or if it cannot be decided yet. `now` is RFC 3339.
    pub fn status_write(&mut self, key: &NamespacedName, now: &str) -> Option<StatusWrite> {
        if !self.is_complete() {
            return None;
        }
        let object = self.objects.get(key)?;
        if object.is_write_in_flight()
            || object.fact.terminating
            || object.fact.unreadable.is_some()
            || !self.is_interest_met(object)
            || !self.workloads.is_decidable(&object.workload.kind)
        {
            return None;
        }
        let Some(mut decision) = decide(&self.view(key, object), self.object_limit(), now) else {
            self.report_pruned(key);
            return None;
        };
        if decision.status.is_empty() && self.objects.get_mut(key)?.release_refuted() {
            return self.status_write(key, now);
        }
        let unconfirmed = std::mem::take(&mut decision.entries.unconfirmed_nodes);
        self.nodes.unconfirmed.extend(unconfirmed.into_iter().map(Arc::from));
        for node in &decision.entries.awaited_labels {
            self.nodes.await_label(node);
        }
        self.report_capacity(key, decision.capacity.take());
        let object = self.objects.get_mut(key)?;
        object.follow_decision(decision.entries, decision.refuses_compact_form);
        if decision.status.is_empty() {
            return None;
        }
        let (fact, write) = (&object.fact, decision.write);
        let after = StoredForm::of(&write.form);
        let status_write = StatusWrite {
            key: key.clone(),
            uid: fact.uid.clone(),
            patch: status::guarded_patch(&fact.uid, &fact.resource_version, &decision.status),
            entries: write.changes.len(),
            recorded: decision.recorded,
            workload: object.workload.clone(),
            drops: decision.drops,
            moves_to: decision.moves_states.then_some(after),
            keeps_compact_form: !decision.moves_states && after == StoredForm::Compact,
            cost: write_cost(decision.recorded, after),
            newly_recorded: write.changes.iter().filter_map(|change| change.ready_since).collect(),
        };
        object.in_flight = Some(write);
        Some(status_write)
    }

    fn view<'a>(&'a self, key: &NamespacedName, pps: &'a TrackedPps) -> View<'a> {
        let target_uid = pps.fact.status.target_uid.as_deref();
        let key_of = |uid: &str| self.workloads.key_of(&key.namespace, uid);
        let governing = self.objects.governing(&pps.workload).map(|(governing, _)| governing);
        View {
            pps,
            workload: self.workloads.get(&pps.workload),
            former_uid: target_uid.filter(|uid| key_of(uid).is_none_or(|key| *key == pps.workload)),
            coverage: self.workloads.coverage(&pps.workload.kind),
            superseded_by: governing.filter(|other| *other != key),
            pods: &self.pods,
            nodes: &self.nodes,
            compact_form: self.compact_form_in_use(),
        }
    }

    /// Whether what is kept of Pods and Nodes has all the keys that an object names. Until then only this
    /// object waits.
    fn is_interest_met(&self, object: &TrackedPps) -> bool {
        let listed = self.nodes.facts.complete().min(self.pods.facts.complete());
        object.exceeded_limit.is_some() || self.interest.is_met(&object.fact.spec, listed)
    }

    fn report_pruned(&mut self, key: &NamespacedName) {
        if self.objects.is_current() {
            let message = format!(
                "apply this product's definition of PersistentPodState again: the present one has no field status.packed and hides the states of {}, of which there are too many for status.podStates; nothing is recorded until then",
                key.name
            );
            self.report_on_target(key, Reason::UnreadableObject, message);
        }
    }

    fn report_capacity(&mut self, key: &NamespacedName, capacity: Option<Recording>) {
        let reason = capacity.as_ref().map(|capacity| capacity.reason);
        let is_news = self.objects.get_mut(key).is_some_and(|object| object.capacity.report(reason));
        if let Some(Recording { reason, message, .. }) = capacity.filter(|_| is_news) {
            self.report_on_target(key, reason, format!("PersistentPodState {}: {message}", key.name));
        }
    }

    /// Decides what has to be done now about the generated PPS of a workload, and about the alias of the PPS
    /// that governs it. Returns nothing if all is well, if a write of it is in flight, or if it cannot be
    /// decided yet.
    pub fn generated_pps(&mut self, workload: &WorkloadKey) -> Option<GeneratedPps> {
        if !self.is_complete() || self.aliases.is_write_in_flight(workload) {
            return None;
        }
        let generated = self.decide_generated_pps(workload).unwrap_or_default();
        let alias = self.decide_alias(workload);
        for (reason, message) in [generated.warning, alias.warning].into_iter().flatten() {
            self.report(workload, reason, message);
        }
        let write = generated.write.or(alias.write);
        if write.is_some() {
            self.aliases.in_flight.insert(workload.clone(), false);
        }
        write
    }

    fn decide_generated_pps(&self, workload: &WorkloadKey) -> Option<generated_pps::Decision> {
        let view = generated_pps::View {
            key: workload,
            workload: self.workloads.get(workload).filter(|fact| !fact.terminating)?,
            all: &self.objects.tracked,
            targeting: self.objects.claims(workload).collect(),
            aliases: &self.aliases,
        };
        Some(generated_pps::decide(&view))
    }

    /// The policy looks for a PPS whether or not its workload is watched.
    pub(super) fn decide_alias(&mut self, workload: &WorkloadKey) -> generated_pps::Decision {
        let name = workload.second_name();
        let view = alias::View {
            name: &name,
            workload,
            governing: self.objects.governing(workload).map(|(key, pps)| (key, &pps.fact)),
            existing: self.aliases.objects.get(&name),
            is_taken: self.objects.get(&name).is_some(),
        };
        let decision = alias::decide(&view);
        let hidden = view.hidden().map(|(key, _)| key.clone());
        let conflict = decision.warning.as_ref().map(|(_, message)| message);
        let advice = conflict.or_else(|| self.aliases.refused.get(&name)).cloned();
        self.aliases.follow(name, workload, hidden.is_some());
        if let Some(key) = hidden
            && let Some(object) = self.objects.get_mut(&key).filter(|object| object.hidden != advice)
        {
            object.hidden = advice;
            object.dirty.mark_header();
            self.work.statuses.insert(key);
        }
        decision
    }

    /// Decides whether a Pending Pod has to be deleted, so that its controller creates it without the old
    /// affinity.
    pub fn eviction(&self, pod: &NamespacedName) -> Option<PodEviction> {
        if !self.is_complete() {
            return None;
        }
        let fact = self.pods.facts.get(pod)?;
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
}
