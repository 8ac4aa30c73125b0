//! Pods that wait for a place which they require until an end: how long they have waited, whose
//! turn it is, and what came of it.

use std::time::Instant;

use pps_core::pps::short;
use pps_recorder::FallbackCandidate;
use pps_recorder::fallback::Refusal;
use pps_recorder::place::RecordedLabel;
use tracing::{debug, info, warn};

use super::Worker;
use super::actions::{Action, Task};
use crate::telemetry::metrics::count;
use crate::write::Failure;
use crate::write::fallback::{FallbackFailure, FallbackResult};
use pps_recorder::facts::NamespacedName;

/// After so many refusals it is worth a word that a Pod waits although it should soon find its home.
pub(super) const REFUSALS_THAT_LAST: u32 = 3;

impl Worker {
    /// Counts how long Pods have waited for their places, and begins to judge those whose turn it
    /// is.
    pub(super) fn follow_fallbacks(&mut self, now: Instant) {
        let candidates = if self.term.is_leader() {
            self.recorder.fallback_candidates()
        } else {
            Vec::new()
        };
        if !self.evicts_pending_pods {
            for candidate in &candidates {
                self.report_blocked(candidate, "start the sidecar with --evict-pending-pods");
            }
            return;
        }
        let sees = self.term.is_leader() && self.health.problem().is_none();
        self.agenda.fallbacks.follow(candidates, sees, now);
        while sees
            && self.stopping.is_none()
            && self.requests.has_room()
            && let Some(candidate) = self.next_fallback(now)
        {
            let action = Action::FallBack(Box::new(candidate));
            self.send(Task {
                action,
                is_retry: false,
            });
        }
    }

    fn next_fallback(&mut self, now: Instant) -> Option<FallbackCandidate> {
        let recorder = &self.recorder;
        let is_ready = |pod: &NamespacedName| recorder.is_ready(pod);
        self.agenda.fallbacks.take_due(is_ready, now)
    }

    pub(super) fn on_fallback(
        &mut self,
        candidate: &FallbackCandidate,
        result: Result<FallbackResult, FallbackFailure>,
    ) {
        let now = Instant::now();
        let label = match &result {
            Ok(result) => label(result),
            Err(FallbackFailure::Forbidden { .. }) => "forbidden",
            Err(_) => "error",
        };
        count(&self.metrics.fallbacks, [("result", label)]);
        let mut retry_after = None;
        match result {
            Ok(FallbackResult::GaveUp(labels)) => {
                self.agenda.fallbacks.on_given_up(candidate);
                let message = gave_up(candidate, &labels);
                return self.recorder.on_fell_back(candidate, message);
            }
            Ok(FallbackResult::Evicted) => {
                self.agenda.fallbacks.on_given_up(candidate);
                let message = format!(
                    "evicted Pod {}, which required a place that is no longer recorded; its \
                     controller re-creates it",
                    candidate.pod.name
                );
                return self.recorder.on_evicted_again(candidate, message);
            }
            Ok(FallbackResult::Bound) => {
                info!(pod = %candidate.pod, "the Pod got a node while its place was given up");
                self.recorder.on_fallback_needless(candidate);
            }
            Ok(FallbackResult::Kept(refusal)) => self.on_place_kept(candidate, &refusal),
            Err(FallbackFailure::Forbidden { what }) => {
                let advice = format!("grant the sidecar {}", right(what));
                self.report_blocked(candidate, &advice);
            }
            Err(FallbackFailure::NotWritten(failure)) => {
                retry_after = failure.retry_after();
                self.on_place_unread(candidate, &failure);
            }
            // The state may have been written: as long as nobody knows, no other Pod follows.
            Err(FallbackFailure::Unknown(error)) => {
                warn!(pod = %candidate.pod, %error, "a place may have been given up");
                return self.agenda.fallbacks.on_given_up(candidate);
            }
        }
        self.agenda.fallbacks.on_kept(candidate, retry_after, now);
    }

    fn on_place_kept(&mut self, candidate: &FallbackCandidate, refusal: &Refusal) {
        debug!(pod = %candidate.pod, ?refusal, "a Pod keeps its place");
        let lasting = Some(refusal).filter(|_| self.is_kept_again_and_again(candidate));
        match obstacle(refusal).or_else(|| lasting.and_then(lasting_obstacle)) {
            Some(advice) => self.report_blocked(candidate, &advice),
            None => self.recorder.on_fallback_needless(candidate),
        }
    }

    fn on_place_unread(&mut self, candidate: &FallbackCandidate, failure: &Failure) {
        if failure.is_expected() {
            // Usually the Pod or its workload has just changed.
            if self.is_kept_again_and_again(candidate) {
                let advice = "see that the controller of the workload works: the Pod or its \
                              workload has changed at each judgement, or the controller has not \
                              observed the workload's last change";
                self.report_blocked(candidate, advice);
            }
            return;
        }
        warn!(
            pod = %candidate.pod,
            error = %failure,
            "cannot judge whether a Pod gives up its place; retrying",
        );
        self.report_blocked(candidate, &format!("correct this: {failure}"));
    }

    fn is_kept_again_and_again(&self, candidate: &FallbackCandidate) -> bool {
        self.agenda.fallbacks.refusals(candidate) >= REFUSALS_THAT_LAST
    }

    /// Reports that a Pod keeps its place, and what to do.
    fn report_blocked(&mut self, candidate: &FallbackCandidate, advice: &str) {
        let pod = &candidate.pod.name;
        let advice = format!(
            "{advice}; until then Pod {pod} waits for its recorded place, whatever \
             fallbackAfterSeconds says"
        );
        self.recorder.on_fallback_blocked(candidate, advice);
    }
}

fn label(result: &FallbackResult) -> &'static str {
    match result {
        FallbackResult::GaveUp(_) => "gave_up",
        FallbackResult::Evicted => "evicted",
        FallbackResult::Bound => "bound",
        FallbackResult::Kept(refusal) => match refusal {
            Refusal::HomeTakesIt { .. } => "home",
            Refusal::NoNodeCouldTake => "no_node",
            Refusal::PinnedByVolume { .. } => "pinned",
            Refusal::NotJudged(_) | Refusal::TooManyNodes | Refusal::TemplateUnknown => {
                "not_judged"
            }
            Refusal::Unchanged => "unchanged",
        },
    }
}

fn right(what: &str) -> String {
    match what {
        "pods" | "nodes" => format!("list on {what} of all namespaces (component read-volumes)"),
        _ => format!("get on {what} (component read-volumes)"),
    }
}

fn gave_up(candidate: &FallbackCandidate, labels: &[RecordedLabel]) -> String {
    let node = Some(candidate.state.node_name.as_str()).filter(|node| !node.is_empty());
    let node = node.map(|node| format!("node {node}"));
    let labels = labels
        .iter()
        .map(|label| format!("{}={}", short(&label.key), label.value));
    let given_up: Vec<String> = labels.chain(node).collect();
    format!(
        "Pod {} gave up {} after {} s, in which no node there could take it; its next place is \
         recorded when it is Ready",
        candidate.pod.name,
        given_up.join(" and "),
        candidate.wait.as_secs()
    )
}

/// What keeps a Pod in its place although it has waited for long enough; nothing if the scheduler
/// will find its home.
fn obstacle(refusal: &Refusal) -> Option<String> {
    Some(match refusal {
        Refusal::HomeTakesIt { .. } | Refusal::Unchanged => return None,
        Refusal::NoNodeCouldTake => {
            "add or free a node: no other node could take the Pod, either, without evicting others"
                .to_owned()
        }
        Refusal::PinnedByVolume { claim } => format!(
            "restore the node of the volume, or delete PersistentVolumeClaim {claim} if its data \
             is not needed: the volume pins the Pod"
        ),
        Refusal::NotJudged(caveat) => format!("move the Pod yourself: {}", not_judged(caveat)),
        Refusal::TemplateUnknown => {
            "move the Pod yourself: the template from which it was made is \
             not known, so neither is what of its affinity was injected"
                .to_owned()
        }
        Refusal::TooManyNodes => {
            "move the Pod yourself: too many nodes are in question to be read".to_owned()
        }
    })
}

/// The same, if it has been so again and again: the scheduler does not find its home.
fn lasting_obstacle(refusal: &Refusal) -> Option<String> {
    match refusal {
        Refusal::HomeTakesIt { node } => Some(format!(
            "see in the Pod's events why the scheduler does not use node {node}, which could take \
             it as far as that is judged, or move the Pod yourself"
        )),
        _ => None,
    }
}

fn not_judged(caveat: &pps_scheduler::Caveat) -> String {
    use pps_scheduler::Caveat;
    match caveat {
        Caveat::OtherScheduler => "it has another scheduler, which is not simulated".to_owned(),
        Caveat::Volumes => "it has a volume of a type that is not simulated".to_owned(),
        Caveat::Claim(claim) => {
            format!("PersistentVolumeClaim {claim} is not bound, or its volume is not known")
        }
        Caveat::PodAffinityFields => "its Pod affinity is not simulated".to_owned(),
        Caveat::AntiAffinityOfOthers => "the anti-affinity of a Pod that runs may keep it away, \
                                         by labels of namespaces, which are not read"
            .to_owned(),
        Caveat::Field(field) => format!("its {field} is not simulated"),
        Caveat::VolumeLimits | Caveat::Preemption => "it is not simulated".to_owned(),
    }
}
