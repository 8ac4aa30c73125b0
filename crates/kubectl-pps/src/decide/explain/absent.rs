//! A Pod that does not exist.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use pps_check::rules::{INJECTION, is_own_webhook};
use pps_core::demand::{Demand, Naming, Wanted};
use pps_core::workload::ordinal;
use pps_core::{AnnotationRules, PodState, plan};

use super::facts::{demands, place};
use super::{Explanation, Question, Remedy, Verdict};
use crate::decide::names::list;
use crate::decide::unread::{require, require_workloads};
use crate::snapshot::{Index, Pps, Snapshot, Workload, WorkloadKey};

/// How many Pods before this one are looked at.
const MAX_BEFORE: u64 = 10_000;
/// How many characters of a refusal are repeated.
const MAX_MESSAGE: usize = 500;

/// The workload that wants a Pod of this name.
pub fn wanting<'a>(snapshot: &'a Snapshot, namespace: &str, pod: &str) -> Option<&'a Workload> {
    let of_this_name =
        |workload: &&Workload| workload.namespace() == namespace && ordinal(workload.name(), pod).is_some();
    snapshot.workloads.iter().filter(of_this_name).max_by_key(|workload| wants(workload, pod))
}

fn wants(workload: &Workload, pod: &str) -> bool {
    let demand = Demand::read(&workload.object()["spec"], &Naming::StatefulSet);
    !workload.is_terminating() && demand.wants(workload.name(), pod, 0) == Wanted::Yes
}

/// Why it does not exist; none if nothing knows it.
pub(super) fn explain(question: &Question, index: &Index) -> Option<Explanation> {
    let Question { snapshot, namespace, pod, hand, .. } = question;
    if require(snapshot, "pods").is_err() {
        return None;
    }
    let workload = wanting(snapshot, namespace, pod);
    let key = workload.map(|workload| WorkloadKey::of(namespace, &workload.target()));
    let governing = key.as_ref().and_then(|key| index.governing(key));
    let holding = governing.or_else(|| recording(index, namespace, pod));
    let mut explanation = match workload {
        Some(workload) if wants(workload, pod) => wanted(question, index, workload),
        Some(workload) => {
            let text = format!(
                "{pod} does not exist, and StatefulSet {} does not want it (replicas: {}).",
                workload.name(),
                workload.replicas()
            );
            Explanation::new(question, Verdict::NotWanted, text)
        }
        None => {
            let pps = holding?;
            let (verdict, what) = match require_workloads(snapshot) {
                Ok(()) => (Verdict::NotWanted, "no workload that was read wants it"),
                Err(_) => (Verdict::Unknown, "whether a workload wants it is not known"),
            };
            let text = format!("{pod} does not exist, and {what}.");
            let mut explanation = Explanation::new(question, verdict, text);
            let target = pps.target();
            explanation.facts.push(format!(
                "PersistentPodState {} has a state of it, for {} {}.",
                pps.name(),
                target.kind,
                target.name
            ));
            explanation
        }
    };
    let recorded = holding.and_then(|pps| Some((pps, recorded(pps, pod)?)));
    if let Some((pps, recorded)) = recorded {
        explanation.facts.push(recorded);
        explanation.facts.extend(brought_back(pps, pod));
        if explanation.verdict == Verdict::NotWanted {
            let command = hand.pps(&format!("forget {pod}"), namespace);
            explanation.facts.push(format!("{command} drops what is recorded."));
        }
    }
    Some(explanation)
}

/// What a Pod of this name that is created later gets back of what is recorded: what the policy would inject.
fn brought_back(pps: &Pps, pod: &str) -> Option<String> {
    let (spec, state) = (pps.spec().ok()?, pps.state(pod).ok()??);
    let plan = plan(pps.name(), &spec, &state, &AnnotationRules::default());
    let mut parts = demands(&plan.required, &plan.preferred);
    if !plan.annotations.is_empty() {
        let all: Vec<String> = plan.annotations.iter().map(|(key, value)| format!("{key}={value}")).collect();
        parts.push(format!("gets {}", all.join(" and ")));
    }
    let name = pps.name();
    let mut text = if parts.is_empty() {
        format!(
            "Nothing of that is injected into a Pod of this name that is created later: PersistentPodState {name} names none of it now."
        )
    } else {
        format!("A Pod of this name that is created later {}.", parts.join("; "))
    };
    let unrecorded: BTreeSet<&str> =
        spec.required_keys().filter(|key| !state.node_topology_labels.contains_key(*key)).collect();
    if !unrecorded.is_empty() {
        let unrecorded: Vec<String> = unrecorded.into_iter().map(str::to_owned).collect();
        let freely = if plan.required.is_empty() { ", so the Pod is not kept on any node" } else { "" };
        let _ = write!(text, " {} is required and not recorded{freely}.", list(&unrecorded, "and"));
    }
    Some(text)
}

/// The PersistentPodState that has a state of this Pod.
fn recording<'a>(index: &Index<'a>, namespace: &str, pod: &str) -> Option<&'a Pps> {
    let of_namespace = index.targeted().filter(|(key, _)| key.namespace == namespace);
    of_namespace.filter_map(|(_, all)| all.first().copied()).find(|pps| matches!(pps.state(pod), Ok(Some(_))))
}

fn recorded(pps: &Pps, pod: &str) -> Option<String> {
    match pps.state(pod) {
        Err(damaged) => Some(format!("What is recorded cannot be read: {damaged}.")),
        Ok(None) => None,
        Ok(Some(state)) if state == PodState::default() => None,
        Ok(Some(state)) => Some(format!("Recorded: {}.", place(&state, ""))),
    }
}

fn wanted(question: &Question, index: &Index, workload: &Workload) -> Explanation {
    let Question { namespace, pod, hand, refusals, .. } = question;
    let name = workload.name();
    let mentions = |message: &&String| {
        message.split(|c: char| c.is_whitespace() || "\"',:".contains(c)).any(|word| word == *pod)
    };
    if let Some(blocker) = blocker(index, workload, namespace, pod) {
        let text = format!(
            "{pod} is not created yet: StatefulSet {name} creates one Pod after the other, and {blocker} is not Ready."
        );
        let mut explanation = Explanation::new(question, Verdict::NotCreated, text);
        explanation.facts.push("podManagementPolicy is OrderedReady.".into());
        let command = hand.pps(&format!("explain {blocker}"), namespace);
        explanation
            .remedies
            .push(Remedy::new(format!("Find out what {blocker} waits for")).with_command(command));
        return explanation;
    }
    if let Some(message) = refusals.and_then(|all| all.iter().find(mentions)) {
        let text = format!("{pod} does not exist: its creation is refused.");
        let mut explanation = Explanation::new(question, Verdict::Refused, text);
        let message: String = message.chars().take(MAX_MESSAGE).collect();
        explanation.facts.push(format!("The controller of StatefulSet {name} reports: {message}"));
        // The API server says so whether the webhook denies a request or cannot be called.
        let webhook = message.split_once("webhook \"").and_then(|(_, rest)| rest.split('"').next());
        if webhook.is_some_and(is_own_webhook) {
            explanation.remedies = of_policy(question);
        } else if message.contains("webhook") {
            explanation.facts.push(format!("{} says what is wrong with the installation.", hand.check()));
        }
        return explanation;
    }
    let text = format!("{pod} does not exist, although StatefulSet {name} wants it.");
    let mut explanation = Explanation::new(question, Verdict::NotCreated, text);
    let command = hand.kubectl_in(&format!("describe statefulset {name}"), namespace);
    explanation.facts.push(match refusals {
        Some(_) => {
            format!("No Event says why. The controller may be about to create it; if this lasts: {command}")
        }
        None => format!("Events could not be read; {command} may show why."),
    });
    explanation
}

/// What helps if the policy refuses a Pod, or is not reached: its message says why.
fn of_policy(question: &Question) -> Vec<Remedy> {
    let label = |value: &str| {
        let words = format!("label namespace {} {INJECTION}={value} --overwrite", question.namespace);
        question.hand.kubectl(&words)
    };
    let consequence = format!(
        "They start anywhere, away from the data on their nodes, and a sidecar that runs may record them there. The controller waits \
         longer after each refusal. The way back: {}",
        label("enabled")
    );
    let meanwhile =
        "If that takes too long, let the Pods of the namespace start without their recorded states";
    vec![
        Remedy::new("Find the cause, and repair it").with_command(question.hand.check()),
        Remedy::new(meanwhile).with_command(label("disabled")).with_consequence(consequence),
    ]
}

/// The Pod for which an ordered workload waits before it creates this one.
pub fn blocker(index: &Index<'_>, workload: &Workload, namespace: &str, pod: &str) -> Option<String> {
    let spec = &workload.object()["spec"];
    let name = workload.name();
    let last = ordinal(name, pod)?;
    if spec["podManagementPolicy"] == "Parallel" {
        return None;
    }
    let start = spec["ordinals"]["start"].as_u64().unwrap_or_default();
    let before = (start..last)
        .take(usize::try_from(MAX_BEFORE).unwrap_or_default())
        .map(|ordinal| format!("{name}-{ordinal}"));
    let is_unready = |pod: &String| !index.pod(namespace, pod).is_some_and(crate::snapshot::Pod::is_ready);
    before.filter(|pod| wants(workload, pod)).find(is_unready)
}
