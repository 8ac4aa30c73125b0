//! A Pod that has a node.

use pps_core::{RECORD_ANNOTATION, forbids_recording};

use super::groups::groups;
use super::subject::{Subject, list};
use super::{Explanation, Question, Verdict};
use crate::decide::status::{DriftKind, drift_of};

/// Why it is where it is, and where it would go if it were deleted now.
pub(super) fn explain(question: &Question, subject: &Subject, node: &str) -> Explanation {
    let name = subject.pod.name();
    let recorded = subject.recorded().map(|state| state.node_name.as_str()).filter(|node| !node.is_empty());
    let drift = match &subject.spec {
        Some(spec) => drift_of(question.snapshot, spec, subject.pod, subject.recorded()),
        None => Vec::new(),
    };
    let misplaced = drift.iter().find(|one| one.kind == DriftKind::RequiredTopology);
    let place = match recorded {
        _ if subject.pps.is_none() => {
            format!("{node}. The scheduler put it there, and nothing recorded was part of that")
        }
        Some(recorded) if recorded == node => format!("{node}, where it is recorded"),
        Some(recorded) => format!("{node}. It is recorded on {recorded}"),
        None => format!("{node}. Nothing is recorded of it yet"),
    };
    let is_running = subject.pod.phase() == "Running";
    let is_ready = subject.pod.is_ready();
    let (verdict, answer) = match misplaced {
        Some(drift) => {
            (Verdict::Misplaced, format!("{name} runs on {node}, where it should not: {}.", drift.text))
        }
        None if is_ready || is_running => {
            let ready = if is_ready { "" } else { " It is not Ready." };
            (Verdict::Running, format!("{name} runs on {place}.{ready}"))
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
    let is_exempt = subject.pod.annotation(RECORD_ANNOTATION).is_some_and(forbids_recording);
    if misplaced.is_some() && !is_exempt {
        let command =
            crate::decide::hand::Hand { own_namespace: Some(String::new()), ..question.hand.clone() };
        explanation.facts.push(format!(
            "The sidecar records a Ready Pod where it runs. If this lasts, it does not record: {}",
            command.pps("check", "")
        ));
    }
    for one in drift.iter().filter(|one| matches!(one.kind, DriftKind::Address | DriftKind::Annotation)) {
        explanation.facts.push(format!("It differs from what is recorded: {}.", one.text));
    }
    forecast(subject, node, &mut explanation);
    explanation
}

/// Where its successor would go.
fn forecast(subject: &Subject, node: &str, explanation: &mut Explanation) {
    let (Some(nodes), true) = (&subject.nodes, subject.owner.is_some()) else { return };
    let (before, after) = subject.successor();
    let selection = nodes.select(&after, Some(&before), subject.selector());
    let lands = &selection.may_land_on;
    let required = subject.plan().is_some_and(|plan| !plan.required.is_empty());
    let preferred = subject.plan().is_some_and(|plan| !plan.preferred.is_empty());
    let what_counts = match (required, preferred) {
        (true, _) => "what is recorded is required",
        (false, true) => "what is recorded is only preferred",
        (false, false) => "nothing recorded keeps it on a node",
    };
    let text = if selection.chosen.is_none() {
        format!(
            "If it were deleted now, its successor would be Pending: no node could take it ({what_counts})."
        )
    } else if lands.as_slice() == [node.to_owned()] {
        let same = if required || preferred { format!(" ({what_counts})") } else { String::new() };
        format!("If it were deleted now, it would come back to {node}{same}.")
    } else if lands.iter().any(|one| one == node) {
        let others: Vec<String> = lands.iter().filter(|one| *one != node).cloned().collect();
        format!(
            "If it were deleted now, it could come back here, or go to {} ({what_counts}).",
            list(&others, "or")
        )
    } else {
        let here =
            groups(&selection.verdicts).into_iter().find(|group| group.nodes.iter().any(|one| one == node));
        let why = match here {
            Some(group) => format!("{node}: {}", group.reasons.join(", and ")),
            None if nodes.view(node).is_none() => format!("{node} does not exist any more"),
            None => "the scheduler prefers others".to_owned(),
        };
        format!(
            "If it were deleted now, it would not come back here ({why}). It would go to {}.",
            list(lands, "or")
        )
    };
    explanation.facts.push(text);
    if selection.chosen.is_none() {
        explanation.excluded = groups(&selection.verdicts);
    } else {
        explanation.may_land_on.clone_from(lands);
    }
    explanation.notes.extend(selection.caveats.iter().map(|caveat| format!("Not known: {caveat}.")));
}

/// A Pod that ends or has ended.
pub(super) fn ending(question: &Question, subject: &Subject) -> Explanation {
    let pod = subject.pod;
    let name = pod.name();
    let place = pod.node().map(|node| format!(" on {node}")).unwrap_or_default();
    let is_gone = pod
        .node()
        .is_some_and(|node| question.snapshot.nodes.as_ref().is_some_and(|nodes| !nodes.contains_key(node)));
    if pod.is_terminating() {
        let mut explanation = Explanation::new(
            question,
            Verdict::Terminating,
            format!("{name} is being deleted{place}; its successor is created when it is gone."),
        );
        if is_gone {
            let command = question.hand.kubectl_in(&format!("delete pod {name} --force"), question.namespace);
            explanation.verdict = Verdict::NotRunning;
            explanation.facts.push(format!(
                "Its node does not exist any more, so nothing confirms that it has stopped. If the machine is off for good: {command}"
            ));
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
