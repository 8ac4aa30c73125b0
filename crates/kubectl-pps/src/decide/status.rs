//! `status`: where each Pod is, where it is recorded, and what is wrong.

mod advice;
mod drift;
mod row;
mod shut;

use std::collections::{BTreeMap, BTreeSet};

use pps_core::is_dns_subdomain;
use pps_core::packed::Damaged;
use pps_core::{PodState, Spec};

pub use self::advice::{Advice, AdviceKind};
pub use self::drift::{Drift, of as drift_of, short};
pub use self::row::{Phase, Row};
pub use self::shut::{Shut, ShutOut};
use super::workload_name::{named, pod_name};
use crate::snapshot::{FoundBy, Index, Pod, Pps, Resource, Snapshot, Unread, WorkloadKey};
use crate::{Failure, Outcome};

/// The label that is a node's name.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The answer.
#[derive(Clone, Debug, Default, PartialEq)]
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
    pub unpinned: Vec<WorkloadKey>,
    /// How many Pods that are wanted and do not exist are left out, because there are too many.
    pub left_out: u64,
    /// The lists that could not be read.
    pub unread: Vec<Unread>,
    /// Whether all is well, as far as it was seen.
    pub is_well: bool,
}

/// A PersistentPodState with a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say what they are")]
pub struct Problem {
    pub namespace: String,
    pub pps: String,
    pub kind: ProblemKind,
}

/// What is wrong with a PersistentPodState.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// Its condition is not True: the reason and the message.
    Condition(String, String),
    /// No sidecar has looked at it.
    NotSeen,
    /// The policy does not find it: there is no alias of this name.
    NotFound(String),
    /// Its spec cannot be read.
    Unreadable(String),
    /// Its states cannot be read.
    Damaged(Damaged),
}

impl Status {
    /// The exit code's meaning.
    pub fn outcome(&self) -> Outcome {
        let well = if self.is_well { Outcome::Well } else { Outcome::NotWell };
        // Without the right to list nodes there is an answer nevertheless.
        let is_incomplete =
            self.unread.iter().any(|one| !(one.is_forbidden() && one.resource == Resource::Nodes));
        well.and(if is_incomplete { Outcome::Incomplete } else { Outcome::Well })
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.governed == 0 && self.pods.is_empty() && self.unpinned.is_empty() && self.problems.is_empty()
    }

    /// Adds advice that rests on more than the snapshot. That nobody records comes first: all else may be out of date.
    pub fn add(&mut self, kind: AdviceKind) {
        let is_silence = matches!(kind, AdviceKind::NobodyRecords(_));
        self.is_well &= !is_silence;
        let at = if is_silence { 0 } else { self.advice.len() };
        self.advice.insert(at, Advice { kind, pods: Vec::new() });
    }
}

/// A workload with the PersistentPodState that governs it.
struct Governed<'a> {
    key: &'a WorkloadKey,
    /// None if none does.
    pps: Option<&'a Pps>,
    spec: Spec,
    states: BTreeMap<String, PodState>,
}

impl<'a> Governed<'a> {
    fn by_none(key: &'a WorkloadKey) -> Self {
        Self { key, pps: None, spec: Spec::default(), states: BTreeMap::new() }
    }
}

/// Answers.
///
/// # Errors
///
/// If a workload is named that does not exist; the command helps a user who has named a Pod.
pub fn status(
    snapshot: &Snapshot,
    workload: Option<&str>,
    explain: impl Fn(&Pod) -> String,
) -> Result<Status, Failure> {
    let index = Index::of(snapshot);
    let chosen = workload.map(|text| find(snapshot, &index, text, explain)).transpose()?;
    let unread = snapshot.relevant_unread().cloned().collect();
    let mut status = Status { unread, is_well: true, ..Status::default() };
    for (key, all) in index.targeted() {
        let is_chosen = chosen.as_ref().is_none_or(|chosen| chosen.contains(key));
        if !is_chosen || !snapshot.scope.contains(&key.namespace) {
            continue;
        }
        let problem = |pps: &Pps, kind| Problem {
            namespace: pps.namespace().to_owned(),
            pps: pps.name().to_owned(),
            kind,
        };
        status.problems.extend(all.iter().filter_map(|pps| Some(problem(pps, condition(pps)?))));
        let Some(pps) = index.governing(key) else { continue };
        status.governed += 1;
        match (pps.spec(), pps.states()) {
            (Ok(spec), Ok(states)) => {
                status.problems.extend(not_found(&index, key, pps).map(|kind| problem(pps, kind)));
                let governed = Governed { key, pps: Some(pps), spec, states };
                status.left_out += row::rows(snapshot, &index, &governed, &mut status.pods);
            }
            (Err(error), _) => status.problems.push(problem(pps, ProblemKind::Unreadable(error))),
            (_, Err(damaged)) => status.problems.push(problem(pps, ProblemKind::Damaged(damaged))),
        }
    }
    for key in chosen.iter().flatten().filter(|key| index.governing(key).is_none()) {
        status.left_out += row::rows(snapshot, &index, &Governed::by_none(key), &mut status.pods);
        if index.read_governing(key).is_absent() {
            status.unpinned.push(key.clone());
        }
    }
    if workload.is_none() {
        add_left_behind(&mut status, snapshot, &index);
    }
    let shut_out = shut::of(snapshot, &index, &status.pods);
    let is_bad = status.pods.iter().any(Row::is_bad) || shut_out.iter().any(|one| one.is_down);
    status.advice = advice::advice(&shut_out, &status);
    if status.is_empty() && status.unread.is_empty() {
        status.add(AdviceKind::NoPps);
    }
    status.is_well &= status.problems.is_empty() && !is_bad;
    Ok(status)
}

/// Adds the Pods without a node that were created with a recorded state, and whose workload has no PersistentPodState any
/// more: they go on waiting for their former place.
fn add_left_behind(status: &mut Status, snapshot: &Snapshot, index: &Index) {
    let waits = |pod: &&Pod| {
        snapshot.scope.contains(pod.namespace()) && pod.node().is_none() && pod.injected_from().is_some()
    };
    let owners = snapshot.pods.iter().filter(waits).filter_map(WorkloadKey::of_pod);
    let owners: BTreeSet<WorkloadKey> = owners.filter(|key| index.read_governing(key).is_absent()).collect();
    for key in &owners {
        let mut rows = Vec::new();
        row::rows(snapshot, index, &Governed::by_none(key), &mut rows);
        rows.retain(|row| row.phase == Phase::Pending && row.injected_from.is_some());
        status.pods.append(&mut rows);
    }
}

/// The workloads that a text may mean. A Pod is none: its name leads to the command that it can be given to.
fn find(
    snapshot: &Snapshot,
    index: &Index,
    text: &str,
    explain: impl Fn(&Pod) -> String,
) -> Result<Vec<WorkloadKey>, Failure> {
    named(snapshot, index, text).map_err(|failure| {
        let name = pod_name(text);
        let is_meant = |pod: &&Pod| pod.name() == name && snapshot.scope.contains(pod.namespace());
        let pod = snapshot.pods.iter().find(is_meant);
        let refuse = |pod| Failure::Usage(format!("{name} is a Pod, not a workload: {}", explain(pod)));
        pod.map_or(failure, refuse)
    })
}

/// What its condition says, unless that is True.
fn condition(pps: &Pps) -> Option<ProblemKind> {
    match pps.recording() {
        Some((true, ..)) => None,
        Some((false, reason, message)) => Some(ProblemKind::Condition(reason.into(), message.into())),
        None => Some(ProblemKind::NotSeen),
    }
}

/// Whether the policy cannot find it. A condition that is not True says it already, or why.
fn not_found(index: &Index, key: &WorkloadKey, pps: &Pps) -> Option<ProblemKind> {
    let FoundBy::Nothing(alias) = index.found_by(key, pps) else { return None };
    condition(pps).is_none().then_some(ProblemKind::NotFound(alias))
}

/// Where an unfinished move goes: the recorded node is its goal, or the present one before it was changed. None: anywhere.
pub fn goal(recorded: Option<&str>) -> Option<String> {
    recorded.filter(|node| is_dns_subdomain(node)).map(str::to_owned)
}
