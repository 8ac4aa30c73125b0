//! `explain`: why a Pod is where it is, or why it is nowhere, and what the user can do.

mod absent;
mod bound;
mod facts;
mod groups;
mod pending;
mod remedies;
mod subject;

use pps_check::read::Read;
use pps_core::plan::Requirement;
use pps_scheduler::{Caveat, ExclusionKind};
use serde::Serialize;

pub use self::absent::{blocker, wanting};
pub use self::facts::{Fact, Governance, Refuser};
pub use self::groups::{Group, Reason};
pub use self::remedies::{Remedy, RemedyKind, Step};
use self::subject::Subject;
use super::landing::Landing;
use super::similar::similar;
use super::status::Drift;
use crate::snapshot::{Index, Pod, Resource, Snapshot, Unread};
use crate::{Failure, Outcome};

/// The label that is a node's name.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// What was read.
    pub snapshot: &'a Snapshot,
    /// The Pod's namespace.
    pub namespace: &'a str,
    /// The Pod.
    pub pod: &'a str,
    /// Why its controller could not create it, the newest first. None if Events were not read.
    pub refusals: Option<&'a [String]>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The Pod's namespace.
    pub namespace: String,
    /// The Pod.
    pub pod: String,
    /// In one word.
    pub verdict: Verdict,
    /// Why that is so.
    pub cause: Cause,
    /// Whether one of the present template could start, so that it is the template that keeps the Pod from all nodes.
    pub is_kept_by_template: bool,
    /// The nodes that cannot take the Pod now, by reason: of a Pod that runs, if it had to be placed again.
    pub excluded: Vec<Group>,
    /// The nodes that could take the Pod now: of a Pod that runs, if it had to be placed again.
    pub landing: Landing,
    /// What it follows from, the most important first.
    pub facts: Vec<Fact>,
    /// What the user can do. Each was tried in the simulation of the scheduler.
    pub remedies: Vec<Remedy>,
    /// What is not known, and what follows from that.
    pub notes: Vec<Note>,
    /// Whether it is not known what is recorded.
    pub is_incomplete: bool,
}

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// It has a node, and runs.
    Running,
    /// It has a node, and does not run there yet, or any more.
    NotRunning,
    /// It runs where it must not be.
    Misplaced,
    /// It runs and is not recorded, and its PersistentPodState has a problem.
    NotRecorded,
    /// It is bound to a node that does not exist any more.
    NodeGone,
    /// No node can take it, because of its recorded state.
    Pinned,
    /// No node can take it, whatever its recorded state.
    Unschedulable,
    /// It has no node yet.
    Unscheduled,
    /// It is being deleted.
    Terminating,
    /// It was not created: it was refused.
    Refused,
    /// It was not created: its controller waits for another Pod, or has not come to it.
    NotCreated,
    /// Its workload does not want it now.
    NotWanted,
    /// It could not be found out.
    Unknown,
}

/// Why a Pod is where it is, or nowhere.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields' names say what they are")]
pub enum Cause {
    /// It is on its node.
    OnNode { node: String, place: Place, progress: Progress },
    /// Its node lacks a label that the recorded state requires.
    Misplaced { node: String, drift: Drift },
    /// It runs and is not recorded.
    NotRecorded { node: String, why: Unrecorded },
    /// Its node is gone, and Kubernetes deletes it.
    NodeGone { node: String, next: Successor },
    /// It has ended in this phase.
    Ended { node: Option<String>, phase: String },
    /// It is being deleted, and its node is as it should be.
    Terminating { node: Option<String> },
    /// It should have been gone by this time, and is not.
    Overdue { node: Option<String>, deadline: String },
    /// It is being deleted, and nothing confirms that it has stopped: its node is gone.
    TerminatingWithoutNode { node: String },
    /// It is being deleted, and nothing confirms that it has stopped: its node is not Ready.
    TerminatingOnLostNode { node: LostNode },
    /// Scheduling gates keep the scheduler from looking at it.
    Gated,
    /// A node could take it, and the scheduler says otherwise.
    RefutedBy { message: String },
    /// The scheduler has not looked at it, and a node could take it, if nodes could be read.
    NotLookedAt,
    /// No node can take it. `matching` have what is injected, and have this reason in common.
    NoNode { pin: Option<Pin>, matching: Vec<String>, common: Option<ExclusionKind>, is_governed: bool },
    /// The scheduler has found no node, and nodes could not be read.
    NoNodeKnown { pin: Option<Pin> },
    /// It does not exist, and its workload wants so many others.
    NotWanted { workload: String, replicas: u64 },
    /// It does not exist, and nothing that was read wants it; this PersistentPodState has its state.
    NoWorkload { pps: String, is_known: bool },
    /// An ordered workload creates this Pod first.
    WaitsFor { workload: String, pod: String },
    /// Its creation is refused.
    Refused,
    /// It does not exist although its workload wants it.
    NotCreated { workload: String },
}

/// What a Pending Pod requires because it was injected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The labels.
    pub required: Vec<Requirement>,
    /// Whether the recorded state has changed since the Pod was created, or is not known.
    pub is_former: bool,
    /// The node that was recorded, if it is gone.
    pub gone_node: Option<String>,
    /// Why the only node with these labels cannot take it.
    pub only: Vec<Reason>,
    /// Whether nothing is recorded now.
    pub is_forgotten: bool,
}

/// Where a Pod that runs is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On its node.
    Here,
    /// On another node.
    Elsewhere(String),
    /// Nowhere yet.
    Nowhere,
    /// Nowhere, since no PersistentPodState governs its workload.
    NotGoverned,
    /// That is not known.
    Unknown,
}

/// How far a Pod with a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is Ready.
    Ready,
    /// It runs and is not Ready.
    NotReady,
    /// It is not Ready, and neither is its node.
    NodeNotReady,
    /// It does not run yet.
    NotStarted,
}

/// Why a Ready Pod is not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unrecorded {
    /// The condition of the PersistentPodState says so: its reason and message.
    Condition(String, String),
    /// No sidecar has looked at this PersistentPodState yet.
    NotSeen(String),
}

/// A node that is not Ready, and since when if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say what they are")]
pub struct LostNode {
    pub name: String,
    pub since: Option<String>,
}

/// What becomes of the Pod that is created next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Successor {
    /// Nothing creates one.
    None,
    /// Where it would start is not known.
    Unknown,
    /// It would start.
    Starts(Landing),
    /// No node could take it, with these injected requirements.
    Pending(Vec<Requirement>),
}

/// What is not known, or does not help.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields' names say what they are")]
pub enum Note {
    /// What is not simulated.
    Caveat(Caveat),
    /// A list that could not be read.
    Unread(Unread),
    /// No change that was tried lets the Pod go, nor would it start without its recorded state.
    NothingHelps { is_pinned: bool },
    /// A move lets it start elsewhere if another node can take it, which is not known.
    MoveMayHelp,
}

impl Explanation {
    fn new(question: &Question, verdict: Verdict, cause: Cause) -> Self {
        Self {
            namespace: question.namespace.to_owned(),
            pod: question.pod.to_owned(),
            verdict,
            cause,
            is_kept_by_template: false,
            excluded: Vec::new(),
            landing: Landing::default(),
            facts: Vec::new(),
            remedies: Vec::new(),
            notes: Vec::new(),
            is_incomplete: verdict == Verdict::Unknown,
        }
    }

    /// The exit code's meaning.
    pub fn outcome(&self) -> Outcome {
        match self.verdict {
            Verdict::Running | Verdict::Terminating | Verdict::NotWanted | Verdict::Unknown => {
                if self.is_incomplete { Outcome::Incomplete } else { Outcome::Well }
            }
            _ => Outcome::NotWell,
        }
    }
}

/// Answers.
///
/// # Errors
///
/// If there is no such Pod and nothing wants it, or Pods could not be read.
pub fn explain(question: &Question) -> Result<Explanation, Failure> {
    let index = Index::of(question.snapshot);
    let mut explanation = match index.pod(question.namespace, question.pod) {
        Some(pod) => {
            let subject = Subject::of(question, &index, pod);
            let mut explanation = match pod.node() {
                _ if pod.is_terminating() || pod.is_finished() => bound::ending(question, &subject),
                Some(node) => bound::explain(question, &subject, node),
                None => pending::explain(question, &subject),
            };
            explanation.facts.extend(facts::of(question, &index, &subject));
            explanation.is_incomplete = subject.pps == Read::Unknown;
            explanation
        }
        None => absent::explain(question, &index).ok_or_else(|| unknown(question, &index))?,
    };
    explanation.notes.extend(question.snapshot.relevant_unread().cloned().map(Note::Unread));
    Ok(explanation)
}

fn unknown(question: &Question, index: &Index) -> Failure {
    let Question { snapshot, namespace, pod, .. } = question;
    // The Pods of other namespaces only take room.
    if let Err(unread) = snapshot.require(Resource::Pods).and_then(|()| snapshot.require_workloads()) {
        return Failure::Unreadable(format!("cannot explain Pod {pod}: {unread}"));
    }
    let in_namespace = snapshot.pods.iter().filter(|pod| pod.namespace() == *namespace).map(Pod::name);
    let states = index.targeted_in(namespace).filter_map(|(_, all)| all.first()?.states().ok());
    let recorded: Vec<String> = states.flat_map(std::collections::BTreeMap::into_keys).collect();
    let near = similar(pod, in_namespace.chain(recorded.iter().map(String::as_str)));
    let hint = if near.is_empty() { String::new() } else { format!("; similar names: {}", near.join(", ")) };
    Failure::Usage(format!("there is no Pod {pod} in namespace {namespace}, and no workload wants one{hint}"))
}
