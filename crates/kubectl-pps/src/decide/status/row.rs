//! One Pod.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::{AnnotationRules, INJECTED_ANNOTATION, PodState, plan};
use serde::Serialize;

use super::Governed;
use super::drift::{self, Drift, DriftKind};
use super::wanted;
use crate::snapshot::{Index, Pod, Snapshot};

/// The label that says in which zone a node is, and its older name.
const ZONES: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];

/// A Pod of a workload that a PersistentPodState governs, or the state of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    pub persistent_pod_state: String,
    /// Where it is in its life.
    pub phase: Phase,
    /// The node that it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The zone of that node; none if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Its addresses.
    pub ips: Vec<String>,
    /// What is recorded under its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
    /// What the PersistentPodState requires and prefers for it, with the recorded values.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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

/// Whether a Pod must return, should, or gets something back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Strength {
    /// It waits for a node with this label.
    Required,
    /// It prefers a node with this label.
    Preferred,
    /// It gets this annotation back.
    Annotation,
}

/// A part of what pins a Pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pin {
    /// How strongly.
    pub strength: Strength,
    /// The label of nodes, or the annotation.
    pub key: String,
    /// The recorded value; none if none is recorded, so that this does not pin the Pod yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The weight of a preference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

impl Row {
    /// Whether this is a reason to look: the Pod is Pending or missing, or not where it must be.
    pub fn is_bad(&self) -> bool {
        let is_stuck =
            matches!(self.phase, Phase::Missing) || (self.phase == Phase::Pending && self.message.is_some());
        is_stuck || self.drift.iter().any(|one| one.kind == DriftKind::RequiredTopology)
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
    let mut own: Vec<Row> = pods.iter().map(|pod| of_pod(snapshot, governed, pod)).collect();
    let existing = names.iter().filter(|name| is_wanted(name) == Some(true)).count() as u64;
    let (mut missing, mut left_out) = (Vec::new(), 0);
    // Without the right to read Pods, nothing is known to be missing.
    let sees_pods = !snapshot.unseen.iter().any(|unseen| unseen.what.contains("pods"));
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
    key.kind == "StatefulSet" && !snapshot.unseen.iter().any(|unseen| unseen.what.contains("statefulsets"))
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
        persistent_pod_state: governed.pps.name().to_owned(),
        phase,
        node: None,
        zone: None,
        ips: Vec::new(),
        recorded: state.map(Recorded::of),
        pinned_by: pins(governed, state),
        injected_from: None,
        drift: drift::node_gone(snapshot, state).into_iter().collect(),
        message: None,
    }
}

fn of_pod(snapshot: &Snapshot, governed: &Governed, pod: &Pod) -> Row {
    let state = governed.states.get(pod.name());
    Row {
        node: pod.node().map(str::to_owned),
        zone: zone(snapshot, pod, state),
        ips: pod.ips(),
        injected_from: pod.annotation(INJECTED_ANNOTATION).map(str::to_owned),
        drift: drift::of(snapshot, &governed.spec, pod, state),
        message: pod.node().map_or_else(|| pod.unschedulable(), |_| None).map(str::to_owned),
        ..without_pod(snapshot, governed, pod.name(), Phase::of(pod))
    }
}

/// The zone of the Pod's node. Without the right to read nodes it is the recorded one, if the Pod is where it was recorded.
fn zone(snapshot: &Snapshot, pod: &Pod, state: Option<&PodState>) -> Option<String> {
    let name = pod.node()?;
    if let Some(node) = snapshot.node(name) {
        return ZONES.iter().find_map(|key| node.label(key)).map(str::to_owned);
    }
    let state = state.filter(|state| state.node_name == name)?;
    ZONES.iter().find_map(|key| state.node_topology_labels.get(*key)).cloned()
}

/// What the PersistentPodState asks for, with the recorded values.
fn pins(governed: &Governed, state: Option<&PodState>) -> Vec<Pin> {
    let spec = &governed.spec;
    let none = PodState::default();
    let plan = plan(governed.pps.name(), spec, state.unwrap_or(&none), &AnnotationRules::default());
    let mut pins: Vec<Pin> = Vec::new();
    let mut add = |strength, key: &str, value: Option<&str>, weight| {
        let pin = Pin { strength, key: key.to_owned(), value: value.map(str::to_owned), weight };
        if !pins.contains(&pin) {
            pins.push(pin);
        }
    };
    for key in spec.required_keys() {
        let value = plan.required.iter().find(|one| one.key == key).map(|one| one.value.as_str());
        add(Strength::Required, key, value, None);
    }
    for term in &spec.preferred_persistent_topology {
        for key in &term.preference.node_topology_keys {
            let value = state.and_then(|state| state.node_topology_labels.get(key)).map(String::as_str);
            add(Strength::Preferred, key, value, Some(term.weight));
        }
    }
    for annotation in &spec.persistent_pod_annotations {
        let value = state.and_then(|state| state.annotations.get(&annotation.key)).map(String::as_str);
        add(Strength::Annotation, &annotation.key, value, None);
    }
    pins
}
