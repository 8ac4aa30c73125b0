//! A Pod that does not exist.

use pps_check::is_own_webhook;
use serde_json::Value;

use super::{Cause, Explanation, Question, Remedy, RemedyKind, Verdict};
use crate::decide::subject::Subject;
use crate::snapshot::{Index, Pod, Workload};

/// Characters of a refusal that an answer repeats.
const MAX_MESSAGE: usize = 500;

pub(super) fn absent<'a>(
    question: &Question<'a>,
    index: &Index,
    subject: Subject<'a>,
) -> Explanation<'a> {
    let cause = match subject.workload {
        Some(workload) if workload.wants(question.pod) => not_created(question, index, workload),
        Some(_) => Cause::NotWanted,
        // Workloads of other kinds are never read.
        None => Cause::NoWorkload {
            is_known: subject
                .owner
                .as_ref()
                .is_some_and(|owner| question.snapshot.has_all_like(owner)),
        },
    };
    let kinds = match &cause {
        Cause::WaitsFor(pod) => vec![RemedyKind::ExplainOther { pod: pod.clone() }],
        Cause::Refused(message) if is_by_policy(message) => {
            vec![RemedyKind::Check, RemedyKind::DisableInjection]
        }
        cause if cause.verdict() == Verdict::NotWanted && subject.recorded().is_some() => {
            vec![RemedyKind::Forget]
        }
        _ => Vec::new(),
    };
    Explanation {
        remedies: kinds.into_iter().map(Remedy::new).collect(),
        ..Explanation::new(subject, cause)
    }
}

/// Why a Pod does not exist that its workload wants.
fn not_created(question: &Question, index: &Index, workload: &Workload) -> Cause {
    let Question {
        namespace,
        pod,
        events,
        ..
    } = question;
    if let Some(blocker) = blocker(index, workload, namespace, pod) {
        return Cause::WaitsFor(blocker);
    }
    match refusal(events, pod) {
        Some(message) => Cause::Refused(message),
        None => Cause::NotCreated,
    }
}

/// The Pod for which an ordered workload waits before it creates this one.
fn blocker(index: &Index<'_>, workload: &Workload, namespace: &str, pod: &str) -> Option<String> {
    if workload.object()["spec"]["podManagementPolicy"] == "Parallel" {
        return None;
    }
    let is_up = |pod: &Pod| pod.is_ready() && !pod.is_terminating();
    workload
        .wanted()
        .take_while(|before| before != pod)
        .find(|before| !index.pod(namespace, before).is_some_and(is_up))
}

/// Why the controller cannot create a Pod, by the newest Event about that; none if it has created
/// the Pod.
fn refusal(events: &Value, pod: &str) -> Option<String> {
    let newest = events["items"]
        .as_array()?
        .iter()
        .map(CreationEvent)
        .filter(|event| event.is_about(pod))
        .max_by_key(|event| (event.time(), !event.is_failure()))?;
    newest
        .is_failure()
        .then(|| newest.message().chars().take(MAX_MESSAGE).collect())
}

/// An Event of a controller that creates Pods.
struct CreationEvent<'a>(&'a Value);

impl<'a> CreationEvent<'a> {
    fn message(&self) -> &'a str {
        self.0["message"].as_str().unwrap_or_default()
    }

    fn is_failure(&self) -> bool {
        self.0["reason"] == "FailedCreate"
    }

    fn is_about(&self, pod: &str) -> bool {
        // The Event about a created claim names the Pod as well.
        let verb = if self.is_failure() { "" } else { "create " };
        self.message().contains(&format!("{verb}Pod {pod} in "))
    }

    /// When it happened last, in RFC 3339.
    fn time(&self) -> &'a str {
        let times = [
            &self.0["series"]["lastObservedTime"],
            &self.0["lastTimestamp"],
            &self.0["eventTime"],
        ];
        let times = times.into_iter().filter_map(Value::as_str);
        times.max().unwrap_or_default()
    }
}

/// Whether the policy denies a request, or its webhook cannot be called: the API server writes
/// which webhook it was.
fn is_by_policy(message: &str) -> bool {
    let webhook = message
        .split_once("webhook \"")
        .and_then(|(_, rest)| rest.split('"').next());
    webhook.is_some_and(is_own_webhook)
}
