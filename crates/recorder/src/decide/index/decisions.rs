//! Decisions out: builds the view that each pure decision needs, and notes what follows from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::Reason;

use super::Index;
use crate::decide::generated_pps::{self, GeneratedPps, decide_alias, decide_generated};
use crate::decide::status::{StatusWrite, View, decide, obstacle};
use crate::decide::tracked_pps::TrackedPps;
use crate::facts::{NamespacedName, NodeFact, WorkloadKey};
use crate::recording::Recording;

/// A Pod that waits for a node that no longer exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEviction {
    pub pod: NamespacedName,
    pub uid: String,
    /// The scheduler may just be binding it.
    pub resource_version: String,
    pub workload: WorkloadKey,
    /// The PPS that had its state, and its version: it must not have the state again.
    pub pps: NamespacedName,
    pub pps_version: String,
    /// Label selectors of the nodes that could take it: the API server must not have such a node.
    pub node_selectors: BTreeSet<String>,
}

impl Index {
    /// Decides the write that an object needs now. Returns nothing if the object is up to date, if
    /// a write of it is in flight, or if it cannot be decided yet. `now` is RFC 3339.
    pub fn status_write(&mut self, key: &NamespacedName, now: &str) -> Option<StatusWrite> {
        if !self.is_complete() {
            return None;
        }
        let object = self.objects.tracked.get(key)?;
        if object.in_flight.is_some()
            || object.fact.terminating
            || object.fact.unreadable.is_some()
            || !self.is_interest_met(object)
            || !self.workloads.is_decidable(&object.workload.kind)
        {
            return None;
        }
        let Some(mut decision) = decide(&self.view(key, object), self.object_limit(), now) else {
            if self.objects.is_current() {
                let message = format!(
                    "apply this product's definition of PersistentPodState again: the present one \
                     has no field status.packed and hides the states of {}, which are too many \
                     for status.podStates; nothing is recorded until then",
                    key.name
                );
                self.report_on_target(key, Reason::UnreadableObject, message);
            }
            return None;
        };
        if decision.write.is_none() && self.objects.tracked.get_mut(key)?.release_refuted() {
            return self.status_write(key, now);
        }
        let unconfirmed = std::mem::take(&mut decision.entries.unconfirmed_nodes);
        self.nodes
            .unconfirmed
            .extend(unconfirmed.into_iter().map(Arc::from));
        for node in &decision.entries.awaited_labels {
            if let Some(is_awaited) = self.nodes.new.get_mut(node) {
                *is_awaited = true;
            }
        }
        self.report_capacity(key, decision.capacity.take());
        let object = self.objects.tracked.get_mut(key)?;
        object.follow_decision(decision.entries, decision.useless_at);
        let (write, in_flight) = decision.write?;
        object.in_flight = Some(in_flight);
        Some(write)
    }

    fn view<'a>(&'a self, key: &'a NamespacedName, pps: &'a TrackedPps) -> View<'a> {
        let target_uid = pps.fact.status.header.target_uid.as_deref();
        let key_of = |uid: &str| self.workloads.key_of(&key.namespace, uid);
        let governing = self
            .objects
            .governing(&pps.workload)
            .map(|(governing, _)| governing);
        View {
            key,
            pps,
            workload: self.workloads.get(&pps.workload),
            former_uid: target_uid.filter(|uid| key_of(uid).is_none_or(|key| *key == pps.workload)),
            coverage: self.workloads.coverage(&pps.workload.kind),
            superseded_by: governing.filter(|other| *other != key),
            excluded_by: self.scope.excludes(&key.namespace),
            pods: &self.pods,
            nodes: &self.nodes,
            compact_form: self.compact_form_in_use(),
        }
    }

    /// Whether what is kept of Pods and Nodes has all the keys that an object names. Until then
    /// only this object waits.
    fn is_interest_met(&self, object: &TrackedPps) -> bool {
        let listed = self.nodes.facts.complete().min(self.pods.facts.complete());
        object.exceeded_limit.is_some() || self.interest.is_met(&object.fact.spec, listed)
    }

    fn report_capacity(&mut self, key: &NamespacedName, capacity: Option<Recording>) {
        let reason = capacity.as_ref().map(|capacity| capacity.reason);
        let Some(object) = self.objects.tracked.get_mut(key) else {
            return;
        };
        let before = std::mem::replace(&mut object.capacity.reported, reason);
        if let Some(Recording {
            reason, message, ..
        }) = capacity.filter(|_| before != reason)
        {
            self.report_on_target(
                key,
                reason,
                format!("PersistentPodState {}: {message}", key.name),
            );
        }
    }

    /// Decides what has to be done now about the generated PPS of a workload, and about the alias
    /// of the PPS that governs it. Returns nothing if all is well, if a write of it is in flight,
    /// or if it cannot be decided yet.
    pub fn generated_pps(&mut self, workload: &WorkloadKey) -> Option<GeneratedPps> {
        if !self.is_complete()
            || !self.scope.contains(&workload.object.namespace)
            || self.aliases.is_write_in_flight(workload)
        {
            return None;
        }
        let second_name = &workload.second_name();
        let generated = decide_generated(&self.generated_view(workload, second_name));
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

    fn generated_view<'a>(
        &'a self,
        key: &'a WorkloadKey,
        second_name: &'a NamespacedName,
    ) -> generated_pps::View<'a> {
        let workload = self.workloads.get(key).filter(|fact| !fact.terminating);
        generated_pps::View {
            key,
            second_name,
            workload,
            objects: &self.objects,
            aliases: &self.aliases,
        }
    }

    /// The policy looks for a PPS whether or not its workload is watched.
    pub(super) fn decide_alias(&mut self, workload: &WorkloadKey) -> generated_pps::Decision {
        let name = workload.second_name();
        let view = self.generated_view(workload, &name);
        let decision = decide_alias(&view);
        let behind_alias = view.behind_alias().map(|(key, _)| key.clone());
        let conflict = decision.warning.as_ref().map(|(_, message)| message);
        let advice = conflict
            .or_else(|| self.aliases.refused.get(&name))
            .cloned();
        self.aliases.follow(name, workload, behind_alias.is_some());
        let tracked = &self.objects.tracked;
        let is_news = |key: &NamespacedName| {
            tracked
                .get(key)
                .is_some_and(|pps| pps.alias_advice != advice)
        };
        if let Some(key) = behind_alias.filter(is_news) {
            self.mark(&key, |pps| {
                (pps.alias_advice, pps.dirty.header) = (advice, true);
            });
        }
        decision
    }

    /// Decides whether a Pending Pod has to be deleted, so that its controller creates it without
    /// the old affinity: no node has the values that its required affinity names, and the state
    /// that they came from has been dropped. Otherwise its successor would get the same affinity.
    pub fn eviction(&self, key: &NamespacedName) -> Option<PodEviction> {
        if !self.is_complete() {
            return None;
        }
        let pod = self.pods.facts.get(key)?;
        let pending = pod
            .pending
            .as_deref()
            .filter(|pending| !pending.required_affinity.is_empty())?;
        let workload = self.workloads.key_of(&key.namespace, pod.owner.as_ref()?)?;
        let pps_key = NamespacedName {
            name: pending.pps.clone(),
            ..key.clone()
        };
        let pps = self.objects.tracked.get(&pps_key)?;
        if pod.terminating
            || pps.fact.terminating
            // What cannot be read may have a state of the Pod.
            || pps.fact.unreadable.is_some()
            || pps.workload != *workload
            || !pps.fact.forgets_nodes()
            || pps.has_entry(&key.name)
            || !self.is_interest_met(pps)
            || obstacle(&self.view(&pps_key, pps)).is_some()
        {
            return None;
        }
        let keys: Vec<&str> = pps.fact.spec.required_keys().collect();
        let excludes = |node: &NodeFact| {
            pending
                .required_affinity
                .exclude(&keys, |key| node.label(key))
        };
        self.nodes
            .facts
            .values()
            .all(excludes)
            .then(|| PodEviction {
                pod: key.clone(),
                uid: pending.uid.clone(),
                resource_version: pending.resource_version.clone(),
                workload: workload.clone(),
                node_selectors: pending.required_affinity.node_selectors(&keys),
                pps: pps_key.clone(),
                pps_version: pps.fact.resource_version.clone(),
            })
    }
}
