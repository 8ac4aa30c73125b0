//! The sentences of `explain`: the answer and its reasons.

use pps_admission::plan::{Preference, Requirement};
use pps_check::read::Read;
use pps_core::{PodState, RECORD_ANNOTATION};
use pps_scheduler::Verdict as NodeVerdict;

use super::reasons;
use crate::decide::command_line::CommandLine;
use crate::decide::explain::{Cause, Explanation, LostNode, Next};
use crate::decide::status::Drift;
use crate::decide::subject::Subject;
use crate::render::text::list;
use crate::snapshot::{Pod, Workload, WorkloadKey};

const NOT_AGAIN: &str = "nothing creates the Pod again";

/// The answer in a sentence or two.
pub(super) fn answer(explanation: &Explanation, commands: &CommandLine) -> String {
    let subject = &explanation.subject;
    let pod = subject.name;
    let node = subject.pod.and_then(Pod::node);
    let on = node.map(|node| format!(" on {node}")).unwrap_or_default();
    let node = node.unwrap_or_default();
    let workload = subject
        .owner
        .as_ref()
        .map_or("", |owner| owner.name.as_str());
    let message = subject
        .pod
        .and_then(Pod::unschedulable)
        .filter(|message| !message.is_empty());
    let says = message
        .map(|message| format!(" The scheduler says: {message}"))
        .unwrap_or_default();
    match &explanation.cause {
        Cause::OnNode(lost) => on_node(subject, node, lost.as_ref()),
        Cause::Misplaced(drift) => format!("{pod} runs on {node}, where it should not: {drift}."),
        Cause::NotRecorded => {
            let why = problem(subject).map_or(", although it has long been Ready".into(), |why| {
                format!(": {why}")
            });
            format!("{pod} runs on {node} and is not recorded{why}.")
        }
        Cause::UnfinishedMove(lost) => {
            on_node(subject, node, lost.as_ref()) + " Its move is unfinished."
        }
        // Kubernetes' garbage collector waits 40 s after a node is gone, and looks every 20 s.
        Cause::NodeGone(next) => format!(
            "{pod} is bound to {node}, which does not exist any more. Kubernetes deletes the Pod \
             after about a minute; {}.",
            becomes(subject, next.as_ref())
        ),
        Cause::Terminating(None) => {
            let next = if subject.may_come_back() {
                "the new Pod is created when it is gone"
            } else {
                NOT_AGAIN
            };
            format!("{pod} is being deleted{on}; {next}.")
        }
        Cause::Terminating(Some(lost)) => format!(
            "{pod} is being deleted, and its node {} that the Pod has stopped. It ends when \
             {node} is back, or when its Node object is deleted.",
            nothing_confirms(lost)
        ),
        Cause::Unscheduled if message.is_some() => {
            let would = explanation.landing.would("start on");
            format!("{pod} is Pending, although it {would}, as far as is known here.{says}")
        }
        Cause::Unscheduled => format!("{pod} has no node yet: the scheduler has not looked at it."),
        Cause::NoNode(matching) => {
            no_node(subject, matching.as_deref()) + if matching.is_some() { "" } else { &says }
        }
        Cause::NotWanted => {
            let replicas = subject.workload.map_or(0, Workload::replicas);
            format!(
                "{pod} does not exist, and StatefulSet {workload} does not want it (replicas: \
                 {replicas})."
            )
        }
        Cause::NoWorkload { is_known } => {
            let whether = if *is_known {
                "no workload that was read wants it"
            } else {
                "whether a workload wants it is not known"
            };
            format!("{pod} does not exist, and {whether}.")
        }
        Cause::WaitsFor(other) => format!(
            "{pod} is not created yet: StatefulSet {workload} creates one Pod after the other, \
             and waits for {other}."
        ),
        Cause::Refused(message) => {
            format!(
                "{pod} does not exist: its creation is refused. StatefulSet {workload} reports: \
                 {message}"
            )
        }
        Cause::NotCreated => {
            let command = commands.kubectl_in(
                &format!("describe statefulset {workload}"),
                subject.namespace,
            );
            format!(
                "{pod} does not exist, although StatefulSet {workload} wants it. If this lasts, \
                 its Events may say why: {command}"
            )
        }
    }
}

fn on_node(subject: &Subject, node: &str, lost: Option<&LostNode>) -> String {
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

/// Why no node can take a Pod. `matching` nodes have the injected labels.
fn no_node(subject: &Subject, matching: Option<&[NodeVerdict]>) -> String {
    let (pod, required) = (subject.name, subject.required());
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

pub(super) fn becomes(subject: &Subject, next: Option<&Next>) -> String {
    match next {
        None if !subject.may_come_back() => NOT_AGAIN.to_owned(),
        None => "where the new Pod would start is not known".to_owned(),
        Some(next) if next.landing.is_nowhere() && !next.required.is_empty() => {
            format!(
                "the new Pod would be Pending: its recorded state requires {}",
                labels(&next.required)
            )
        }
        Some(next) => format!("the new Pod {}", next.landing.would("start on")),
    }
}

/// The reasons for the answer, the most important first.
pub(super) fn facts(explanation: &Explanation) -> Vec<String> {
    let subject = &explanation.subject;
    let mut facts: Vec<String> = explanation
        .next
        .iter()
        .map(|next| if_deleted(subject, next))
        .collect();
    let drift = explanation
        .drift
        .iter()
        .filter(|one| matches!(one, Drift::Annotation { .. }));
    facts.extend(drift.map(|drift| format!("It differs from its recorded state: {drift}.")));
    facts.push(governance(subject));
    facts.extend(recorded(subject));
    facts.extend(subject.pod.and_then(|pod| injected(subject, pod)));
    let would_require = match subject.pod {
        Some(_) => subject.has_changed(),
        None => subject.spec.is_some(),
    };
    if would_require && subject.recorded().is_some() {
        let required = subject.plan().required;
        let required = if required.is_empty() {
            "no label of a node".to_owned()
        } else {
            labels(&required)
        };
        facts.push(format!(
            "A Pod of this name that is created now would require {required}."
        ));
    }
    if let Some(pod) = subject.pod.filter(|pod| pod.is_exempt()) {
        let is_news = pod.is_marked() && !matches!(explanation.cause, Cause::UnfinishedMove(_));
        let what = if is_news {
            "A move of this Pod is not finished, and the"
        } else {
            "The"
        };
        facts.push(format!(
            "{what} sidecar does not record the Pod (annotation {RECORD_ANNOTATION}: \"false\")."
        ));
    }
    // An answer about the problem names the problem already.
    if let (Read::Known(pps), false) = (&subject.pps, explanation.cause == Cause::NotRecorded) {
        facts.extend(
            problem(subject).map(|why| format!("PersistentPodState {}: {why}.", pps.name())),
        );
    }
    facts
}

/// Where the successor would go if the Pod were deleted.
fn if_deleted(subject: &Subject, next: &Next) -> String {
    let node = subject.pod.and_then(Pod::node).unwrap_or_default();
    let landing = &next.landing;
    let would = if landing.is_nowhere() || next.excluded.is_empty() {
        let is_same = landing.favourites() == [node];
        let who = if landing.is_nowhere() {
            "the new Pod"
        } else {
            "it"
        };
        format!(
            "{who} {}",
            landing.would(if is_same { "come back to" } else { "start on" })
        )
    } else {
        let why = reasons(&next.excluded, true).join(", and ");
        format!(
            "it would not come back to {node} ({why}). It {}",
            landing.would("start on")
        )
    };
    let preferred = if next.required.is_empty() {
        subject.plan().preferred
    } else {
        Vec::new()
    };
    let demands = demands(&next.required, &preferred).join("; ");
    let why = if demands.is_empty() {
        String::new()
    } else {
        format!(" Its recorded state {demands}.")
    };
    format!("If it were deleted now, {would}.{why}")
}

/// Which PersistentPodState governs the workload.
fn governance(subject: &Subject) -> String {
    let Some(workload @ WorkloadKey { kind, name, .. }) = &subject.owner else {
        return format!("No PersistentPodState concerns it: it has no controller, so {NOT_AGAIN}.");
    };
    match subject.pps {
        Read::Known(pps) => format!("PersistentPodState {} governs {kind} {name}.", pps.name()),
        Read::Unknown => {
            format!("Whether a PersistentPodState governs {kind} {name} is not known.")
        }
        Read::Absent if workload.has_stable_names() => {
            format!("No PersistentPodState governs {kind} {name}, so the Pod is not recorded.")
        }
        Read::Absent => {
            format!(
                "No PersistentPodState concerns it: the Pods of {kind} {name} get new names each \
                 time."
            )
        }
    }
}

/// `Recorded in status.podStates: on node-1; zone=a.`
fn recorded(subject: &Subject) -> Option<String> {
    let pps = subject.pps.known()?;
    if let Err(damaged) = &subject.state {
        return damaged
            .as_ref()
            .map(|damaged| format!("The recorded state cannot be read: {damaged}."));
    }
    let Some(PodState {
        node_name,
        node_topology_labels,
        annotations,
        ..
    }) = subject.recorded()
    else {
        return Some("Nothing is recorded of the Pod.".to_owned());
    };
    let is_plain = pps.object()["status"]["podStates"][subject.name].is_object();
    let form = if is_plain {
        "status.podStates"
    } else {
        "status.packed"
    };
    let gone = if subject.gone_node() == Some(node_name) {
        ", which does not exist any more"
    } else {
        ""
    };
    let node = (!node_name.is_empty()).then(|| format!("on {node_name}{gone}"));
    let values = pairs(node_topology_labels.iter().chain(annotations));
    let place = node
        .into_iter()
        .chain(values)
        .collect::<Vec<_>>()
        .join("; ");
    Some(format!("Recorded in {form}: {place}."))
}

/// What the policy has injected, and when.
fn injected(subject: &Subject, pod: &Pod) -> Option<String> {
    let created = pod.created();
    let Some(injected) = &subject.injected else {
        let why = if subject.pps.known()?.is_enabled() {
            "nothing was recorded then, or the policy was not asked"
        } else {
            "the namespace is not enabled"
        };
        return Some(format!(
            "Nothing was injected when the Pod was created, {created}: {why}."
        ));
    };
    let is_foreign = subject
        .pps
        .known()
        .is_none_or(|pps| pps.name() != injected.pps);
    let from = if is_foreign {
        format!(" from PersistentPodState {}", injected.pps)
    } else {
        String::new()
    };
    let all = demands(&injected.required, &injected.preferred);
    let what = if all.is_empty() {
        "no label of a node, as far as is known".to_owned()
    } else {
        all.join("; ")
    };
    Some(format!(
        "Injected{from} when the Pod was created, {created}: {what}."
    ))
}

fn problem(subject: &Subject) -> Option<String> {
    let (reason, message) = subject.problem.as_ref()?.words();
    Some(format!("{reason}: {message}"))
}

/// `requires zone=a`, `prefers zone=a (weight 100)`
fn demands(required: &[Requirement], preferred: &[Preference]) -> Vec<String> {
    let preferred = preferred.iter().map(|one| {
        format!(
            "prefers {} (weight {})",
            labels(&one.requirements),
            one.weight
        )
    });
    let required = (!required.is_empty()).then(|| format!("requires {}", labels(required)));
    required.into_iter().chain(preferred).collect()
}

/// `zone=a and disk=ssd`
pub(super) fn labels(requirements: &[Requirement]) -> String {
    pairs(requirements.iter().map(|one| (&one.key, &one.value))).join(" and ")
}

fn pairs<'a>(all: impl IntoIterator<Item = (&'a String, &'a String)>) -> Vec<String> {
    all.into_iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect()
}
