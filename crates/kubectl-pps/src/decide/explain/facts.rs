//! What concerns a Pod, in sentences.

use pps_check::facts::Read;
use pps_core::plan::{Preference, Requirement};
use pps_core::pps::NodeDeletionPolicy;
use pps_core::{PodState, RECORD_ANNOTATION};
use serde_json::Value;

use super::Question;
use super::subject::{Subject, words};
use crate::decide::template;
use crate::snapshot::{FoundBy, Index};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// All sentences, the most important first.
pub(super) fn of(question: &Question, index: &Index, subject: &Subject) -> Vec<String> {
    let mut facts = Vec::new();
    facts.extend(forgotten(question, subject));
    facts.push(governing(index, subject));
    facts.extend(recorded(question, subject));
    facts.extend(injected(subject));
    facts.extend(annotations(subject));
    facts.extend(changed(subject));
    facts.extend(unfinished(subject));
    facts.extend(former_template(subject));
    facts.extend(own_rules(subject));
    facts.extend(condition(subject));
    facts
}

/// What is missing if a Pod waits for a node that is forgotten when it is gone.
fn forgotten(question: &Question, subject: &Subject) -> Option<String> {
    let keeps = subject.spec.as_ref()?.node_deletion() == NodeDeletionPolicy::Keep;
    let required = subject.required();
    let waits = subject.pod.node().is_none() && !required.is_empty();
    if keeps || !waits || question.snapshot.has_node(required)? {
        return None;
    }
    let soon =
        if subject.recorded().is_some() { " once its node has been gone for some minutes" } else { "" };
    Some(format!(
        "nodeDeletionPolicy: Forget drops what is recorded{soon}, and the Pod keeps what was injected before. The sidecar then evicts \
         it only if it runs with --evict-pending-pods (chart: sidecar.evictPendingPods); otherwise delete it."
    ))
}

/// Which PersistentPodState governs the workload, and how the policy finds it.
fn governing(index: &Index, subject: &Subject) -> String {
    let Some(owner) = &subject.owner else {
        return "No PersistentPodState concerns it: it has no controller, so nothing creates it again."
            .into();
    };
    let kind_and_name = format!("{} {}", owner.kind, owner.name);
    let Read::Known(pps) = subject.pps else {
        return if subject.pps == Read::Unknown {
            format!("Whether a PersistentPodState governs {kind_and_name} is not known.")
        } else if owner.has_stable_names() {
            format!("No PersistentPodState governs {kind_and_name}, so the Pod is not recorded.")
        } else {
            format!("No PersistentPodState concerns it: the Pods of {kind_and_name} get new names each time.")
        };
    };
    let name = pps.name();
    let how = match index.found_by(owner, pps) {
        FoundBy::OwnName if name == owner.name => String::new(),
        FoundBy::OwnName => ", by its name".into(),
        FoundBy::SecondName => ", by the workload's second name".into(),
        FoundBy::Alias(alias) => format!(", which the policy finds by the alias {alias}"),
        FoundBy::Nothing(alias) => {
            format!(", but the policy does not find it and injects nothing: there is no alias {alias}")
        }
    };
    format!("PersistentPodState {name} governs {kind_and_name}{how}.")
}

/// What is recorded under the Pod's name, and in which form.
fn recorded(question: &Question, subject: &Subject) -> Option<String> {
    let pps = subject.pps.known()?;
    let state = match &subject.state {
        Err(damaged) => return Some(format!("What is recorded cannot be read: {damaged}.")),
        Ok(_) => subject.recorded(),
    };
    let Some(state) = state else {
        let nothing = "Nothing is recorded of the Pod";
        return Some(if subject.has_changed() {
            format!("{nothing} now: a Pod that is created now is not kept on any node.")
        } else if subject.pod.is_ready() {
            format!("{nothing}.")
        } else {
            format!("{nothing}; it is recorded when it is Ready.")
        });
    };
    let gone =
        if question.snapshot.lacks_node(&state.node_name) { ", which does not exist any more" } else { "" };
    let is_plain = pps.object()["status"]["podStates"][subject.pod.name()].is_object();
    let form = if is_plain { "status.podStates" } else { "status.packed" };
    Some(format!("Recorded in {form}: {}.", place(state, gone)))
}

/// `on node-1; zone=a`, with what is said of the node.
pub(super) fn place(state: &PodState, of_node: &str) -> String {
    let node = (!state.node_name.is_empty()).then(|| format!("on {}{of_node}", state.node_name));
    let values = state.node_topology_labels.iter().chain(&state.annotations);
    let values = values.map(|(key, value)| format!("{key}={value}"));
    node.into_iter().chain(values).collect::<Vec<_>>().join("; ")
}

/// What the policy has injected, and when.
fn injected(subject: &Subject) -> Option<String> {
    let when = match subject.pod.created() {
        "" => "when the Pod was created".to_owned(),
        created => format!("when the Pod was created, {created}"),
    };
    let Some(injected) = &subject.injected else {
        subject.pps.known()?;
        return Some(format!(
            "Nothing was injected {when}: nothing was recorded then, or the policy was not asked."
        ));
    };
    let parts = demands(&injected.required, &injected.preferred);
    let what = match (parts.is_empty(), &subject.spec) {
        (true, Some(_)) => "no label of a node".to_owned(),
        (true, None) => "which values is not known".to_owned(),
        (false, _) => parts.join("; "),
    };
    let foreign = subject.pps.known().is_none_or(|pps| pps.name() != injected.pps);
    let from = if foreign { format!(" from PersistentPodState {}", injected.pps) } else { String::new() };
    Some(format!("Injected{from} {when}: {what}."))
}

/// The recorded annotations that the Pod has now. A network plugin may have written them, so it is not said who did.
fn annotations(subject: &Subject) -> Option<String> {
    let injected = subject.injected.as_ref().filter(|injected| !injected.annotations.is_empty())?;
    let all: Vec<String> = injected.annotations.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let annotations = if all.len() == 1 { "annotation" } else { "annotations" };
    Some(format!("The Pod has the recorded {annotations} now: {}.", all.join("; ")))
}

/// What is required and preferred of a node, each in words.
pub(super) fn demands(required: &[Requirement], preferred: &[Preference]) -> Vec<String> {
    let required = (!required.is_empty()).then(|| format!("requires {}", words(required)));
    required.into_iter().chain(preferred.iter().map(preference)).collect()
}

/// `prefers zone=a (weight 100)`
pub(super) fn preference(preference: &Preference) -> String {
    format!("prefers {} (weight {})", words(&preference.requirements), preference.weight)
}

/// Whether a Pod that were created now would get something else.
fn changed(subject: &Subject) -> Option<String> {
    if !subject.has_changed() || subject.recorded().is_none() {
        return None;
    }
    let now: Vec<Requirement> = subject.plan().map(|plan| plan.required).unwrap_or_default();
    let now = if now.is_empty() { "no label of a node".to_owned() } else { words(&now) };
    Some(format!("That has changed since: a Pod that is created now would require {now}."))
}

/// Whether it is exempt from recording, by a move that was interrupted or by a user.
fn unfinished(subject: &Subject) -> Option<String> {
    let what = if subject.pod.is_marked() { "A move of this Pod is not finished, and the" } else { "The" };
    subject.pod.is_exempt().then(|| {
        format!("{what} sidecar does not record the Pod (annotation {RECORD_ANNOTATION}: \"false\").")
    })
}

/// Whether its controller would make it from another template now.
fn former_template(subject: &Subject) -> Option<String> {
    let (owner, workload) = (subject.owner.as_ref()?, subject.workload.filter(|_| subject.is_former())?);
    let (own, newest) = (template::revision(subject.pod)?, template::newest_revision(workload)?);
    Some(format!(
        "It was made from another template than {} {} has now: its revision is {own}, and that of the template {newest}.",
        owner.kind, owner.name
    ))
}

/// What the Pod asks for itself.
fn own_rules(subject: &Subject) -> Option<String> {
    let before = subject.before();
    let spec = &before["spec"];
    let mut rules: Vec<String> = Vec::new();
    let selector = spec["nodeSelector"].as_object().into_iter().flatten();
    rules.extend(
        selector.map(|(key, value)| format!("nodeSelector {key}={}", value.as_str().unwrap_or_default())),
    );
    let is_set = |value: &Value| match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => fields.values().any(|value| !value.is_null()),
        _ => false,
    };
    let affinity = &spec["affinity"];
    for (field, name) in [
        ("nodeAffinity", "required node affinity"),
        ("podAffinity", "required Pod affinity"),
        ("podAntiAffinity", "required Pod anti-affinity"),
    ] {
        if is_set(&affinity[field][REQUIRED]) {
            rules.push(name.to_owned());
        }
    }
    if is_set(&spec["topologySpreadConstraints"]) {
        rules.push("topology spread constraints".to_owned());
    }
    // A former template is not at hand, nor one that was not read: what the Pod asks for may have been injected.
    let is_unread = subject.workload.is_none() && subject.injected.is_some();
    let whose = if subject.is_former() || is_unread { "The Pod" } else { "Its own template" };
    (!rules.is_empty()).then(|| format!("{whose} also asks for: {}.", rules.join(", ")))
}

/// What the condition of the PersistentPodState says, unless that is True.
fn condition(subject: &Subject) -> Option<String> {
    let pps = subject.pps.known()?;
    // The first line has it.
    if subject.unrecorded().is_some() {
        return None;
    }
    match pps.recording() {
        Some((true, ..)) => None,
        Some((false, reason, message)) => {
            Some(format!("PersistentPodState {} has a problem: {reason}: {message}.", pps.name()))
        }
        None => Some(format!("No sidecar has looked at PersistentPodState {} yet.", pps.name())),
    }
}
