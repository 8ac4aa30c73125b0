//! A long run: a process lives through days of a busy cluster, and what it keeps in memory stays
//! the same for the same objects. The product's own schedules decide, on a simulated clock, when it
//! writes.
//!
//! ```console
//! $ PPS_LONG_RUN_DAYS=7 cargo test -p pps-sidecar --test interleavings -- long_run --nocapture
//! ```

use std::time::{Duration, Instant};

use pps_core::Reason;
use pps_core::pps::RetentionPolicy;
use pps_recorder::Counts;
use pps_recorder::timing::event_budget::EventBudget;
use pps_recorder::timing::schedule::{Batch, Candidates, Deadlines};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;

use super::super::cluster::{
    Cluster, NAMED_NODES, NODES, Name, PPS_OBJECTS, PatchResponse, SpecOptions, WORKLOADS,
};
use super::super::steps::{ClusterChange, Step, cluster_change, race};
use super::{NodeAbsence, Simulation};
use crate::{assert_at_rest, config};

const DAY: Duration = Duration::from_hours(24);
const NODE_GRACE_PERIOD: Duration = Duration::from_mins(10);
const LABEL_GRACE_PERIOD: Duration = Duration::from_mins(5);
/// How many of a hundred writes get no answer.
const LOST_WRITES: u32 = 2;
/// The interner keeps so many unused names before it looks for them.
const UNUSED_NAMES: usize = 1024;

/// What happens in a cluster. The weights are numbers a week.
fn event(twice_a_day: Step) -> impl Strategy<Value = Event> {
    use Event::{Lasting, Once};
    let kind = || 1_u8..3;
    prop_oneof![
        7 * 600 => cluster_change([540, 8, 40, 11, 1]).prop_map(|change| Once(Step::Change(change))),
        7 * 30 => race().prop_map(Once),
        7 * 60 => Just(Event::Recovery),
        7 * 40 => (0_u8..7).prop_map(|watch| Once(Step::Relist(watch))),
        7 * 20 => (0_u8..7).prop_map(|watch| Lasting(Step::Stall(watch))),
        7 * 4 => kind().prop_map(|kind| Lasting(Step::ToggleFailingKind(kind))),
        7 => kind().prop_map(|kind| Lasting(Step::ToggleForbiddenKind(kind))),
        7 => kind().prop_map(|kind| Lasting(Step::ToggleWatchedKind(kind))),
        7 * 4 => Just(Lasting(Step::ToggleReads)),
        7 => Just(Lasting(Step::ToggleRefusedForm)),
        2 => Just(Once(Step::RestoreBackup)),
        7 * 2 => Just(Once(twice_a_day)),
    ]
}

const EVENTS_A_DAY: u32 = 763;

#[derive(Clone, Debug)]
enum Event {
    Once(Step),
    /// The same step ends the fault after the next event.
    Lasting(Step),
    /// Controllers and users put everything back in order.
    Recovery,
}

/// One process with its clock.
struct Process {
    simulation: Simulation,
    now: Instant,
    writes: Batch<Name>,
    grace_periods: Deadlines<Name>,
    new_nodes: Deadlines<Name>,
    budget: EventBudget,
    today: Day,
}

/// What was counted on one day.
#[derive(Debug, Default)]
struct Day {
    /// Stored by the API server.
    writes: u32,
    /// Without an answer.
    lost: u32,
    /// What was to be reported to users.
    notices: u32,
    /// Of them, those for which there was a budget.
    published: u32,
}

/// What the process keeps at rest.
#[derive(Clone, Debug, PartialEq)]
struct Kept {
    /// What metrics count.
    counts: Counts,
    watched_kinds: usize,
    /// The length of everything that the recorder keeps, as text without digits and without unused
    /// names.
    length: usize,
}

impl Process {
    fn new() -> Self {
        Self {
            simulation: Simulation::new(Cluster::new(&[OPTIONS; PPS_OBJECTS.len()])),
            now: Instant::now(),
            writes: Batch::default(),
            grace_periods: Deadlines::default(),
            new_nodes: Deadlines::default(),
            budget: EventBudget::default(),
            today: Day::default(),
        }
    }

    fn live_a_day(&mut self, events: &impl Strategy<Value = Event>, runner: &mut TestRunner) {
        self.today = Day::default();
        let (start, mut lasting) = (self.now, Vec::new());
        for number in 1..=EVENTS_A_DAY {
            let ended = std::mem::take(&mut lasting);
            match events.new_tree(runner).unwrap().current() {
                Event::Once(step) => self.apply(&step),
                Event::Recovery => self.recover(),
                Event::Lasting(step) => {
                    self.apply(&step);
                    lasting.push(step);
                }
            }
            let until = start + DAY / EVENTS_A_DAY * number;
            self.work_until(until, runner);
            for step in &ended {
                self.apply(step);
            }
        }
    }

    fn apply(&mut self, step: &Step) {
        self.simulation.apply(step);
        if matches!(step, Step::Restart | Step::RestoreBackup) {
            self.writes = Batch::default();
            self.grace_periods = Deadlines::default();
            self.new_nodes = Deadlines::default();
        }
    }

    /// Delivers, and writes what falls due.
    fn work_until(&mut self, until: Instant, runner: &mut TestRunner) {
        loop {
            self.deliver();
            let times = [
                self.writes.next(Candidates::All),
                self.grace_periods.next(),
                self.new_nodes.next(),
            ];
            let Some(next) = times
                .into_iter()
                .flatten()
                .min()
                .filter(|next| *next <= until)
            else {
                break;
            };
            self.now = self.now.max(next);
            while let Some(node) = self.grace_periods.take_due(self.now) {
                self.simulation.end_grace_period(node);
            }
            while let Some(node) = self.new_nodes.take_due(self.now) {
                self.simulation.settle_node(node);
            }
            if let Some(due) = self.writes.take(Candidates::All, self.now) {
                let name = due.key;
                self.write(name, runner);
            }
            for node in self.simulation.unconfirmed_nodes() {
                self.simulation.look_up_node(node);
            }
        }
        self.now = until;
        self.writes.sweep(until);
        self.simulation.serve_abandoned(0);
        self.simulation.retry_unconfirmed();
        self.simulation.end_surplus_round();
    }

    fn deliver(&mut self) {
        let simulation = &mut self.simulation;
        simulation.deliver_unstalled();
        for number in 0..WORKLOADS.len() {
            if simulation.generate(number) {
                simulation.serve_generated(0);
            }
        }
        for name in std::mem::take(&mut simulation.due) {
            self.writes.mark(&name, self.now);
        }
        for name in NAMED_NODES {
            let is_waiting =
                simulation.snapshot.absences.get(name) == Some(&NodeAbsence::InGracePeriod);
            follow(
                &mut self.grace_periods,
                name,
                is_waiting,
                self.now + NODE_GRACE_PERIOD,
            );
            let is_new = simulation.snapshot.new_nodes.contains(name);
            follow(
                &mut self.new_nodes,
                name,
                is_new,
                self.now + LABEL_GRACE_PERIOD,
            );
        }
        self.today.writes += std::mem::take(&mut simulation.stored);
        for notice in std::mem::take(&mut simulation.notices) {
            self.today.notices += 1;
            self.today.published += u32::from(self.budget.spend(&notice.subject, true, self.now));
        }
    }

    fn write(&mut self, name: Name, runner: &mut TestRunner) {
        let (simulation, now) = (&mut self.simulation, self.now);
        let number = simulation.pending.len();
        if !simulation.decide(name) {
            return;
        }
        simulation.serve_write(number);
        let Some(pending) = simulation.pending.get(number) else {
            return self.writes.not_sent(&name, now);
        };
        let is_applied = matches!(pending.response, Some(PatchResponse::Applied(_)));
        let (cost, workload) = (pending.write.cost, pending.write.workload.clone());
        let drops_states = pending
            .write
            .loss_check
            .as_ref()
            .is_some_and(|drops| drops.unwanted().next().is_some());
        let is_lost = runner.rng().next_u32() % 100 < LOST_WRITES;
        simulation.answer_write(number, is_lost);
        if is_lost {
            self.today.lost += 1;
            self.writes.failed(&name, None, now);
        } else if is_applied {
            if drops_states {
                simulation
                    .recorder
                    .report(&workload, Reason::StatesDropped, String::new());
            }
            self.writes.written(&name, cost, now);
        } else {
            self.writes.conflicted(&name, now);
        }
    }

    /// All kinds are watched, and everything exists that should.
    fn recover(&mut self) {
        let simulation = &mut self.simulation;
        for kind in 1..WORKLOADS.len() {
            if !simulation.snapshot.kinds.contains_key(&kind) {
                simulation.toggle_watched_kind(kind);
            }
            if simulation.snapshot.forbidden.contains(&kind) {
                simulation.toggle_forbidden_kind(kind);
            }
            if simulation.snapshot.failing.contains(&kind) {
                simulation.toggle_failing_kind(kind);
            }
        }
        simulation.set_disabled(false);
        for node in NODES {
            simulation.put_node(node, Some(1), true);
        }
        for (number, kind) in (0..WORKLOADS.len()).zip(0..) {
            if simulation
                .cluster
                .workloads
                .get(&number)
                .is_none_or(|workload| workload.terminating)
            {
                simulation.change_cluster(&ClusterChange::DeleteWorkload(kind));
                simulation.change_cluster(&ClusterChange::CreateWorkload(kind, json!({})));
            }
            simulation.change_cluster(&ClusterChange::EditWorkload(kind, json!({"replicas": 2})));
        }
        for ((name, _), number) in PPS_OBJECTS.iter().zip(0..) {
            if simulation
                .cluster
                .objects
                .get(name)
                .is_some_and(|object| object.terminating)
            {
                simulation.change_cluster(&ClusterChange::DeletePps(number));
            }
            simulation.change_cluster(&ClusterChange::CreatePps(number, OPTIONS));
        }
        simulation.recover_workloads();
    }

    /// Brings the cluster to the same state, whatever has happened, with new PPS objects.
    fn rest(&mut self) {
        let simulation = &mut self.simulation;
        simulation.due.extend(self.writes.take_all());
        for number in 0..WORKLOADS.len() {
            let kind = u8::try_from(number).unwrap();
            simulation.change_cluster(&ClusterChange::AnnotateWorkload(kind, false));
        }
        for number in 0..PPS_OBJECTS.len() {
            simulation.change_cluster(&ClusterChange::DeletePps(u8::try_from(number).unwrap()));
        }
        self.recover();
        self.simulation.settle();
        assert_at_rest(&mut self.simulation);
        self.deliver();
        // No write is due, no object's timing is kept, and no backup is older than this.
        self.now += Duration::from_hours(1);
        self.writes.sweep(self.now);
        assert_eq!(
            format!("{:?}", self.writes),
            format!("{:?}", Batch::<Name>::default())
        );
        let cluster = &mut self.simulation.cluster;
        let stored: Vec<u64> = cluster
            .objects
            .values()
            .map(|object| object.version)
            .collect();
        cluster
            .history
            .retain(|version, _| stored.contains(version));
    }

    fn kept(&self) -> Kept {
        let recorder = &self.simulation.recorder;
        let text = format!("{recorder:?}");
        let (before, rest) = text.split_once("interner: Interner { shared: {").unwrap();
        let (names, after) = rest.split_once("}, sweep_at").unwrap();
        let names = names.split(", ").count();
        assert!(names <= UNUSED_NAMES, "{names} interned names");
        let length = |text: &str| text.chars().filter(|one| !one.is_ascii_digit()).count();
        Kept {
            counts: recorder.counts(),
            watched_kinds: after.matches("}: Kind {").count(),
            length: length(before) + length(after),
        }
    }
}

const OPTIONS: SpecOptions = SpecOptions {
    target: 0,
    zone: true,
    host: true,
    ip: true,
    net: true,
    retention: RetentionPolicy::WhenScaled,
    forget: true,
    home: false,
};

/// Starts a time for each name that needs one, and ends the others.
fn follow(times: &mut Deadlines<Name>, name: Name, is_needed: bool, end: Instant) {
    if !is_needed {
        times.cancel(&name);
    } else if !times.contains(&name) {
        times.set(&name, end);
    }
}

fn days() -> u32 {
    std::env::var("PPS_LONG_RUN_DAYS").map_or(1, |days| {
        days.parse().expect("PPS_LONG_RUN_DAYS is a number")
    })
}

#[test]
fn a_process_keeps_nothing_of_the_days_that_are_over() {
    live(Step::DeliverAll);
}

#[test]
fn processes_that_restart_twice_a_day_keep_the_same() {
    live(Step::Restart);
}

/// Lives through the days, and asserts that each ends as the first one did, and that a new process
/// would then keep the same.
fn live(twice_a_day: Step) {
    let mut runner = TestRunner::new(config(1));
    let (events, mut process) = (event(twice_a_day), Process::new());
    let mut first = None;
    for day in 1..=days() {
        process.live_a_day(&events, &mut runner);
        process.rest();
        let (kept, today) = (process.kept(), &process.today);
        println!("day {day}: {today:?}, {kept:?}");
        let (first_kept, writes, published) =
            first.get_or_insert_with(|| (kept.clone(), today.writes, today.published));
        assert_eq!(kept, *first_kept, "kept after day {day}");
        assert!(today.writes <= 2 * *writes, "writes on day {day}");
        assert!(
            today.published <= 2 * *published + 20,
            "Events on day {day}"
        );
    }
    let old = process.kept();
    process.apply(&Step::Restart);
    process.simulation.settle();
    assert_eq!(process.kept(), old, "kept by a new process");
}
