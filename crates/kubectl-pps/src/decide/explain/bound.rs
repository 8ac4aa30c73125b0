//! A Pod that has a node, or that ends.

use super::remedies::remedies;
use super::{Cause, Explanation, LostNode, Remedy, RemedyKind, Successor};
use crate::decide::status::{Drift, drift_of};
use crate::decide::subject::Subject;
use crate::snapshot::Pod;

pub(super) fn bound<'a>(subject: Subject<'a>, pod: &Pod) -> Explanation<'a> {
    let node = pod.node().unwrap_or_default();
    let drift = match &subject.spec {
        Some(spec) => drift_of(subject.snapshot, spec, pod, subject.recorded()),
        None => Vec::new(),
    };
    let lost =
        LostNode::of(subject.snapshot, node).filter(|_| pod.is_terminating() || !pod.is_ready());
    let is_lost = lost.is_some();
    let cause = cause(&subject, pod, &drift, lost);
    let mut kinds = Vec::new();
    if is_lost {
        kinds.push(RemedyKind::DeleteNode {
            node: node.to_owned(),
            successor: Successor::without_node(&subject, node),
        });
    }
    if !has_ended(pod) {
        kinds.extend(remedies_of(&cause, &subject, pod));
    }
    let mut explanation = Explanation {
        drift,
        remedies: kinds.into_iter().map(Remedy::new).collect(),
        ..Explanation::new(subject, cause)
    };
    if !has_ended(pod) {
        add_successor(&mut explanation, node);
    }
    explanation
}

fn has_ended(pod: &Pod) -> bool {
    pod.is_finished() || pod.is_terminating()
}

/// Why the Pod is on its node; `lost` is that node if it is not Ready.
fn cause(subject: &Subject, pod: &Pod, drift: &[Drift], lost: Option<LostNode>) -> Cause {
    let misplaced = drift
        .iter()
        .find(|one| matches!(one, Drift::RequiredTopology { .. }));
    if pod.is_terminating() {
        Cause::Terminating(lost)
    } else if pod.is_marked() && !pod.is_finished() {
        Cause::UnfinishedMove(lost)
    } else if let Some(misplaced) = misplaced {
        Cause::Misplaced(misplaced.clone())
    } else if subject.is_unrecorded() {
        Cause::NotRecorded
    } else if pod.phase() == "Running" && lost.is_none() {
        Cause::Running
    } else {
        Cause::NotRunning(lost)
    }
}

fn remedies_of(cause: &Cause, subject: &Subject, pod: &Pod) -> Vec<RemedyKind> {
    match cause {
        Cause::UnfinishedMove(_) => end_move(subject, pod.node().unwrap_or_default()),
        Cause::Misplaced(_) if !pod.is_exempt() => vec![RemedyKind::Check],
        Cause::NotRecorded if subject.problem.is_none() && !pod.is_exempt() => {
            vec![RemedyKind::Check]
        }
        _ => Vec::new(),
    }
}

/// Both ways to end an unfinished move of a Pod on this node.
fn end_move(subject: &Subject, node: &str) -> Vec<RemedyKind> {
    let goal = subject
        .recorded_node()
        .filter(|goal| pps_core::is_dns_subdomain(goal));
    let mut kinds = Vec::new();
    if goal != Some(node) {
        kinds.push(RemedyKind::FinishMove {
            to: goal.map(str::to_owned),
        });
    }
    kinds.push(RemedyKind::CallMoveOff {
        node: node.to_owned(),
    });
    kinds
}

/// Adds what would become of a Pod on this node if it were deleted, as far as that is known.
fn add_successor(explanation: &mut Explanation, node: &str) {
    let subject = &explanation.subject;
    let Some(candidate) = subject.successor() else {
        return;
    };
    let Some(selection) = subject.select(&candidate) else {
        return;
    };
    let successor = Successor::of_pod_on(node, &candidate, &selection);
    explanation.add(selection);
    if !successor.landing.is_nowhere() {
        explanation.excluded.clear();
    }
    explanation.successor = Some(successor);
}

/// A Pod whose node does not exist any more: Kubernetes deletes the Pod, and its controller creates
/// a successor.
pub(super) fn on_gone_node(subject: Subject<'_>) -> Explanation<'_> {
    let mut explanation = Explanation::new(subject, Cause::NodeGone(None));
    let subject = &explanation.subject;
    let Some(candidate) = subject.successor() else {
        return explanation;
    };
    let Some(selection) = subject.select(&candidate) else {
        return explanation;
    };
    if selection.chosen.is_none() {
        explanation.remedies = remedies(subject, &candidate, &selection);
        explanation.is_stuck = explanation.remedies.is_empty();
    }
    explanation.cause = Cause::NodeGone(Some(Successor::new(&candidate, &selection)));
    explanation.add(selection);
    explanation
}
