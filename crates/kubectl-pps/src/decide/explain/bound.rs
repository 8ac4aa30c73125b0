//! A Pod that has a node.

use pps_simulation::scheduler::Selection;

use super::facts::preference;
use super::groups::groups;
use super::subject::{Candidate, Subject, words};
use super::{Explanation, Question, Remedy, Verdict, remedies};
use crate::decide::landing::Landing;
use crate::decide::placement::Nodes;
use crate::decide::status::{DriftKind, drift_of, goal};

/// What Kubernetes' garbage collector does with a Pod whose node is gone: it waits for 40 s, and looks each 20 s.
const DELETES: &str = "Kubernetes deletes the Pod after about a minute";

/// Why it is where it is, and where it would go if it were deleted now.
pub(super) fn explain(question: &Question, subject: &Subject, node: &str) -> Explanation {
    let name = subject.pod.name();
    if question.snapshot.is_stranded(subject.pod) {
        return on_gone_node(question, subject, node);
    }
    let recorded = subject.recorded().map(|state| state.node_name.as_str()).filter(|node| !node.is_empty());
    let drift = match &subject.spec {
        Some(spec) => drift_of(question.snapshot, spec, subject.pod, subject.recorded()),
        None => Vec::new(),
    };
    let misplaced = drift.iter().find(|one| one.kind == DriftKind::RequiredTopology);
    let place = match recorded {
        _ if subject.pps.is_absent() => {
            format!("{node}. The scheduler chose that node; the Pod is not recorded")
        }
        None if subject.state.is_err() => node.to_owned(),
        Some(recorded) if recorded == node => format!("{node}, where it is recorded"),
        Some(recorded) => format!("{node}. It is recorded on {recorded}"),
        None => format!("{node}. Nothing is recorded of it yet"),
    };
    let is_running = subject.pod.phase() == "Running";
    let is_ready = subject.pod.is_ready();
    let unrecorded = subject.unrecorded();
    let lost = lost(question, node);
    let (verdict, answer) = match misplaced {
        Some(drift) => {
            (Verdict::Misplaced, format!("{name} runs on {node}, where it should not: {}.", drift.text))
        }
        None if unrecorded.is_some() => {
            let why = unrecorded.unwrap_or_default();
            (Verdict::NotRecorded, format!("{name} runs on {node} and is not recorded: {why}."))
        }
        None if is_ready => (Verdict::Running, format!("{name} runs on {place}.")),
        None if is_running && lost.is_some() => {
            let answer = format!("{name} is not Ready, and neither is its node. It is on {place}.");
            (Verdict::NotRunning, answer)
        }
        None if is_running => (Verdict::Running, format!("{name} runs on {place}. It is not Ready.")),
        None => (Verdict::NotRunning, format!("{name} has its node and does not run yet. It is on {place}.")),
    };
    let mut explanation = Explanation::new(question, verdict, answer);
    if let Some(lost) = lost.filter(|_| !is_ready) {
        explanation.facts.push(format!("{lost} whether the Pod still runs."));
        explanation.remedies.extend(of_lost_node(question, subject, node));
    } else if !is_ready {
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
    if subject.pod.is_marked() {
        explanation.remedies.extend(unfinished(question, subject, node));
    } else if misplaced.is_some() && !subject.pod.is_exempt() {
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
    let command = |goal: &str| question.hand.pps(&format!("move {name} {goal}"), question.namespace);
    let goal = goal(subject.recorded().map(|state| state.node_name.as_str()));
    let call_off = format!("--to {node}");
    let finish = (goal != call_off).then(|| Remedy::new("Finish the move").with_command(command(&goal)));
    let end = Remedy::new("Call the move off").with_command(command(&call_off));
    finish.into_iter().chain([end]).collect()
}

/// Where the Pod would go that its controller created if it were deleted.
fn forecast(subject: &Subject, node: &str, explanation: &mut Explanation) {
    let Some((next, selection)) = next_of(subject, subject.nodes.as_ref()) else { return };
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
        explanation.remedies.extend(remedies::spread(subject, &next));
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

/// A Pod whose node does not exist any more: Kubernetes deletes it, and then it is created again.
fn on_gone_node(question: &Question, subject: &Subject, node: &str) -> Explanation {
    let name = subject.pod.name();
    let bound = format!("{name} is bound to {node}, which does not exist any more.");
    let then = then(subject, subject.nodes.as_ref());
    let mut explanation =
        Explanation::new(question, Verdict::NodeGone, format!("{bound} {DELETES}; {then}."));
    let Some((next, selection)) = next_of(subject, subject.nodes.as_ref()) else { return explanation };
    let landing = Landing::of(&selection);
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

/// The Pod that its controller would create now, and which nodes could take it; none if there is none, or not enough is
/// known.
fn next_of(subject: &Subject, nodes: Option<&Nodes>) -> Option<(Candidate, Selection)> {
    subject.owner.as_ref()?;
    let next = subject.successor()?;
    let selection = nodes?.select(&next.pod, Some(&next.before), subject.selector());
    Some((next, selection))
}

/// What would become of the Pod's successor if there were only these nodes, in words.
fn then(subject: &Subject, nodes: Option<&Nodes>) -> String {
    if subject.owner.is_none() {
        return "nothing creates it again".into();
    }
    let Some((next, selection)) = next_of(subject, nodes) else {
        return "where the new Pod would start is not known".into();
    };
    let landing = Landing::of(&selection);
    if !landing.is_nowhere() {
        return format!("the new Pod {}", landing.would("start on"));
    }
    let why = if next.required.is_empty() {
        "no node could take it".to_owned()
    } else {
        format!("its recorded state requires {}", words(&next.required))
    };
    format!("the new Pod would be Pending: {why}")
}

/// What is not known of the Pods of a node that is not Ready: the beginning of a sentence.
fn lost(question: &Question, node: &str) -> Option<String> {
    let lost = question.snapshot.node(node).filter(|node| !node.is_ready())?;
    let since = lost.not_ready_since().map(|since| format!(" since {since}")).unwrap_or_default();
    Some(format!("{node} has not been Ready{since}, so nothing confirms"))
}

/// What ends a Pod whose node is not Ready, and what that means for its data.
fn of_lost_node(question: &Question, subject: &Subject, node: &str) -> Vec<Remedy> {
    let back = format!("The Pod, or a new Pod on {node}, then finds the data on its local disk.");
    let rest = subject.nodes.as_ref().map(|nodes| nodes.without(node));
    let deleted = format!(
        "Kubernetes then deletes the Pod although the former process may still run: be sure that the machine is off. Data on \
         {node}'s local disk is not there; {}. A node that returns under this name has that data again.",
        then(subject, rest.as_ref())
    );
    vec![
        Remedy::new(format!("Bring {node} back under its name")).with_consequence(back),
        Remedy::new("If it does not come back, delete its Node object")
            .with_command(question.hand.kubectl(&format!("delete node {node}")))
            .with_consequence(deleted),
    ]
}

/// A Pod that ends or has ended.
pub(super) fn ending(question: &Question, subject: &Subject) -> Explanation {
    let (pod, snapshot) = (subject.pod, question.snapshot);
    let name = pod.name();
    let place = pod.node().map(|node| format!(" on {node}")).unwrap_or_default();
    let ending = format!("{name} is being deleted");
    let lost = pod.node().and_then(|node| Some((node, lost(question, node)?)));
    let overdue = pod.deletion_deadline().filter(|(_, deadline)| snapshot.is_lasting(Some(*deadline)));
    let mut remedies = Vec::new();
    let (verdict, answer) = if !pod.is_terminating() {
        let phase = pod.phase();
        let answer = format!(
            "{name} has ended{place} ({phase}); its controller creates it again, or it is not needed."
        );
        (Verdict::NotRunning, answer)
    } else if let Some(node) = pod.node().filter(|_| snapshot.is_stranded(pod)) {
        let command = question.hand.kubectl_in(&format!("delete pod {name} --force"), question.namespace);
        remedies
            .push(Remedy::new("Wait. If this lasts, and the machine is off for good").with_command(command));
        let answer = format!(
            "{ending}, and its node {node} does not exist any more, so nothing confirms that it has stopped. {DELETES} in spite of that."
        );
        (Verdict::NodeGone, answer)
    } else if let Some((node, lost)) = lost {
        remedies = of_lost_node(question, subject, node);
        let answer = format!(
            "{ending}, and its node {lost} that the Pod has stopped. It ends when {node} is back, or when its Node object is deleted."
        );
        (Verdict::NotRunning, answer)
    } else if let Some((deadline, _)) = overdue {
        let answer = format!(
            "{ending}{place}, and should have been gone by {deadline}: its node does not answer, or a finalizer keeps it."
        );
        (Verdict::NotRunning, answer)
    } else {
        (Verdict::Terminating, format!("{ending}{place}; the new Pod is created when it is gone."))
    };
    Explanation { remedies, ..Explanation::new(question, verdict, answer) }
}
