//! Outcomes: what became of writes, and what lookups of nodes have shown.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::Reason;

use super::Index;
use crate::decide::PodEviction;
use crate::decide::nodes::Absence;
use crate::decide::tracked_pps::{MovedEntry, Source, TrackedPps};
use crate::facts::interner::Interner;
use crate::facts::{NamespacedName, WorkloadKey};

impl Index {
    /// The API server has stored the write of this object, under this resource version.
    pub fn on_status_written(&mut self, key: &NamespacedName, uid: &str, resource_version: &str) {
        let Some((object, interner)) = self.written_object(key, uid) else {
            return;
        };
        if let Some(moved) = object.finish_write(resource_version, interner) {
            self.follow_moved_entries(key, moved);
            self.end_write(key, true);
        }
    }

    /// The write of this object was not stored, or nobody knows whether it was.
    pub fn on_status_not_written(&mut self, key: &NamespacedName, uid: &str) {
        if self
            .written_object(key, uid)
            .is_some_and(|(object, _)| object.abandon_write())
        {
            self.end_write(key, false);
        }
    }

    /// The write of this object was not sent, because the API server does not confirm that these
    /// entries can be dropped or changed.
    pub fn on_loss_unconfirmed(
        &mut self,
        key: &NamespacedName,
        uid: &str,
        pods: &BTreeSet<Arc<str>>,
    ) {
        if self
            .written_object(key, uid)
            .is_some_and(|(object, _)| object.hold(pods))
        {
            self.end_write(key, false);
        }
    }

    /// The API server does not store the compact form that the write of this object has. With a
    /// resource version it has stored the rest; without one the write was not sent.
    pub fn on_compact_form_dropped(
        &mut self,
        key: &NamespacedName,
        uid: &str,
        resource_version: Option<&str>,
    ) {
        let Some((object, interner)) = self.written_object(key, uid) else {
            return;
        };
        let moved = object.on_compact_form_dropped(resource_version, interner);
        self.follow_moved_entries(key, moved.unwrap_or_default());
        self.end_write(key, resource_version.is_some());
    }

    pub fn on_status_too_large(&mut self, key: &NamespacedName, uid: &str) {
        if let Some((object, _)) = self.written_object(key, uid) {
            object.on_too_large();
        }
        self.on_status_not_written(key, uid);
    }

    /// The object that a write was made for: it may have been deleted and created again before the
    /// answer came, and the new one may have a write of its own in flight.
    fn written_object(
        &mut self,
        key: &NamespacedName,
        uid: &str,
    ) -> Option<(&mut TrackedPps, &mut Interner)> {
        let object = self
            .objects
            .tracked
            .get_mut(key)
            .filter(|object| object.fact.uid == uid)?;
        Some((object, &mut self.interner))
    }

    /// No write of this object is in flight any longer: what waited for that goes on.
    fn end_write(&mut self, key: &NamespacedName, is_stored: bool) {
        let Some(object) = self.objects.tracked.get_mut(key) else {
            return;
        };
        let superseding = object.superseding.take();
        if !object.dirty.is_clean() {
            self.work.statuses.insert(key.clone());
        }
        if let Some((fact, source)) = superseding {
            // A list that shows an older version than the one just stored was read before.
            self.apply_object(key, fact, if is_stored { Source::Event } else { source });
        }
    }

    /// A write has changed entries of an object: follows the nodes that they name, and the Pods
    /// that wait for their state to be dropped.
    fn follow_moved_entries(&mut self, key: &NamespacedName, moved: Vec<MovedEntry>) {
        let forgets = self
            .objects
            .tracked
            .get(key)
            .is_some_and(|object| object.fact.forgets_nodes());
        for MovedEntry { pod, before, after } in moved {
            self.objects
                .follow_entry(key, &pod, before.is_some(), after.is_some());
            if after.is_none() {
                let pod = NamespacedName {
                    namespace: key.namespace.clone(),
                    name: pod.clone(),
                };
                if self.pods.facts.get(&pod).is_some() {
                    // A Pod that was away from its home is recorded where it runs.
                    self.mark(key, |object| object.note_entry(&pod.name));
                }
                if self.pods.pending.contains(&pod) {
                    self.work.evictions.insert(pod);
                }
            }
            if !forgets || before == after {
                continue;
            }
            if let Some(before) = before {
                self.nodes.remove_entry(&before, key, &pod);
                self.follow_node(&before);
            }
            if let Some(after) = after {
                self.nodes.add_entry(&after, key, &pod);
                self.follow_node(&after);
            }
        }
    }

    pub fn is_generated_pps_in_flight(&self, workload: &WorkloadKey) -> bool {
        self.aliases.in_flight.contains_key(workload)
    }

    pub fn on_generated_pps_written(&mut self, workload: &WorkloadKey, ok: bool) {
        let is_asked_again = self.aliases.in_flight.remove(workload).unwrap_or(false);
        if is_asked_again || !ok {
            self.work.generated.insert(workload.clone());
        }
    }

    /// The alias of this name was refused, so that the policy does not find the PPS that it would
    /// lead to.
    pub fn on_alias_refused(
        &mut self,
        alias: &NamespacedName,
        workload: &WorkloadKey,
        refusal: String,
    ) {
        self.aliases.refused.insert(alias.clone(), refusal);
        self.decide_alias(workload);
    }

    /// A Pod whose state was dropped with its node stays Pending: the condition of its PPS and an
    /// Event say what to do.
    pub fn on_pod_not_evicted(&mut self, eviction: &PodEviction, advice: String) {
        self.report(&eviction.workload, Reason::PodNotEvicted, advice.clone());
        let pods = &self.pods;
        if let Some(object) = self.objects.tracked.get_mut(&eviction.pps) {
            let pod = |name: &Arc<str>| NamespacedName {
                name: name.clone(),
                ..eviction.pod.clone()
            };
            object
                .not_evicted
                .retain(|name, _| pods.pending.contains(&pod(name)));
            object
                .not_evicted
                .insert(eviction.pod.name.clone(), (eviction.uid.clone(), advice));
            object.dirty.header = true;
            self.work.statuses.insert(eviction.pps.clone());
        }
    }

    /// A Pod is not to be evicted, or no longer: its PPS says so no more.
    pub fn on_eviction_needless(&mut self, pod: &NamespacedName) {
        let pending = self
            .pods
            .facts
            .get(pod)
            .and_then(|fact| fact.pending.as_deref());
        let Some(pps) = pending.map(|pending| NamespacedName {
            name: pending.pps.clone(),
            ..pod.clone()
        }) else {
            return;
        };
        let object = self.objects.tracked.get_mut(&pps);
        if object
            .and_then(|object| object.not_evicted.remove(&pod.name))
            .is_some()
        {
            self.mark(&pps, |object| object.dirty.header = true);
        }
    }

    /// The grace period of a missing node has ended, or the last confirmation is too old.
    pub fn on_node_overdue(&mut self, node: &Arc<str>) {
        self.set_absence(node, Absence::Overdue);
    }

    /// The API server has just confirmed that there is no such node.
    pub fn on_node_gone(&mut self, node: &Arc<str>) {
        // If the node came back and went missing again, the answer may be to an earlier question.
        if self.nodes.missing.get(node) == Some(&Absence::Overdue) {
            self.set_absence(node, Absence::Confirmed);
        }
    }

    /// The API server has the node, although the watch has not reported it yet.
    pub fn on_node_there(&mut self, node: &Arc<str>) {
        self.set_absence(node, Absence::InGracePeriod);
    }

    fn set_absence(&mut self, node: &Arc<str>, absence: Absence) {
        let Some(known) = self.nodes.missing.get_mut(node) else {
            return;
        };
        *known = absence;
        let entries = self.nodes.entries.get(node).into_iter().flatten();
        for (object, pod) in entries.cloned().collect::<Vec<_>>() {
            self.mark(&object, |object| object.note_entry(&pod));
        }
    }
}
