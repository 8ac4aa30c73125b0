//! A sidecar process in the simulated cluster: watch events reach its recorder late, and writes are
//! answered late, wrongly or never.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pps_recorder::facts::interest::Interest;
use pps_recorder::facts::{
    NamespacedName, NodeFact, Notice, PodFact, PpsFact, StoredForm, WorkloadFact,
};
use pps_recorder::living_pods::LivingPods;
use pps_recorder::recording::RECORDING;
use pps_recorder::{Absence, CompactLimits, Counts, Recorder, StatusOutcome, StatusWrite};

use super::cluster::{
    Cluster, NAMED_NODES, Name, Node, PPS_OBJECTS, PatchResponse, Pod, Pps, WORKLOADS, Workload,
};
use super::model::{ExpectedStatus, HEALTHY, expected_status_with, is_away};
use super::snapshot::{
    NodeAbsence, Snapshot, WatchCache, WatchQueue, group_kind, node_fact, pod_fact, workload_fact,
};
use super::states::{changed_states, parse_status, patched};

#[path = "generation.rs"]
mod generation;
#[path = "long_run.rs"]
mod long_run;
#[path = "watches.rs"]
mod watches;

/// The number of watches.
pub(crate) const WATCHES: usize = 7;
const ROUND: Duration = Duration::from_mins(10);
const NOW: &str = "2026-01-01T00:00:00Z";
/// At rest, no PPS may need more writes than this: each missing Node may be confirmed alone.
const MAX_WRITES_AT_REST: usize = 4 + NAMED_NODES.len();
/// From so many states on, an object gets the compact form, and below so many it loses it.
const COMPACT_FROM: usize = 3;
const COMPACT_UNTIL: usize = 2;

/// A write that the recorder has handed out.
#[derive(Debug)]
pub(crate) struct PendingWrite {
    name: Name,
    uid: String,
    write: StatusWrite,
    /// UID of the workload whose Pods it records.
    recorder: Option<String>,
    /// The entries that belong to the workload of this UID once they are stored.
    renewing: BTreeMap<String, String>,
    /// The API server's response, once it has received the request.
    response: Option<PatchResponse>,
    /// Whether the object that it was made for is still the one that the recorder knows.
    is_current: bool,
    /// The newest version that the watch has delivered while the write was pending, and whether in
    /// a list.
    watched: Option<(Pps, bool)>,
}

/// The recorder with everything that goes into it and comes out of it.
#[derive(Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a condition of its own"
)]
pub(crate) struct Simulation {
    pub(crate) cluster: Cluster,
    recorder: Recorder,
    interest: Interest,
    snapshot: Snapshot,
    pods: WatchQueue<Pod, PodFact>,
    nodes: WatchQueue<Node, NodeFact>,
    namespaces: WatchQueue<(), ()>,
    objects: WatchQueue<Pps, Box<PpsFact>>,
    kinds: [WatchQueue<Workload, WorkloadFact>; 3],
    /// The revision of the last lists of Pods and Nodes. None until these are watched: the recorder
    /// must first know which labels and annotations to keep.
    listed_revision: Option<u64>,
    /// The PPS whose status the recorder wants to decide.
    due: BTreeSet<Name>,
    /// The Nodes whose absence the recorder wants to have confirmed.
    unconfirmed: BTreeSet<Name>,
    pending: Vec<PendingWrite>,
    /// The workloads whose generated PPS the recorder wants to decide, and what it wants done.
    due_generated: BTreeSet<usize>,
    generated: Vec<generation::PendingGenerated>,
    /// The watches that deliver nothing for now.
    stalled: BTreeSet<usize>,
    /// Whether Pods cannot be read for now.
    are_reads_failing: bool,
    /// Whether the process is started with `--compact-states never`.
    pub(crate) is_compact_form_off: bool,
    /// Whether the API server would not store the compact form unchanged.
    pub(crate) is_compact_form_refused: bool,
    /// Requests whose sender no longer waits for the response. The API server may still serve them.
    abandoned: Vec<(Name, StatusWrite, Option<String>)>,
    writes: [usize; PPS_OBJECTS.len()],
    /// What the recorder has had reported to users.
    notices: Vec<Notice>,
    /// How many writes the API server has stored.
    stored: u32,
    now: Instant,
}

fn key(name: Name) -> NamespacedName {
    NamespacedName::new("n", name)
}

fn pps_number(name: Name) -> usize {
    PPS_OBJECTS
        .iter()
        .position(|(object, _)| *object == name)
        .unwrap()
}

impl Simulation {
    pub(crate) fn new(cluster: Cluster) -> Self {
        let interest = Interest::default();
        let mut simulation = Self {
            cluster,
            recorder: Recorder::new(interest.clone()),
            interest,
            snapshot: Snapshot::default(),
            pods: WatchQueue::new(),
            nodes: WatchQueue::new(),
            namespaces: WatchQueue::new(),
            objects: WatchQueue::new(),
            kinds: Default::default(),
            listed_revision: None,
            due: BTreeSet::new(),
            unconfirmed: BTreeSet::new(),
            pending: Vec::new(),
            due_generated: BTreeSet::new(),
            generated: Vec::new(),
            stalled: BTreeSet::new(),
            are_reads_failing: false,
            is_compact_form_off: false,
            is_compact_form_refused: false,
            abandoned: Vec::new(),
            writes: [0; PPS_OBJECTS.len()],
            notices: Vec::new(),
            stored: 0,
            now: Instant::now(),
        };
        simulation.start_watches(&BTreeSet::from([1, 2]));
        simulation
    }

    /// The process is killed, and a new one starts.
    pub(crate) fn restart(&mut self) {
        let other_kinds: BTreeSet<usize> = self
            .snapshot
            .kinds
            .keys()
            .copied()
            .filter(|number| *number > 0)
            .collect();
        for pending in std::mem::take(&mut self.pending) {
            if pending.response.is_none() {
                self.abandon(pending);
            }
        }
        // A new process cannot tell for which workload an entry was recorded.
        self.cluster.recorders.clear();
        for (_, _, recorder) in &mut self.abandoned {
            *recorder = None;
        }
        self.interest = Interest::default();
        self.recorder = Recorder::new(self.interest.clone());
        let before = std::mem::take(&mut self.snapshot);
        self.pods.clear();
        self.nodes.clear();
        self.listed_revision = None;
        self.due.clear();
        self.due_generated.clear();
        self.generated.clear();
        self.unconfirmed.clear();
        self.start_watches(&other_kinds);
        // What the API server refuses, it still refuses.
        for number in before.forbidden {
            self.toggle_forbidden_kind(number);
        }
        for number in before.failing {
            self.toggle_failing_kind(number);
        }
    }

    fn start_watches(&mut self, other_kinds: &BTreeSet<usize>) {
        self.recorder
            .change_compact_form(|form| form.is_off = self.is_compact_form_off);
        self.recorder.change_compact_form(|form| {
            form.limits = CompactLimits {
                from: COMPACT_FROM,
                until: COMPACT_UNTIL,
            }
        });
        self.recorder
            .change_compact_form(|form| form.is_kept = Some(true));
        self.recorder.pass_time(self.now, 0);
        self.recorder.select_namespaces("enabled=yes");
        self.snapshot.kinds.insert(0, WatchCache::default());
        for number in other_kinds {
            self.watch_kind(*number);
        }
        self.relist(2);
        self.relist(3);
        self.relist(6);
    }

    // ---- Missing Nodes
    // -----------------------------------------------------------------------------

    /// The grace period of a missing Node ends.
    pub(crate) fn end_grace_period(&mut self, node: Name) {
        if let Some(absence) = self.snapshot.absences.get_mut(node) {
            *absence = NodeAbsence::Overdue;
        }
        self.recorder
            .set_absence(&Arc::from(node), Absence::Overdue);
        self.take_work();
    }

    /// Reads a Node from the API server, if the recorder has requested that.
    pub(crate) fn look_up_node(&mut self, node: Name) {
        if !self.unconfirmed.remove(node) {
            return;
        }
        let (absence, node) = (self.snapshot.absences.get_mut(node), Arc::from(node));
        if self.cluster.nodes.contains_key(&*node) {
            self.recorder.set_absence(&node, Absence::InGracePeriod);
            if let Some(absence) = absence {
                *absence = NodeAbsence::InGracePeriod;
            }
        } else {
            self.recorder.set_absence(&node, Absence::Confirmed);
            if let Some(absence) = absence.filter(|absence| **absence == NodeAbsence::Overdue) {
                *absence = NodeAbsence::ConfirmedGone;
            }
        }
        self.take_work();
    }

    // ---- Writes
    // ------------------------------------------------------------------------------------

    /// Decides the status of a PPS if the recorder wants to. Returns whether there is something to
    /// write.
    pub(crate) fn decide_if_due(&mut self, name: Name) -> bool {
        self.due.remove(name) && self.decide(name)
    }

    /// Lets the recorder decide the status of a PPS, and compares the decision with the model's.
    /// Returns whether there is something to write.
    pub(crate) fn decide(&mut self, name: Name) -> bool {
        let decision = self.recorder.decide_status(&key(name), NOW);
        let write = decision.write;
        let expected = self.expected_status(name, write.as_ref());
        let confirmations = decision.unconfirmed_nodes;
        self.take_work();
        let Some(expected) = expected else {
            assert_eq!(
                write, None,
                "{name}: the recorder knows too little to decide this status"
            );
            assert!(
                confirmations.is_empty(),
                "{name}: asks for {confirmations:?} without a decision"
            );
            return false;
        };
        for node in confirmations {
            assert!(
                expected.confirmations.contains(&node.to_string()),
                "{name}: no entry depends on {node}"
            );
            self.unconfirmed
                .extend(NAMED_NODES.into_iter().find(|known| **known == *node));
        }
        self.assert_decision(name, write.as_ref(), &expected);
        let uid = self.snapshot.pps.objects[name].uid.clone();
        if let Some(renewed) = expected.renewed {
            self.snapshot.renewed.insert(uid.clone(), renewed);
        }
        // One that another PPS supersedes records nothing.
        let is_governing = !expected.reasons.contains(&"Superseded");
        let recorder = if is_governing {
            self.note_recorders(name, write.as_ref())
        } else {
            None
        };
        let Some(write) = write else { return false };
        self.pending.push(PendingWrite {
            name,
            uid,
            write,
            recorder,
            renewing: expected.renewing,
            response: None,
            is_current: true,
            watched: None,
        });
        self.writes[pps_number(name)] += 1;
        true
    }

    /// What the model expects, unless the recorder must wait: for a pending write, or for the watches.
    fn expected_status(&self, name: Name, write: Option<&StatusWrite>) -> Option<ExpectedStatus> {
        let snapshot = &self.snapshot;
        let is_pending = self
            .pending
            .iter()
            .any(|pending| pending.name == name && pending.is_current);
        // Each PPS waits only for the keys that it names itself. This is the product's own
        // judgement, but not the last word: at rest, the recorded states are compared with the
        // whole cluster.
        let is_interest_met = snapshot.pps.objects.get(name).is_none_or(|object| {
            let spec = serde_json::from_value(object.spec.clone()).unwrap();
            self.interest
                .is_met(&spec, snapshot.nodes.listed.min(snapshot.pods.listed))
        });
        let is_listed = snapshot.pps.listed.is_some()
            && snapshot.kinds[&0].listed.is_some()
            && snapshot.namespaces.listed.is_some();
        if is_pending || !is_interest_met || !is_listed {
            return None;
        }
        // An entry whose drop or change was not confirmed may stay, or it may be tried again.
        let object = snapshot.pps.objects.get(name);
        let changed = object.zip(write);
        let changed =
            changed.map(|(object, write)| changed_states(&object.status, &write.patch["status"]));
        let is_tried = |pod: &String| {
            changed
                .as_ref()
                .is_some_and(|changed| changed.contains_key(pod))
        };
        let held = snapshot
            .held
            .iter()
            .filter(|(pps, pod)| *pps == name && !is_tried(pod));
        let held = held.map(|(_, pod)| pod.clone()).collect();
        expected_status_with(snapshot, name, &held, is_tried)
    }

    /// Notes for which workload the entries were decided. Returns the UID of the one whose Pods a
    /// write records.
    fn note_recorders(&mut self, name: Name, write: Option<&StatusWrite>) -> Option<String> {
        let object = &self.snapshot.pps.objects[name];
        let workload = self
            .snapshot
            .workload(object.target)
            .filter(|workload| !workload.terminating)?;
        let changed = write.map(|write| changed_states(&object.status, &write.patch["status"]));
        // What another client has written since then says for itself whose the entries are.
        let stored = self
            .cluster
            .objects
            .get(name)
            .map(|stored| stored.status.get("targetUID"));
        let is_current = stored == Some(object.status.get("targetUID"));
        let states = parse_status(&object.status).pod_states;
        for (pod_name, pod) in &self.snapshot.pods.objects {
            let has_node = pod
                .node
                .is_some_and(|node| self.snapshot.nodes.objects.contains_key(node));
            let is_recorded = pod.ready
                && !pod.terminating
                && !pod.exempt
                && has_node
                && pod.owner.as_ref() == Some(&workload.uid);
            let is_written = changed
                .as_ref()
                .is_some_and(|changed| changed.contains_key(*pod_name));
            // A Pod that is gone already, as a late watch does not show, backs nothing.
            let exists = self
                .cluster
                .pods
                .get(pod_name)
                .is_some_and(|stored| stored.owner == pod.owner && stored.ready);
            let is_enabled = self.snapshot.namespaces.objects.contains_key("n");
            let is_away = is_away(object.options, states.get(*pod_name), pod);
            if is_recorded && exists && is_current && !is_written && is_enabled && !is_away {
                self.cluster
                    .note_recorder(&object.uid, pod_name, &workload.uid);
            }
        }
        Some(workload.uid.clone())
    }

    fn assert_decision(&self, name: Name, write: Option<&StatusWrite>, expected: &ExpectedStatus) {
        let object = &self.snapshot.pps.objects[name];
        let mut after = object.status.clone();
        if let Some(write) = write {
            let version = object.version.to_string();
            let metadata = &write.patch["metadata"];
            assert_eq!(
                (&metadata["uid"], &metadata["resourceVersion"]),
                (&object.uid.as_str().into(), &version.as_str().into()),
                "{name}: the patch is not for the newest known version"
            );
            after = patched(&after, &write.patch["status"]);
        }
        let (before, after) = (parse_status(&object.status), parse_status(&after));
        let snapshot = &self.snapshot;
        let context = || {
            format!(
                "{name}\nbefore: {before:?}\nafter: {after:?}\nexpected: \
                 {expected:?}\n{write:?}\n{snapshot:?}"
            )
        };
        assert_eq!(after.pod_states, expected.entries, "{}", context());
        assert_eq!(
            after.recorded,
            Some(i32::try_from(expected.entries.len()).unwrap()),
            "{}",
            context()
        );
        if !expected.may_keep_target || after.target_uid != before.target_uid {
            assert_eq!(after.target_uid, expected.target_uid, "{}", context());
        }
        assert_eq!(after.desired, expected.desired, "{}", context());
        assert_eq!(
            after.observed_generation,
            Some(expected.generation),
            "{}",
            context()
        );
        let recording = after
            .conditions
            .iter()
            .find(|condition| condition.type_ == RECORDING);
        let recording = recording.expect("the condition Recording is set");
        assert!(
            expected.reasons.contains(&recording.reason.as_str()),
            "{}",
            context()
        );
        assert_eq!(
            recording.status == "True",
            HEALTHY.contains(&recording.reason.as_str()),
            "{}",
            context()
        );
        let others = |status: &pps_core::Status| {
            status
                .conditions
                .iter()
                .filter(|one| one.type_ != RECORDING)
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(others(&before), others(&after), "{}", context());
        if let Some(write) = write {
            assert_eq!(write.recorded, expected.entries.len(), "{}", context());
        }
    }

    /// The API server receives a pending write, unless it has already. Before that, the workload
    /// and the Pods whose entries it drops are read; if that refutes a drop, the write is not sent.
    pub(crate) fn serve_write(&mut self, number: usize) {
        let Some(pending) = self
            .pending
            .get(number)
            .filter(|pending| pending.response.is_none())
        else {
            return;
        };
        let refuted = self.refuted_drops(&pending.write);
        if !refuted.is_empty() {
            let pending = self.pending.swap_remove(number);
            self.recorder.on_status_done(
                &key(pending.name),
                &pending.uid,
                StatusOutcome::Unconfirmed { pods: &refuted },
            );
            self.snapshot
                .held
                .extend(refuted.iter().map(|pod| (pending.name, pod.to_string())));
            if let Some((watched, is_listed)) = pending.watched {
                self.update_known_pps(pending.name, watched, is_listed);
            }
            self.take_work();
            return;
        }
        if self.is_compact_form_refused
            && self.pending[number].write.form.moves_to() == Some(StoredForm::Compact)
        {
            let pending = self.pending.swap_remove(number);
            self.recorder.on_status_done(
                &key(pending.name),
                &pending.uid,
                StatusOutcome::CompactFormRefused,
            );
            if let Some((watched, is_listed)) = pending.watched {
                self.update_known_pps(pending.name, watched, is_listed);
            }
            self.take_work();
            return;
        }
        let pending = &mut self.pending[number];
        let name = pending.name;
        self.cluster
            .assert_drops_no_needed_state(name, &pending.write.patch);
        let recorder = pending.recorder.clone();
        let response = self
            .cluster
            .patch_status(name, &pending.write.patch, recorder.as_ref());
        pending.response = Some(response.clone());
        if matches!(response, PatchResponse::Applied(_)) {
            self.stored += 1;
            self.queue_pps(name);
        }
    }

    /// What reading the cluster shows about the drops of a write: those that must not be made. All
    /// of them if it cannot be read.
    fn refuted_drops(&self, write: &StatusWrite) -> BTreeSet<Arc<str>> {
        let Some(check) = &write.loss_check else {
            return BTreeSet::new();
        };
        let number = (0..WORKLOADS.len())
            .find(|number| group_kind(*number) == check.workload.kind)
            .unwrap();
        let is_forbidden = self.snapshot.forbidden.contains(&number);
        if self.are_reads_failing || is_forbidden || self.cluster.is_disabled {
            return check.all();
        }
        let workload = self
            .cluster
            .workloads
            .get(&number)
            .map(|workload| workload_fact(number, workload));
        let pods = check.pods().filter_map(|key| {
            let (name, pod) = self.cluster.pods.get_key_value(&*key.name)?;
            Some((key.name, pod_fact(name, pod, &self.interest)))
        });
        let nodes = check.nodes().into_iter().filter_map(|node| {
            let (name, stored) = self.cluster.nodes.get_key_value(&*node)?;
            Some((node, node_fact(name, stored, &self.interest)))
        });
        let living = check.with_living_pods().map(|workload| {
            let mut living = LivingPods::default();
            for pod in self.cluster.living(&workload.uid) {
                living.add(&workload.demand, pod);
            }
            living
        });
        let mut refuted = check.refuted(workload.as_ref(), &pods.collect(), &nodes.collect());
        refuted.extend(check.refuted_by_living(living));
        refuted
    }

    /// Nobody waits for the response to this write any longer. The request may be on its way, if
    /// the reads before it were done.
    fn abandon(&mut self, pending: PendingWrite) {
        if self.refuted_drops(&pending.write).is_empty() {
            self.abandoned
                .push((pending.name, pending.write, pending.recorder));
        }
    }

    /// etcd is restored from a backup: the PPS objects are as they were, and their versions start
    /// again from a lower number. The process notices it and ends. No request of before is served.
    pub(crate) fn restore_backup(&mut self) {
        self.cluster.restore_backup();
        self.restart();
        self.abandoned.clear();
    }

    /// Pods can no longer be read, or can be read again.
    pub(crate) fn toggle_reads(&mut self) {
        self.are_reads_failing = !self.are_reads_failing;
    }

    /// The pause after an unconfirmed drop or change is over.
    pub(crate) fn retry_unconfirmed(&mut self) {
        self.recorder.retry_unconfirmed();
        self.take_work();
    }

    /// A round of the surplus entries ends. It takes as long as a name has to be absent.
    pub(crate) fn end_surplus_round(&mut self) {
        self.recorder.end_surplus_round();
        self.now += ROUND;
        self.recorder.pass_time(self.now, 0);
        self.take_work();
    }

    /// The API server receives a request whose sender no longer waits.
    pub(crate) fn serve_abandoned(&mut self, number: usize) {
        if number < self.abandoned.len() {
            let (name, write, recorder) = self.abandoned.swap_remove(number);
            let response = self
                .cluster
                .patch_status(name, &write.patch, recorder.as_ref());
            if matches!(response, PatchResponse::Applied(_)) {
                self.queue_pps(name);
            }
        }
    }

    /// The sidecar learns the response to a write, or that it got none.
    pub(crate) fn answer_write(&mut self, number: usize, is_lost: bool) {
        if number >= self.pending.len() {
            return;
        }
        let mut pending = self.pending.swap_remove(number);
        let (name, watched) = (pending.name, pending.watched.take());
        let mut is_stored = false;
        match pending.response.take().filter(|_| !is_lost) {
            Some(PatchResponse::Applied(version)) => {
                is_stored = true;
                self.recorder.on_status_done(
                    &key(name),
                    &pending.uid,
                    StatusOutcome::Stored {
                        resource_version: &version.to_string(),
                    },
                );
                if pending.is_current {
                    let stored = self.cluster.history[&version].clone();
                    if let Some(renewed) = self.snapshot.renewed.get_mut(&pending.uid) {
                        let before = &self.snapshot.pps.objects[name].status;
                        let changed = changed_states(before, &pending.write.patch["status"]);
                        renewed
                            .pods
                            .retain(|pod, _| changed.get(pod).is_none_or(Option::is_some));
                        let is_stored =
                            |pod: &String| changed.get(pod).is_some_and(Option::is_some);
                        let renewing = std::mem::take(&mut pending.renewing).into_iter();
                        renewed
                            .pods
                            .extend(renewing.filter(|(pod, _)| is_stored(pod)));
                    }
                    self.snapshot.pps.objects.insert(name, stored);
                }
            }
            response => {
                self.recorder
                    .on_status_done(&key(name), &pending.uid, StatusOutcome::NotStored);
                if response.is_none() {
                    self.abandon(pending);
                }
            }
        }
        if let Some((watched, is_listed)) = watched {
            // A list that shows an older version than the one just stored was read before.
            self.update_known_pps(name, watched, is_listed && !is_stored);
        }
        self.take_work();
    }

    /// Serves and answers the newest pending write.
    pub(crate) fn finish_last_write(&mut self) {
        let last = self.pending.len() - 1;
        self.serve_write(last);
        // It is still there if it was sent.
        self.answer_write(last, false);
    }

    // ---- Rest
    // --------------------------------------------------------------------------------------

    /// Delivers and writes everything, until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        self.finish_discovery();
        self.are_reads_failing = false;
        self.is_compact_form_refused = false;
        self.recorder.retry_exceeded();
        self.take_work();
        self.stalled.clear();
        while let Some(count) = self.pending.len().checked_sub(1) {
            self.serve_write(0);
            if self.pending.len() > count {
                self.answer_write(0, false);
            }
        }
        self.abandoned.clear();
        while self.deliver_all() {}
        self.settle_generated();
        for node in self.snapshot.new_nodes.clone() {
            self.settle_node(node);
        }
        self.snapshot.held.clear();
        self.retry_unconfirmed();
        self.writes = [0; PPS_OBJECTS.len()];
        loop {
            let Some(name) = self.due.pop_first() else {
                if let Some(node) = self.unconfirmed.first().copied() {
                    self.look_up_node(node);
                    continue;
                }
                break;
            };
            if self.decide(name) {
                let writes = self.writes[pps_number(name)];
                assert!(
                    writes <= MAX_WRITES_AT_REST,
                    "{name}: more than {MAX_WRITES_AT_REST} writes at rest"
                );
                self.finish_last_write();
                let held = &self.snapshot.held;
                let forbidden = &self.snapshot.forbidden;
                assert!(
                    held.is_empty() || !forbidden.is_empty(),
                    "not confirmed at rest: {held:?}"
                );
            }
            while self.deliver_all() {}
            self.settle_generated();
            // A changed interest may have had them listed for the first time.
            for node in self.snapshot.new_nodes.clone() {
                self.settle_node(node);
            }
        }
    }

    /// Delivers all queued events of the watches that are not stalled.
    pub(crate) fn deliver_unstalled(&mut self) {
        for watch in (0..WATCHES)
            .filter(|watch| !self.stalled.contains(watch))
            .collect::<Vec<_>>()
        {
            while self.deliver(watch) {}
        }
    }

    pub(crate) fn is_stalled(&self, watch: usize) -> bool {
        self.stalled.contains(&watch)
    }

    /// A watch delivers nothing from now on, or delivers again.
    pub(crate) fn toggle_stall(&mut self, watch: usize) {
        if !self.stalled.remove(&watch) {
            self.stalled.insert(watch);
        }
    }

    fn settle_generated(&mut self) {
        let mut rounds = 0;
        while !self.generated.is_empty() || !self.due_generated.is_empty() {
            // What cannot be confirmed for lack of a permission would be tried forever.
            rounds += 1;
            if rounds > 20 {
                assert!(
                    !self.snapshot.forbidden.is_empty(),
                    "generation does not come to rest"
                );
                break;
            }
            for number in 0..WORKLOADS.len() {
                self.generate(number);
            }
            while !self.generated.is_empty() {
                self.serve_generated(0);
            }
            while self.deliver_all() {}
        }
    }

    /// Delivers all queued watch events. Returns whether there were any.
    pub(crate) fn deliver_all(&mut self) -> bool {
        let mut any = false;
        for watch in 0..WATCHES {
            while self.deliver(watch) {
                any = true;
            }
        }
        any
    }

    /// Asserts that each object has the form that it should have, once nothing is left to write.
    pub(crate) fn assert_forms(&self) {
        for (name, object) in self
            .cluster
            .objects
            .iter()
            .filter(|(_, object)| !object.terminating)
        {
            let is_compact = !object.status["packed"].is_null();
            let states = parse_status(&object.status).pod_states.len();
            assert!(
                !is_compact || (states >= COMPACT_UNTIL && !self.is_compact_form_off),
                "{name} has {states} states in the compact form: {}",
                object.status
            );
        }
    }

    /// Whether any object has the compact form.
    pub(crate) fn has_compact_objects(&self) -> bool {
        self.cluster
            .objects
            .values()
            .any(|object| !object.status["packed"].is_null())
    }

    /// Asserts that the watches have delivered the whole cluster, and that the recorder counts the
    /// same.
    pub(crate) fn assert_up_to_date(&self) {
        let (snapshot, cluster) = (&self.snapshot, &self.cluster);
        assert_eq!(snapshot.pods.objects, cluster.pods);
        assert_eq!(snapshot.nodes.objects, cluster.nodes);
        assert_eq!(snapshot.namespaces.objects.is_empty(), cluster.is_disabled);
        // What was erased is not written back into an object that is being deleted, and stays
        // known.
        let is_kept = |name: &Name| {
            let known = &snapshot.pps.objects[name];
            known.terminating && !known.status["erased"].is_null()
        };
        assert!(snapshot.pps.objects.keys().eq(cluster.objects.keys()));
        for (name, object) in cluster.objects.iter().filter(|(name, _)| !is_kept(name)) {
            assert_eq!(&snapshot.pps.objects[name], object, "{name}");
        }
        let states = |object: &Pps| parse_status(&object.status).pod_states.len();
        let counts = self.recorder.counts();
        let expected = Counts {
            pods: cluster.pods.len(),
            nodes: cluster.nodes.len(),
            workloads: snapshot.kinds.values().map(|kind| kind.objects.len()).sum(),
            persistent_pod_states: cluster.objects.len(),
            recorded_states: snapshot.pps.objects.values().map(states).sum(),
            missing_nodes: snapshot.absences.len(),
            ..counts
        };
        assert_eq!(counts, expected);
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub(crate) fn unconfirmed_nodes(&self) -> Vec<Name> {
        self.unconfirmed.iter().copied().collect()
    }

    pub(crate) fn missing_nodes(&self) -> Vec<Name> {
        self.snapshot.absences.keys().copied().collect()
    }
}
