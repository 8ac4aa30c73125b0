//! A Pod without a node.

use pps_core::plan::Requirement;
use pps_simulation::scheduler::{ExclusionKind, Selection, Verdict as Node};

use super::groups::{CORDONED, Group, groups};
use super::subject::{Candidate, Subject, words};
use super::{Explanation, Question, Verdict, remedies};
use crate::decide::landing::Landing;
use crate::decide::names::list;

/// Why it has no node, and what would give it one.
pub(super) fn explain(question: &Question, subject: &Subject) -> Explanation {
    let name = subject.pod.name();
    let message = subject.pod.unschedulable();
    let present = subject.present();
    let (Some(nodes), Some(selection)) = (&subject.nodes, subject.select(&present)) else {
        return without_nodes(question, subject, message);
    };
    let landing = Landing::of(&selection);
    let (verdict, answer) = if has_gates(subject) {
        (
            Verdict::Unscheduled,
            format!("{name} is Pending: its scheduling gates keep it until they are removed."),
        )
    } else if landing.is_nowhere() {
        why(question, subject, &present, &selection)
    } else {
        (Verdict::Unscheduled, not_yet(name, message, &landing))
    };
    let mut explanation = Explanation::new(question, verdict, answer);
    explanation.answer.extend(of_former_template(subject, &present).filter(|_| landing.is_nowhere()));
    explanation.excluded = groups(&selection.verdicts);
    if present.is_outdated {
        explanation.excluded.iter_mut().for_each(Group::is_of_former_state);
    }
    explanation.lands(&landing);
    if let Some(message) = message.filter(|message| !message.is_empty() && nodes.count() == 0) {
        explanation.facts.push(format!("The scheduler says: {message}"));
    }
    // What is not simulated may exclude the nodes that are left.
    let is_refuted = message.is_some() && !selection.caveats.is_empty();
    if landing.is_nowhere() || is_refuted {
        explanation.remedies = remedies::remedies(question, subject, &present, &selection);
        if explanation.remedies.is_empty() && landing.is_nowhere() {
            explanation.notes.push(remedies::nothing_helps(subject, &present));
        }
    }
    explanation.notes.extend(selection.caveats.iter().map(|caveat| format!("Not known: {caveat}.")));
    explanation
}

fn has_gates(subject: &Subject) -> bool {
    subject.pod.object()["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty())
}

fn not_yet(name: &str, message: Option<&str>, landing: &Landing) -> String {
    match message.filter(|message| !message.is_empty()) {
        Some(message) => {
            let all: Vec<String> = landing.favourites().iter().chain(landing.others()).cloned().collect();
            let can = list(&all, "and");
            format!(
                "{name} is Pending, although {can} could take it as far as is known here. The scheduler says: {message}"
            )
        }
        None => format!(
            "{name} has no node yet: the scheduler has not looked at it. It {}.",
            landing.would("start on")
        ),
    }
}

/// Why the Pod waits for nodes with these labels, in words that a reason follows.
fn pinned(subject: &Subject, required: &[Requirement]) -> String {
    let name = subject.pod.name();
    let required = words(required);
    if subject.has_changed() || subject.state.is_err() {
        return format!("{name} is Pending: when it was created, its recorded state required {required}");
    }
    format!("{name} is Pending: its recorded state requires {required}")
}

/// The decisive reason.
fn why(
    question: &Question,
    subject: &Subject,
    present: &Candidate,
    selection: &Selection,
) -> (Verdict, String) {
    let name = subject.pod.name();
    let required = present.required.as_slice();
    if required.is_empty() {
        let reason = match selection.verdicts.as_slice() {
            [] => "there is no node".to_owned(),
            verdicts => common(verdicts, "no node can take it"),
        };
        let whether =
            if subject.pps.known().is_some() { ". No recorded state keeps it from a node" } else { "" };
        return (Verdict::Unschedulable, format!("{name} is Pending because {reason}{whether}."));
    }
    let pinned = pinned(subject, required);
    let matching: Vec<&Node> =
        selection.verdicts.iter().filter(|node| !node.exclusions.iter().any(|one| one.from_pps)).collect();
    let answer = match matching.as_slice() {
        [] => match subject.gone_node(question) {
            Some(node) => format!("{pinned}, and no node has that: {node} does not exist any more."),
            None => format!("{pinned}, and no node has that."),
        },
        [node] => {
            let group = groups(std::slice::from_ref(*node)).into_iter().next();
            let reasons = group.map(|group| group.reasons.join(", and ")).unwrap_or_default();
            let reasons = match reasons.as_str() {
                CORDONED => ", and it is cordoned".to_owned(),
                other => format!(": {other}"),
            };
            format!("{pinned}. Only {} has that{reasons}.", node.node)
        }
        several => {
            let names: Vec<String> = several.iter().map(|node| node.node.clone()).collect();
            let verdicts: Vec<Node> = several.iter().map(|node| (*node).clone()).collect();
            let reason = common(&verdicts, "none of them can take it");
            format!("{pinned}. {} have that, and {reason}.", list(&names, "and"))
        }
    };
    let forgotten = present.is_outdated && subject.state == Ok(None);
    let now = if forgotten { " Nothing is recorded of it now." } else { "" };
    // Without the recorded state it may be Pending as well.
    let is_free = remedies::freed(subject, present).is_some_and(|freed| freed.chosen.is_some());
    (if is_free { Verdict::Pinned } else { Verdict::Unschedulable }, format!("{answer}{now}"))
}

/// Whether it is the template that keeps the Pod from all nodes: one of the present template could start.
fn of_former_template(subject: &Subject, present: &Candidate) -> Option<String> {
    // What is recorded may be why.
    if !present.is_former || present.is_outdated {
        return None;
    }
    let selection = subject.select(&subject.successor()?)?;
    let template = subject.owner.as_ref().map(|owner| format!("{} {}", owner.kind, owner.name))?;
    (!Landing::of(&selection).is_nowhere()).then(|| {
        format!(" It was made from another template than {template} has now, with which it could start.")
    })
}

/// What keeps all of these nodes out, if it is one thing.
fn common(nodes: &[Node], otherwise: &str) -> String {
    let reasons = [
        (ExclusionKind::Cordon, "are cordoned"),
        (ExclusionKind::Room, "have too little room for it"),
        (ExclusionKind::Taint, "have taints that it does not tolerate"),
        (ExclusionKind::NodeSelector, "lack what its nodeSelector asks for"),
        (ExclusionKind::RequiredAffinity, "lack what its required node affinity asks for"),
    ];
    let is_of_all =
        |what| nodes.iter().all(|node| node.exclusions.iter().any(|exclusion| exclusion.what == what));
    let all = if otherwise.starts_with("no node") { "all nodes" } else { "all of them" };
    match reasons.into_iter().find(|(what, _)| is_of_all(*what)) {
        Some((_, reason)) => format!("{all} {reason}"),
        None => otherwise.to_owned(),
    }
}

/// Without the right to read nodes only the scheduler's own message is known.
fn without_nodes(question: &Question, subject: &Subject, message: Option<&str>) -> Explanation {
    let name = subject.pod.name();
    let required = subject.required();
    let pinned = if required.is_empty() { format!("{name} is Pending") } else { pinned(subject, required) };
    let Some(message) = message else {
        let answer = format!("{name} has no node yet: the scheduler has not looked at it.");
        return Explanation::new(question, Verdict::Unscheduled, answer);
    };
    let verdict = if required.is_empty() { Verdict::Unschedulable } else { Verdict::Pinned };
    let mut explanation = Explanation::new(question, verdict, format!("{pinned}."));
    if !message.is_empty() {
        explanation.facts.push(format!("The scheduler says: {message}"));
    }
    if !required.is_empty() && subject.state.is_ok() {
        let command = question.hand.pps(&format!("move {name} --anywhere"), question.namespace);
        explanation.notes.push(format!(
            "{command} lets it start on another node; whether one can take it is only known to somebody who may list nodes."
        ));
    }
    explanation
}
