//! `explain`: why a Pod is on its node or on none, and what the user can do.

mod remedies;

use pps_admission::plan::Requirement;
use pps_check::is_own_webhook;
use pps_check::read::Read;
use pps_scheduler::{Caveat, Exclusion, Selection, Verdict as NodeVerdict};
use serde::Serialize;
use serde_json::Value;

pub use self::remedies::{Remedy, RemedyKind, Step};
use super::names::similar;
use super::placement::{Landing, Nodes};
use super::status::{Drift, drift_of};
use super::subject::{Candidate, Subject, wanting};
use crate::snapshot::{Index, Pod, Resource, Snapshot, Workload};
use crate::{Failure, Outcome};

/// Characters of a refusal that an answer repeats.
const MAX_MESSAGE: usize = 500;

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
    pub verdict: Verdict,
    pub cause: Cause,
    /// How a Pod with a node differs from its recorded state.
    pub drift: Vec<Drift>,
    /// The nodes that cannot take the Pod, or its successor.
    pub excluded: Vec<NodeVerdict>,
    /// The nodes that could take the Pod, or its successor.
    pub landing: Landing,
    /// What would become of the Pod if it were deleted now, as far as that is known.
    pub next: Option<Next>,
    /// What the user can do. Where one has a landing, it was tried in the simulation of the
    /// scheduler.
    pub remedies: Vec<Remedy>,
    /// No tried remedy lets the Pod start.
    pub is_stuck: bool,
    pub caveats: Vec<Caveat>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    Running,
    NotRunning,
    Misplaced,
    /// It has long been Ready and is not recorded, or its PersistentPodState has a problem.
    NotRecorded,
    UnfinishedMove,
    NodeGone,
    /// No node can take it, because of its recorded state.
    Pinned,
    /// No node can take it, whatever its recorded state.
    Unschedulable,
    Unscheduled,
    Terminating,
    Refused,
    /// It was not created: its controller waits for another Pod, or has not come to it.
    NotCreated,
    NotWanted,
    Unknown,
}

/// Why a Pod is where it is, or nowhere.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    OnNode(Option<LostNode>),
    /// Its node lacks a label that the recorded state requires.
    Misplaced(Drift),
    /// It is Ready and not recorded, for long or because its PersistentPodState has a problem.
    NotRecorded,
    /// A move has marked it and has not ended.
    UnfinishedMove(Option<LostNode>),
    /// Its node is gone, and Kubernetes deletes the Pod; with the successor, as far as known.
    NodeGone(Option<Next>),
    /// It is being deleted. If its node is not Ready, nothing confirms that it has stopped.
    Terminating(Option<LostNode>),
    /// It has no node, and one could take it, as far as nodes could be read.
    Unscheduled,
    /// No node can take the Pod. The verdicts are of the nodes with the injected labels; none if
    /// nodes could not be read.
    NoNode(Option<Vec<NodeVerdict>>),
    /// It does not exist, and its workload does not want it.
    NotWanted,
    /// It does not exist, and no workload that was read wants it.
    NoWorkload {
        is_known: bool,
    },
    /// An ordered workload creates this Pod first.
    WaitsFor(String),
    /// Its controller reports that its creation is refused.
    Refused(String),
    /// It does not exist although its workload wants it.
    NotCreated,
}

/// A node that is not Ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostNode {
    pub name: String,
    pub since: Option<String>,
}

/// The Pod that its controller would create now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The labels that the recorded state requires.
    pub required: Vec<Requirement>,
    pub landing: Landing,
    /// Why the node of the present Pod could not take it.
    pub excluded: Vec<Exclusion>,
}

impl<'a> Explanation<'a> {
    fn new(subject: Subject<'a>, verdict: Verdict, cause: Cause) -> Self {
        Self {
            subject,
            verdict,
            cause,
            drift: Vec::new(),
            excluded: Vec::new(),
            landing: Landing::default(),
            next: None,
            remedies: Vec::new(),
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

    pub fn outcome(&self) -> Outcome {
        match self.verdict {
            Verdict::Unknown => Outcome::Incomplete,
            Verdict::Running | Verdict::Terminating | Verdict::NotWanted => match &self.subject {
                subject if subject.pps == Read::Unknown => Outcome::Incomplete,
                subject if subject.is_readable() => Outcome::Well,
                _ => Outcome::NotWell,
            },
            _ => Outcome::NotWell,
        }
    }
}

pub fn explain<'a>(question: &Question<'a>) -> Result<Explanation<'a>, Failure> {
    let index = Index::of(question.snapshot);
    let subject = Subject::of(question.snapshot, &index, question.namespace, question.pod);
    let subject = subject
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

fn unknown(question: &Question, index: &Index) -> Failure {
    let Question {
        snapshot,
        namespace,
        pod: name,
        ..
    } = question;
    let pod = (*name).to_owned();
    // The Pods of other namespaces only take room.
    if let Err(unread) = snapshot
        .require(Resource::Pods)
        .and_then(|()| snapshot.require_workloads())
    {
        return Failure::UnreadPod {
            pod,
            unread: unread.clone(),
        };
    }
    let in_namespace = snapshot
        .pods
        .iter()
        .filter(|pod| pod.namespace() == *namespace)
        .map(Pod::name);
    let targeted = index
        .targeted()
        .filter(|(key, _)| key.namespace == *namespace);
    let states = targeted.filter_map(|(_, all)| all.first()?.states().ok());
    let recorded: Vec<String> = states
        .flat_map(std::collections::BTreeMap::into_keys)
        .collect();
    let similar = similar(
        name,
        in_namespace.chain(recorded.iter().map(String::as_str)),
    );
    let workload =
        wanting(snapshot, namespace, name).map(|one| (one.name().to_owned(), one.replicas()));
    Failure::NoPod {
        namespace: (*namespace).to_owned(),
        pod,
        workload,
        similar,
    }
}

/// A Pod that has a node, or that ends.
fn bound<'a>(subject: Subject<'a>, pod: &Pod) -> Explanation<'a> {
    let node = pod.node().unwrap_or_default();
    let drift = match &subject.spec {
        Some(spec) => drift_of(subject.snapshot, spec, pod, subject.recorded()),
        None => Vec::new(),
    };
    let misplaced = drift
        .iter()
        .find(|one| matches!(one, Drift::RequiredTopology { .. }))
        .cloned();
    let lost =
        LostNode::of(subject.snapshot, node).filter(|_| pod.is_terminating() || !pod.is_ready());
    let is_lost = lost.is_some();
    let is_over = pod.is_finished() || pod.is_terminating();
    let (verdict, cause) = match misplaced.clone() {
        _ if pod.is_terminating() && is_lost => (Verdict::NotRunning, Cause::Terminating(lost)),
        _ if pod.is_terminating() => (Verdict::Terminating, Cause::Terminating(None)),
        _ if pod.is_marked() && !is_over => (Verdict::UnfinishedMove, Cause::UnfinishedMove(lost)),
        Some(drift) => (Verdict::Misplaced, Cause::Misplaced(drift)),
        None if subject.is_unrecorded() => (Verdict::NotRecorded, Cause::NotRecorded),
        None if pod.phase() == "Running" && !is_lost => (Verdict::Running, Cause::OnNode(None)),
        None => (Verdict::NotRunning, Cause::OnNode(lost)),
    };
    let needs_check =
        misplaced.is_some() || verdict == Verdict::NotRecorded && subject.problem.is_none();
    let mut explanation = Explanation {
        drift,
        ..Explanation::new(subject, verdict, cause)
    };
    let mut remedies = Vec::new();
    if is_lost {
        let rest = explanation
            .subject
            .nodes
            .as_ref()
            .map(|nodes| nodes.without(node));
        let next = Next::of(&explanation.subject, rest.as_ref(), "").map(|(next, _)| next);
        remedies.push(RemedyKind::DeleteNode {
            node: node.to_owned(),
            next,
        });
    }
    if pod.is_marked() && !is_over {
        let goal = explanation.subject.recorded_node();
        let goal = goal
            .filter(|node| pps_core::is_dns_subdomain(node))
            .map(str::to_owned);
        let finish = (goal.as_deref() != Some(node)).then_some(RemedyKind::FinishMove { to: goal });
        remedies.extend(finish.into_iter().chain([RemedyKind::CallMoveOff {
            node: node.to_owned(),
        }]));
    } else if needs_check && !is_over && !pod.is_exempt() {
        remedies.push(RemedyKind::Check);
    }
    explanation.remedies = remedies.into_iter().map(Remedy::new).collect();
    let all = explanation.subject.nodes.as_ref().filter(|_| !is_over);
    if let Some((next, selection)) = Next::of(&explanation.subject, all, node) {
        explanation.add(selection);
        if !next.landing.is_nowhere() {
            explanation.excluded.clear();
        }
        explanation.next = Some(next);
    }
    explanation
}

/// A Pod whose node does not exist any more: Kubernetes deletes the Pod, and its controller creates
/// a successor.
fn on_gone_node(subject: Subject<'_>) -> Explanation<'_> {
    let next = subject
        .successor()
        .and_then(|next| Some((subject.select(&next)?, next)));
    let cause = next
        .as_ref()
        .map(|(selection, next)| Next::new(next, selection, ""));
    let mut explanation = Explanation::new(subject, Verdict::NodeGone, Cause::NodeGone(cause));
    let Some((selection, next)) = next else {
        return explanation;
    };
    if selection.chosen.is_none() {
        explanation.remedies = remedies::remedies(&explanation.subject, &next, &selection);
        explanation.is_stuck = explanation.remedies.is_empty();
    }
    explanation.add(selection);
    explanation
}

impl LostNode {
    /// None if the node is Ready or was not read.
    fn of(snapshot: &Snapshot, node: &str) -> Option<Self> {
        let lost = snapshot.node(node).filter(|node| !node.is_ready())?;
        Some(Self {
            name: node.to_owned(),
            since: lost.not_ready_since().map(str::to_owned),
        })
    }
}

impl Next {
    fn new(candidate: &Candidate, selection: &Selection, node: &str) -> Self {
        let here = selection
            .verdicts
            .iter()
            .find(|verdict| verdict.node == node);
        let excluded = here
            .map(|verdict| verdict.exclusions.clone())
            .unwrap_or_default();
        Self {
            required: candidate.required.clone(),
            landing: Landing::of(selection),
            excluded,
        }
    }

    /// The successor if there were only these nodes; none if too little is known.
    fn of(subject: &Subject, nodes: Option<&Nodes>, node: &str) -> Option<(Self, Selection)> {
        let next = subject.successor()?;
        let selection = subject.select_on(nodes?, &next.pod, Some(&next.before));
        Some((Self::new(&next, &selection, node), selection))
    }
}

/// A Pod without a node: the reasons, and the remedies.
fn pending<'a>(subject: Subject<'a>, pod: &Pod) -> Explanation<'a> {
    let is_refused = pod.unschedulable().is_some();
    let present = subject.present(pod);
    let is_pinned = !present.required.is_empty();
    let Some(mut selection) = subject.select(&present) else {
        // Without the right to read nodes only the scheduler's own message is known.
        let (verdict, cause) = match is_refused {
            false => (Verdict::Unscheduled, Cause::Unscheduled),
            true if is_pinned => (Verdict::Pinned, Cause::NoNode(None)),
            true => (Verdict::Unschedulable, Cause::NoNode(None)),
        };
        return Explanation::new(subject, verdict, cause);
    };
    let is_nowhere = selection.chosen.is_none();
    let (verdict, cause) = if is_nowhere {
        let is_match =
            |node: &&NodeVerdict| !is_pinned || !node.exclusions.iter().any(Exclusion::from_pps);
        let matching = selection
            .verdicts
            .iter()
            .filter(is_match)
            .cloned()
            .collect();
        // Without the recorded state the Pod may be Pending as well.
        let is_free = subject
            .select_freed(&present)
            .is_some_and(|freed| freed.chosen.is_some());
        let verdict = if is_free {
            Verdict::Pinned
        } else {
            Verdict::Unschedulable
        };
        (verdict, Cause::NoNode(Some(matching)))
    } else {
        (Verdict::Unscheduled, Cause::Unscheduled)
    };
    let mut explanation = Explanation::new(subject, verdict, cause);
    // A rule that is not simulated may exclude the remaining nodes.
    if is_nowhere || is_refused && !selection.caveats.is_empty() {
        explanation.remedies = remedies::remedies(&explanation.subject, &present, &selection);
        explanation.is_stuck = is_nowhere && explanation.remedies.is_empty();
    }
    if present.is_outdated {
        for exclusion in selection
            .verdicts
            .iter_mut()
            .flat_map(|node| &mut node.exclusions)
        {
            *exclusion = exclusion.clone().of_former_state();
        }
    }
    explanation.add(selection);
    explanation
}

fn absent<'a>(question: &Question<'a>, index: &Index, subject: Subject<'a>) -> Explanation<'a> {
    let (verdict, cause) = match subject.workload {
        Some(workload) if workload.wants(question.pod) => not_created(question, index, workload),
        Some(_) => (Verdict::NotWanted, Cause::NotWanted),
        None => {
            // Workloads of other kinds are never read.
            let is_known = subject
                .owner
                .as_ref()
                .is_some_and(|owner| question.snapshot.has_all_like(owner));
            let verdict = if is_known {
                Verdict::NotWanted
            } else {
                Verdict::Unknown
            };
            (verdict, Cause::NoWorkload { is_known })
        }
    };
    let kinds = match &cause {
        Cause::WaitsFor(pod) => vec![RemedyKind::ExplainOther { pod: pod.clone() }],
        Cause::Refused(message) if is_by_policy(message) => {
            vec![RemedyKind::Check, RemedyKind::DisableInjection]
        }
        _ if verdict == Verdict::NotWanted && subject.recorded().is_some() => {
            vec![RemedyKind::Forget]
        }
        _ => Vec::new(),
    };
    let remedies = kinds.into_iter().map(Remedy::new).collect();
    Explanation {
        remedies,
        ..Explanation::new(subject, verdict, cause)
    }
}

/// Why a Pod does not exist that its workload wants.
fn not_created(question: &Question, index: &Index, workload: &Workload) -> (Verdict, Cause) {
    let Question {
        namespace,
        pod,
        events,
        ..
    } = question;
    if let Some(blocker) = blocker(index, workload, namespace, pod) {
        return (Verdict::NotCreated, Cause::WaitsFor(blocker));
    }
    match refusal(events, pod) {
        Some(message) => (Verdict::Refused, Cause::Refused(message)),
        None => (Verdict::NotCreated, Cause::NotCreated),
    }
}

/// Why the controller cannot create a Pod, by the newest Event about that; none if it has created
/// the Pod.
fn refusal(events: &Value, pod: &str) -> Option<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_failed = |event: &Value| event["reason"] == "FailedCreate";
    let time = |event: &&Value| {
        let times = [
            &event["series"]["lastObservedTime"],
            &event["lastTimestamp"],
            &event["eventTime"],
        ];
        (times.map(text).into_iter().max(), !is_failed(event))
    };
    // The Event about a created claim names the Pod as well.
    let verb = |event: &Value| if is_failed(event) { "" } else { "create " };
    let names =
        |event: &&Value| text(&event["message"]).contains(&format!("{}Pod {pod} in ", verb(event)));
    let newest = events["items"]
        .as_array()?
        .iter()
        .filter(names)
        .max_by_key(time)?;
    let message = text(&newest["message"]).chars().take(MAX_MESSAGE).collect();
    is_failed(newest).then_some(message)
}

/// Whether the policy denies a request, or its webhook cannot be called: the API server writes
/// which webhook it was.
fn is_by_policy(message: &str) -> bool {
    let webhook = message
        .split_once("webhook \"")
        .and_then(|(_, rest)| rest.split('"').next());
    webhook.is_some_and(is_own_webhook)
}

/// The Pod for which an ordered workload waits before it creates this one.
fn blocker(index: &Index<'_>, workload: &Workload, namespace: &str, pod: &str) -> Option<String> {
    if workload.object()["spec"]["podManagementPolicy"] == "Parallel" {
        return None;
    }
    let is_up = |pod: &Pod| pod.is_ready() && !pod.is_terminating();
    let is_awaited = |pod: &String| !index.pod(namespace, pod).is_some_and(is_up);
    workload
        .wanted()
        .take_while(|before| before != pod)
        .find(is_awaited)
}
