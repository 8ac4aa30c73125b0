//! A Pod without a node.

use pps_scheduler::{Exclusion, ExclusionKind, Selection, Verdict as Node};

use super::facts::Fact;
use super::groups::{groups, reasons_of};
use super::subject::{Candidate, Subject};
use super::{Cause, Explanation, Note, Pin, Question, Verdict, remedies};
use crate::decide::landing::Landing;

/// Why it has no node, and what would give it one.
pub(super) fn explain(question: &Question, subject: &Subject) -> Explanation {
    let message = subject.pod.unschedulable().map(str::to_owned);
    let shown = message.clone().filter(|message| !message.is_empty());
    let present = subject.present();
    let (Some(nodes), Some(selection)) = (&subject.nodes, subject.select(&present)) else {
        return without_nodes(question, subject, message.is_some(), shown);
    };
    let landing = Landing::of(&selection);
    let (verdict, cause) = if subject.pod.is_gated() {
        (Verdict::Unscheduled, Cause::Gated)
    } else if landing.is_nowhere() {
        why(question, subject, &present, &selection)
    } else {
        let refuted = shown.clone().map(|message| Cause::RefutedBy { message });
        (Verdict::Unscheduled, refuted.unwrap_or(Cause::NotLookedAt))
    };
    let mut explanation = Explanation::new(question, verdict, cause);
    explanation.is_kept_by_template = landing.is_nowhere() && is_kept_by_template(subject, &present);
    let mut verdicts = selection.verdicts.clone();
    if present.is_outdated {
        for exclusion in verdicts.iter_mut().flat_map(|node| &mut node.exclusions) {
            *exclusion = exclusion.clone().of_former_state();
        }
    }
    explanation.excluded = groups(&verdicts);
    if nodes.count() == 0 {
        explanation.facts.extend(shown.map(Fact::SchedulerSays));
    }
    // What is not simulated may exclude the nodes that are left.
    let is_refuted = message.is_some() && !selection.caveats.is_empty();
    if landing.is_nowhere() || is_refuted {
        explanation.remedies = remedies::remedies(question, subject, &present, &selection);
        if explanation.remedies.is_empty() && landing.is_nowhere() {
            explanation.notes.push(Note::NothingHelps { is_pinned: !present.required.is_empty() });
        }
    }
    explanation.landing = landing;
    explanation.notes.extend(selection.caveats.into_iter().map(Note::Caveat));
    explanation
}

/// What keeps the Pod in its place; none if nothing that was injected does.
fn pin(question: &Question, subject: &Subject) -> Option<Pin> {
    let required = subject.required().to_vec();
    (!required.is_empty()).then(|| Pin {
        required,
        is_former: subject.has_changed() || subject.state.is_err(),
        gone_node: subject.gone_node(question),
        only: Vec::new(),
        is_forgotten: subject.has_changed() && subject.state == Ok(None),
    })
}

/// The decisive reason.
fn why(
    question: &Question,
    subject: &Subject,
    present: &Candidate,
    selection: &Selection,
) -> (Verdict, Cause) {
    let mut pin = pin(question, subject);
    let is_match = |node: &&Node| pin.is_none() || !node.exclusions.iter().any(Exclusion::from_pps);
    let matching: Vec<&Node> = selection.verdicts.iter().filter(is_match).collect();
    if let (Some(pin), [only]) = (&mut pin, matching.as_slice()) {
        pin.only = reasons_of(only);
    }
    // Without the recorded state it may be Pending as well.
    let is_free = remedies::freed(subject, present).is_some_and(|freed| freed.chosen.is_some());
    let cause = Cause::NoNode {
        pin,
        common: common(&matching),
        matching: matching.into_iter().map(|node| node.node.clone()).collect(),
        is_governed: subject.pps.known().is_some(),
    };
    (if is_free { Verdict::Pinned } else { Verdict::Unschedulable }, cause)
}

/// Whether it is the template that keeps the Pod from all nodes: one of the present template could start.
fn is_kept_by_template(subject: &Subject, present: &Candidate) -> bool {
    // The recorded state may be why.
    let selection = || subject.select(&subject.successor()?);
    present.is_former
        && !present.is_outdated
        && selection().is_some_and(|selection| !Landing::of(&selection).is_nowhere())
}

/// What keeps all of these nodes out, if it is one thing.
fn common(nodes: &[&Node]) -> Option<ExclusionKind> {
    let kinds = [
        ExclusionKind::Cordon,
        ExclusionKind::Resources,
        ExclusionKind::Taint,
        ExclusionKind::NodeSelector,
        ExclusionKind::RequiredAffinity,
    ];
    let is_of_all = |kind: &ExclusionKind| {
        nodes.iter().all(|node| node.exclusions.iter().any(|exclusion| exclusion.kind() == *kind))
    };
    kinds.into_iter().find(is_of_all)
}

/// Without the right to read nodes only the scheduler's own message is known.
fn without_nodes(
    question: &Question,
    subject: &Subject,
    is_refused: bool,
    message: Option<String>,
) -> Explanation {
    if !is_refused {
        return Explanation::new(question, Verdict::Unscheduled, Cause::NotLookedAt);
    }
    let pin = pin(question, subject);
    let is_pinned = pin.is_some();
    let verdict = if is_pinned { Verdict::Pinned } else { Verdict::Unschedulable };
    let mut explanation = Explanation::new(question, verdict, Cause::NoNodeKnown { pin });
    explanation.facts.extend(message.map(Fact::SchedulerSays));
    if is_pinned && subject.state.is_ok() {
        explanation.notes.push(Note::MoveMayHelp);
    }
    explanation
}
