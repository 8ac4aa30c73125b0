//! The index in that cluster: facts reach it late, writes are answered late, wrongly or never.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::status::RECORDING;
use pps_sidecar::decide::index::{Index, StatusWrite};
use pps_sidecar::facts::interest::Interest;
use pps_sidecar::facts::{NamespacedName, NodeFact, PodFact, PpsFact, WorkloadFact};

use super::cluster::{Answer, Cluster, NAMED_NODES, Name, Node, OBJECTS, Object, Pod, Workload};
use super::model::{status_of, wanted};
use super::view::{Absence, Known, Queue, View};

#[path = "watches.rs"]
mod watches;

const NOW: &str = "2026-01-01T00:00:00Z";
/// At rest, this many writes of one object are enough for anything.
const ENOUGH: usize = 3;

/// A write that was handed out.
#[derive(Debug)]
pub(crate) struct Flight {
    name: Name,
    uid: String,
    write: StatusWrite,
    /// What the API server has said, if it has got it.
    answer: Option<Answer>,
    /// Whether the object that it was made for is still the one that the index knows.
    is_awaited: bool,
    /// What the watch told of the object meanwhile.
    told: Option<Object>,
}

/// An index with all that goes to it and comes from it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) cluster: Cluster,
    index: Index,
    interest: Interest,
    view: View,
    pods: Queue<Pod, PodFact>,
    nodes: Queue<Node, NodeFact>,
    objects: Queue<Object, Box<PpsFact>>,
    kinds: [Queue<Workload, WorkloadFact>; 3],
    later_watches: bool,
    due: BTreeSet<Name>,
    asked: BTreeSet<Name>,
    flights: Vec<Flight>,
    /// Requests of which nobody awaits an answer any longer. They may still be served.
    strays: Vec<(Name, StatusWrite)>,
    writes: [usize; OBJECTS.len()],
}

fn key(name: Name) -> NamespacedName {
    NamespacedName::new("n", name)
}

fn object_number(name: Name) -> usize {
    OBJECTS.iter().position(|(object, _)| *object == name).unwrap()
}

impl Run {
    pub(crate) fn new(cluster: Cluster) -> Self {
        let interest = Interest::default();
        let mut run = Self {
            cluster,
            index: Index::new(interest.clone()),
            interest,
            view: View::default(),
            pods: Queue::new(),
            nodes: Queue::new(),
            objects: Queue::new(),
            kinds: Default::default(),
            later_watches: false,
            due: BTreeSet::new(),
            asked: BTreeSet::new(),
            flights: Vec::new(),
            strays: Vec::new(),
            writes: [0; OBJECTS.len()],
        };
        run.begin(&BTreeSet::from([1, 2]));
        run
    }

    /// The process ends without a word, and another one begins.
    pub(crate) fn restart(&mut self) {
        let others: BTreeSet<usize> = self.view.kinds.keys().copied().filter(|number| *number > 0).collect();
        self.strays.extend(
            self.flights
                .drain(..)
                .filter(|flight| flight.answer.is_none())
                .map(|flight| (flight.name, flight.write)),
        );
        self.interest = Interest::default();
        self.index = Index::new(self.interest.clone());
        self.view = View::default();
        self.pods.clear();
        self.nodes.clear();
        self.later_watches = false;
        self.due.clear();
        self.asked.clear();
        self.begin(&others);
    }

    fn begin(&mut self, others: &BTreeSet<usize>) {
        self.view.kinds.insert(0, Known::default());
        for number in others {
            self.watch_kind(*number);
        }
        self.relist(2);
        self.relist(3);
    }

    // ---- Nodes that are gone -----------------------------------------------------------------------

    pub(crate) fn overdue(&mut self, node: Name) {
        if let Some(absence) = self.view.absences.get_mut(node) {
            *absence = Absence::Overdue;
        }
        self.index.on_node_overdue(&Arc::from(node));
        self.take_up();
    }

    /// The API server answers whether there is such a node, if that was asked.
    pub(crate) fn confirm(&mut self, node: Name) {
        if !self.asked.remove(node) {
            return;
        }
        let (absence, node) = (self.view.absences.get_mut(node), Arc::from(node));
        if self.cluster.nodes.contains_key(&*node) {
            self.index.on_node_there(&node);
            if let Some(absence) = absence {
                *absence = Absence::Excused;
            }
        } else {
            self.index.on_node_gone(&node);
            if let Some(absence) = absence.filter(|absence| **absence == Absence::Overdue) {
                *absence = Absence::Confirmed;
            }
        }
        self.take_up();
    }

    // ---- Writes ------------------------------------------------------------------------------------

    /// A status that has come up is decided.
    pub(crate) fn decide(&mut self, name: Name) -> bool {
        self.due.remove(name) && self.ask(name)
    }

    /// Asks for the write of an object, and judges it.
    pub(crate) fn ask(&mut self, name: Name) -> bool {
        let is_away = self.flights.iter().any(|flight| flight.name == name && flight.is_awaited);
        // What other objects name does not matter. That it is met is not taken on trust: what is written is
        // held against all that the cluster shows.
        let is_met = self.view.objects.facts.get(name).is_none_or(|object| {
            let spec = serde_json::from_value(object.spec.clone()).unwrap();
            self.interest.is_met(&spec, self.view.nodes.listed, self.view.pods.listed)
        });
        let is_listed = self.view.objects.listed.is_some() && self.view.kinds[&0].listed.is_some();
        let wanted = if is_away || !is_met || !is_listed { None } else { wanted(&self.view, name) };
        let write = self.index.status_write(&key(name), NOW);
        let questions = self.index.take_questions();
        self.take_up();
        let Some(wanted) = wanted else {
            assert_eq!(write, None, "{name}: nothing can be decided now");
            return false;
        };
        for node in &wanted.questions {
            let known = NAMED_NODES.into_iter().find(|known| *known == node);
            self.asked.extend(known.filter(|_| questions.contains(&**node)));
        }
        let object = &self.view.objects.facts[name];
        let mut after = object.status.clone();
        if let Some(write) = &write {
            let version = object.version.to_string();
            let made_for = (&write.patch["metadata"]["uid"], &write.patch["metadata"]["resourceVersion"]);
            assert_eq!(
                made_for,
                (&object.uid.as_str().into(), &version.as_str().into()),
                "{name}: the newest"
            );
            json_patch::merge(&mut after, &write.patch["status"]);
        }
        let (before, after) = (status_of(&object.status), status_of(&after));
        let view = &self.view;
        let context = || format!("{name}: {before:?}\nbecomes {after:?}\n{wanted:?}\n{write:?}\n{view:?}");
        assert_eq!(after.pod_states, wanted.entries, "{}", context());
        assert_eq!(after.recorded, Some(i32::try_from(wanted.entries.len()).unwrap()), "{}", context());
        assert_eq!(after.target_uid, wanted.target_uid, "{}", context());
        assert_eq!(after.desired, wanted.desired, "{}", context());
        assert_eq!(after.observed_generation, Some(wanted.generation), "{}", context());
        let recording = after.conditions.iter().find(|condition| condition.type_ == RECORDING);
        let recording = recording.expect("a condition");
        assert!(wanted.reasons.contains(&recording.reason.as_str()), "{}", context());
        assert_eq!(recording.status == "True", recording.reason == "Recording", "{}", context());
        let others = |status: &pps_core::Status| {
            status.conditions.iter().filter(|one| one.type_ != RECORDING).cloned().collect::<Vec<_>>()
        };
        assert_eq!(others(&before), others(&after), "{}", context());

        if let Some(write) = &write {
            assert_eq!(write.recorded, wanted.entries.len(), "{}", context());
        }
        let Some(write) = write else { return false };
        let uid = object.uid.clone();
        self.flights.push(Flight { name, uid, write, answer: None, is_awaited: true, told: None });
        self.writes[object_number(name)] += 1;
        true
    }

    /// The API server gets a write, if it has not got it yet.
    pub(crate) fn serve(&mut self, number: usize) {
        let Some(flight) = self.flights.get_mut(number).filter(|flight| flight.answer.is_none()) else {
            return;
        };
        let answer = self.cluster.patch_status(flight.name, &flight.write.patch);
        let name = flight.name;
        flight.answer = Some(answer.clone());
        if matches!(answer, Answer::ApplyResult(_)) {
            self.tell_object(name);
        }
    }

    /// A request that nobody waits for any longer is served after all.
    pub(crate) fn serve_stray(&mut self, number: usize) {
        if number < self.strays.len() {
            let (name, write) = self.strays.swap_remove(number);
            if matches!(self.cluster.patch_status(name, &write.patch), Answer::ApplyResult(_)) {
                self.tell_object(name);
            }
        }
    }

    /// The outcome of a write is heard, or that there is no answer.
    pub(crate) fn answer(&mut self, number: usize, lost: bool) {
        if number >= self.flights.len() {
            return;
        }
        let flight = self.flights.swap_remove(number);
        let name = flight.name;
        match flight.answer.filter(|_| !lost) {
            Some(Answer::ApplyResult(version)) => {
                self.index.on_status_written(&key(name), &flight.uid, &version.to_string());
                if flight.is_awaited {
                    self.view.objects.facts.insert(name, self.cluster.history[&version].clone());
                }
                self.landed(name, flight.told);
            }
            Some(_) => {
                self.index.on_status_not_written(&key(name), &flight.uid);
                self.landed(name, flight.told);
            }
            None => {
                self.strays.push((name, flight.write.clone()));
                self.index.on_status_not_written(&key(name), &flight.uid);
                self.landed(name, flight.told);
            }
        }
        self.take_up();
    }

    /// The write that was decided last is served and answered.
    pub(crate) fn write_last(&mut self) {
        let last = self.flights.len() - 1;
        self.serve(last);
        self.answer(last, false);
    }

    fn landed(&mut self, name: Name, told: Option<Object>) {
        if let Some(told) = told {
            self.see(name, told);
        }
    }

    // ---- Rest --------------------------------------------------------------------------------------

    /// Everything is told and written, until nothing is left.
    pub(crate) fn settle(&mut self) {
        self.know_kinds();
        while !self.flights.is_empty() {
            self.serve(0);
            self.answer(0, false);
        }
        self.strays.clear();
        while self.deliver_all() {}
        self.writes = [0; OBJECTS.len()];
        loop {
            let due = self.due.pop_first();
            let Some(name) = due else {
                if let Some(node) = self.asked.first().copied() {
                    self.confirm(node);
                    continue;
                }
                break;
            };
            if self.ask(name) {
                let writes = self.writes[object_number(name)];
                assert!(writes <= ENOUGH, "{name} does not come to rest");
                self.write_last();
            }
            while self.deliver_all() {}
        }
    }

    pub(crate) fn deliver_all(&mut self) -> bool {
        let mut any = false;
        for stream in 0..6 {
            while self.deliver(stream) {
                any = true;
            }
        }
        any
    }

    /// All that is known is what there is.
    pub(crate) fn assert_known(&self) {
        assert_eq!(self.view.pods.facts, self.cluster.pods);
        assert_eq!(self.view.nodes.facts, self.cluster.nodes);
        assert_eq!(self.view.objects.facts, self.cluster.objects);
        let workloads = self
            .view
            .kinds
            .iter()
            .flat_map(|(number, kind)| kind.facts.values().map(move |fact| (*number, fact)));
        let states = |object: &Object| status_of(&object.status).pod_states.len();
        let expected = [
            ("pods", self.cluster.pods.len()),
            ("nodes", self.cluster.nodes.len()),
            ("workloads", workloads.count()),
            ("objects", self.cluster.objects.len()),
            ("states", self.cluster.objects.values().map(states).sum()),
            ("missing_nodes", self.view.absences.len()),
        ];
        let counts = self.index.counts();
        for (kind, number) in expected {
            assert!(counts.contains(&(kind, number)), "{kind} {number}: {counts:?}");
        }
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    pub(crate) fn missing(&self) -> Vec<Name> {
        self.view.absences.keys().copied().collect()
    }
}
