//! One Pod.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::{INJECTED_ANNOTATION, PodState};
use serde::Serialize;

use super::Governed;
use super::drift::{self, Drift, DriftKind};
use super::pin::{self, Pin, Strength};
use super::{rollout, wanted};
use crate::decide::injected::injected;
use crate::decide::template;
use crate::snapshot::{Index, Pod, Pps, Snapshot, Workload};

/// The label that says in which zone a node is, and its older name.
const ZONES: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];

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
    /// What governs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_pod_state: Option<String>,
    /// Its UID: the Pod that is created again under this name has another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// From which revision of its workload's template it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Whether a rollout will replace it.
    pub is_outdated: bool,
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
    /// What is recorded under its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
    /// What its PersistentPodState requires and prefers for it, with the recorded values; of a Pod that has no node yet and
    /// was created with other values, what it was created with.
    pub pinned_by: Vec<Pin>,
    /// The PersistentPodState whose state was injected when it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub injected_from: Option<String>,
    /// How it differs from what is recorded.
    pub drift: Vec<Drift>,
    /// What the scheduler says of a Pod that is Pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A recorded state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// The node.
    pub node: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The Pod's annotations.
    pub annotations: BTreeMap<String, String>,
}

impl Recorded {
    fn of(state: &PodState) -> Self {
        Self {
            node: state.node_name.clone(),
            labels: state.node_topology_labels.clone(),
            annotations: state.annotations.clone(),
        }
    }
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
    pub fn of(pod: &Pod) -> Self {
        if pod.is_terminating() {
            Self::Terminating
        } else if pod.is_finished() {
            Self::Ended
        } else if pod.node().is_none() {
            Self::Pending
        } else if pod.is_ready() {
            Self::Ready
        } else {
            Self::NotReady
        }
    }

    /// As it is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::NotReady => "NotReady",
            Self::Pending => "Pending",
            Self::Terminating => "Terminating",
            Self::Ended => "Ended",
            Self::Missing => "Missing",
            Self::NotWanted => "NotWanted",
            Self::Unknown => "Unknown",
        }
    }
}

impl Row {
    /// Whether this is a reason to look: the Pod is Pending or missing, or not where it must be, or would not come back.
    pub fn is_bad(&self) -> bool {
        let is_stuck =
            matches!(self.phase, Phase::Missing) || (self.phase == Phase::Pending && self.message.is_some());
        let is_wrong = |one: &Drift| {
            matches!(one.kind, DriftKind::RequiredTopology | DriftKind::OwnNodeGone | DriftKind::LeftOut)
        };
        let has_lost_place = self.is_half_moved() && (self.recorded.is_some() || self.node.is_some());
        let would_start_anywhere = self.phase == Phase::Pending && self.has_no_way_back();
        is_stuck || has_lost_place || would_start_anywhere || self.drift.iter().any(is_wrong)
    }

    /// Whether nothing of the recorded place of a Pod that does not run is injected: the labels that are required have been
    /// named since, and are recorded only of Pods that run.
    pub(super) fn has_no_way_back(&self) -> bool {
        let is_absent = matches!(self.phase, Phase::Pending | Phase::Missing | Phase::NotWanted);
        let has_place = self.recorded.as_ref().is_some_and(|recorded| !recorded.node.is_empty());
        let mut labels = self.pinned_by.iter().filter(|pin| pin.strength != Strength::Annotation).peekable();
        let is_required = |pin: &Pin| pin.strength == Strength::Required;
        // The required ones come first.
        is_absent
            && has_place
            && labels.peek().is_some_and(|pin| is_required(pin))
            && labels.all(|pin| pin.value.is_none())
    }

    /// Whether a move has changed what is recorded, and has not ended the Pod.
    pub(super) fn is_half_moved(&self) -> bool {
        self.is_marked && self.phase != Phase::Terminating && !self.is_where_recorded()
    }

    /// Whether it has a node and the mark of a move, and nothing is recorded of it.
    pub(super) fn is_unrecorded_by_mark(&self) -> bool {
        self.is_half_moved() && self.recorded.is_none() && self.node.is_some()
    }

    /// Whether it has the recorded node.
    pub(super) fn is_where_recorded(&self) -> bool {
        self.node.is_some() && self.node == self.recorded.as_ref().map(|recorded| recorded.node.clone())
    }
}

/// Adds the rows of a workload. Returns how many are left out.
pub(super) fn rows(snapshot: &Snapshot, index: &Index, governed: &Governed, rows: &mut Vec<Row>) -> u64 {
    let key = governed.key;
    let workload = index.workload(key);
    let demand = wanted::demand(key, workload);
    let is_wanted = |pod: &str| wanted::is_wanted(demand.as_ref(), &key.name, pod);
    let pods = index.pods_of(key);
    let names: BTreeSet<&str> = pods.iter().map(|pod| pod.name()).collect();
    let outdated = match (workload, &demand) {
        (Some(workload), Some(demand)) => rollout::outdated(workload, demand, pods),
        _ => BTreeSet::new(),
    };
    let of_pod = |pod: &&Pod| Row {
        is_outdated: outdated.contains(pod.name()),
        ..of_pod(snapshot, governed, workload, pod)
    };
    let mut own: Vec<Row> = pods.iter().map(of_pod).collect();
    let existing = names.iter().filter(|name| is_wanted(name) == Some(true)).count() as u64;
    let (mut missing, mut left_out) = (Vec::new(), 0);
    // Without the right to read Pods, nothing is known to be missing.
    let sees_pods = snapshot.unread("pods").is_none();
    if let (Some(demand), Some(workload), true) = (&demand, workload, sees_pods) {
        (missing, left_out) = wanted::missing(demand, workload, existing, |name| names.contains(name));
    }
    own.extend(missing.iter().map(|name| without_pod(snapshot, governed, name, Phase::Missing)));
    let missing: BTreeSet<&str> = missing.iter().map(String::as_str).collect();
    for pod in governed.states.keys().filter(|pod| !names.contains(pod.as_str())) {
        let phase = match (is_wanted(pod), workload) {
            _ if !sees_pods => Phase::Unknown,
            _ if missing.contains(pod.as_str()) => continue,
            (Some(true), _) => Phase::Missing,
            (Some(false), _) => Phase::NotWanted,
            (None, None) if is_gone(snapshot, key) => Phase::NotWanted,
            (None, _) => Phase::Unknown,
        };
        own.push(without_pod(snapshot, governed, pod, phase));
    }
    own.sort_by(|one, other| order(&one.pod).cmp(&order(&other.pod)));
    rows.append(&mut own);
    left_out
}

/// Whether a workload that was not read does not exist.
fn is_gone(snapshot: &Snapshot, key: &crate::snapshot::WorkloadKey) -> bool {
    key.kind == "StatefulSet" && snapshot.unread(&format!("statefulsets.{}", key.group)).is_none()
}

fn order(pod: &str) -> (&str, u64, &str) {
    let (base, ordinal) = pod.rsplit_once('-').unwrap_or((pod, ""));
    ordinal.parse().map_or((pod, 0, pod), |ordinal| (base, ordinal, pod))
}

fn without_pod(snapshot: &Snapshot, governed: &Governed, name: &str, phase: Phase) -> Row {
    let state = governed.states.get(name);
    Row {
        namespace: governed.key.namespace.clone(),
        pod: name.to_owned(),
        workload_kind: governed.key.kind.clone(),
        workload: governed.key.name.clone(),
        persistent_pod_state: governed.pps.map(Pps::name).map(str::to_owned),
        phase,
        recorded: state.map(Recorded::of),
        pinned_by: pin::recorded(&governed.spec, state),
        drift: drift::node_gone(snapshot, state).into_iter().collect(),
        ..Row::default()
    }
}

fn of_pod(snapshot: &Snapshot, governed: &Governed, workload: Option<&Workload>, pod: &Pod) -> Row {
    let state = governed.states.get(pod.name());
    let mut row = Row {
        is_marked: pod.is_marked(),
        uid: Some(pod.uid().to_owned()),
        revision: template::revision(pod).map(str::to_owned),
        node: pod.node().map(str::to_owned),
        zone: zone(snapshot, pod, state),
        ips: pod.ips(),
        injected_from: pod.annotation(INJECTED_ANNOTATION).map(str::to_owned),
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
        && injected.differs_from(&pin::planned(&governed.spec, state).required)
    {
        row.pinned_by = pin::injected(&injected);
        let drift = row.drift.clone();
        let before = drift::created_before(snapshot, &injected, state);
        row.drift.extend(before.into_iter().filter(|one| !drift.contains(one)));
    }
    row
}

/// A PersistentPodState that does not record says why itself.
fn said_once(pps: &Pps, mut drift: Vec<Drift>) -> Vec<Drift> {
    if !pps.recording().is_some_and(|(is_recording, ..)| is_recording) {
        for one in drift.iter_mut().filter(|one| one.kind == DriftKind::LeftOut) {
            one.kind = DriftKind::NoState;
        }
    }
    drift
}

/// Why a Pod has no node, as far as the scheduler says it.
fn message(snapshot: &Snapshot, pod: &Pod) -> Option<String> {
    if pod.node().is_some() {
        return None;
    }
    let is_forgotten = snapshot.is_lasting(pod.unscheduled_since());
    let forgotten = is_forgotten.then_some("no scheduler has looked at it");
    pod.unschedulable().or(forgotten).map(str::to_owned)
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
