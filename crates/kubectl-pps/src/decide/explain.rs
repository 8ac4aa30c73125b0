//! `explain`: why a Pod is where it is, or why it is nowhere, and what the user can do.

mod absent;
mod bound;
mod facts;
mod groups;
mod pending;
mod remedies;
mod subject;

use pps_check::facts::Read;
use serde::Serialize;

pub use self::absent::{blocker, wanting};
pub use self::groups::Group;
pub use self::remedies::Remedy;
use self::subject::Subject;
use super::hand::Hand;
use super::landing::Landing;
use super::similar::similar;
use super::unread::{require, require_workloads};
use crate::snapshot::{Index, KRUISE_WORKLOADS, PPS, Pod, Snapshot, WORKLOADS};
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
    /// How to write commands.
    pub hand: &'a Hand,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The Pod's namespace.
    pub namespace: String,
    /// The Pod.
    pub pod: String,
    /// In one word.
    pub verdict: Verdict,
    /// The answer in a sentence.
    pub answer: String,
    /// The nodes that cannot take the Pod now, by reason: of a Pod that runs, if it had to be placed again.
    pub excluded: Vec<Group>,
    /// The nodes that the scheduler would choose from now: of a Pod that runs, if it had to be placed again.
    pub may_land_on: Vec<String>,
    /// The other nodes that could take the Pod now.
    pub could_also_land_on: Vec<String>,
    /// What it follows from, the most important first.
    pub facts: Vec<String>,
    /// What the user can do. Each was tried in the simulation of the scheduler.
    pub remedies: Vec<Remedy>,
    /// What is not known, and what follows from that.
    pub notes: Vec<String>,
    /// Whether it is not known what is recorded.
    #[serde(skip)]
    pub is_incomplete: bool,
}

/// The answer in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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
    /// No node can take it, because of what is recorded.
    Pinned,
    /// No node can take it, whatever is recorded.
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
    #[default]
    Unknown,
}

impl Explanation {
    fn new(question: &Question, verdict: Verdict, answer: impl Into<String>) -> Self {
        Self {
            namespace: question.namespace.to_owned(),
            pod: question.pod.to_owned(),
            verdict,
            answer: answer.into(),
            is_incomplete: verdict == Verdict::Unknown,
            ..Self::default()
        }
    }

    fn lands(&mut self, landing: &Landing) {
        self.may_land_on = landing.favourites().to_vec();
        self.could_also_land_on = landing.others().to_vec();
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
    let snapshot = question.snapshot;
    let index = Index::of(snapshot);
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
    explanation.notes.extend(unseen(question));
    Ok(explanation)
}

fn unknown(question: &Question, index: &Index) -> Failure {
    let Question { snapshot, namespace, pod, .. } = question;
    // The Pods of other namespaces only take room.
    if let Err(unread) = require(snapshot, "pods").and_then(|()| require_workloads(snapshot)) {
        return Failure::Unreadable(format!("cannot explain Pod {pod}: {unread}"));
    }
    let in_namespace = snapshot.pods.iter().filter(|pod| pod.namespace() == *namespace).map(Pod::name);
    let recorded = index.targeted().filter(|(key, _)| key.namespace == *namespace);
    let recorded: Vec<String> = recorded
        .filter_map(|(_, all)| all.first()?.states().ok())
        .flat_map(std::collections::BTreeMap::into_keys)
        .collect();
    let near = similar(pod, in_namespace.chain(recorded.iter().map(String::as_str)));
    let hint = if near.is_empty() { String::new() } else { format!("; similar names: {}", near.join(", ")) };
    Failure::Usage(format!("there is no Pod {pod} in namespace {namespace}, and no workload wants one{hint}"))
}

/// What could not be read, and what could not be said therefore.
fn unseen(question: &Question) -> Vec<String> {
    let lost = |resource: &str| match resource {
        "nodes" => {
            ", so it is not known which nodes can take the Pod; a user with this right sees the whole answer of the same command"
        }
        PPS => ", so it is not known what is recorded, nor where a new Pod would start",
        "persistentvolumes" | "persistentvolumeclaims" => ", so it is not known where volumes keep the Pod",
        WORKLOADS | KRUISE_WORKLOADS => ", so it is not known what the Pod's own template asks for",
        "pods" => ", so it is not known how much room the Pods of other namespaces take",
        _ => "",
    };
    let unseen = question.snapshot.relevant_unseen();
    unseen.map(|one| format!("{one}{}", lost(one.resource()))).collect()
}
