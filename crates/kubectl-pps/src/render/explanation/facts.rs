//! The sentences of `explain` about what is known of a Pod.

use pps_admission::plan::{Preference, Requirement};
use pps_check::read::Read;
use pps_core::{PodState, RECORD_ANNOTATION};
use pps_recorder::fallback::Refusal;

use super::answer::{NOT_AGAIN, labels, pairs, problem};
use super::excluded::reasons;
use crate::decide::explain::{Cause, Explanation, Fallback, Prospect, Successor};
use crate::decide::status::Drift;
use crate::decide::subject::Subject;
use crate::snapshot::{Pod, WorkloadKey, written};

/// The reasons for the answer, the most important first.
pub(super) fn facts(explanation: &Explanation) -> Vec<String> {
    let subject = &explanation.subject;
    let mut facts: Vec<String> = explanation
        .successor
        .iter()
        .map(|successor| if_deleted(subject, successor))
        .collect();
    let drift = explanation
        .drift
        .iter()
        .filter(|one| matches!(one, Drift::Annotation { .. }));
    facts.extend(drift.map(|drift| format!("It differs from its recorded state: {drift}.")));
    facts.extend(explanation.fallback.as_ref().map(falls_back));
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
fn if_deleted(subject: &Subject, successor: &Successor) -> String {
    let node = subject.pod.and_then(Pod::node).unwrap_or_default();
    let landing = &successor.landing;
    let would = if landing.is_nowhere() || successor.excluded.is_empty() {
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
        let why = reasons(&successor.excluded, true).join(", and ");
        format!(
            "it would not come back to {node} ({why}). It {}",
            landing.would("start on")
        )
    };
    let preferred = if successor.required.is_empty() {
        subject.plan().preferred
    } else {
        Vec::new()
    };
    let demands = demands(&successor.required, &preferred).join("; ");
    let why = if demands.is_empty() {
        String::new()
    } else {
        format!(" Its recorded state {demands}.")
    };
    format!("If it were deleted now, {would}.{why}")
}

/// When the requirement of the Pod ends, and what follows then.
fn falls_back(fallback: &Fallback) -> String {
    let after = fallback.after;
    let not_before = fallback.not_before.and_then(written).map_or_else(
        || format!("after {after} s"),
        |time| format!("not before {time}"),
    );
    let but = format!("Its requirement ends {not_before} (fallbackAfterSeconds: {after}), but");
    match &fallback.prospect {
        Prospect::GivesUp { labels, node } => {
            let node = node.as_ref().map(|node| format!("node {node}"));
            let labels = labels
                .iter()
                .map(|label| format!("{}={}", label.key, label.value));
            let given_up: Vec<String> = labels.chain(node).collect();
            format!(
                "It falls back {not_before} (fallbackAfterSeconds: {after}), if no node there can \
                 take it until then: it gives up {}.",
                given_up.join(" and ")
            )
        }
        Prospect::CreatedAgain => {
            "Its place was given up already: the sidecar evicts it soon.".to_owned()
        }
        Prospect::Kept(refusal) => match refusal {
            Refusal::HomeTakesIt { node } => format!("{but} {node} could take it where it was."),
            Refusal::NoNodeCouldTake => {
                format!("{but} no other node could take it, either, so it keeps its place.")
            }
            Refusal::PinnedByVolume { claim } => {
                format!("{but} the volume of PersistentVolumeClaim {claim} pins it.")
            }
            Refusal::NotJudged(caveat) => {
                format!("{but} it keeps its place, since it is not known: {caveat}.")
            }
            Refusal::TooManyNodes => {
                format!("{but} it keeps its place: too many nodes are in question.")
            }
            Refusal::TemplateUnknown => {
                format!("{but} the template from which it was made is not known.")
            }
            Refusal::Unchanged => format!("{but} a new Pod would require the same."),
        },
    }
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
