//! A Pod that has a node.

use super::facts::preference;
use super::groups::groups;
use super::subject::{Candidate, Subject, words};
use super::{Explanation, Question, Remedy, Verdict, remedies};
use crate::decide::landing::Landing;
use crate::decide::status::{DriftKind, drift_of, goal};

/// What Kubernetes' garbage collector does with a Pod whose node is gone: it waits for 40 s, and looks each 20 s.
const DELETES: &str = "Kubernetes deletes the Pod after about a minute";

/// Why it is where it is, and where it would go if it were deleted now.
pub(super) fn explain(question: &Question, subject: &Subject, node: &str) -> Explanation {
    let name = subject.pod.name();
    if is_gone(question, node) {
        return on_gone_node(question, subject, node);
    }
    let recorded = subject.recorded().map(|state| state.node_name.as_str()).filter(|node| !node.is_empty());
    let drift = match &subject.spec {
        Some(spec) => drift_of(question.snapshot, spec, subject.pod, subject.recorded()),
        None => Vec::new(),
    };
    let misplaced = drift.iter().find(|one| one.kind == DriftKind::RequiredTopology);
    let place = match recorded {
        _ if subject.pps.is_none() => {
            format!("{node}. The scheduler chose that node; the Pod is not recorded")
        }
        Some(recorded) if recorded == node => format!("{node}, where it is recorded"),
        Some(recorded) => format!("{node}. It is recorded on {recorded}"),
        None => format!("{node}. Nothing is recorded of it yet"),
    };
    let is_running = subject.pod.phase() == "Running";
    let is_ready = subject.pod.is_ready();
    let unrecorded = subject.unrecorded();
    let (verdict, answer) = match misplaced {
        Some(drift) => {
            (Verdict::Misplaced, format!("{name} runs on {node}, where it should not: {}.", drift.text))
        }
        None if unrecorded.is_some() => {
            let why = unrecorded.unwrap_or_default();
            (Verdict::NotRecorded, format!("{name} runs on {node} and is not recorded: {why}."))
        }
        None if is_ready || is_running => {
            let is_down = question.snapshot.node(node).is_some_and(|node| !node.is_ready());
            match (is_ready, is_down) {
                (true, _) => (Verdict::Running, format!("{name} runs on {place}.")),
                (false, false) => (Verdict::Running, format!("{name} runs on {place}. It is not Ready.")),
                (false, true) => {
                    let answer = format!("{name} is not Ready, and neither is its node. It is on {place}.");
                    (Verdict::NotRunning, answer)
                }
            }
        }
        None => (Verdict::NotRunning, format!("{name} has its node and does not run yet. It is on {place}.")),
    };
    let mut explanation = Explanation::new(question, verdict, answer);
    if !is_ready {
        let command = question.hand.kubectl_in(&format!("describe pod {name}"), question.namespace);
        let kept = subject.injected.as_ref().filter(|injected| !injected.annotations.is_empty());
        let kept = kept.map(|_| {
            " It asks for the annotations that were recorded, such as an address, and starts only if \
             it can have them."
        });
        explanation.facts.push(format!(
            "Its place is not what it waits for: {command} says more.{}",
            kept.unwrap_or_default()
        ));
    }
    // After an unfinished move nothing is recorded, and `facts` says so.
    if subject.is_exempt() {
        explanation.remedies.extend(unfinished(question, subject, node));
    } else if misplaced.is_some() {
        explanation.facts.push(format!(
            "The sidecar records a Ready Pod where it runs. If this lasts, it does not record: {}",
            question.hand.check()
        ));
    }
    for one in drift.iter().filter(|one| matches!(one.kind, DriftKind::Address | DriftKind::Annotation)) {
        explanation.facts.push(format!("It differs from what is recorded: {}.", one.text));
    }
    forecast(subject, node, &mut explanation);
    explanation
}

/// How a move goes on that was not finished, and how it is called off.
fn unfinished(question: &Question, subject: &Subject, node: &str) -> Vec<Remedy> {
    let name = subject.pod.name();
    let command = |goal: &str| Some(question.hand.pps(&format!("move {name} {goal}"), question.namespace));
    let goal = goal(subject.recorded().map(|state| state.node_name.as_str()));
    let call_off = format!("--to {node}");
    let mut remedies = Vec::new();
    if goal != call_off {
        remedies.push(Remedy { command: command(&goal), ..Remedy::new("Finish the move") });
    }
    remedies.push(Remedy { command: command(&call_off), ..Remedy::new("Call the move off") });
    remedies
}

/// Where the Pod would go that its controller created if it were deleted.
fn forecast(subject: &Subject, node: &str, explanation: &mut Explanation) {
    if subject.owner.is_none() {
        return;
    }
    let next = subject.successor();
    let Some(selection) = subject.select(&next) else { return };
    let landing = Landing::of(&selection);
    let would = if landing.is_nowhere() {
        "the new Pod would be Pending: no node could take it".to_owned()
    } else if landing.may_be(node) && landing.favourites().len() == 1 {
        format!("it {}", landing.would("come back to"))
    } else if landing.may_be(node) {
        format!("it might come back: it {}", landing.would("start on"))
    } else {
        let here =
            groups(&selection.verdicts).into_iter().find(|group| group.nodes.iter().any(|one| one == node));
        let not = match here {
            Some(group) => format!("would not come back to {node} ({})", group.reasons.join(", and ")),
            None => format!("would probably not come back to {node} (the scheduler prefers others)"),
        };
        format!("it {not}. It {}", landing.would("start on"))
    };
    explanation.facts.push(format!("If it were deleted now, {would}.{}", what_counts(subject, &next)));
    if landing.is_nowhere() {
        explanation.excluded = groups(&selection.verdicts);
    }
    explanation.lands(&landing);
    explanation.notes.extend(selection.caveats.iter().map(|caveat| format!("Not known: {caveat}.")));
}

/// What the recorded state has to do with it.
fn what_counts(subject: &Subject, next: &Candidate) -> String {
    if !next.required.is_empty() {
        return format!(" What is recorded requires {}.", words(&next.required));
    }
    let preferred = subject.plan().map(|plan| plan.preferred).unwrap_or_default();
    if preferred.is_empty() {
        return String::new();
    }
    let preferred: Vec<String> = preferred.iter().map(preference).collect();
    format!(" What is recorded only {}.", preferred.join("; "))
}

/// Whether a node does not exist any more, as far as nodes may be read.
fn is_gone(question: &Question, node: &str) -> bool {
    question.snapshot.nodes.as_ref().is_some_and(|nodes| !nodes.contains_key(node))
}

/// A Pod whose node does not exist any more: Kubernetes deletes it, and then it is created again.
fn on_gone_node(question: &Question, subject: &Subject, node: &str) -> Explanation {
    let name = subject.pod.name();
    let bound = format!("{name} is bound to {node}, which does not exist any more.");
    let next = subject.successor();
    let (Some(selection), true) = (subject.select(&next), subject.owner.is_some()) else {
        let answer = format!("{bound} {DELETES}, and nothing creates it again.");
        return Explanation::new(question, Verdict::NodeGone, answer);
    };
    let landing = Landing::of(&selection);
    let then = if landing.is_nowhere() {
        let why = if next.required.is_empty() {
            "no node could take it".to_owned()
        } else {
            format!("its recorded state requires {}", words(&next.required))
        };
        format!("the new Pod would be Pending: {why}")
    } else {
        format!("the new Pod {}", landing.would("start on"))
    };
    let mut explanation =
        Explanation::new(question, Verdict::NodeGone, format!("{bound} {DELETES}; {then}."));
    explanation.lands(&landing);
    if landing.is_nowhere() {
        explanation.excluded = groups(&selection.verdicts);
        explanation.remedies = remedies::remedies(question, subject, &next, &selection);
        if explanation.remedies.is_empty() {
            explanation.notes.push(remedies::nothing_helps(subject, &next));
        }
    } else {
        explanation.remedies.push(Remedy::new("Wait until Kubernetes has deleted the Pod"));
    }
    explanation.notes.extend(selection.caveats.iter().map(|caveat| format!("Not known: {caveat}.")));
    explanation
}

/// A Pod that ends or has ended.
pub(super) fn ending(question: &Question, subject: &Subject) -> Explanation {
    let pod = subject.pod;
    let name = pod.name();
    let place = pod.node().map(|node| format!(" on {node}")).unwrap_or_default();
    let is_gone = pod.node().is_some_and(|node| is_gone(question, node));
    if pod.is_terminating() {
        let mut explanation = Explanation::new(
            question,
            Verdict::Terminating,
            format!("{name} is being deleted{place}; the new Pod is created when it is gone."),
        );
        if let Some(node) = pod.node().filter(|_| is_gone) {
            let command = question.hand.kubectl_in(&format!("delete pod {name} --force"), question.namespace);
            explanation.verdict = Verdict::NodeGone;
            explanation.answer = format!(
                "{name} is being deleted, and its node {node} does not exist any more, so nothing confirms that it has stopped. {DELETES} in spite of that."
            );
            explanation.remedies.push(Remedy {
                command: Some(command),
                ..Remedy::new("Wait. If this lasts, and the machine is off for good")
            });
        }
        return explanation;
    }
    let phase = pod.phase().to_owned();
    Explanation::new(
        question,
        Verdict::NotRunning,
        format!("{name} has ended{place} ({phase}); its controller creates it again, or it is not needed."),
    )
}
