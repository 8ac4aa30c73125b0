//! The sentences of `explain` that answer: why a Pod is where it is, or nowhere.

use pps_admission::plan::Requirement;
use pps_scheduler::{Contradiction, Verdict as NodeVerdict};

use super::excluded::reasons;
use crate::decide::command_line::CommandLine;
use crate::decide::explain::{Cause, Explanation, LostNode, Successor};
use crate::decide::placement::Landing;
use crate::decide::subject::Subject;
use crate::render::text::list;
use crate::snapshot::{Pod, Workload};

pub(super) const NOT_AGAIN: &str = "nothing creates the Pod again";

/// The answer in a sentence or two.
pub(super) fn answer(explanation: &Explanation, commands: &CommandLine) -> String {
    let subject = &explanation.subject;
    let pod = subject.name;
    let workload = owner_name(subject);
    match &explanation.cause {
        Cause::Running => on_node(subject, None),
        Cause::NotRunning(lost) => on_node(subject, lost.as_ref()),
        Cause::Misplaced(drift) => {
            let node = node_name(subject);
            format!("{pod} runs on {node}, where it should not: {drift}.")
        }
        Cause::NotRecorded => not_recorded(subject),
        Cause::UnfinishedMove(lost) => on_node(subject, lost.as_ref()) + " Its move is unfinished.",
        Cause::NodeGone(successor) => node_gone(subject, successor.as_ref()),
        Cause::Terminating(None) => terminating(subject),
        Cause::Terminating(Some(lost)) => terminating_on_lost_node(subject, lost),
        Cause::Unscheduled => unscheduled(subject, &explanation.landing),
        Cause::NoNode { matching: None, .. } => no_node(subject, None) + &scheduler_says(subject),
        Cause::NoNode {
            matching: Some(matching),
            ..
        } => {
            let contradiction = explanation.contradiction.as_ref();
            no_node(subject, Some(matching)) + &contradiction.map(contradicts).unwrap_or_default()
        }
        Cause::NotWanted => {
            let replicas = subject.workload.map_or(0, Workload::replicas);
            format!(
                "{pod} does not exist, and StatefulSet {workload} does not want it (replicas: \
                 {replicas})."
            )
        }
        Cause::NoWorkload { is_known: true } => {
            format!("{pod} does not exist, and no workload that was read wants it.")
        }
        Cause::NoWorkload { is_known: false } => {
            format!("{pod} does not exist, and whether a workload wants it is not known.")
        }
        Cause::WaitsFor(other) => format!(
            "{pod} is not created yet: StatefulSet {workload} creates one Pod after the other, \
             and waits for {other}."
        ),
        Cause::Refused(message) => format!(
            "{pod} does not exist: its creation is refused. StatefulSet {workload} reports: \
             {message}"
        ),
        Cause::NotCreated => not_created(subject, commands),
    }
}

/// The name of the controller; empty without one.
fn owner_name<'a>(subject: &'a Subject) -> &'a str {
    subject
        .owner
        .as_ref()
        .map_or("", |owner| owner.name.as_str())
}

/// The node of the Pod; empty if it has none.
fn node_name<'a>(subject: &Subject<'a>) -> &'a str {
    subject.pod.and_then(Pod::node).unwrap_or_default()
}

fn not_recorded(subject: &Subject) -> String {
    let why = match problem(subject) {
        Some(why) => format!(": {why}"),
        None => ", although it has long been Ready".to_owned(),
    };
    format!(
        "{} runs on {} and is not recorded{why}.",
        subject.name,
        node_name(subject)
    )
}

fn node_gone(subject: &Subject, successor: Option<&Successor>) -> String {
    // Kubernetes' garbage collector waits 40 s after a node is gone, and looks every 20 s.
    format!(
        "{} is bound to {}, which does not exist any more. Kubernetes deletes the Pod after about \
         a minute; {}.",
        subject.name,
        node_name(subject),
        becomes(subject, successor)
    )
}

fn terminating(subject: &Subject) -> String {
    let on = subject
        .pod
        .and_then(Pod::node)
        .map(|node| format!(" on {node}"))
        .unwrap_or_default();
    let next = if subject.may_come_back() {
        "the new Pod is created when it is gone"
    } else {
        NOT_AGAIN
    };
    format!("{} is being deleted{on}; {next}.", subject.name)
}

fn terminating_on_lost_node(subject: &Subject, lost: &LostNode) -> String {
    format!(
        "{} is being deleted, and its node {} that the Pod has stopped. It ends when {} is back, \
         or when its Node object is deleted.",
        subject.name,
        nothing_confirms(lost),
        node_name(subject)
    )
}

fn unscheduled(subject: &Subject, landing: &Landing) -> String {
    let pod = subject.name;
    let says = scheduler_says(subject);
    if says.is_empty() {
        return format!("{pod} has no node yet: the scheduler has not looked at it.");
    }
    let would = landing.would("start on");
    format!("{pod} is Pending, although it {would}, as far as is known here.{says}")
}

/// ` The scheduler says: …`; empty if it has said nothing.
fn scheduler_says(subject: &Subject) -> String {
    subject
        .pod
        .and_then(Pod::unschedulable)
        .filter(|message| !message.is_empty())
        .map(|message| format!(" The scheduler says: {message}"))
        .unwrap_or_default()
}

fn not_created(subject: &Subject, commands: &CommandLine) -> String {
    let workload = owner_name(subject);
    let describe = format!("describe statefulset {workload}");
    format!(
        "{} does not exist, although StatefulSet {workload} wants it. If this lasts, its Events \
         may say why: {}",
        subject.name,
        commands.kubectl_in(&describe, subject.namespace)
    )
}

fn on_node(subject: &Subject, lost: Option<&LostNode>) -> String {
    let node = node_name(subject);
    let verb = match subject.pod {
        _ if lost.is_some() => "is",
        Some(pod) if pod.is_finished() => "has ended",
        Some(pod) if pod.is_ready() => "runs",
        Some(pod) if pod.phase() == "Running" => "is not Ready",
        _ => "does not run yet",
    };
    let back = if subject.may_come_back() {
        ", where it goes when it is created again"
    } else {
        ""
    };
    let place = match (subject.home(), subject.recorded_node()) {
        (Some(home), _) => format!(", away from its home {home}{back}"),
        (None, Some(recorded)) if recorded == node => ", where it is recorded".to_owned(),
        (None, Some(recorded)) => format!(". It is recorded on {recorded}"),
        (None, None) => String::new(),
    };
    let lost = lost.map(|lost| format!(" {} whether the Pod still runs.", nothing_confirms(lost)));
    format!(
        "{} {verb} on {node}{place}.{}",
        subject.name,
        lost.unwrap_or_default()
    )
}

/// That a volume cannot be where the Pod has to be.
fn contradicts(contradiction: &Contradiction) -> String {
    let Contradiction {
        claim,
        volume,
        key,
        value,
    } = contradiction;
    format!(
        " Volume {volume} of claim {claim} is elsewhere, and waiting does not help: the node \
         affinity of the volume excludes the recorded {key}={value}. The volume has probably been \
         replaced since."
    )
}

/// Why no node can take a Pod. `matching` nodes have the injected labels.
fn no_node(subject: &Subject, matching: Option<&[NodeVerdict]>) -> String {
    let pod = subject.name;
    let required = subject.required();
    if required.is_empty() {
        let why = if matching.is_some() {
            ": no node can take it"
        } else {
            ""
        };
        return format!("{pod} is Pending{why}.");
    }
    let when = if subject.has_changed() || !subject.is_readable() {
        "when it was created, its recorded state required"
    } else {
        "its recorded state requires"
    };
    let gone = subject
        .gone_node()
        .map(|node| format!(": {node} does not exist any more"))
        .unwrap_or_default();
    let who = match matching {
        None => ".".to_owned(),
        Some([]) => format!(", and no node has that{gone}."),
        Some([only]) => {
            format!(
                ". Only {} has that: {}.",
                only.node,
                reasons(&only.exclusions, true).join(", and ")
            )
        }
        Some(several) => {
            let nodes: Vec<String> = several.iter().map(|one| one.node.clone()).collect();
            format!(
                ". {} have that, and none of them can take it.",
                list(&nodes, "and")
            )
        }
    };
    format!("{pod} is Pending: {when} {}{who}", labels(required))
}

/// The beginning of a sentence about a node that is not Ready.
fn nothing_confirms(node: &LostNode) -> String {
    let since = node
        .since
        .as_ref()
        .map(|since| format!(" since {since}"))
        .unwrap_or_default();
    format!(
        "{} has not been Ready{since}, so nothing confirms",
        node.name
    )
}

/// What follows when Kubernetes has deleted the Pod.
pub(super) fn becomes(subject: &Subject, successor: Option<&Successor>) -> String {
    match successor {
        None if !subject.may_come_back() => NOT_AGAIN.to_owned(),
        None => "where the new Pod would start is not known".to_owned(),
        Some(successor) if successor.landing.is_nowhere() && !successor.required.is_empty() => {
            format!(
                "the new Pod would be Pending: its recorded state requires {}",
                labels(&successor.required)
            )
        }
        Some(successor) => format!("the new Pod {}", successor.landing.would("start on")),
    }
}

pub(super) fn problem(subject: &Subject) -> Option<String> {
    let problem = subject.problem.as_ref()?;
    Some(format!("{}: {}", problem.reason(), problem.message()))
}

/// `zone=a and disk=ssd`
pub(super) fn labels(requirements: &[Requirement]) -> String {
    pairs(requirements.iter().map(|one| (&one.key, &one.value))).join(" and ")
}

pub(super) fn pairs<'a>(all: impl IntoIterator<Item = (&'a String, &'a String)>) -> Vec<String> {
    all.into_iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect()
}
