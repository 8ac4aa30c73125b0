//! The worker: routes what the watches report to the index, and what the index decides to writes.

mod generated;
mod missing_nodes;
mod status;
mod term;
#[cfg(test)]
mod tests;
mod watching;
mod writes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::mpsc;
use tokio::time::sleep_until;
use tracing::{info, warn};

use self::missing_nodes::{Absences, LABEL_GRACE_PERIOD};
use self::status::{REPORT_AFTER, time_since, wall_clock};
use self::term::CurrentTerm;
use self::watching::Watching;
use self::writes::Writes;
use super::SWEEP_INTERVAL;
use crate::args::{Args, CompactStates};
use crate::lead::Leadership;
use crate::observe::discovery::Discovery;
use crate::observe::openkruise::Manager;
use crate::observe::watch::{Observation, Watches};
use crate::telemetry::Health;
use crate::telemetry::metrics::Metrics;
use crate::write::WriteResult;
use pps_recorder::decide::index::Index;
use pps_recorder::facts::{NamespacedName, store::Update};

/// After how many sweeps a write that was too large is tried again: etcd's limit may have been
/// raised.
const OVERSIZED_RETRY_SWEEPS: u32 = 120;
/// After how many sweeps drops and changes that were not confirmed are tried again, if nothing is
/// heard of the Pods before.
const HELD_RETRY_SWEEPS: u32 = 6;

pub(super) struct Worker {
    index: Index,
    discovery: Discovery,
    pub(super) watching: Watching,
    pub(super) writes: Writes,
    absences: Absences,
    term: CurrentTerm,
    manager: Manager,
    compact_states: CompactStates,
    is_synced: bool,
    sweeps: u32,
    /// Set while the program stops: the objects whose statuses are still written. What comes up
    /// elsewhere is left to the next leader.
    stopping: Option<BTreeSet<NamespacedName>>,
    health: Health,
    metrics: Arc<Metrics>,
}

impl Worker {
    pub(super) fn new(args: &Args, watches: Watches, leadership: Leadership) -> Self {
        let (health, metrics) = (watches.health.clone(), watches.metrics.clone());
        let mut index = Index::new(watches.interest.clone());
        index.select_namespaces(&args.namespace_selector);
        index.size_limit = args.max_object_size.saturating_mul(1024);
        index.change_compact_form(|form| form.is_off = args.compact_states != CompactStates::Auto);
        let mut term =
            CurrentTerm::new(leadership.clone(), watches.client.clone(), metrics.clone());
        term.writer.namespace_selector = args.namespace_selector.as_str().into();
        term.namespace.clone_from(&args.namespace);
        Self {
            index,
            discovery: Discovery::new(&args.config_namespace),
            writes: Writes::default(),
            watching: Watching::new(watches, leadership),
            absences: Absences::new(args),
            term,
            manager: Manager::default(),
            compact_states: args.compact_states,
            is_synced: false,
            sweeps: 0,
            stopping: None,
            health,
            metrics,
        }
    }

    pub(super) fn apply(&mut self, observation: Observation) {
        match observation {
            Observation::Pods(update) => self.index.apply_pods(update),
            Observation::Nodes(update) => self.index.apply_nodes(update),
            Observation::Namespaces(update) => self.index.apply_namespaces(update),
            Observation::Workloads(id, update) => self.apply_workloads(&id, update),
            Observation::Kind(id, state) => self.on_kind(&id, state),
            Observation::Manager(lease) => self.on_manager_checked(lease),
            Observation::Config(update) => {
                self.discovery.apply_config(update);
                self.follow_discovery();
            }
            Observation::Definitions(update) => {
                self.discovery.apply_definitions(update);
                self.follow_discovery();
            }
            Observation::PersistentPodStates(update) => {
                if let Update::Delete(key) = &update {
                    self.writes.statuses.forget(key);
                }
                self.index.apply_objects(update);
            }
        }
    }

    pub(super) fn on_write_done(&mut self, result: WriteResult) {
        match result {
            WriteResult::Status(write, Ok(version)) => self.on_status_written(&write, &version),
            WriteResult::Status(write, Err(failure)) => self.on_status_failed(&write, &failure),
            WriteResult::LossUnconfirmed(write, held) => self.on_loss_unconfirmed(&write, &held),
            WriteResult::CompactFormDropped(write, why) => {
                self.on_compact_form_dropped(&write, &why);
            }
            WriteResult::PpsRead(key, version, result) => self.on_pps_read(&key, &version, result),
            WriteResult::Generated(workload, write, result) => {
                self.on_generated(&workload, write, result);
            }
            WriteResult::Eviction(eviction, result) => self.on_evicted(&eviction, result),
            WriteResult::NodeLookup(node, result) => self.on_node_lookup(&node, result),
        }
    }

    pub(super) fn on_manager_checked(&mut self, lease: Option<Box<Lease>>) {
        let changed = self.manager.apply(lease);
        let is_off = self.compact_states != CompactStates::Auto || !self.manager.is_idle();
        self.index.change_compact_form(|form| form.is_off = is_off);
        let Some(is_running) = changed else { return };
        self.metrics.conflicting_recorder.set(is_running.into());
        self.follow_discovery();
        if is_running {
            warn!("OpenKruise's manager runs and writes the same objects; see --recorder");
            self.manager
                .notice()
                .into_iter()
                .for_each(|notice| self.term.publish(notice));
        } else {
            info!("OpenKruise's manager does not run");
        }
    }

    /// When the next write is due; `None` if none may begin now.
    pub(super) fn next_due(&self) -> Option<Instant> {
        if !self.term.is_leader() || !self.writes.has_room() {
            return None;
        }
        let (writes, candidates) = (&self.writes, self.writes.candidates());
        let may_generate = !self.discovery.is_pps_definition_terminating();
        let times = [
            writes.generated.next(candidates).filter(|_| may_generate),
            writes.statuses.next(candidates),
            writes.evictions.next(candidates),
            self.absences.missing.next(candidates),
        ];
        times.into_iter().flatten().min()
    }

    pub(super) fn take_turn(&mut self) {
        self.follow_leadership();
        if !self.watching.has_pods && self.index.is_interest_known() {
            self.watching.start_pods_and_nodes();
        }
        if !self.is_synced && self.index.is_complete() && self.discovery.is_settled() {
            self.is_synced = true;
            self.health.mark_synced();
            self.follow_index();
            info!(tracked = ?self.index.counts(), "initial lists complete");
        }
        let now = Instant::now();
        self.queue_work(now);
        if self.term.is_leader() && self.apply_overdue(now) {
            self.queue_work(now);
        }
        while self.term.is_leader() && self.writes.has_room() && self.begin_next_write(now) {}
    }

    /// Takes over a change of the term. A new leader decides everything again from what the watches
    /// have delivered. A standby keeps no decisions.
    pub(super) fn follow_leadership(&mut self) {
        if !self.term.writer.permit.renew() {
            return;
        }
        self.writes.clear();
        self.absences.unschedulable.clear();
        if self.term.is_leader() {
            self.index.begin_term();
            self.term.publish_held_back();
        }
    }

    /// Begins the next due write or lookup. Returns false if none is due. An eviction is the last
    /// one of a turn: it compares a Pod with all nodes, and after a node event each Pod that waits,
    /// while the Lease has to be renewed.
    fn begin_next_write(&mut self, now: Instant) -> bool {
        let candidates = self.writes.candidates();
        if !self.discovery.is_pps_definition_terminating()
            && let Some((workload, is_retry)) = self.writes.generated.take(candidates, now)
        {
            self.write_generated_pps(workload, is_retry);
        } else if let Some((key, is_retry)) = self.writes.statuses.take(candidates, now) {
            self.write_status(&key, is_retry);
            for node in self.index.take_unconfirmed_nodes() {
                self.absences.missing.request_confirmation(&node, now);
            }
        } else if let Some((node, is_retry)) = self.absences.missing.lookups.take(candidates, now) {
            self.writes
                .begin(is_retry, self.term.writer.clone().look_up_node(node));
        } else {
            if let Some((pod, is_retry)) = self.writes.evictions.take(candidates, now) {
                self.evict(&pod, is_retry, now);
            }
            return false;
        }
        true
    }

    fn queue_work(&mut self, now: Instant) {
        let work = self.index.take_work();
        self.watching.relist(&work);
        // A standby queues nothing: the index brings up everything again when this process begins
        // to lead.
        if self.term.is_leader() {
            for key in &work.statuses {
                if self
                    .stopping
                    .as_ref()
                    .is_none_or(|objects| objects.contains(key))
                {
                    self.writes.statuses.mark(key, now);
                }
            }
            for workload in &work.generated {
                self.writes.generated.mark(workload, now);
            }
            for pod in &work.evictions {
                self.writes.evictions.mark(pod, now);
            }
            // Each Pod counts once, however many replicas there are.
            for ((placement, injected), pods) in work.bound_pods {
                self.metrics.count_bound_pods(placement, injected, pods);
            }
        }
        for node in &work.new_nodes {
            self.absences.new_nodes.set(
                node,
                now + self.absences.missing.period.min(LABEL_GRACE_PERIOD),
            );
        }
        for node in &work.absences {
            self.on_node_absence(node, now);
        }
        for notice in work.notices {
            self.term.publish(notice);
        }
    }

    /// Updates the metrics that are not counted, drops unused timing, and retries some writes now
    /// and then.
    pub(super) fn sweep(&mut self) {
        let now = Instant::now();
        self.writes.sweep(now);
        self.follow_index();
        let (pending, oldest_age) = self.writes.pending(now);
        self.metrics.set_pending_writes(pending, oldest_age);
        self.metrics
            .set_conflicting_objects(self.writes.statuses.conflicting(REPORT_AFTER));
        while let Some(node) = self.absences.new_nodes.take_due(now) {
            self.index.on_node_settled(&node);
        }
        self.sweeps = self.sweeps.wrapping_add(1);
        if self.sweeps.is_multiple_of(HELD_RETRY_SWEEPS) {
            self.index.retry_held();
        }
        let sweeps_of_a_round = self
            .absences
            .missing
            .period
            .as_secs()
            .div_ceil(SWEEP_INTERVAL.as_secs());
        if u64::from(self.sweeps).is_multiple_of(sweeps_of_a_round) {
            self.index.end_surplus_round();
        }
        if self.sweeps.is_multiple_of(OVERSIZED_RETRY_SWEEPS) {
            self.index.retry_exceeded();
        }
    }

    fn follow_index(&self) {
        self.metrics
            .follow_index(&self.index, |since| time_since(since, wall_clock()));
    }

    /// Writes all statuses that are pending now, due or not, and waits for the results. Takes what
    /// the watches report meanwhile: a write that met another one is decided again from it. A
    /// standby has nothing to write.
    pub(super) async fn finish(&mut self, observations: &mut mpsc::Receiver<Observation>) {
        let mut now = Instant::now();
        self.queue_work(now);
        let pending = self.writes.statuses.take_all();
        for key in &pending {
            self.writes.statuses.mark(key, now);
        }
        self.stopping = Some(pending.into_iter().collect());
        while self.term.is_leader() {
            while self.writes.has_room()
                && let Some((key, is_retry)) =
                    self.writes.statuses.take(self.writes.candidates(), now)
            {
                self.write_status(&key, is_retry);
            }
            let next = self
                .writes
                .statuses
                .next(self.writes.candidates())
                .filter(|_| self.writes.has_room());
            if next.is_none() && self.writes.in_flight() == 0 {
                return;
            }
            tokio::select! {
                Some(Ok(result)) = self.writes.next_result() => {
                    // An object that was being written may have changed before the stop.
                    self.stopping.get_or_insert_default().extend(result.object().cloned());
                    self.on_write_done(result);
                }
                Some(observation) = observations.recv() => self.apply(observation),
                () = sleep_until(next.unwrap_or(now).into()), if next.is_some() => {}
                else => return,
            }
            now = Instant::now();
            self.queue_work(now);
        }
    }
}
