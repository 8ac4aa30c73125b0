//! The worker: routes what the watches report to the recorder, what the recorder decides to the API
//! server, and what becomes of that back to the recorder.

mod actions;
mod evictions;
mod fallbacks;
mod generated;

mod missing_nodes;
mod requests;
mod status;
mod term;
#[cfg(test)]
mod tests;
mod wall_clock;
mod watching;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::mpsc;
use tokio::time::sleep_until;
use tracing::{info, warn};

use self::requests::Requests;
use self::status::REPORT_AFTER_CONFLICTS;
use self::term::CurrentTerm;
use self::wall_clock::{time_since, wall_clock};
use self::watching::Watching;
use super::SWEEP_INTERVAL;
use crate::args::{Args, CompactStates};
use crate::lead::Leadership;
use crate::observe::discovery::Discovery;
use crate::observe::openkruise::Manager;
use crate::observe::watch::{Observation, Watches};
use crate::telemetry::Health;
use crate::telemetry::metrics::Metrics;
use crate::write::Outcome;
use pps_recorder::facts::{NamespacedName, store::Update};
use pps_recorder::timing::agenda::Agenda;
use pps_recorder::{Fact, Recorder};

/// After how many sweeps a write that was too large is tried again: etcd's limit may have been
/// raised.
const OVERSIZED_RETRY_SWEEPS: u32 = 120;
/// After how many sweeps drops and changes that were not confirmed are tried again, if nothing is
/// heard of the Pods before.
const HELD_RETRY_SWEEPS: u32 = 6;

/// For how many grace periods of nodes a name has to be absent from those that a workload lists
/// before its entry is dropped: ten minutes by default.
const NAME_GRACE_PERIODS: u32 = 2;

pub(super) struct Worker {
    recorder: Recorder,
    agenda: Agenda,
    pub(super) requests: Requests,
    discovery: Discovery,
    pub(super) watching: Watching,
    term: CurrentTerm,
    manager: Manager,
    compact_states: CompactStates,
    evicts_pending_pods: bool,
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
        let health = watches.health.clone();
        let metrics = watches.metrics.clone();
        let mut recorder = Recorder::new(watches.interest.clone());
        recorder.select_namespaces(&args.namespace_selector);
        recorder.limit_objects(args.max_object_size.saturating_mul(1024));
        recorder.drop_absent_names_after(args.node_grace_period.saturating_mul(NAME_GRACE_PERIODS));
        let is_off = args.compact_states != CompactStates::Auto;
        recorder.change_compact_form(|form| form.is_off = is_off);
        let mut term =
            CurrentTerm::new(leadership.clone(), watches.client.clone(), metrics.clone());
        term.writer.namespace_selector = args.namespace_selector.as_str().into();
        term.namespace.clone_from(&args.namespace);
        Self {
            recorder,
            agenda: Agenda::new(args.node_grace_period),
            requests: Requests::default(),
            discovery: Discovery::new(&args.config_namespace),
            watching: Watching::new(watches, leadership),
            term,
            manager: Manager::default(),
            compact_states: args.compact_states,
            evicts_pending_pods: args.evict_pending_pods,
            is_synced: false,
            sweeps: 0,
            stopping: None,
            health,
            metrics,
        }
    }

    pub(super) fn apply(&mut self, observation: Observation) {
        match observation {
            Observation::Pods(update) => self.recorder.apply(Fact::Pods(update)),
            Observation::Nodes(update) => self.recorder.apply(Fact::Nodes(update)),
            Observation::Namespaces(update) => self.recorder.apply(Fact::Namespaces(update)),
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
                    self.agenda.statuses.forget(key);
                }
                self.recorder.apply_pps(update);
            }
        }
    }

    pub(super) fn done(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Status { write, result } => match result {
                Ok(version) => self.on_status_written(&write, &version),
                Err(failure) => self.on_status_failed(&write, &failure),
            },
            Outcome::LossUnconfirmed { write, unconfirmed } => {
                self.on_loss_unconfirmed(&write, &unconfirmed);
            }
            Outcome::StoredWithoutCompactForm {
                write,
                resource_version,
            } => self.on_stored_without_compact_form(&write, &resource_version),
            Outcome::CompactFormRefused { write, reason } => {
                self.on_compact_form_refused(&write, &reason);
            }
            Outcome::PpsRead {
                key,
                known_version,
                result,
            } => self.on_pps_read(&key, &known_version, result),
            Outcome::Generated {
                workload,
                write,
                result,
            } => self.on_generated(&workload, write, result),
            Outcome::Eviction { eviction, result } => self.on_evicted(&eviction, result),
            Outcome::NodeLookup { node, exists } => self.on_node_lookup(&node, exists),
            Outcome::Fallback { candidate, result } => self.on_fallback(&candidate, result),
        }
    }

    pub(super) fn on_manager_checked(&mut self, lease: Option<Box<Lease>>) {
        let changed = self.manager.apply(lease);
        let is_off = self.compact_states != CompactStates::Auto || !self.manager.is_idle();
        self.recorder
            .change_compact_form(|form| form.is_off = is_off);
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

    /// When the next write, lookup or eviction is due, or the grace period of a node ends. `None`
    /// on a standby, or while no further request may be sent.
    pub(super) fn next_due(&self) -> Option<Instant> {
        if !self.term.is_leader() || !self.requests.has_room() {
            return None;
        }
        let candidates = self.requests.candidates();
        self.agenda.next(candidates, self.may_generate())
    }

    /// Nothing is generated while the definition of PersistentPodState is being deleted.
    fn may_generate(&self) -> bool {
        !self.discovery.is_pps_definition_terminating()
    }

    pub(super) fn take_turn(&mut self) {
        self.follow_leadership();
        if !self.watching.has_pods && self.recorder.is_interest_known() {
            self.watching.start_pods_and_nodes();
        }
        if !self.is_synced && self.recorder.is_complete() && self.discovery.is_settled() {
            self.is_synced = true;
            self.health.mark_synced();
            self.update_metrics();
            let counts = self.recorder.counts();
            info!(
                pods = counts.pods,
                nodes = counts.nodes,
                workloads = counts.workloads,
                persistentpodstates = counts.persistent_pod_states,
                recorded_states = counts.recorded_states,
                missing_nodes = counts.missing_nodes,
                "initial lists complete",
            );
        }
        let now = Instant::now();
        self.take_up_work(now);
        if self.term.is_leader() && self.apply_overdue(now) {
            self.take_up_work(now);
        }
        self.act(now);
    }

    /// Takes over a change of the term. A new leader decides everything again from what the watches
    /// have delivered. A standby keeps no decisions.
    pub(super) fn follow_leadership(&mut self) {
        if !self.term.writer.permit.renew() {
            return;
        }
        self.agenda.clear();
        if self.term.is_leader() {
            self.recorder.begin_term();
            self.term.publish_standby_notices();
        }
    }

    /// Takes what the recorder wants to be examined.
    fn take_up_work(&mut self, now: Instant) {
        let work = self.recorder.take_work();
        self.watching.relist(&work);
        // A standby takes up nothing: the recorder brings up everything again when this process begins
        // to lead.
        if self.term.is_leader() {
            for key in &work.statuses {
                if self.is_still_written(key) {
                    self.agenda.statuses.mark(key, now);
                }
            }
            for workload in &work.generated {
                self.agenda.generated.mark(workload, now);
            }
            for pod in &work.evictions {
                self.agenda.evictions.mark(pod, now);
            }
            // Each Pod counts once, however many replicas there are.
            for (bound, pods) in work.bound_pods {
                self.metrics.count_bound_pods(bound, pods);
            }
        }
        for node in &work.new_nodes {
            self.agenda.add_new_node(node, now);
        }
        for node in &work.absences {
            self.on_node_absence(node, now);
        }
        for notice in work.notices {
            self.term.publish(notice);
        }
    }

    fn is_still_written(&self, key: &NamespacedName) -> bool {
        self.stopping
            .as_ref()
            .is_none_or(|objects| objects.contains(key))
    }

    /// Updates the metrics that are not counted, drops unused timing, and retries some writes now
    /// and then.
    pub(super) fn sweep(&mut self) {
        let now = Instant::now();
        self.agenda.sweep(now);
        self.recorder.pass_time(now, wall_clock().as_second());
        self.update_metrics();
        self.metrics.set_pending_writes(self.agenda.waiting(), now);
        self.metrics
            .set_conflicting_objects(self.agenda.statuses.conflicting(REPORT_AFTER_CONFLICTS));
        while let Some(node) = self.agenda.take_settled_node(now) {
            self.recorder.apply(Fact::NodeSettled(node));
        }
        self.follow_fallbacks(now);
        self.sweeps = self.sweeps.wrapping_add(1);
        if self.sweeps.is_multiple_of(HELD_RETRY_SWEEPS) {
            self.recorder.retry_unconfirmed();
        }
        let grace_period = self.agenda.missing_nodes.period.as_secs();
        let sweeps_of_a_round = grace_period.div_ceil(SWEEP_INTERVAL.as_secs());
        if u64::from(self.sweeps).is_multiple_of(sweeps_of_a_round) {
            self.recorder.end_surplus_round();
        }
        if self.sweeps.is_multiple_of(OVERSIZED_RETRY_SWEEPS) {
            self.recorder.retry_exceeded();
        }
    }

    fn update_metrics(&self) {
        let now = wall_clock();
        self.metrics
            .set_counts(&self.recorder.counts(), |since| time_since(since, now));
    }

    /// Writes all statuses that are pending now, due or not, and waits for the results. Takes what
    /// the watches report meanwhile: a write that met another one is decided again from it. A
    /// standby has nothing to write.
    pub(super) async fn finish(&mut self, observations: &mut mpsc::Receiver<Observation>) {
        let mut now = Instant::now();
        self.take_up_work(now);
        let pending = self.agenda.statuses.take_all();
        for key in &pending {
            self.agenda.statuses.mark(key, now);
        }
        self.stopping = Some(pending.into_iter().collect());
        while self.term.is_leader() {
            while let Some(task) = self.next_status(now) {
                self.send(task);
            }
            let candidates = self.requests.candidates();
            let next = self.agenda.statuses.next(candidates);
            let next = next.filter(|_| self.requests.has_room());
            if next.is_none() && self.requests.count() == 0 {
                return;
            }
            tokio::select! {
                Some(Ok(outcome)) = self.requests.next_outcome() => {
                    // An object that was being written may have changed before the stop.
                    self.stopping.get_or_insert_default().extend(outcome.object().cloned());
                    self.done(outcome);
                }
                Some(observation) = observations.recv() => self.apply(observation),
                () = sleep_until(next.unwrap_or(now).into()), if next.is_some() => {}
                else => return,
            }
            now = Instant::now();
            self.take_up_work(now);
        }
    }
}
