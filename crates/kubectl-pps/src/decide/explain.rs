//! `explain`: why a Pod is on its node or on none, and what the user can do.

mod absent;
mod bound;
mod cause;
mod fallback;
mod pending;
mod remedies;
mod successor;

use std::collections::BTreeMap;

use pps_check::read::Read;
use pps_scheduler::{Caveat, Contradiction, Selection, Verdict as NodeVerdict};
use serde_json::Value;

use self::absent::absent;
use self::bound::{bound, on_gone_node};
pub use self::cause::{Cause, LostNode, Verdict};
pub use self::fallback::{Fallback, Prospect};
use self::pending::pending;
pub use self::remedies::{Remedy, RemedyKind, Step};
pub use self::successor::Successor;
use super::names::similar;
use super::placement::Landing;
use super::status::Drift;
use super::subject::{Subject, wanting};
use crate::failure::Candidate;
use crate::snapshot::{Index, Pod, Resource, Snapshot};
use crate::{Failure, Outcome};

#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub snapshot: &'a Snapshot,
    pub namespace: &'a str,
    pub pod: &'a str,
    /// The list of the Events about its workload, if it does not exist.
    pub events: &'a Value,
}

#[derive(Clone, Debug)]
pub struct Explanation<'a> {
    /// The Pod and its recorded state.
    pub subject: Subject<'a>,
    pub cause: Cause,
    /// How a Pod with a node differs from its recorded state.
    pub drift: Vec<Drift>,
    /// The nodes that cannot take the Pod, or its successor.
    pub excluded: Vec<NodeVerdict>,
    /// The nodes that could take the Pod, or its successor.
    pub landing: Landing,
    /// The Pod that would be created if this Pod were deleted now, as far as that is known.
    pub successor: Option<Successor>,
    /// What becomes of a Pending Pod whose requirement has an end.
    pub fallback: Option<Fallback>,
    /// What the user can do. Where one has a landing, it was tried in the simulation of the
    /// scheduler.
    pub remedies: Vec<Remedy>,
    /// The volume with which a Pod cannot start at its recorded place.
    pub contradiction: Option<Contradiction>,
    /// No tried remedy lets the Pod start.
    pub is_stuck: bool,
    pub caveats: Vec<Caveat>,
}

impl<'a> Explanation<'a> {
    fn new(subject: Subject<'a>, cause: Cause) -> Self {
        Self {
            subject,
            cause,
            drift: Vec::new(),
            excluded: Vec::new(),
            landing: Landing::default(),
            successor: None,
            fallback: None,
            remedies: Vec::new(),
            contradiction: None,
            is_stuck: false,
            caveats: Vec::new(),
        }
    }

    /// Takes over the simulated scheduling of the Pod, or of its successor.
    fn add(&mut self, selection: Selection) {
        self.landing = Landing::of(&selection);
        self.caveats = selection.caveats;
        self.excluded = selection.verdicts;
        self.excluded
            .retain(|verdict| !verdict.exclusions.is_empty());
    }

    pub fn verdict(&self) -> Verdict {
        self.cause.verdict()
    }

    pub fn outcome(&self) -> Outcome {
        match self.verdict() {
            Verdict::Unknown => Outcome::Incomplete,
            Verdict::Running | Verdict::Terminating | Verdict::NotWanted => {
                if self.subject.pps == Read::Unknown {
                    Outcome::Incomplete
                } else if self.subject.is_readable() {
                    Outcome::Well
                } else {
                    Outcome::NotWell
                }
            }
            _ => Outcome::NotWell,
        }
    }
}

pub fn explain<'a>(question: &Question<'a>) -> Result<Explanation<'a>, Failure> {
    let index = Index::of(question.snapshot);
    let subject = Subject::of(question.snapshot, &index, question.namespace, question.pod)
        .filter(Subject::is_anything)
        .ok_or_else(|| unknown(question, &index))?;
    let is_enabled = subject.pps.known().is_none_or(|pps| pps.is_enabled());
    let mut explanation = match subject.pod {
        None => absent(question, &index, subject),
        Some(pod) if question.snapshot.is_stranded(pod) => on_gone_node(subject),
        Some(pod) if pod.node().is_some() || pod.is_terminating() || pod.is_finished() => {
            bound(subject, pod)
        }
        Some(pod) => pending(subject, pod),
    };
    if !is_enabled {
        explanation
            .remedies
            .insert(0, Remedy::new(RemedyKind::EnableNamespace));
    }
    Ok(explanation)
}

/// Why there is nothing to explain.
fn unknown(question: &Question, index: &Index) -> Failure {
    let Question {
        snapshot,
        namespace,
        pod: name,
        ..
    } = question;
    let pod = (*name).to_owned();
    // The Pods of other namespaces only take room.
    let required = snapshot
        .require(Resource::Pods)
        .and_then(|()| snapshot.require_workloads());
    if let Err(unread) = required {
        return Failure::UnreadPod {
            pod,
            unread: unread.clone(),
        };
    }
    let present = snapshot
        .pods
        .iter()
        .filter(|pod| pod.namespace() == *namespace)
        .map(Pod::name);
    let recorded: Vec<String> = index
        .targeted()
        .filter(|(key, _)| key.namespace == *namespace)
        .filter_map(|(_, all)| all.first()?.states().ok())
        .flat_map(BTreeMap::into_keys)
        .collect();
    let known = present.chain(recorded.iter().map(String::as_str));
    Failure::NoPod {
        namespace: (*namespace).to_owned(),
        pod,
        workload: wanting(snapshot, namespace, name).map(|workload| Candidate {
            name: workload.name().to_owned(),
            replicas: workload.replicas(),
        }),
        similar: similar(name, known),
    }
}
