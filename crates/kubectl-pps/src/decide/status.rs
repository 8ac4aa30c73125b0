//! `status`: where each Pod is, where it is recorded, and what pins it.

mod advice;
mod drift;
mod pin;
mod rollout;
mod row;
mod shut;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};

use pps_check::Finding;
use pps_core::{PodState, Spec};
use serde::Serialize;

pub use self::advice::{Advice, goal};
pub use self::drift::{Drift, DriftKind, of as drift_of, short};
pub use self::pin::{Pin, Strength};
pub use self::row::{Phase, Recorded, Row};
use self::shut::ShutOut;
use super::hand::Hand;
use super::template;
use super::workload_name::{named, pod_name};
use crate::snapshot::{
    FoundBy, Index, KRUISE_WORKLOADS, PPS, Pod, Pps, Snapshot, Unseen, WORKLOADS, WorkloadKey,
};
use crate::{Failure, Outcome};

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Each Pod, by namespace, workload and ordinal.
    pub pods: Vec<Row>,
    /// Each PersistentPodState whose condition is not True, or that cannot serve its workload.
    pub problems: Vec<Problem>,
    /// What to do, one line for each kind of problem.
    pub advice: Vec<Advice>,
    /// How many workloads a PersistentPodState governs, of those that were asked for.
    pub governed: usize,
    /// Workloads that were asked for and have no PersistentPodState.
    pub unpinned: Vec<Unpinned>,
    /// Workloads whose latest change their controller has not seen yet.
    pub unobserved: Vec<String>,
    /// How many Pods that are wanted and do not exist are left out, because there are too many.
    pub left_out: u64,
    /// What could not be read, and what is not known therefore.
    pub unseen: Vec<String>,
    /// Whether something else than nodes, without which there is an answer, could not be read.
    #[serde(skip)]
    pub is_incomplete: bool,
    /// Whether all is well, as far as it was seen.
    pub is_well: bool,
}

/// A PersistentPodState with a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub persistent_pod_state: String,
    /// The reason of its condition, or a word of this program.
    pub reason: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// A workload without a PersistentPodState.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unpinned {
    /// Its namespace.
    pub namespace: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What gives it one.
    pub command: String,
}

impl Status {
    /// The exit code's meaning.
    pub fn outcome(&self) -> Outcome {
        let well = if self.is_well { Outcome::Well } else { Outcome::NotWell };
        well.and(if self.is_incomplete { Outcome::Incomplete } else { Outcome::Well })
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.governed == 0 && self.pods.is_empty() && self.unpinned.is_empty() && self.problems.is_empty()
    }

    /// Says in which other namespaces there are PersistentPodStates.
    pub fn point_to(&mut self, namespaces: &[String], hand: &Hand) {
        self.advice.extend(advice::elsewhere(namespaces, hand));
    }

    /// Says that nobody records: what is recorded may be out of date.
    pub fn is_not_recorded(&mut self, Finding { subject, seen, .. }: &Finding, hand: &Hand) {
        self.is_well = false;
        let text = format!("{subject}: {seen}. To see why");
        self.advice.insert(0, Advice { text, command: hand.check() });
    }

    /// Adds the Pods without a node that were created with a recorded state, and whose workload has no PersistentPodState any
    /// more: they go on waiting for their former place.
    fn add_left_behind(&mut self, snapshot: &Snapshot, index: &Index) {
        let waits = |pod: &&Pod| pod.node().is_none() && pod.injected_from().is_some();
        let here = snapshot.pods.iter().filter(|pod| snapshot.scope.contains(pod.namespace()));
        let owners = here.filter(waits).filter_map(|pod| {
            let (owner, _) = pod.owner()?;
            Some(WorkloadKey::of(pod.namespace(), &owner))
        });
        let owners: BTreeSet<WorkloadKey> =
            owners.filter(|key| index.read_governing(key).is_absent()).collect();
        for key in &owners {
            let governed = Governed { key, pps: None, spec: Spec::default(), states: BTreeMap::new() };
            let mut rows = Vec::new();
            row::rows(snapshot, index, &governed, &mut rows);
            rows.retain(|row| row.phase == Phase::Pending && row.injected_from.is_some());
            self.pods.append(&mut rows);
        }
    }

    /// Adds a workload.
    fn add(&mut self, snapshot: &Snapshot, index: &Index, governed: &Governed) {
        let key = governed.key;
        self.left_out += row::rows(snapshot, index, governed, &mut self.pods);
        if index.workload(key).is_some_and(template::is_unobserved) {
            self.unobserved.push(format!("{} {}", key.kind, key.name));
        }
    }
}

/// A workload with what governs it.
struct Governed<'a> {
    key: &'a WorkloadKey,
    /// None if nothing does.
    pps: Option<&'a Pps>,
    spec: Spec,
    states: BTreeMap<String, PodState>,
}

/// Answers.
///
/// # Errors
///
/// If a workload is named that does not exist.
pub fn status(snapshot: &Snapshot, workload: Option<&str>, hand: &Hand) -> Result<Status, Failure> {
    let index = Index::of(snapshot);
    let chosen = workload.map(|text| find(snapshot, &index, text, hand)).transpose()?;
    let mut status = Status {
        unseen: snapshot.relevant_unseen().map(note).collect(),
        is_incomplete: snapshot.relevant_unseen().any(|one| !one.is_forbidden || one.resource() != "nodes"),
        ..Status::default()
    };
    for (key, all) in index.targeted() {
        let is_chosen = chosen.as_ref().is_none_or(|chosen| chosen.contains(key));
        if !is_chosen || !snapshot.scope.contains(&key.namespace) {
            continue;
        }
        status.problems.extend(all.iter().filter_map(|pps| condition(pps)));
        let Some(pps) = all.first() else { continue };
        status.governed += 1;
        match (pps.spec(), pps.states()) {
            (Ok(spec), Ok(states)) => {
                status.problems.extend(not_found(&index, key, pps));
                let governed = Governed { key, pps: Some(pps), spec, states };
                status.add(snapshot, &index, &governed);
            }
            (Err(error), _) => status.problems.push(problem(pps, "Unreadable", &error)),
            (_, Err(damaged)) => status.problems.push(problem(pps, "Damaged", &damaged.to_string())),
        }
    }
    for key in chosen.iter().flatten().filter(|key| index.governing(key).is_none()) {
        let governed = Governed { key, pps: None, spec: Spec::default(), states: BTreeMap::new() };
        status.add(snapshot, &index, &governed);
        if !index.read_governing(key).is_absent() {
            continue;
        }
        status.unpinned.push(Unpinned {
            namespace: key.namespace.clone(),
            kind: key.kind.clone(),
            name: key.name.clone(),
            command: hand.pps(&format!("pin {} --required zone", key.name), &key.namespace),
        });
    }
    if workload.is_none() {
        status.add_left_behind(snapshot, &index);
    }
    let shut = ShutOut::of(snapshot, &index, &status.pods);
    status.advice = advice::advice(&shut, &status, hand);
    if status.is_empty() && status.unseen.is_empty() {
        status.advice.push(advice::of_none(&snapshot.scope, hand));
    }
    let has_bad = status.pods.iter().any(Row::is_bad) || shut.has_lost_nodes();
    status.is_well = status.problems.is_empty() && !has_bad;
    Ok(status)
}

/// The workloads that a text may mean. A Pod is none: its name leads to the command that it can be given to.
fn find(snapshot: &Snapshot, index: &Index, text: &str, hand: &Hand) -> Result<Vec<WorkloadKey>, Failure> {
    named(snapshot, index, text).map_err(|failure| {
        let name = pod_name(text);
        let is_meant = |pod: &&Pod| pod.name() == name && snapshot.scope.contains(pod.namespace());
        match snapshot.pods.iter().find(is_meant) {
            Some(pod) => Failure::Usage(format!(
                "{name} is a Pod, not a workload: {}",
                hand.pps(&format!("explain {name}"), pod.namespace())
            )),
            None => failure,
        }
    })
}

/// What could not be read, and what is not known therefore.
fn note(unseen: &Unseen) -> String {
    let lost = match unseen.resource() {
        "nodes" => ": zones are those recorded, and it is not known whether nodes still are as recorded",
        WORKLOADS | KRUISE_WORKLOADS => ": it is not known which Pods are wanted",
        "pods" => ": it is not known where Pods are",
        PPS => ": it is not known what is recorded",
        _ => "",
    };
    format!("{unseen}{lost}")
}

fn problem(pps: &Pps, reason: &str, message: &str) -> Problem {
    Problem {
        namespace: pps.namespace().to_owned(),
        persistent_pod_state: pps.name().to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

/// What its condition says, unless that is True.
fn condition(pps: &Pps) -> Option<Problem> {
    match pps.recording() {
        Some((true, ..)) => None,
        Some((false, reason, message)) => Some(problem(pps, reason, message)),
        None => Some(problem(pps, "NotSeen", "no sidecar has looked at it yet, so nothing is recorded")),
    }
}

/// Whether the policy cannot find it.
fn not_found(index: &Index, key: &WorkloadKey, pps: &Pps) -> Option<Problem> {
    let FoundBy::Nothing(alias) = index.found_by(key, pps) else { return None };
    let message = format!(
        "the policy does not find it, so nothing is injected: there is no alias {alias}, which the sidecar should keep"
    );
    // A condition that is not True says it already, or why.
    pps.recording().is_some_and(|(ok, ..)| ok).then(|| problem(pps, "NotFound", &message))
}
