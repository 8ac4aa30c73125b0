//! Outcomes: what became of writes, of generated objects and of evictions.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::Reason;

use super::progress::{FallbackNote, InFlight, NotEvicted, Remainder};
use super::tracked_pps::{ChangedEntry, Freshness};
use super::{Ledger, TrackedPps};
use crate::cluster::Cluster;
use crate::facts::{NamespacedName, PodFact, WorkloadKey};

/// What became of a write of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusOutcome<'a> {
    /// The API server has stored it.
    Stored { resource_version: &'a str },
    /// It was not stored, or nobody knows whether it was.
    NotStored,
    /// The API server has refused it as too large.
    TooLarge,
    /// It was not sent, because the API server does not confirm that these entries can be dropped
    /// or changed.
    Unconfirmed { pods: &'a BTreeSet<Arc<str>> },
    /// The API server has stored it without the compact form.
    StoredWithoutCompactForm { resource_version: &'a str },
    /// The API server does not store the compact form, so it was not sent.
    CompactFormRefused,
}

impl Ledger {
    /// Takes what a decision leaves to the next one.
    pub(crate) fn take_over(&mut self, key: &NamespacedName, remainder: Remainder) {
        if let Some(object) = self.objects.tracked.get_mut(key) {
            object.progress.take_over(remainder);
        }
    }

    pub(crate) fn begin_write(&mut self, key: &NamespacedName, in_flight: InFlight) {
        if let Some(object) = self.objects.tracked.get_mut(key) {
            object.progress.in_flight = Some(in_flight);
        }
    }

    /// All other entries of an object are written: marks the unconfirmed entries whose Pods have
    /// changed since. Returns whether there are any.
    pub(crate) fn requeue_unconfirmed(&mut self, key: &NamespacedName) -> bool {
        let object = self.objects.tracked.get_mut(key);
        object.is_some_and(|object| object.progress.requeue_unconfirmed())
    }

    /// Remembers what was reported about the capacity of an object. Returns whether it is news.
    pub(crate) fn is_capacity_news(
        &mut self,
        key: &NamespacedName,
        reason: Option<Reason>,
    ) -> bool {
        let Some(object) = self.objects.tracked.get_mut(key) else {
            return false;
        };
        let before = std::mem::replace(&mut object.progress.capacity.reported, reason);
        before != reason
    }

    /// These nodes lack a label of a recorded state: their Pods are examined again once the nodes
    /// are new no longer.
    pub(crate) fn await_labels(&mut self, nodes: BTreeSet<Arc<str>>) {
        self.awaited_labels.extend(nodes);
    }

    /// Takes what became of the write of an object of this UID: it may have been deleted and
    /// created again before the answer came, and the new one may have a write of its own in flight.
    pub(crate) fn on_status_done(
        &mut self,
        key: &NamespacedName,
        uid: &str,
        outcome: StatusOutcome<'_>,
        cluster: &mut Cluster,
    ) {
        let object = self.objects.tracked.get_mut(key);
        let Some(object) = object.filter(|object| object.observed.uid == uid) else {
            return;
        };
        let interner = &mut cluster.interner;
        match outcome {
            StatusOutcome::Stored { resource_version } => {
                if let Some(moved) = object.finish_write(resource_version, interner) {
                    self.reindex_changed_entries(key, moved, cluster);
                    self.end_write(key, Trust::AsStored, cluster);
                }
            }
            StatusOutcome::NotStored => {
                if object.progress.abandon_write() {
                    self.end_write(key, Trust::AsShown, cluster);
                }
            }
            StatusOutcome::TooLarge => {
                object.progress.on_too_large(&object.observed.status.form);
                if object.progress.abandon_write() {
                    self.end_write(key, Trust::AsShown, cluster);
                }
            }
            StatusOutcome::Unconfirmed { pods } => {
                if object.progress.hold(pods) {
                    self.end_write(key, Trust::AsShown, cluster);
                }
            }
            StatusOutcome::StoredWithoutCompactForm { resource_version } => {
                let moved = object.on_compact_form_dropped(resource_version, interner);
                self.reindex_changed_entries(key, moved, cluster);
                self.end_write(key, Trust::AsStored, cluster);
            }
            StatusOutcome::CompactFormRefused => {
                object.progress.on_compact_form_refused();
                self.end_write(key, Trust::AsShown, cluster);
            }
        }
    }

    /// No write of this object is in flight any longer: what waited for that goes on.
    fn end_write(&mut self, key: &NamespacedName, trust: Trust, cluster: &mut Cluster) {
        let Some(object) = self.objects.tracked.get_mut(key) else {
            return;
        };
        let pending_update = object.pending_update.take();
        if !object.progress.dirty.is_clean() {
            self.work.statuses.insert(key.clone());
        }
        if let Some(pending_update) = pending_update {
            let freshness = match trust {
                Trust::AsStored => Freshness::MayBeStale,
                Trust::AsShown => pending_update.freshness,
            };
            self.apply_object(key, pending_update.fact, freshness, cluster);
        }
    }

    /// A write has changed entries of an object: follows the nodes that they name, and the Pods
    /// that wait for their state to be dropped.
    fn reindex_changed_entries(
        &mut self,
        key: &NamespacedName,
        moved: Vec<ChangedEntry>,
        cluster: &Cluster,
    ) {
        let object = self.objects.get(key);
        let forgets_nodes = object.is_some_and(|object| object.observed.forgets_nodes());
        for entry in moved {
            self.objects.reindex_entry(key, &entry);
            if entry.after.is_none() {
                self.on_entry_dropped(key, &entry.pod, cluster);
            }
            if forgets_nodes && entry.before != entry.after {
                self.reindex_nodes_of(key, &entry, cluster);
            }
        }
    }

    fn on_entry_dropped(&mut self, key: &NamespacedName, pod: &Arc<str>, cluster: &Cluster) {
        let object = self.objects.get(key);
        let workload = object.and_then(|object| cluster.workloads.get(&object.workload));
        if workload.is_some_and(|workload| workload.demand.names().is_some()) {
            // Whether the names are doubtful depends on which states are recorded.
            self.mark_with(key, |object| object.progress.dirty.mark_header());
        }
        let pod = key.sibling(pod);
        if cluster.pods.facts.get(&pod).is_some() {
            // A Pod that was away from its home is recorded where it runs.
            self.mark_entry(key, &pod.name);
        }
        if cluster.pods.waiting.contains(&pod) {
            self.work.evictions.insert(pod);
        }
    }

    fn reindex_nodes_of(&mut self, key: &NamespacedName, entry: &ChangedEntry, cluster: &Cluster) {
        if let Some(before) = &entry.before {
            self.node_entries.remove(before, key, &entry.pod);
            self.update_absence(before, cluster);
        }
        if let Some(after) = &entry.after {
            self.node_entries.add(after, key, &entry.pod);
            self.update_absence(after, cluster);
        }
    }

    /// The write of a generated PPS or an alias has ended. It is decided again unless it
    /// `is_settled`, or if the workload changed during the write.
    pub(crate) fn on_generated_done(&mut self, workload: &WorkloadKey, is_settled: bool) {
        if self.aliases.end_write(workload) || !is_settled {
            self.work.generated.insert(workload.clone());
        }
    }

    /// Follows whether the policy finds the PPS that governs a workload only through an alias, and
    /// what the user has to do if it cannot have one.
    pub(crate) fn note_alias(
        &mut self,
        workload: &WorkloadKey,
        behind_alias: Option<&NamespacedName>,
        conflict: Option<String>,
    ) {
        let name = workload.second_name();
        let advice = conflict.or_else(|| self.aliases.refused.get(&name).cloned());
        self.aliases
            .note_need(name, workload, behind_alias.is_some());
        let Some(key) = behind_alias else {
            return;
        };
        let object = self.objects.get(key);
        if object.is_some_and(|pps| pps.progress.alias_advice != advice) {
            self.mark_with(key, |pps| pps.progress.set_alias_advice(advice));
        }
    }

    /// A Pod whose state was dropped with its node stays Pending: the condition of its PPS says
    /// what to do.
    pub(crate) fn note_not_evicted(
        &mut self,
        pps: &NamespacedName,
        pod: &Arc<str>,
        not_evicted: NotEvicted,
        cluster: &Cluster,
    ) {
        self.mark_with(pps, |object| {
            let pods = &mut object.progress.not_evicted;
            pods.retain(|name, _| cluster.pods.waiting.contains(&pps.sibling(name)));
            pods.insert(pod.clone(), not_evicted);
            object.progress.dirty.mark_header();
        });
    }

    /// What has become of a Pod whose requirement has an end; nothing if its place is not given up
    /// for a reason that needs no words.
    pub(crate) fn note_fallback(
        &mut self,
        pps: &NamespacedName,
        pod: &Arc<str>,
        note: Option<FallbackNote>,
        cluster: &Cluster,
    ) {
        let object = self.objects.tracked.get(pps);
        let is_known =
            object.is_some_and(|object| object.progress.fallbacks.get(pod) == note.as_ref());
        if is_known {
            return;
        }
        self.mark_with(pps, |object| {
            let notes = &mut object.progress.fallbacks;
            notes.retain(|name, note| is_current(note, cluster.pods.facts.get(&pps.sibling(name))));
            match note {
                Some(note) => drop(notes.insert(pod.clone(), note)),
                None => drop(notes.remove(pod)),
            }
            object.progress.dirty.mark_header();
        });
    }

    /// Forgets the notes that no longer hold. A Pod that fell back and became Ready has a place
    /// again: what it gave up says nothing about the next Pod of its name.
    pub(super) fn end_fallback_notes(&mut self, cluster: &Cluster) {
        for (key, object) in &mut self.objects.tracked {
            let recorded = &object.observed.status.pod_states;
            let notes = &mut object.progress.fallbacks;
            let before = notes.len();
            notes.retain(|name, note| {
                let pod = cluster.pods.facts.get(&key.sibling(name));
                is_current(note, pod) && (pod.is_some() || recorded.contains(name))
            });
            if notes.len() < before {
                object.progress.dirty.mark_header();
                self.work.statuses.insert(key.clone());
            }
        }
    }

    /// The definition of PersistentPodState has no field for the end of a requirement, or has one.
    pub(crate) fn note_fallback_advice(&mut self, pps: &NamespacedName, advice: Option<String>) {
        let object = self.objects.get(pps);
        if object.is_some_and(|object| object.progress.fallback_advice != advice) {
            self.mark_with(pps, |object| {
                object.progress.fallback_advice = advice;
                object.progress.dirty.mark_header();
            });
        }
    }

    /// The Pod need not be evicted: removes it from the condition of its PPS.
    pub(crate) fn forget_not_evicted(&mut self, pod: &NamespacedName, cluster: &Cluster) {
        let Some(pending) = cluster.pods.pending(pod) else {
            return;
        };
        let pps = pod.sibling(&pending.pps);
        let object = self.objects.tracked.get_mut(&pps);
        let removed = object.and_then(|object| object.progress.not_evicted.remove(&pod.name));
        if removed.is_some() {
            self.mark_with(&pps, |object: &mut TrackedPps| {
                object.progress.dirty.mark_header();
            });
        }
    }
}

/// Whether what a note says of a Pod is still so.
pub(crate) fn is_current(note: &FallbackNote, pod: Option<&PodFact>) -> bool {
    match note {
        FallbackNote::Blocked { uid, .. } => pod
            .and_then(|pod| pod.pending.as_ref())
            .is_some_and(|pending| pending.uid == *uid),
        FallbackNote::FellBack { .. } => !pod.is_some_and(|pod| pod.ready && !pod.terminating),
    }
}

/// What to make of a version of an object that came while a write was in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// The write was stored: a list that shows an older version was read before.
    AsStored,
    /// The write was not stored, or nobody knows: the version is as fresh as it came.
    AsShown,
}
