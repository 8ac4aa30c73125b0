//! One Pod.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::plan::{Plan, Requirement};
use pps_core::pps::GROUP;
use pps_core::{AnnotationRules, PodState, plan};
use pps_recorder::demand::{Demand, Naming, Wanted};
use serde::Serialize;

use super::Governed;
use super::drift::{self, Drift};
use crate::decide::template::{self, injected};
use crate::snapshot::{Index, Pod, Pps, Resource, Snapshot, Workload, WorkloadKey, name_order};

/// The label that says in which zone a node is, and its older name.
const ZONES: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];
/// How many ordinals of one workload are looked at.
const MAX_LOOKED_AT: u64 = 20_000;
/// How many Pods of one workload are listed that are wanted and do not exist.
const MAX_MISSING: usize = 200;

/// A Pod of a workload, or the state of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// The kind of its workload.
    pub workload_kind: String,
    /// The name of its workload.
    pub workload: String,
    /// The PersistentPodState that governs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_pod_state: Option<String>,
    /// From which revision of its workload's template it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Whether it has the mark of a move.
    #[serde(skip)]
    pub is_marked: bool,
    /// Where it is in its life.
    pub phase: Phase,
    /// The node that it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The zone of that node, empty if it has none; none if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Its addresses.
    pub ips: Vec<String>,
    /// The state that is recorded under its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<PodState>,
    /// The labels that its node must have: with the recorded values, or those that a Pod without a node was created with.
    pub required: BTreeMap<String, String>,
    /// Whether labels are required, and it is recorded without any that is required or preferred: they have been named
    /// since, and are recorded only of Pods that run.
    #[serde(skip)]
    pub has_lost_labels: bool,
    /// The PersistentPodState whose state was injected when it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub injected_from: Option<String>,
    /// How it differs from its recorded state.
    pub drift: Vec<Drift>,
    /// What the scheduler says of a Pod that is Pending; empty if it has not looked at it for long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Where a Pod is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Phase {
    /// It is Ready.
    Ready,
    /// It has a node and is not Ready.
    NotReady,
    /// It has no node.
    Pending,
    /// It is being deleted.
    Terminating,
    /// It has ended and is not started again.
    Ended,
    /// The workload wants it, and it does not exist.
    Missing,
    /// There is only a recorded state: the workload does not want it now, or does not exist.
    NotWanted,
    /// There is only a recorded state, and it is not known whether the workload wants it.
    #[default]
    Unknown,
}

impl Phase {
    /// Of a Pod that exists.
    fn of(pod: &Pod) -> Self {
        match pod {
            _ if pod.is_terminating() => Self::Terminating,
            _ if pod.is_finished() => Self::Ended,
            _ if pod.node().is_none() => Self::Pending,
            _ if pod.is_ready() => Self::Ready,
            _ => Self::NotReady,
        }
    }
}

impl Row {
    /// Whether this is a reason to look: the Pod is Pending or missing, or not where it must be, or would not come back.
    pub fn is_bad(&self) -> bool {
        let is_stuck = self.phase == Phase::Missing || self.is_stuck();
        let is_wrong = self.has(|one| {
            let is_lost = matches!(one, Drift::RequiredTopology { .. } | Drift::OwnNodeGone { .. });
            is_lost || *one == Drift::Unrecorded { lasting: true }
        });
        let has_lost_place = self.is_half_moved() && (self.recorded.is_some() || self.node.is_some());
        let would_start_anywhere = self.phase == Phase::Pending && self.has_no_way_back();
        is_stuck || is_wrong || has_lost_place || would_start_anywhere
    }

    /// Whether it differs so.
    pub(super) fn has(&self, is_meant: impl Fn(&Drift) -> bool) -> bool {
        self.drift.iter().any(is_meant)
    }

    /// Whether the scheduler has found no node, or has not looked at it for long.
    pub fn is_stuck(&self) -> bool {
        self.phase == Phase::Pending && self.message.is_some()
    }

    /// The recorded node.
    pub fn recorded_node(&self) -> Option<&str> {
        self.recorded.as_ref().map(|state| state.node_name.as_str()).filter(|node| !node.is_empty())
    }

    /// Whether nothing of the recorded place of a Pod that does not run would be injected.
    pub(super) fn has_no_way_back(&self) -> bool {
        let is_absent = matches!(self.phase, Phase::Pending | Phase::Missing | Phase::NotWanted);
        is_absent && self.has_lost_labels && self.recorded_node().is_some()
    }

    /// Whether a move has changed the recorded state, and has not ended the Pod.
    pub(super) fn is_half_moved(&self) -> bool {
        self.is_marked && self.phase != Phase::Terminating && !self.is_where_recorded()
    }

    /// Whether it has a node and the mark of a move, and nothing is recorded of it.
    pub(super) fn is_unrecorded_by_mark(&self) -> bool {
        self.is_half_moved() && self.recorded.is_none() && self.node.is_some()
    }

    /// Whether it is on the recorded node.
    pub(super) fn is_where_recorded(&self) -> bool {
        self.node.is_some() && self.node.as_deref() == self.recorded_node()
    }
}

/// Adds the rows of a workload. Returns how many are left out.
pub(super) fn rows(snapshot: &Snapshot, index: &Index, governed: &Governed, rows: &mut Vec<Row>) -> u64 {
    let key = governed.key;
    let workload = index.workload(key);
    let demand = demand(key, workload);
    let is_wanted = |pod: &str| demand.as_ref().map(|demand| demand.wants(&key.name, pod, 0) == Wanted::Yes);
    let pods = index.pods_of(key);
    let names: BTreeSet<&str> = pods.iter().map(|pod| pod.name()).collect();
    let mut own: Vec<Row> = pods.iter().map(|pod| of_pod(snapshot, governed, workload, pod)).collect();
    let (mut missing, mut left_out) = (Vec::new(), 0);
    // Without the right to read Pods, nothing is known to be missing.
    let sees_pods = snapshot.unread(Resource::Pods).is_none();
    if let (Some(demand), Some(workload), true) = (&demand, workload, sees_pods) {
        (missing, left_out) = find_missing(demand, workload, &names);
    }
    own.extend(missing.iter().map(|name| without_pod(snapshot, governed, name, Phase::Missing)));
    for pod in governed.states.keys().filter(|pod| !names.contains(pod.as_str())) {
        let phase = match (is_wanted(pod), workload) {
            _ if !sees_pods => Phase::Unknown,
            _ if missing.contains(pod) => continue,
            (Some(true), _) => Phase::Missing,
            (Some(false), _) => Phase::NotWanted,
            (None, None) if is_gone(snapshot, key) => Phase::NotWanted,
            (None, _) => Phase::Unknown,
        };
        own.push(without_pod(snapshot, governed, pod, phase));
    }
    own.sort_by(|one, other| {
        let order = |row: &Row| (name_order(&row.pod).0.to_owned(), name_order(&row.pod).1, row.pod.clone());
        order(one).cmp(&order(other))
    });
    rows.append(&mut own);
    left_out
}

/// The Pods that a workload wants; none if that is not known, or if it does not number its Pods as a StatefulSet does.
fn demand(key: &WorkloadKey, workload: Option<&Workload>) -> Option<Demand> {
    let is_numbered = key.kind == "StatefulSet" && (key.group == "apps" || key.group == GROUP);
    let workload = workload.filter(|workload| is_numbered && !workload.is_terminating())?;
    Some(Demand::read(&workload.object()["spec"], &Naming::StatefulSet))
}

/// The Pods that are wanted and do not exist, and how many more there are.
fn find_missing(demand: &Demand, workload: &Workload, exist: &BTreeSet<&str>) -> (Vec<String>, u64) {
    let name = workload.name();
    let is_wanted = |pod: &str| demand.wants(name, pod, 0) == Wanted::Yes;
    let existing = exist.iter().filter(|pod| is_wanted(pod)).count() as u64;
    let absent = demand.replicas().unwrap_or_default().saturating_sub(existing);
    let start = workload.object()["spec"]["ordinals"]["start"].as_u64().unwrap_or_default();
    let ordinals = (start..start.saturating_add(MAX_LOOKED_AT)).take_while(|_| absent > 0);
    let names = ordinals.map(|ordinal| format!("{name}-{ordinal}"));
    let most = usize::try_from(absent).unwrap_or(MAX_MISSING).min(MAX_MISSING);
    let names: Vec<String> =
        names.filter(|pod| is_wanted(pod) && !exist.contains(pod.as_str())).take(most).collect();
    let left_out = absent.saturating_sub(names.len() as u64);
    (names, left_out)
}

/// Whether a workload that was not read does not exist.
fn is_gone(snapshot: &Snapshot, key: &WorkloadKey) -> bool {
    key.kind == "StatefulSet" && snapshot.unread(Resource::stateful_sets_of(&key.group)).is_none()
}

fn without_pod(snapshot: &Snapshot, governed: &Governed, name: &str, phase: Phase) -> Row {
    let state = governed.states.get(name);
    let plan = planned(governed, state);
    let has_labels = !plan.required.is_empty() || !plan.preferred.is_empty();
    Row {
        namespace: governed.key.namespace.clone(),
        pod: name.to_owned(),
        workload_kind: governed.key.kind.clone(),
        workload: governed.key.name.clone(),
        persistent_pod_state: governed.pps.map(Pps::name).map(str::to_owned),
        phase,
        recorded: state.cloned(),
        has_lost_labels: governed.spec.required_keys().next().is_some() && !has_labels,
        required: labels(plan.required),
        drift: drift::node_gone(snapshot, state).into_iter().collect(),
        ..Row::default()
    }
}

fn of_pod(snapshot: &Snapshot, governed: &Governed, workload: Option<&Workload>, pod: &Pod) -> Row {
    let state = governed.states.get(pod.name());
    let mut row = Row {
        is_marked: pod.is_marked(),
        revision: template::revision(pod).map(str::to_owned),
        node: pod.node().map(str::to_owned),
        zone: zone(snapshot, pod, state),
        ips: pod.ips(),
        injected_from: pod.injected_from().map(str::to_owned),
        drift: match governed.pps {
            Some(pps) => said_once(pps, drift::of(snapshot, &governed.spec, pod, state)),
            None => drift::own_node_gone(snapshot, pod).into_iter().collect(),
        },
        message: message(snapshot, pod),
        ..without_pod(snapshot, governed, pod.name(), Phase::of(pod))
    };
    // What counts for a Pod without a node is what it was created with.
    if pod.node().is_none()
        && let Some(injected) = injected(pod, workload, governed.pps.map(|_| &governed.spec), state)
        && !template::same_labels(&injected.required, &planned(governed, state).required)
    {
        let before = drift::created_before(snapshot, &injected, state);
        row.drift.extend(before.into_iter().filter(|one| !row.drift.contains(one)).collect::<Vec<_>>());
        row.has_lost_labels = false;
        row.required = labels(injected.required);
    }
    row
}

/// What the policy would inject into a Pod with this recorded state.
fn planned(governed: &Governed, state: Option<&PodState>) -> Plan {
    state.map_or_else(Plan::default, |state| plan("", &governed.spec, state, &AnnotationRules::default()))
}

fn labels(required: Vec<Requirement>) -> BTreeMap<String, String> {
    required.into_iter().map(|one| (one.key, one.value)).collect()
}

/// A PersistentPodState that does not record says why itself.
fn said_once(pps: &Pps, mut drift: Vec<Drift>) -> Vec<Drift> {
    let is_recording = pps.recording().is_some_and(|(is_recording, ..)| is_recording);
    for one in &mut drift {
        if let Drift::Unrecorded { lasting } = one {
            *lasting &= is_recording;
        }
    }
    drift
}

/// Why a Pod has no node, as far as the scheduler says it.
fn message(snapshot: &Snapshot, pod: &Pod) -> Option<String> {
    let is_forgotten = snapshot.is_lasting(pod.unscheduled_since());
    let message = pod.unschedulable().or_else(|| is_forgotten.then_some(""));
    message.filter(|_| pod.node().is_none()).map(str::to_owned)
}

/// The zone of the Pod's node. Without the right to read nodes it is the recorded one, if the Pod is where it was recorded.
fn zone(snapshot: &Snapshot, pod: &Pod, state: Option<&PodState>) -> Option<String> {
    let name = pod.node()?;
    if let Some(node) = snapshot.node(name) {
        return Some(ZONES.iter().find_map(|key| node.label(key)).unwrap_or_default().to_owned());
    }
    let state = state.filter(|state| state.node_name == name);
    let recorded =
        state.and_then(|state| ZONES.iter().find_map(|key| state.node_topology_labels.get(*key)).cloned());
    // Nothing says any more in which zone a node was that is gone.
    recorded.or_else(|| snapshot.nodes.is_some().then(String::new))
}
