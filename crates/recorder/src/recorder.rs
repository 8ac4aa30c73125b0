//! The recorder: facts go in, decisions come out.
//!
//! A synchronous state machine without a cluster, a clock or a task, so that tests apply objects
//! and compare the exact patches. A fact goes to the [`Cluster`], which says what it makes dirty;
//! the [`Ledger`] notes which entries and objects that concerns. Decisions are made when a write is
//! due, from the newest facts, so that any number of events become one write.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pps_core::Reason;

use crate::cluster::{Cluster, Fact};
use crate::counts::{self, Counts};
use crate::decide::eviction::{self, PodEviction};
use crate::decide::fallback::{self, FallbackCandidate};
use crate::decide::generated::{
    GeneratedDecision, GeneratedPps, Warning, WorkloadView, decide_alias, decide_generated,
};
use crate::decide::status::{self, PlannedWrite, StatusWrite, View};
use crate::facts::interest::Interest;
use crate::facts::store::Update;
use crate::facts::{NamespacedName, PpsFact, WorkloadFact, WorkloadKey};
use crate::ledger::progress::{FallbackNote, NotEvicted};
use crate::ledger::{Absence, CompactForm, Ledger, StatusOutcome, Work};
use crate::recording::Recording;

#[derive(Debug, Default)]
pub struct Recorder {
    cluster: Cluster,
    ledger: Ledger,
}

/// What has to be done about the status of a PPS.
#[derive(Debug, Default)]
pub struct StatusDecision {
    /// None if the object is up to date, if a write of it is in flight, or if it cannot be decided
    /// yet.
    pub write: Option<StatusWrite>,
    /// The nodes that the API server has to confirm as gone before their states are dropped.
    pub unconfirmed_nodes: BTreeSet<Arc<str>>,
}

impl Recorder {
    /// A recorder that knows nothing yet. StatefulSets are watched; other kinds can be added.
    pub fn new(interest: Interest) -> Self {
        Self {
            cluster: Cluster::new(interest),
            ledger: Ledger::new(),
        }
    }

    /// Limits the scope to the namespaces with these labels. The API server evaluates the selector.
    pub fn select_namespaces(&mut self, selector: &str) {
        selector.clone_into(&mut self.cluster.scope.selector);
    }

    /// Sets the size below which an object is kept, in bytes.
    pub fn limit_objects(&mut self, size: usize) {
        self.ledger.size_limit = size;
    }

    /// Changes which objects get the compact form, and examines all again if that has changed
    /// anything.
    pub fn change_compact_form(&mut self, change: impl FnOnce(&mut CompactForm)) {
        self.ledger.change_compact_form(change, &self.cluster);
    }

    /// The definition of PersistentPodState has changed: the objects have to be listed again.
    pub fn on_definition_changed(&mut self) {
        self.ledger.on_definition_changed();
    }

    pub fn apply(&mut self, fact: Fact) {
        for dirty in self.cluster.apply(fact) {
            self.ledger.mark(dirty, &self.cluster);
        }
    }

    /// Takes an update of the watch of PPS objects.
    pub fn apply_pps(&mut self, update: Update<NamespacedName, Box<PpsFact>>) {
        self.ledger.apply(update, &mut self.cluster);
    }

    /// Takes what a read of an object has shown; nothing if there is no such object.
    /// `known_version` is the version that was known when the read began.
    pub fn on_pps_read(
        &mut self,
        key: &NamespacedName,
        known_version: &str,
        fact: Option<Box<PpsFact>>,
    ) {
        self.ledger
            .on_read(key, known_version, fact, &mut self.cluster);
    }

    /// Takes what time, or a lookup, has shown of a missing node.
    pub fn set_absence(&mut self, node: &Arc<str>, absence: Absence) {
        self.ledger.set_absence(node, absence);
    }

    pub fn take_work(&mut self) -> Work {
        std::mem::take(&mut self.ledger.work)
    }

    /// Whether complete lists of everything have been seen, apart from the kinds of workloads that
    /// were added.
    pub fn is_complete(&self) -> bool {
        self.ledger.is_complete(&self.cluster)
    }

    /// Whether StatefulSets and PPS objects are known, and so the keys that are of interest in Pods
    /// and Nodes.
    pub fn is_interest_known(&self) -> bool {
        self.cluster.has_stateful_sets() && self.ledger.objects.is_listed()
    }

    /// Decides the write that an object needs now. It counts as in flight until
    /// [`on_status_done`](Self::on_status_done). `now` is RFC 3339.
    pub fn decide_status(&mut self, key: &NamespacedName, now: &str) -> StatusDecision {
        loop {
            let view = View::of(key, &self.cluster, &self.ledger);
            let Some(view) = view.filter(|view| self.is_complete() && view.is_decidable()) else {
                return StatusDecision::default();
            };
            let Ok(decision) = status::decide(&view, self.ledger.object_limit(), now) else {
                self.report_hidden_states(key);
                return StatusDecision::default();
            };
            // Every other entry is up to date: the entries behind them are decided now, once.
            if decision.write.is_some() || !self.ledger.requeue_unconfirmed(key) {
                return self.take_over(key, decision);
            }
        }
    }

    fn take_over(&mut self, key: &NamespacedName, decision: status::Decision) -> StatusDecision {
        self.report_capacity(key, decision.capacity);
        self.ledger.await_labels(decision.awaited_labels);
        self.ledger.take_over(key, decision.remainder);
        let write = decision.write.map(|PlannedWrite { write, in_flight }| {
            self.ledger.begin_write(key, in_flight);
            write
        });
        StatusDecision {
            write,
            unconfirmed_nodes: decision.unconfirmed_nodes,
        }
    }

    fn report_hidden_states(&mut self, key: &NamespacedName) {
        // Until the objects are listed again, the API server may show more.
        if !self.ledger.objects.is_current() {
            return;
        }
        let message = format!(
            "apply this product's definition of PersistentPodState again: the present one has no \
             field status.packed and hides the states of {}, which are too many for \
             status.podStates; nothing is recorded until then",
            key.name
        );
        self.ledger
            .report_on_target(key, Reason::UnreadableObject, message, &self.cluster);
    }

    fn report_capacity(&mut self, key: &NamespacedName, capacity: Option<Recording>) {
        let reason = capacity.as_ref().map(|capacity| capacity.reason);
        let is_news = self.ledger.is_capacity_news(key, reason);
        if let Some(Recording {
            reason, message, ..
        }) = capacity.filter(|_| is_news)
        {
            let message = format!("PersistentPodState {}: {message}", key.name);
            self.ledger
                .report_on_target(key, reason, message, &self.cluster);
        }
    }

    /// Takes what became of the write of the object of this UID.
    pub fn on_status_done(&mut self, key: &NamespacedName, uid: &str, outcome: StatusOutcome<'_>) {
        self.ledger
            .on_status_done(key, uid, outcome, &mut self.cluster);
    }

    /// Decides what has to be done now about the generated PPS of a workload, and about the alias
    /// of the PPS that governs it. Returns nothing if all is well, if a write of it is in flight,
    /// or if it cannot be decided yet.
    pub fn decide_generated(&mut self, workload: &WorkloadKey) -> Option<GeneratedPps> {
        if !self.is_complete()
            || !self.cluster.scope.contains(&workload.object.namespace)
            || self.ledger.aliases.ask_again(workload)
        {
            return None;
        }
        let second_name = workload.second_name();
        let view = WorkloadView::of(workload, &second_name, &self.cluster, &self.ledger);
        let generated = decide_generated(&view);
        let alias = self.decide_alias(workload);
        for warning in [generated.warning, alias.warning].into_iter().flatten() {
            self.report(workload, warning.reason, warning.message);
        }
        let write = generated.write.or(alias.write);
        if write.is_some() {
            self.ledger.aliases.begin_write(workload.clone());
        }
        write
    }

    /// The policy looks for a PPS whether or not its workload is watched.
    fn decide_alias(&mut self, workload: &WorkloadKey) -> GeneratedDecision {
        let second_name = workload.second_name();
        let view = WorkloadView::of(workload, &second_name, &self.cluster, &self.ledger);
        let decision = decide_alias(&view);
        let behind_alias = view.behind_alias().map(|(key, _)| key.clone());
        let conflict = decision
            .warning
            .as_ref()
            .map(|Warning { message, .. }| message.clone());
        self.ledger
            .note_alias(workload, behind_alias.as_ref(), conflict);
        decision
    }

    pub fn is_generated_in_flight(&self, workload: &WorkloadKey) -> bool {
        self.ledger.aliases.is_in_flight(workload)
    }

    /// The write of a generated PPS or an alias has ended. If it is not settled, it is decided
    /// again.
    pub fn on_generated_done(&mut self, workload: &WorkloadKey, is_settled: bool) {
        self.ledger.on_generated_done(workload, is_settled);
    }

    /// The alias of this name was refused, so that the policy does not find the PPS that it would
    /// lead to.
    pub fn on_alias_refused(
        &mut self,
        alias: &NamespacedName,
        workload: &WorkloadKey,
        refusal: String,
    ) {
        let refused = &mut self.ledger.aliases.refused;
        refused.insert(alias.clone(), refusal);
        self.decide_alias(workload);
    }

    /// Decides whether a Pending Pod has to be deleted.
    pub fn decide_eviction(&self, pod: &NamespacedName) -> Option<PodEviction> {
        if !self.is_complete() {
            return None;
        }
        eviction::decide(pod, &self.cluster, &self.ledger)
    }

    /// A Pod whose state was dropped with its node stays Pending: the condition of its PPS and an
    /// Event say what to do.
    pub fn on_pod_not_evicted(&mut self, eviction: &PodEviction, advice: String) {
        self.report(&eviction.workload, Reason::PodNotEvicted, advice.clone());
        let not_evicted = NotEvicted {
            uid: eviction.uid.clone(),
            advice,
        };
        let pod = &eviction.pod.name;
        self.ledger
            .note_not_evicted(&eviction.pps, pod, not_evicted, &self.cluster);
    }

    /// The sidecar has evicted a Pod.
    pub fn on_pod_evicted(&mut self, eviction: &PodEviction) {
        let PodEviction {
            workload, pod, uid, ..
        } = eviction;
        self.ledger
            .on_evicted(workload, &pod.name, uid, &self.cluster);
    }

    /// The Pod need not be evicted: removes it from the condition of its PPS.
    pub fn on_eviction_needless(&mut self, pod: &NamespacedName) {
        self.ledger.forget_not_evicted(pod, &self.cluster);
    }

    /// The Pods that wait for a place that they require until an end; none before the lists are
    /// complete.
    pub fn fallback_candidates(&self) -> Vec<FallbackCandidate> {
        if !self.is_complete() {
            return Vec::new();
        }
        fallback::candidates(&self.cluster, &self.ledger).collect()
    }

    pub fn is_ready(&self, pod: &NamespacedName) -> bool {
        let pod = self.cluster.pods.facts.get(pod);
        pod.is_some_and(|pod| pod.ready && !pod.terminating)
    }

    /// The place of a Pod was given up: an Event says so, and the condition of its PPS until the
    /// Pod is Ready.
    pub fn on_fell_back(&mut self, candidate: &FallbackCandidate, message: String) {
        self.note_own_eviction(candidate);
        self.report(&candidate.workload, Reason::FellBack, message.clone());
        self.note_fallback(candidate, Some(FallbackNote::FellBack { message }));
    }

    /// The sidecar has evicted a Pod that required a place that is no longer recorded.
    pub fn on_evicted_again(&mut self, candidate: &FallbackCandidate, message: String) {
        self.note_own_eviction(candidate);
        self.report(&candidate.workload, Reason::PodEvicted, message);
    }

    /// No operator creates this Pod again.
    fn note_own_eviction(&mut self, candidate: &FallbackCandidate) {
        let FallbackCandidate {
            workload, pod, uid, ..
        } = candidate;
        self.ledger
            .on_evicted(workload, &pod.name, uid, &self.cluster);
    }

    /// A Pod keeps its place although its requirement has ended, or will: an Event and the
    /// condition of its PPS say why, and what to do.
    pub fn on_fallback_blocked(&mut self, candidate: &FallbackCandidate, advice: String) {
        self.report(&candidate.workload, Reason::FallbackBlocked, advice.clone());
        let uid = candidate.uid.clone();
        self.note_fallback(candidate, Some(FallbackNote::Blocked { uid, advice }));
    }

    /// A Pod keeps its place, and nothing has to be done about it.
    pub fn on_fallback_needless(&mut self, candidate: &FallbackCandidate) {
        self.note_fallback(candidate, None);
    }

    fn note_fallback(&mut self, candidate: &FallbackCandidate, note: Option<FallbackNote>) {
        let pod = &candidate.pod.name;
        self.ledger
            .note_fallback(&candidate.pps, pod, note, &self.cluster);
    }

    /// The definition of PersistentPodState has no field for the end of the requirement of this
    /// generated object, so the user has to do this; nothing if it has.
    pub fn set_fallback_advice(&mut self, pps: &NamespacedName, advice: Option<String>) {
        self.ledger.note_fallback_advice(pps, advice);
    }

    /// Reports to users, unless it was reported before and nothing has changed.
    pub fn report(&mut self, workload: &WorkloadKey, reason: Reason, message: String) {
        self.ledger.report(workload, reason, message, &self.cluster);
    }

    /// This process begins to lead. Another one may have recorded states until now.
    pub fn begin_term(&mut self) {
        self.ledger.begin_term(&self.cluster);
    }

    /// Retries every write that the API server refused as too large or did not store completely. It
    /// may accept it by now.
    pub fn retry_exceeded(&mut self) {
        self.ledger.retry_exceeded();
    }

    /// Tries again every drop and change that the API server has not confirmed.
    pub fn retry_unconfirmed(&mut self) {
        self.ledger.retry_unconfirmed();
    }

    /// Ends a round and examines the surplus entries. A round takes as long as the grace period of
    /// nodes.
    pub fn end_surplus_round(&mut self) {
        self.ledger.end_surplus_round(&self.cluster);
    }

    /// Sets how long a workload that lists the names of its Pods must not list a name before its
    /// entry is dropped.
    pub fn drop_absent_names_after(&mut self, period: Duration) {
        self.ledger.name_absence = period;
    }

    /// Time has passed, on this process' monotonic clock and in Unix seconds: names may have been
    /// absent, or Pods may have lived, for long enough.
    pub fn pass_time(&mut self, now: Instant, unix_time: i64) {
        self.ledger.pass_time(now, unix_time, &self.cluster);
    }

    /// Whether a recorded state that can be forgotten names this node, and the node does not exist.
    pub fn is_missing(&self, node: &str) -> bool {
        self.ledger.node_entries.absence(node).is_some()
    }

    pub fn workload(&self, key: &WorkloadKey) -> Option<&WorkloadFact> {
        self.cluster.workloads.get(key)
    }

    pub fn resource_version(&self, key: &NamespacedName) -> Option<&str> {
        let pps = self.ledger.objects.get(key)?;
        Some(&pps.observed.resource_version)
    }

    /// The UID of a Pod with the policy's annotation that waits for a node.
    pub fn pending_uid(&self, pod: &NamespacedName) -> Option<&str> {
        Some(&self.cluster.pods.pending(pod)?.uid)
    }

    pub fn counts(&self) -> Counts {
        counts::count(&self.cluster, &self.ledger)
    }
}
