//! Fallbacks: reads all that a judgement rests on from the API server, has it judged, takes the
//! given-up values out of the recorded state, and evicts the Pod.
//!
//! The state is written first. A Pod that cannot be evicted then is still unbound and requires what
//! is no longer recorded, which any later leader sees; or it got a node in that moment, and its
//! state is written back.

mod reads;

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use pps_api::{Accept, Guard, Write, describe_json};
use pps_core::edit::{Edit, set_state};
use pps_core::packed::recorded_state;
use pps_core::{PodState, Spec};
use pps_recorder::FallbackCandidate;
use pps_recorder::facts::interest::Interest;
use pps_recorder::facts::{NamespacedName, PodFact, PpsObject};
use pps_recorder::fallback::{
    Case, Judgement, Refusal, Successor, Successors, question, slim_node,
};
use pps_recorder::generate::FIELD_MANAGER;
use pps_recorder::kinds::Resource;
use pps_recorder::place::RecordedLabel;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::time::timeout;

use super::{Failure, Outcome, StoredPps, Writer, pps_path};
use crate::observe::objects;

/// How long all reads of a judgement may take: what was read first gets old.
const JUDGEMENT_TIMEOUT: Duration = Duration::from_mins(1);
/// How often a state is written back: Pods of the same PPS may be recorded at the same time.
const RESTORE_ATTEMPTS: u32 = 5;

/// What became of a Pod that has waited for its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FallbackResult {
    /// These values are no longer recorded, beside the node.
    GaveUp(Vec<RecordedLabel>),
    /// The Pod required what is no longer recorded. It was evicted.
    Evicted,
    /// The Pod got a node in the moment in which its place was given up. Its state is as before,
    /// unless somebody has changed it.
    Bound,
    Kept(Refusal),
}

#[derive(Debug)]
pub(crate) enum FallbackFailure {
    /// Nothing was written. `what` cannot be read without a right.
    Forbidden { what: &'static str },
    /// Nothing was written.
    NotWritten(Failure),
    /// Nobody knows whether the place was given up.
    Unknown(Failure),
}

impl FallbackFailure {
    fn into_cause(self) -> Failure {
        match self {
            Self::Forbidden { what } => other(format!("{what} cannot be read without a right")),
            Self::NotWritten(failure) | Self::Unknown(failure) => failure,
        }
    }
}

impl From<Failure> for FallbackFailure {
    fn from(failure: Failure) -> Self {
        Self::NotWritten(failure)
    }
}

/// A judgement, and what it rests on.
struct Judged {
    judgement: Judgement,
    case: Case,
}

/// What is given up of a place, and why that may be.
struct Decision {
    case: Case,
    given_up: Vec<RecordedLabel>,
    kept: PodState,
    successor: Successor,
}

/// The objects of a candidate, as they were read last.
struct Subject {
    pps: Value,
    spec: Spec,
    pod: Value,
}

impl Writer {
    /// Gives up as much of a Pod's recorded place as no node can serve, if another node can take
    /// the Pod. Everything is read again before.
    pub(crate) async fn fall_back(
        self,
        candidate: Box<FallbackCandidate>,
        resource: Option<Resource>,
    ) -> Outcome {
        let result = self.try_to_fall_back(&candidate, resource).await;
        Outcome::Fallback { candidate, result }
    }

    async fn try_to_fall_back(
        &self,
        candidate: &FallbackCandidate,
        resource: Option<Resource>,
    ) -> Result<FallbackResult, FallbackFailure> {
        let judged = timeout(JUDGEMENT_TIMEOUT, self.judge(candidate, resource)).await;
        let Judged { judgement, case } = judged.unwrap_or_else(|_| {
            let message = format!(
                "the reads about Pod {} took more than {} s",
                candidate.pod,
                JUDGEMENT_TIMEOUT.as_secs()
            );
            Err(FallbackFailure::NotWritten(other(message)))
        })?;
        match judgement {
            Judgement::GiveUp {
                given_up,
                kept,
                successor,
            } => {
                let decision = Decision {
                    case,
                    given_up: given_up.labels.into_iter().collect(),
                    kept,
                    successor,
                };
                self.decide_again(candidate, decision).await
            }
            Judgement::CreateAgain => {
                let subject = self.read_subject(candidate).await?;
                self.evict_waiting(candidate, &subject.pod).await?;
                Ok(FallbackResult::Evicted)
            }
            Judgement::Refused(refusal) => Ok(FallbackResult::Kept(refusal)),
            // The judgement asks for no node twice.
            Judgement::Read(_) => Ok(FallbackResult::Kept(Refusal::TooManyNodes)),
        }
    }

    /// Gives the place up, if that is still right: the reads may have taken long, in which a node
    /// may have come back, and others may have been promised the same room.
    async fn decide_again(
        &self,
        candidate: &FallbackCandidate,
        mut decision: Decision,
    ) -> Result<FallbackResult, FallbackFailure> {
        let mut nodes = Vec::new();
        self.each(&self.all_nodes(), |node| nodes.push(slim_node(node)))
            .await?;
        decision.case.set_nodes(nodes);
        decision
            .case
            .set_successors(self.successors().current(Instant::now()));
        match decision.case.judge() {
            Judgement::GiveUp {
                kept, successor, ..
            } if kept == decision.kept => decision.successor = successor,
            Judgement::Refused(refusal) => return Ok(FallbackResult::Kept(refusal)),
            _ => return Err(Failure::Conflict.into()),
        }
        // Without a pause since the judgement, so that no other one comes between.
        let successor = decision.successor.clone();
        self.successors().add(successor, Instant::now());
        let result = self.give_up(candidate, &decision).await;
        let is_created_again = matches!(
            result,
            Ok(FallbackResult::GaveUp(_)) | Err(FallbackFailure::Unknown(_))
        );
        if !is_created_again {
            self.successors().remove(&decision.successor);
        }
        result
    }

    fn successors(&self) -> MutexGuard<'_, Successors> {
        let successors = self.successors.lock();
        successors.unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the state without what is given up, and evicts the Pod.
    async fn give_up(
        &self,
        candidate: &FallbackCandidate,
        decision: &Decision,
    ) -> Result<FallbackResult, FallbackFailure> {
        let Decision { given_up, kept, .. } = decision;
        let given_up = given_up.clone();
        let subject = self.read_subject(candidate).await?;
        if subject.spec != decision.case.spec {
            return Err(Failure::Conflict.into());
        }
        self.check_eviction(candidate, &subject.pod).await?;
        if let Some(edit) = edit(&subject.pps, candidate, kept)? {
            self.write_state(candidate, &edit).await?;
        }
        let Err(failure) = self.evict_waiting(candidate, &subject.pod).await else {
            return Ok(FallbackResult::GaveUp(given_up));
        };
        // The state is written. What is not evicted now, a later turn evicts.
        let pod = self.current_pod(&candidate.pod).await;
        let pod = pod.map_err(FallbackFailure::Unknown)?;
        let same = pod.filter(|pod| pod["metadata"]["uid"] == *candidate.uid);
        match same {
            Some(pod) if pod["spec"]["nodeName"].is_string() => {
                self.restore(candidate, kept).await?;
                Ok(FallbackResult::Bound)
            }
            // Its user has exempted it, for example: then its state stays.
            Some(pod) if !waits(&pod, &subject.spec, candidate) => {
                self.restore(candidate, kept).await?;
                Err(Failure::Conflict.into())
            }
            _ if matches!(failure, Failure::Conflict | Failure::NotFound) => {
                Ok(FallbackResult::GaveUp(given_up))
            }
            _ => Err(FallbackFailure::Unknown(failure)),
        }
    }

    /// Writes the former state back, if nobody has changed it since. The Pod is recorded when it is
    /// Ready in any case; until then its place must not get lost. After a failure nobody knows
    /// which of the states is stored.
    async fn restore(
        &self,
        candidate: &FallbackCandidate,
        kept: &PodState,
    ) -> Result<(), FallbackFailure> {
        let mut restored = self.try_to_restore(candidate, kept).await;
        for _ in 1..RESTORE_ATTEMPTS {
            if !matches!(
                restored,
                Err(FallbackFailure::NotWritten(Failure::Conflict))
            ) {
                break;
            }
            restored = self.try_to_restore(candidate, kept).await;
        }
        restored.map_err(|failure| FallbackFailure::Unknown(failure.into_cause()))
    }

    async fn try_to_restore(
        &self,
        candidate: &FallbackCandidate,
        kept: &PodState,
    ) -> Result<(), FallbackFailure> {
        let Some(pps) = self.current_object(candidate).await? else {
            return Ok(());
        };
        let state = recorded_state(&pps["status"], &candidate.pod.name)
            .map_err(|damaged| Failure::Unreadable(damaged.to_string()))?;
        if state.as_ref() == Some(kept)
            && let Some(edit) = edit(&pps, candidate, &candidate.state)?
        {
            self.write_state(candidate, &edit).await?;
        }
        Ok(())
    }

    async fn write_state(
        &self,
        candidate: &FallbackCandidate,
        edit: &Edit,
    ) -> Result<(), FallbackFailure> {
        let path = format!("{}/status", pps_path(&candidate.pps));
        let write = Write::patch(path, &edit.body)
            .managed_by(FIELD_MANAGER)
            .answered_with(Accept::Metadata);
        match self.send::<StoredPps>(write).await {
            Ok(_) => Ok(()),
            Err(
                failure @ (Failure::Conflict
                | Failure::NotFound
                | Failure::Refused(_)
                | Failure::TooLarge(_)),
            ) => Err(FallbackFailure::NotWritten(failure)),
            Err(failure) => Err(FallbackFailure::Unknown(failure)),
        }
    }

    /// Evicts a Pod that waits, if it is unchanged since it was read.
    async fn evict_waiting(
        &self,
        candidate: &FallbackCandidate,
        pod: &Value,
    ) -> Result<(), Failure> {
        let eviction = eviction(candidate, pod);
        self.send(eviction).await.map(|_: IgnoredAny| ())
    }

    /// Asks the API server whether it would evict a Pod: a place is not given up for a Pod that
    /// must not be evicted, or that is no longer the same.
    async fn check_eviction(
        &self,
        candidate: &FallbackCandidate,
        pod: &Value,
    ) -> Result<(), Failure> {
        let eviction = eviction(candidate, pod).as_dry_run();
        self.send(eviction).await.map(|_: IgnoredAny| ())
    }

    /// The PPS and the Pod, if both are still those of the candidate, and in the scope.
    async fn read_subject(&self, candidate: &FallbackCandidate) -> Result<Subject, Failure> {
        self.expect_in_scope(&candidate.pod.namespace).await?;
        let pps = self.current_object(candidate).await?;
        let pps = pps.ok_or(Failure::Conflict)?;
        let spec: Spec = serde_json::from_value(pps["spec"].clone())
            .map_err(|error| Failure::Unreadable(describe_json(&error)))?;
        let state = recorded_state(&pps["status"], &candidate.pod.name)
            .map_err(|damaged| Failure::Unreadable(damaged.to_string()))?;
        let target = candidate.workload.target();
        // Whoever has given the Pod more time meanwhile wants it to wait.
        let is_over = spec
            .fallback_after_seconds()
            .is_some_and(|seconds| Duration::from_secs(seconds.into()) <= candidate.wait);
        let is_bounded = is_over && spec.unknown_field().is_none();
        if pps["metadata"]["uid"] != *candidate.pps_uid
            || !pps["metadata"]["deletionTimestamp"].is_null()
            || !spec.target_ref.is_same_workload(&target)
            || !is_bounded
            || state.as_ref() != Some(&candidate.state)
        {
            return Err(Failure::Conflict);
        }
        let pod = self.current_pod(&candidate.pod).await?;
        let pod = pod.ok_or(Failure::NotFound)?;
        if !waits(&pod, &spec, candidate) {
            return Err(Failure::Conflict);
        }
        Ok(Subject { pps, spec, pod })
    }

    async fn current_object(
        &self,
        candidate: &FallbackCandidate,
    ) -> Result<Option<Value>, Failure> {
        let namespace = &candidate.pps.namespace;
        let source = self.source::<PpsObject>(&(), namespace);
        self.read_object("PersistentPodState", source, &candidate.pps.name)
            .await
    }

    async fn current_pod(&self, pod: &NamespacedName) -> Result<Option<Value>, Failure> {
        let source = self.source::<Pod>(&(), &pod.namespace);
        self.read_object("Pod", source, &pod.name).await
    }
}

/// Whether a Pod still waits for what the candidate waited for.
fn waits(pod: &Value, spec: &Spec, candidate: &FallbackCandidate) -> bool {
    let read = objects::read_pod(&pod.to_string(), &Interest::default());
    let Some(fact) = read.ok().and_then(|item| item.fact) else {
        return false;
    };
    let PodFact {
        node: None,
        terminating: false,
        exempt: false,
        pending: Some(pending),
        ..
    } = fact
    else {
        return false;
    };
    pending.uid == candidate.uid
        && pending.is_unschedulable
        && *pending.pps == *candidate.pps.name
        && question(spec, &candidate.state, &pending.required_affinity) == Some(candidate.question)
}

fn eviction(candidate: &FallbackCandidate, pod: &Value) -> Write {
    let version = pod["metadata"]["resourceVersion"].as_str();
    let guard = Guard {
        uid: &candidate.uid,
        resource_version: version.unwrap_or_default(),
    };
    let NamespacedName { namespace, name } = &candidate.pod;
    Write::evict(namespace, name, guard)
}

fn edit(
    pps: &Value,
    candidate: &FallbackCandidate,
    state: &PodState,
) -> Result<Option<Edit>, Failure> {
    // An empty entry, not none: the Pod may run before this process knows.
    set_state(pps, &candidate.pod.name, Some(state))
        .map_err(|error| Failure::Unreadable(error.to_string()))
}

fn other(message: String) -> Failure {
    Failure::Other {
        message,
        retry_after: Duration::ZERO,
    }
}
