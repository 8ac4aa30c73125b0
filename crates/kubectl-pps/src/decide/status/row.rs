//! One Pod: its node, its differences from the recorded state, and the reason to look at it.

use std::collections::{BTreeMap, BTreeSet};

use pps_admission::plan;
use pps_admission::plan::Requirement;
use pps_core::addresses::differs;
use pps_core::succession::name_order;
use pps_core::{AnnotationRules, PodState, Spec};
use serde::Serialize;

use super::Governed;
use crate::decide::injected::{injected, same_labels};
use crate::decide::placement::is_closed;
use crate::snapshot::{Index, Node, Pod, Pps, Resource, Snapshot, Workload};

/// The most missing Pods that are listed of one workload.
const MAX_MISSING: usize = 200;

/// A Pod of a workload, or the state of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub namespace: String,
    pub pod: String,
    pub workload_kind: String,
    pub workload: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_pod_state: Option<String>,
    pub phase: Phase,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    pub ips: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<PodState>,
    /// The labels that its node must have: the recorded ones, or the injected ones of a Pod without
    /// a node.
    pub required: BTreeMap<String, String>,
    /// For how many seconds the Pod waits for a node with these labels; none if forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_after_seconds: Option<u32>,
    /// The PersistentPodState whose state was injected when it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub injected_from: Option<String>,
    pub drift: Vec<Drift>,
    /// The scheduler's message about a Pending Pod; empty if the scheduler has long not looked at
    /// the Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concern: Option<Concern>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Phase {
    Ready,
    /// It has a node and is not Ready.
    NotReady,
    Pending,
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind")]
pub enum Drift {
    /// The node of the Pod lacks a label that it must have.
    RequiredTopology {
        key: String,
        found: Option<String>,
        wanted: String,
    },
    Node {
        recorded: String,
    },
    /// The recorded node is its home, to which it returns when it is created again.
    Away {
        home: String,
    },
    /// The node that the Pod is bound to, or recorded on if it has none, does not exist any more.
    NodeGone {
        node: String,
    },
    /// The Pod has no node, and was created with other values than are recorded now, if any are.
    Changed {
        recorded: bool,
    },
    /// An annotation of the Pod, or the addresses in its place, are not as recorded.
    Annotation {
        key: String,
    },
    /// The sidecar does not record the Pod: a move has not been finished, or a user wants it so.
    Exempt {
        unfinished: bool,
    },
    /// The Pod is Ready, and its node is not recorded: for so long that the sidecar does not record
    /// it, or not yet.
    Unrecorded {
        lasting: bool,
    },
}

/// Why to look at a Pod, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Concern {
    /// The scheduler has found no node, or has not looked at it for long.
    Pending,
    NodeGone,
    Missing,
    UnfinishedMove,
    /// Its node lacks a label that its recorded state requires.
    Misplaced,
    /// It has long been Ready, and its node is not recorded.
    Unrecorded,
    NodeNotReady,
    /// No node that it must come back to takes new Pods.
    CannotReturn,
    /// It is Ready, and recorded on another node.
    RecordedElsewhere,
    /// It runs, and its home is another node.
    Away,
    /// An annotation or address is not as recorded.
    Differs,
}

impl Concern {
    /// Whether it is a reason to act: the Pod does not run as it should.
    pub fn is_bad(self) -> bool {
        self < Self::CannotReturn
    }
}

impl Phase {
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
    pub fn recorded_node(&self) -> Option<&str> {
        self.recorded
            .as_ref()
            .map(|state| state.node_name.as_str())
            .filter(|node| !node.is_empty())
    }

    pub fn is_of_same_workload(&self, other: &Self) -> bool {
        self.namespace == other.namespace
            && self.workload_kind == other.workload_kind
            && self.workload == other.workload
    }

    fn concern(&self, snapshot: &Snapshot, pod: &Pod, pps: Option<&Pps>) -> Option<Concern> {
        let Some(node) = pod.node() else {
            return self.message.as_ref().map(|_| Concern::Pending);
        };
        let node = snapshot.node(node);
        let has_ended = pod.is_terminating() || pod.is_finished();
        // A PersistentPodState that does not record has a problem of its own in the answer.
        let is_recording = pps
            .and_then(Pps::recording)
            .is_some_and(|recording| recording.is_true);
        let is_enabled = pps.is_none_or(Pps::is_enabled);
        if snapshot.is_stranded(pod) {
            Some(Concern::NodeGone)
        } else if pod.is_marked() && !has_ended {
            Some(Concern::UnfinishedMove)
        } else if self.has_drift(|one| matches!(one, Drift::RequiredTopology { .. })) {
            Some(Concern::Misplaced)
        } else if is_recording && self.has_drift(|one| *one == Drift::Unrecorded { lasting: true })
        {
            Some(Concern::Unrecorded)
        } else if node.is_some_and(|node| !node.is_ready()) {
            Some(Concern::NodeNotReady)
        } else if node.is_some_and(|node| cannot_return(snapshot, pod, node, &self.required)) {
            Some(Concern::CannotReturn)
        } else if snapshot.is_recordable(pod)
            && is_enabled
            && self.has_drift(|one| matches!(one, Drift::Node { .. }))
        {
            Some(Concern::RecordedElsewhere)
        } else if self.has_drift(|one| matches!(one, Drift::Away { .. })) {
            Some(Concern::Away)
        } else if self.has_drift(|one| matches!(one, Drift::Annotation { .. })) {
            Some(Concern::Differs)
        } else {
            None
        }
    }

    fn has_drift(&self, is_meant: impl Fn(&Drift) -> bool) -> bool {
        self.drift.iter().any(is_meant)
    }
}

/// Whether every node with the required labels, the Pod's own among them, takes no new Pod like
/// this one.
fn cannot_return(
    snapshot: &Snapshot,
    pod: &Pod,
    own: &Node,
    required: &BTreeMap<String, String>,
) -> bool {
    let is_closed = |node: &Node| is_closed(pod.object(), node.object());
    let mut nodes = snapshot
        .nodes
        .iter()
        .flat_map(BTreeMap::values)
        .filter(|node| has_all(node, required));
    // Most nodes are open, so the Pod's own node is checked first.
    !required.is_empty() && is_closed(own) && has_all(own, required) && nodes.all(is_closed)
}

fn has_all(node: &Node, labels: &BTreeMap<String, String>) -> bool {
    labels
        .iter()
        .all(|(key, value)| node.label(key) == Some(value))
}

/// Adds the rows of a workload. Returns whether some are left out.
pub(super) fn rows(
    snapshot: &Snapshot,
    index: &Index,
    governed: &Governed,
    rows: &mut Vec<Row>,
) -> bool {
    let key = governed.key;
    let workload = index.workload(key);
    let pods = index.pods_of(key);
    let names: BTreeSet<&str> = pods.iter().map(|pod| pod.name()).collect();
    let mut own: Vec<Row> = pods
        .iter()
        .map(|pod| of_pod(snapshot, governed, workload, pod))
        .collect();
    // Without the right to read Pods, nothing is known to be missing.
    let sees_pods = snapshot.unread(Resource::Pods).is_none();
    let wanted = workload
        .filter(|_| sees_pods)
        .into_iter()
        .flat_map(Workload::wanted);
    let missing: Vec<String> = wanted
        .filter(|pod| !names.contains(pod.as_str()))
        .take(MAX_MISSING)
        .collect();
    let absent: BTreeSet<&String> = governed.states.keys().chain(&missing).collect();
    for pod in absent {
        if !names.contains(pod.as_str()) {
            let phase = phase_without_pod(snapshot, governed, workload, pod);
            own.push(without_pod(snapshot, governed, pod, phase));
        }
    }
    own.sort_by_cached_key(|row| {
        let (base, ordinal) = name_order(&row.pod);
        (base.to_owned(), ordinal, row.pod.clone())
    });
    rows.append(&mut own);
    missing.len() == MAX_MISSING
}

/// The phase of a Pod that was not read.
fn phase_without_pod(
    snapshot: &Snapshot,
    governed: &Governed,
    workload: Option<&Workload>,
    name: &str,
) -> Phase {
    match workload {
        _ if snapshot.unread(Resource::Pods).is_some() => Phase::Unknown,
        Some(workload) if workload.wants(name) => Phase::Missing,
        Some(_) => Phase::NotWanted,
        None if snapshot.has_all_like(governed.key) => Phase::NotWanted,
        None => Phase::Unknown,
    }
}

fn without_pod(snapshot: &Snapshot, governed: &Governed, name: &str, phase: Phase) -> Row {
    let state = governed.states.get(name);
    Row {
        namespace: governed.key.namespace.clone(),
        pod: name.to_owned(),
        workload_kind: governed.key.kind.clone(),
        workload: governed.key.name.clone(),
        persistent_pod_state: governed.pps.map(|pps| pps.name().to_owned()),
        phase,
        recorded: state.cloned(),
        required: labels(required(&governed.spec, state)),
        fallback_after_seconds: governed.spec.fallback_after_seconds(),
        drift: recorded_node_gone(snapshot, state).into_iter().collect(),
        concern: (phase == Phase::Missing).then_some(Concern::Missing),
        ..Row::default()
    }
}

fn of_pod(snapshot: &Snapshot, governed: &Governed, workload: Option<&Workload>, pod: &Pod) -> Row {
    let state = governed.states.get(pod.name());
    // A Pod that was created a moment ago waits for the scheduler.
    let is_forgotten = snapshot.is_lasting(pod.unscheduled_since());
    let message = pod.unschedulable().or_else(|| is_forgotten.then_some(""));
    let mut row = Row {
        node: pod.node().map(str::to_owned),
        ips: pod.ips(),
        injected_from: pod.injected_from().map(str::to_owned),
        drift: match governed.pps {
            Some(_) => drift_of(snapshot, &governed.spec, pod, state),
            None => own_node_gone(snapshot, pod).into_iter().collect(),
        },
        message: message.filter(|_| pod.node().is_none()).map(str::to_owned),
        ..without_pod(snapshot, governed, pod.name(), Phase::of(pod))
    };
    // For a Pod without a node, the injected labels count.
    if pod.node().is_none()
        && let Some(injected) = injected(pod, workload, governed.pps.map(|_| &governed.spec), state)
        && !same_labels(&injected.required, &required(&governed.spec, state))
    {
        row.drift.push(Drift::Changed {
            recorded: state.is_some(),
        });
        row.required = labels(injected.required);
    }
    row.concern = row.concern(snapshot, pod, governed.pps);
    row
}

/// The labels that the policy would make a Pod with this recorded state require.
fn required(spec: &Spec, state: Option<&PodState>) -> Vec<Requirement> {
    state
        .map(|state| plan("", spec, state, &AnnotationRules::default()).required)
        .unwrap_or_default()
}

fn labels(required: Vec<Requirement>) -> BTreeMap<String, String> {
    required
        .into_iter()
        .map(|one| (one.key, one.value))
        .collect()
}

fn recorded_node_gone(snapshot: &Snapshot, state: Option<&PodState>) -> Option<Drift> {
    let node = state
        .map(|state| &state.node_name)
        .filter(|name| !name.is_empty())?;
    snapshot
        .lacks_node(node)
        .then(|| Drift::NodeGone { node: node.clone() })
}

fn own_node_gone(snapshot: &Snapshot, pod: &Pod) -> Option<Drift> {
    let node = pod.node().filter(|_| snapshot.is_stranded(pod))?;
    Some(Drift::NodeGone {
        node: node.to_owned(),
    })
}

/// All differences of a Pod from its recorded state.
pub fn drift_of(
    snapshot: &Snapshot,
    spec: &Spec,
    pod: &Pod,
    state: Option<&PodState>,
) -> Vec<Drift> {
    let mut found: Vec<Drift> = own_node_gone(snapshot, pod).into_iter().collect();
    if pod.is_exempt() {
        found.push(Drift::Exempt {
            unfinished: pod.is_marked(),
        });
    }
    let is_recorded = state.is_some_and(|state| !state.node_name.is_empty());
    if !is_recorded && pod.is_ready() && !pod.is_terminating() {
        let lasting = snapshot.is_recordable(pod) && snapshot.is_lasting(pod.ready_since());
        found.push(Drift::Unrecorded { lasting });
    }
    let Some(state) = state else { return found };
    let Some(name) = pod.node() else {
        found.extend(recorded_node_gone(snapshot, Some(state)));
        return found;
    };
    if let Some(node) = snapshot.node(name) {
        for Requirement { key, value } in required(spec, Some(state)) {
            let label = node.label(&key);
            if label != Some(&value) {
                found.push(Drift::RequiredTopology {
                    found: label.map(str::to_owned),
                    key,
                    wanted: value,
                });
            }
        }
    }
    if is_recorded && state.node_name != name {
        let recorded = state.node_name.clone();
        let is_away = spec.is_away(&recorded, name);
        found.push(if is_away {
            Drift::Away { home: recorded }
        } else {
            Drift::Node { recorded }
        });
    }
    for key in spec
        .persistent_pod_annotations
        .iter()
        .map(|annotation| &annotation.key)
    {
        let Some(value) = state.annotations.get(key).filter(|value| !value.is_empty()) else {
            continue;
        };
        if differs(value, pod.annotation(key), &pod.ips()) {
            found.push(Drift::Annotation { key: key.clone() });
        }
    }
    found
}
