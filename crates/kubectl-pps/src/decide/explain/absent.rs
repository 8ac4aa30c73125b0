//! A Pod that does not exist.

use pps_check::is_own_webhook;
use pps_core::pps::GROUP;
use pps_core::{AnnotationRules, PodState, Spec, plan};
use pps_recorder::demand::{Demand, Naming, Wanted};
use pps_recorder::workload::ordinal;

use super::facts::{Fact, Refuser};
use super::remedies::{Remedy, RemedyKind};
use super::{Cause, Explanation, Question, Verdict};
use crate::snapshot::{Index, Pod, Pps, Resource, Snapshot, Workload, WorkloadKey};

/// How many Pods before this one are looked at.
const MAX_BEFORE: usize = 10_000;
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
    let Question { snapshot, namespace, pod, .. } = question;
    if snapshot.require(Resource::Pods).is_err() {
        return None;
    }
    let workload = wanting(snapshot, namespace, pod);
    let key = workload.map(|workload| WorkloadKey::of(namespace, &workload.target()));
    let holding =
        key.as_ref().and_then(|key| index.governing(key)).or_else(|| recording(index, namespace, pod));
    let mut explanation = match workload {
        Some(workload) if wants(workload, pod) => wanted(question, index, workload),
        Some(workload) => {
            let (workload, replicas) = (workload.name().to_owned(), workload.replicas());
            Explanation::new(question, Verdict::NotWanted, Cause::NotWanted { workload, replicas })
        }
        None => {
            let pps = holding?;
            // Workloads of other kinds are not read at all.
            let target = pps.target();
            let group = target.api_version.split_once('/').map_or("", |(group, _)| group);
            let is_read = target.kind == "StatefulSet" && ["apps", GROUP].contains(&group);
            let is_known = is_read && snapshot.require_workloads().is_ok();
            let verdict = if is_known { Verdict::NotWanted } else { Verdict::Unknown };
            let pps = pps.name().to_owned();
            Explanation::new(question, verdict, Cause::NoWorkload { pps, is_known })
        }
    };
    let Some(pps) = holding else { return Some(explanation) };
    match pps.state(pod) {
        Err(damaged) => explanation.facts.push(Fact::RecordDamaged(damaged)),
        Ok(Some(state)) if state != PodState::default() => {
            let would_require = |spec: Spec| {
                let required = plan(pps.name(), &spec, &state, &AnnotationRules::default()).required;
                Fact::WouldRequire { required, has_changed: false }
            };
            let would_require = pps.spec().ok().map(would_require);
            explanation.facts.push(Fact::Recorded { state, is_gone: false, form: None });
            explanation.facts.extend(would_require);
            if explanation.verdict == Verdict::NotWanted {
                explanation.remedies.push(Remedy::new(RemedyKind::Forget));
            }
        }
        Ok(_) => {}
    }
    Some(explanation)
}

/// The PersistentPodState that has a state of this Pod.
fn recording<'a>(index: &Index<'a>, namespace: &str, pod: &str) -> Option<&'a Pps> {
    let governing = index.targeted_in(namespace).filter_map(|(_, all)| all.first().copied());
    governing.into_iter().find(|pps| matches!(pps.state(pod), Ok(Some(_))))
}

fn wanted(question: &Question, index: &Index, workload: &Workload) -> Explanation {
    let Question { namespace, pod, refusals, .. } = question;
    let name = workload.name().to_owned();
    if let Some(blocker) = blocker(index, workload, namespace, pod) {
        let remedy = Remedy::new(RemedyKind::ExplainOther { pod: blocker.clone() });
        let cause = Cause::WaitsFor { workload: name, pod: blocker };
        let explanation = Explanation::new(question, Verdict::NotCreated, cause);
        return Explanation { remedies: vec![remedy], ..explanation };
    }
    let mentions = |message: &&String| {
        message.split(|c: char| c.is_whitespace() || "\"',:".contains(c)).any(|word| word == *pod)
    };
    let Some(message) = refusals.and_then(|all| all.iter().find(mentions)) else {
        let fact = Fact::NoEvent { workload: name.clone(), are_events_read: refusals.is_some() };
        let explanation =
            Explanation::new(question, Verdict::NotCreated, Cause::NotCreated { workload: name });
        return Explanation { facts: vec![fact], ..explanation };
    };
    // The API server, which wrote it, says so whether the webhook denies a request or cannot be called.
    let webhook = message.split_once("webhook \"").and_then(|(_, rest)| rest.split('"').next());
    let by = match webhook {
        Some(webhook) if is_own_webhook(webhook) => Refuser::Policy,
        Some(_) => Refuser::OtherWebhook,
        None => Refuser::Other,
    };
    let mut explanation = Explanation::new(question, Verdict::Refused, Cause::Refused);
    if by == Refuser::Policy {
        explanation.remedies = [RemedyKind::Check, RemedyKind::DisableInjection].map(Remedy::new).into();
    }
    let message = message.chars().take(MAX_MESSAGE).collect();
    explanation.facts.push(Fact::Refusal { workload: name, message, by });
    explanation
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
    let before = (start..last).take(MAX_BEFORE).map(|ordinal| format!("{name}-{ordinal}"));
    let is_unready = |pod: &String| !index.pod(namespace, pod).is_some_and(Pod::is_ready);
    before.filter(|pod| wants(workload, pod)).find(is_unready)
}
