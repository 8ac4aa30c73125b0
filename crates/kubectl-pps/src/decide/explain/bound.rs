//! A Pod that has a node.

use pps_scheduler::Selection;

use super::facts::Fact;
use super::groups::{groups, reasons_of};
use super::remedies::{self, Remedy, RemedyKind};
use super::subject::{Candidate, Subject};
use super::{Cause, Explanation, LostNode, Note, Place, Progress, Question, Successor, Verdict};
use crate::decide::landing::Landing;
use crate::decide::placement::Nodes;
use crate::decide::status::{Drift, drift_of, goal};

/// Why it is where it is, and where it would go if it were deleted now.
pub(super) fn explain(question: &Question, subject: &Subject, node: &str) -> Explanation {
    if question.snapshot.is_stranded(subject.pod) {
        return on_gone_node(question, subject, node);
    }
    let drift = match &subject.spec {
        Some(spec) => drift_of(question.snapshot, spec, subject.pod, subject.recorded()),
        None => Vec::new(),
    };
    let misplaced = drift.iter().find(|one| matches!(one, Drift::RequiredTopology { .. }));
    let place = match subject.recorded_node() {
        _ if subject.pps.is_absent() => Place::NotGoverned,
        None if subject.state.is_err() => Place::Unknown,
        Some(recorded) if recorded == node => Place::Here,
        Some(recorded) => Place::Elsewhere(recorded.to_owned()),
        None => Place::Nowhere,
    };
    let lost = lost(question, node);
    let is_ready = subject.pod.is_ready();
    let (verdict, progress) = match subject.pod.phase() {
        _ if is_ready => (Verdict::Running, Progress::Ready),
        "Running" if lost.is_some() => (Verdict::NotRunning, Progress::NodeNotReady),
        "Running" => (Verdict::Running, Progress::NotReady),
        _ => (Verdict::NotRunning, Progress::NotStarted),
    };
    let name = node.to_owned();
    let (verdict, cause) = match (misplaced, subject.unrecorded()) {
        (Some(drift), _) => (Verdict::Misplaced, Cause::Misplaced { node: name, drift: drift.clone() }),
        (None, Some(why)) => (Verdict::NotRecorded, Cause::NotRecorded { node: name, why }),
        (None, None) => (verdict, Cause::OnNode { node: name, place, progress }),
    };
    let mut explanation = Explanation::new(question, verdict, cause);
    if let Some(lost) = lost.filter(|_| !is_ready) {
        explanation.facts.push(Fact::NodeLost(lost));
        explanation.remedies.extend(of_lost_node(subject, node));
    } else if !is_ready {
        explanation.facts.push(Fact::HasItsPlace);
    }
    // After an unfinished move nothing is recorded, and `facts` says so.
    if subject.pod.is_marked() {
        let goal = goal(subject.recorded_node());
        let finish = (goal.as_deref() != Some(node)).then_some(RemedyKind::FinishMove { to: goal });
        let end = RemedyKind::CallMoveOff { node: node.to_owned() };
        explanation.remedies.extend(finish.into_iter().chain([end]).map(Remedy::new));
    } else if misplaced.is_some() && !subject.pod.is_exempt() {
        explanation.facts.push(Fact::NotRecordedAgain);
    }
    let of_network = |one: &&Drift| matches!(one, Drift::Address { .. } | Drift::Annotation { .. });
    explanation.facts.extend(drift.iter().filter(of_network).cloned().map(Fact::Differs));
    forecast(subject, node, &mut explanation);
    explanation
}

/// Where the Pod would go that its controller created if it were deleted.
fn forecast(subject: &Subject, node: &str, explanation: &mut Explanation) {
    let Some((next, selection)) = next_of(subject, subject.nodes.as_ref()) else { return };
    let landing = Landing::of(&selection);
    let here = selection.verdicts.iter().find(|verdict| verdict.node == node);
    explanation.facts.push(Fact::IfDeleted {
        node: node.to_owned(),
        landing: landing.clone(),
        excluded: here.map(reasons_of).unwrap_or_default(),
        preferred: if next.required.is_empty() { subject.plan().preferred } else { Vec::new() },
        required: next.required.clone(),
    });
    if landing.is_nowhere() {
        explanation.excluded = groups(&selection.verdicts);
        explanation.remedies.extend(remedies::spread(subject, &next));
    }
    explanation.landing = landing;
    explanation.notes.extend(selection.caveats.into_iter().map(Note::Caveat));
}

/// A Pod whose node does not exist any more: Kubernetes deletes it, and then it is created again.
fn on_gone_node(question: &Question, subject: &Subject, node: &str) -> Explanation {
    let next = successor(subject, subject.nodes.as_ref());
    let mut explanation =
        Explanation::new(question, Verdict::NodeGone, Cause::NodeGone { node: node.to_owned(), next });
    let Some((next, selection)) = next_of(subject, subject.nodes.as_ref()) else { return explanation };
    explanation.landing = Landing::of(&selection);
    if explanation.landing.is_nowhere() {
        explanation.excluded = groups(&selection.verdicts);
        explanation.remedies = remedies::remedies(question, subject, &next, &selection);
        if explanation.remedies.is_empty() {
            explanation.notes.push(Note::NothingHelps { is_pinned: !next.required.is_empty() });
        }
    } else {
        explanation.remedies.push(Remedy::new(RemedyKind::WaitForDeletion));
    }
    explanation.notes.extend(selection.caveats.into_iter().map(Note::Caveat));
    explanation
}

/// The Pod that its controller would create now, and which nodes could take it; none if there is none, or not enough is
/// known.
fn next_of(subject: &Subject, nodes: Option<&Nodes>) -> Option<(Candidate, Selection)> {
    subject.owner.as_ref()?;
    let next = subject.successor()?;
    let selection = nodes?.select(&next.pod, Some(&next.before), subject.selector());
    Some((next, selection))
}

/// What would become of the Pod's successor if there were only these nodes.
fn successor(subject: &Subject, nodes: Option<&Nodes>) -> Successor {
    if subject.owner.is_none() {
        return Successor::None;
    }
    let Some((next, selection)) = next_of(subject, nodes) else { return Successor::Unknown };
    let landing = Landing::of(&selection);
    if landing.is_nowhere() { Successor::Pending(next.required) } else { Successor::Starts(landing) }
}

/// The node, if it is not Ready.
fn lost(question: &Question, node: &str) -> Option<LostNode> {
    let lost = question.snapshot.node(node).filter(|node| !node.is_ready())?;
    Some(LostNode { name: node.to_owned(), since: lost.not_ready_since().map(str::to_owned) })
}

/// What ends a Pod whose node is not Ready, and what that means for its data.
fn of_lost_node(subject: &Subject, node: &str) -> [Remedy; 2] {
    let rest = subject.nodes.as_ref().map(|nodes| nodes.without(node));
    let next = successor(subject, rest.as_ref());
    [
        RemedyKind::BringNodeBack { node: node.to_owned() },
        RemedyKind::DeleteNode { node: node.to_owned(), next },
    ]
    .map(Remedy::new)
}

/// A Pod that ends or has ended.
pub(super) fn ending(question: &Question, subject: &Subject) -> Explanation {
    let (pod, snapshot) = (subject.pod, question.snapshot);
    let node = pod.node().map(str::to_owned);
    let lost = pod.node().and_then(|node| lost(question, node));
    let overdue = pod.deletion_deadline().filter(|(_, deadline)| snapshot.is_lasting(Some(*deadline)));
    let mut remedies = Vec::new();
    let (verdict, cause) = if !pod.is_terminating() {
        (Verdict::NotRunning, Cause::Ended { node, phase: pod.phase().to_owned() })
    } else if let Some(node) = node.clone().filter(|_| snapshot.is_stranded(pod)) {
        remedies.push(Remedy::new(RemedyKind::ForceDeletion));
        (Verdict::NodeGone, Cause::TerminatingWithoutNode { node })
    } else if let Some(node) = lost {
        remedies.extend(of_lost_node(subject, &node.name));
        (Verdict::NotRunning, Cause::TerminatingOnLostNode { node })
    } else if let Some((deadline, _)) = overdue {
        (Verdict::NotRunning, Cause::Overdue { node, deadline: deadline.to_owned() })
    } else {
        (Verdict::Terminating, Cause::Terminating { node })
    };
    Explanation { remedies, ..Explanation::new(question, verdict, cause) }
}
