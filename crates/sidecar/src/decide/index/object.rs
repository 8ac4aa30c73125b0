//! One PPS: what is recorded in it, which entries may have to change, and the patch that changes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_core::demand::Wanted;
use pps_core::pps::PodState;
use pps_core::record::{self, Running};
use pps_core::status::{self, Recording};
use pps_core::workload::{PodOwnership, keeps};
use pps_core::{Reason, Spec};
use serde_json::{Map, Value};

use super::Index;
use super::condition::{MissingLabels, good, missing_labels_condition};
use super::forget::{Absence, Moved};
use super::patch::{Header, count, recorded_after, status_patch};
use super::room::{Room, pack};
use crate::facts::{NamespacedName, PpsFact, WorkloadKey};

/// A status to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusWrite {
    /// The object.
    pub key: NamespacedName,
    /// Its UID.
    pub uid: String,
    /// A merge patch for its status subresource. It applies only to the object that it was made for.
    pub patch: Value,
    /// How many entries it sets or removes.
    pub entries: usize,
    /// How many entries the object has after it.
    pub recorded: usize,
    /// The workload that it is about.
    pub workload: WorkloadKey,
    /// Entries that it drops because their node is gone: node and Pod.
    pub forgotten: Vec<(String, Arc<str>)>,
    /// When the Pods became Ready that it records for the first time on their node, in Unix seconds.
    pub newly_recorded: Vec<i64>,
}

/// Entries that may have to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Dirty {
    everything: bool,
    header: bool,
    pods: BTreeSet<Arc<str>>,
}

impl Dirty {
    pub(super) fn pod(&mut self, name: &Arc<str>) {
        if !self.everything {
            self.pods.insert(name.clone());
        }
    }

    pub(super) fn everything(&mut self) {
        *self = Self { everything: true, header: true, pods: BTreeSet::new() };
    }

    pub(super) fn header(&mut self) {
        self.header = true;
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.everything && !self.header && self.pods.is_empty()
    }
}

/// A write that has been handed out and not been answered yet.
#[derive(Clone, Debug)]
struct InFlight {
    entries: Vec<(Arc<str>, Option<PodState>)>,
    /// What all entries take after it.
    size: usize,
    target_uid: Option<String>,
    header: Header,
}

/// One PPS.
#[derive(Debug)]
pub(super) struct Object {
    /// The workload that it names.
    pub(super) workload: WorkloadKey,
    /// The object as the API server has it, as far as is known.
    pub(super) fact: PpsFact,
    /// What may have to change.
    pub(super) touched: Dirty,
    /// Pods on a node that lacks a topology key, with that node and those keys.
    missing_labels: BTreeMap<Arc<str>, MissingLabels>,
    /// Entries that are kept only as long as the workload lacks Pods: their names do not tell whether
    /// it wants them.
    spare: BTreeSet<Arc<str>>,
    pub(super) room: Room,
    in_flight: Option<InFlight>,
    /// What a watch told while a write was on its way: perhaps of that very write.
    waiting: Option<PpsFact>,
}

/// A decision about an object, to be written if the status is not empty.
struct Draft {
    status: Map<String, Value>,
    recorded: usize,
    missing_labels: BTreeMap<Arc<str>, MissingLabels>,
    spare: BTreeSet<Arc<str>>,
    /// Node and Pod of entries that go with their node.
    forgotten: Vec<(String, Arc<str>)>,
    /// Nodes of which it has to be confirmed first that they are gone.
    questions: BTreeSet<String>,
    /// Entries that stay, and whose name is borne by a Pod of somebody else.
    borrowed: Vec<Arc<str>>,
    /// Entries that wait for room.
    held: BTreeSet<Arc<str>>,
    fullness: Option<Recording>,
    in_flight: InFlight,
}

impl Object {
    pub(super) fn new(workload: WorkloadKey, fact: PpsFact) -> Self {
        let mut touched = Dirty::default();
        touched.everything();
        let room = Room::of(&fact.status.pod_states);
        Self {
            workload,
            fact,
            touched,
            missing_labels: BTreeMap::new(),
            spare: BTreeSet::new(),
            room,
            in_flight: None,
            waiting: None,
        }
    }

    pub(super) fn recorded(&self) -> usize {
        self.fact.status.pod_states.len()
    }

    pub(super) fn has_entry(&self, pod: &str) -> bool {
        self.fact.status.pod_states.contains(pod)
    }

    pub(super) fn has_spare(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Touches the entries that were kept only because the workload lacked Pods.
    pub(super) fn touch_spare(&mut self) {
        for name in &self.spare {
            self.touched.pod(name);
        }
    }

    /// Takes the object as a watch or a read gives it, and gives back what it replaces; nothing if that
    /// tells nothing new: an older version, or the one that our own last write made. While a write is
    /// on its way it waits.
    pub(super) fn refresh(&mut self, fact: PpsFact) -> Option<PpsFact> {
        if self.in_flight.is_some() {
            self.waiting = Some(fact);
            return None;
        }
        if fact.resource_version == self.fact.resource_version
            || is_older(&fact.resource_version, &self.fact.resource_version)
        {
            return None;
        }
        self.room.measure(&fact.status.pod_states);
        Some(std::mem::replace(&mut self.fact, fact))
    }

    /// The spec, and the newer one that waits for the write which is on its way.
    pub(super) fn specs(&self) -> impl Iterator<Item = &Spec> + Clone {
        [Some(&self.fact), self.waiting.as_ref()].into_iter().flatten().map(|fact| &fact.spec)
    }

    /// What all entries would take after the write that is on its way.
    pub(super) fn refused_size(&self) -> Option<usize> {
        self.in_flight.as_ref().map(|in_flight| in_flight.size)
    }
}

/// Whether one resource version of an object is older than another. They are numbers that grow; if a
/// server makes them otherwise, none is older.
fn is_older(version: &str, than: &str) -> bool {
    match (version.parse::<u64>(), than.parse::<u64>()) {
        (Ok(version), Ok(than)) => version < than,
        _ => false,
    }
}

/// The object that a write was made for: it may have been deleted and made anew before the answer came,
/// and the new one may have a write of its own on its way.
pub(super) fn written_object<'a>(
    objects: &'a mut BTreeMap<NamespacedName, Object>,
    key: &NamespacedName,
    uid: &str,
) -> Option<&'a mut Object> {
    objects.get_mut(key).filter(|object| object.fact.uid == uid)
}

/// What an entry should be.
enum Target {
    Stays,
    /// As long as the workload lacks Pods.
    StaysSpare,
    Becomes(PodState),
    Goes,
    /// Its node is gone for good.
    Forgotten,
}

impl Index {
    /// Makes the write that an object needs now; nothing if it is up to date, if a write of it is on
    /// its way, or if it cannot be decided yet. `now` is RFC 3339.
    pub fn status_write(&mut self, key: &NamespacedName, now: &str) -> Option<StatusWrite> {
        if !self.is_complete() {
            return None;
        }
        let object = self.objects.get(key)?;
        if object.in_flight.is_some() || object.fact.terminating || !self.is_interest_met(object) {
            return None;
        }
        let kind = object.workload.kind.clone();
        if !self.is_decidable(&kind) {
            return None;
        }
        let touched = std::mem::take(&mut self.objects.get_mut(key)?.touched);
        let draft = self.draft(key, self.objects.get(key)?, touched, now);
        self.ask(draft.questions);
        self.follow_borrowed(key, draft.borrowed);
        self.tell_fullness(key, draft.fullness.as_ref());
        let object = self.objects.get_mut(key)?;
        object.missing_labels = draft.missing_labels;
        object.spare = draft.spare;
        object.room.hold(draft.held);
        if draft.status.is_empty() {
            return None;
        }
        let patch = status::guarded_patch(&object.fact.uid, &object.fact.resource_version, &draft.status);
        let (entries, recorded) = (draft.in_flight.entries.len(), draft.recorded);
        object.in_flight = Some(draft.in_flight);
        let (key, workload) = (key.clone(), object.workload.clone());
        let uid = object.fact.uid.clone();
        let (forgotten, newly_recorded) = (draft.forgotten, Vec::new());
        Some(StatusWrite { key, uid, patch, entries, recorded, workload, forgotten, newly_recorded })
    }

    /// Decides what an object's status should be, of what may have to change.
    fn draft(&self, key: &NamespacedName, object: &Object, touched: Dirty, now: &str) -> Draft {
        let states = &object.fact.status.pod_states;
        let obstacle = self.obstacle(key, object);
        let records = obstacle.as_ref().is_none_or(|obstacle| obstacle.reason == Reason::WorkloadNotFound);
        let (mut missing_labels, mut spare) = (object.missing_labels.clone(), object.spare.clone());
        if touched.everything {
            // The spec may name other keys now, and somebody else may have removed entries.
            missing_labels.retain(|name, lack| states.contains(name) && lack.is_asked_for(&object.fact.spec));
        }
        let mut held = object.room.held(touched.everything && records);
        let names = if records { self.names(object, touched) } else { Vec::new() };

        let mut entries: Vec<(Arc<str>, Option<PodState>)> = Vec::new();
        let mut patches = Map::new();
        let (mut forgotten, mut questions, mut borrowed) = (Vec::new(), BTreeSet::new(), Vec::new());
        for name in names {
            let before = states.get(&name);
            let before = before.as_ref();
            spare.remove(&name);
            held.remove(&name);
            let absence = before.and_then(|before| self.absence(object, &name, before));
            let after = match self.target(object, &name, before, absence) {
                stays @ (Target::Stays | Target::StaysSpare) => {
                    if absence == Some(Absence::Overdue) {
                        questions.extend(before.map(|before| before.node_name.clone()));
                    }
                    if before.is_some() && self.is_borrowed(object, &name) {
                        borrowed.push(name.clone());
                    }
                    if before.is_none() {
                        // A write that was to record it has been lost.
                        missing_labels.remove(&name);
                    }
                    if matches!(stays, Target::StaysSpare) {
                        spare.insert(name);
                    }
                    continue;
                }
                Target::Goes => None,
                Target::Forgotten => {
                    forgotten.extend(before.map(|before| (before.node_name.clone(), name.clone())));
                    None
                }
                Target::Becomes(state) => Some(state),
            };
            missing_labels.remove(&name);
            if let Some(lack) = after.as_ref().and_then(|state| MissingLabels::of(&object.fact.spec, state)) {
                missing_labels.insert(name.clone(), lack);
            }
            if let Some(patch) = status::entry_patch(before, after.as_ref()) {
                patches.insert(name.to_string(), patch);
                entries.push((name, after));
            }
        }
        let packed = pack(object, entries, held);
        for name in &packed.held {
            patches.remove(&**name);
            missing_labels.remove(name);
        }

        let workload = self.workloads.get(&object.workload);
        let target_uid =
            workload.filter(|workload| records && !workload.terminating).map(|one| one.uid.to_string());
        let recorded = recorded_after(object, &packed.entries);
        let fullness = self.fullness(object, &packed, recorded);
        let full = fullness.clone().filter(|fullness| !fullness.ok);
        let recording = obstacle
            .or(full)
            .or_else(|| missing_labels_condition(&missing_labels))
            .or_else(|| fullness.clone())
            .unwrap_or_else(|| good(workload.is_none_or(|workload| workload.demand.replicas().is_some())));
        let generation = object.fact.generation;
        let mut header = Header {
            observed_generation: generation.or(object.fact.status.observed_generation),
            recorded: Some(count(recorded as u64)),
            desired: if self.workloads.is_listed(&object.workload.kind) {
                workload.map_or(Some(0), |workload| workload.demand.replicas()).map(count)
            } else {
                object.fact.status.desired
            },
            conditions: status::with_recording(&object.fact.status.conditions, &recording, generation, now),
        };
        let mut target_uid = target_uid;
        if object.room.is_bare() {
            (header, target_uid) = (Header::of(&object.fact.status), None);
        }
        let status = status_patch(object, &header, target_uid.as_deref(), patches);
        let in_flight = InFlight { entries: packed.entries, size: packed.size, target_uid, header };
        let held = packed.held;
        Draft {
            status,
            recorded,
            missing_labels,
            spare,
            forgotten,
            questions,
            borrowed,
            held,
            fullness,
            in_flight,
        }
    }

    /// The API server has taken the write of this object, and given it this resource version.
    pub fn on_status_written(&mut self, key: &NamespacedName, uid: &str, resource_version: &str) {
        let Some(object) = written_object(&mut self.objects, key, uid) else { return };
        let Some(written) = object.in_flight.take() else { return };
        let status = &mut object.fact.status;
        let mut moved = Vec::new();
        for (name, state) in written.entries {
            let before = match &state {
                Some(state) => status.pod_states.insert(&name, state, &mut self.names),
                None => status.pod_states.remove(&name),
            };
            let after = state.map(|state| state.node_name.into());
            moved.push(Moved { pod: name, before, after });
        }
        status.target_uid = written.target_uid.or(status.target_uid.take());
        status.observed_generation = written.header.observed_generation;
        status.recorded = written.header.recorded;
        status.desired = written.header.desired;
        if let Some(conditions) = written.header.conditions {
            status.conditions = conditions;
        }
        resource_version.clone_into(&mut object.fact.resource_version);
        Self::room_written(object, written.size);
        self.entries_moved(key, moved);
        self.landed(key);
    }

    /// The write of this object did not go through, or nobody knows whether it did.
    pub fn on_status_not_written(&mut self, key: &NamespacedName, uid: &str) {
        let Some(object) = written_object(&mut self.objects, key, uid) else { return };
        let Some(lost) = object.in_flight.take() else { return };
        object.touched.header = true;
        for (name, _) in lost.entries {
            object.touched.pod(&name);
        }
        self.landed(key);
    }

    /// No write of this object is on its way any longer: what waited for that goes on.
    fn landed(&mut self, key: &NamespacedName) {
        let Some(object) = self.objects.get_mut(key) else { return };
        let waiting = object.waiting.take();
        if !object.touched.is_empty() {
            self.work.statuses.insert(key.clone());
        }
        if let Some(fact) = waiting {
            self.apply_object(key, fact);
        }
    }

    /// The names whose entries have to be looked at.
    fn names(&self, object: &Object, touched: Dirty) -> Vec<Arc<str>> {
        let replaced = self.presence(object) == pps_core::workload::WorkloadPresence::Replaced;
        if !touched.everything && !replaced {
            return touched.pods.into_iter().collect();
        }
        let recorded = object.fact.status.pod_states.nodes().map(|(name, _)| name.clone());
        let owned =
            self.workloads.get(&object.workload).and_then(|workload| self.pods_by_owner.get(&workload.uid));
        let owned = owned.into_iter().flat_map(|owned| &owned.names).cloned();
        let names: BTreeSet<Arc<str>> = recorded.chain(owned).collect();
        names.into_iter().collect()
    }

    fn target(
        &self,
        object: &Object,
        name: &Arc<str>,
        before: Option<&PodState>,
        absence: Option<Absence>,
    ) -> Target {
        let workload = self.workloads.get(&object.workload).filter(|workload| !workload.terminating);
        let key = NamespacedName { namespace: object.workload.object.namespace.clone(), name: name.clone() };
        let bearer = self.bearer(object, name);
        if workload.is_some()
            && bearer == PodOwnership::Adopted
            && let Some(pod) = self.pods.get(&key).filter(|pod| pod.ready)
            && let Some(node_name) = &pod.node
        {
            // A node that is not known yet has labels that are not known yet.
            let Some(node) = self.nodes.get(node_name) else { return Target::Stays };
            let running = Running {
                node_name,
                node_label: &|key| node.label(key),
                annotation: &|key| {
                    pod.annotations.iter().find(|(name, _)| &**name == key).map(|(_, value)| &**value)
                },
                pod_ips: &pod.ips,
            };
            return Target::Becomes(record::record(&object.fact.spec, &running, before));
        }
        if before.is_none() {
            return Target::Stays;
        }
        if absence == Some(Absence::Confirmed) {
            return Target::Forgotten;
        }
        let want = workload.map_or(Wanted::No, |workload| {
            workload.demand.wants(&object.workload.object.name, name, self.living(&workload.uid))
        });
        let keeps = |wanted| keeps(object.fact.spec.retention(), self.presence(object), wanted, bearer);
        match want {
            Wanted::Maybe if !keeps(false) && keeps(true) => Target::StaysSpare,
            _ if keeps(want != Wanted::No) => Target::Stays,
            _ => Target::Goes,
        }
    }
}
