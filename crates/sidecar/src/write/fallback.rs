//! Fallbacks: reads all that a judgement rests on from the API server, has it judged, takes the
//! given-up values out of the recorded state, and evicts the Pod.
//!
//! The state is written first. A Pod that cannot be evicted then is still unbound and requires what
//! is no longer recorded, which any later leader sees; or it got a node in that moment, and its
//! state is written back.

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::core::DynamicObject;
use pps_api::{Accept, Class, Guard, Source, Write, describe_json, get, path};
use pps_core::edit::{Edit, set_state};
use pps_core::packed::recorded_state;
use pps_core::succession::is_unobserved;
use pps_core::{PodState, Spec};
use pps_recorder::FallbackCandidate;
use pps_recorder::facts::interest::Interest;
use pps_recorder::facts::{GroupKind, NamespacedName, PodFact};
use pps_recorder::fallback::{
    Case, Judgement, Refusal, Successor, Successors, question, slim_node,
};
use pps_recorder::generate::FIELD_MANAGER;
use pps_recorder::kinds::Resource;
use pps_recorder::place::RecordedLabel;
use pps_scheduler::Volumes;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::reads::OBJECTS_PER_PAGE;
use super::{Failure, LIMIT, Outcome, StoredPps, Writer, pps_path};
use crate::observe::objects;
use crate::observe::watch::api_resource;
use pps_recorder::facts::PpsObject;

/// How long all reads of a judgement may take: what was read first gets old.
const JUDGEMENT_TIMEOUT: Duration = Duration::from_mins(1);
/// How many claims of a Pod are read. A node takes far fewer volumes.
const MAX_CLAIMS: usize = 128;
/// How often a state is written back: Pods of the same PPS may be recorded at the same time.
const RESTORE_ATTEMPTS: u32 = 5;
/// How many Pods of the Pod's namespace are read.
const MAX_PODS: usize = 20_000;

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
            Judgement::GiveUp { kept, .. } if kept == decision.kept => {}
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

    async fn judge(
        &self,
        candidate: &FallbackCandidate,
        resource: Option<Resource>,
    ) -> Result<Judged, FallbackFailure> {
        let namespace = &candidate.pod.namespace;
        let Subject { spec, pod, .. } = self.read_subject(candidate).await?;
        let state = candidate.state.clone();
        let name = &candidate.pps.name;
        let mut case = Case::new(candidate.question, name, spec, state, pod);
        case.workload = Some(self.workload_object(candidate, resource).await?);
        case.volumes = self.volumes(&case, namespace).await?;
        self.each(&self.all_nodes(), |node| case.add_node(node))
            .await?;
        let mut pods = 0_usize;
        self.each(&self.pods_in(namespace), |pod| {
            pods += 1;
            if pods <= MAX_PODS {
                case.add_pod(pod);
            }
        })
        .await?;
        if pods > MAX_PODS {
            let message = format!("namespace {namespace} has more than {MAX_PODS} Pods");
            return Err(Failure::Unreadable(message).into());
        }
        loop {
            case.set_successors(self.successors().current(Instant::now()));
            // The Lease is renewed on this thread, too.
            yield_now().await;
            let judgement = case.judge();
            let nodes = match &judgement {
                Judgement::Read(nodes) if !nodes.is_empty() => nodes,
                _ => return Ok(Judged { judgement, case }),
            };
            for node in nodes {
                let mut on = Vec::new();
                self.each(&self.pods_on(node), |pod| {
                    on.push(pps_recorder::fallback::slim_pod(pod));
                })
                .await?;
                case.set_pods(node, &on);
            }
        }
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

    async fn workload_object(
        &self,
        candidate: &FallbackCandidate,
        resource: Option<Resource>,
    ) -> Result<Value, Failure> {
        let WorkloadObject { kind, source } =
            if candidate.workload.kind == GroupKind::stateful_set() {
                WorkloadObject {
                    kind: "StatefulSet".to_owned(),
                    source: self.source::<StatefulSet>(&(), &candidate.pod.namespace),
                }
            } else {
                let resource = resource.ok_or(Failure::Conflict)?;
                let api = api_resource(resource);
                WorkloadObject {
                    source: self
                        .source::<DynamicObject>(&api, &candidate.pod.namespace)
                        .with_any_list_kind(),
                    kind: api.kind,
                }
            };
        let name = &candidate.workload.object.name;
        let found = self.read_object(&kind, source, name).await?;
        found
            .filter(|workload| workload["metadata"]["deletionTimestamp"].is_null())
            // Which revision a Pod has is not known before the controller has seen the template.
            .filter(|workload| {
                workload["status"]["observedGeneration"].is_null() || !is_unobserved(workload)
            })
            .ok_or(Failure::Conflict)
    }

    /// The claims of a Pod, and the volumes that they are bound to.
    async fn volumes(&self, case: &Case, namespace: &str) -> Result<Volumes, FallbackFailure> {
        let mut volumes = Volumes::default();
        let claims = case.claims();
        if claims.len() > MAX_CLAIMS {
            let message = format!("the Pod has more than {MAX_CLAIMS} claims");
            return Err(Failure::Unreadable(message).into());
        }
        for claim in claims {
            let claim_path = path::<PersistentVolumeClaim>(Some(namespace), &claim);
            let Some(mut object) = self.get("persistentvolumeclaims", &claim_path).await? else {
                continue;
            };
            object["kind"] = "PersistentVolumeClaim".into();
            volumes.add(&object);
            let Some(volume) = object["spec"]["volumeName"].as_str() else {
                continue;
            };
            let volume_path = path::<PersistentVolume>(None, volume);
            if let Some(mut volume) = self.get("persistentvolumes", &volume_path).await? {
                volume["kind"] = "PersistentVolume".into();
                volumes.add(&volume);
            }
        }
        Ok(volumes)
    }

    /// Gets one object; none if there is none. The Pod is not judged then, so that it does not
    /// matter who says so.
    async fn get(&self, what: &'static str, path: &str) -> Result<Option<Value>, FallbackFailure> {
        // The semaphore is never closed.
        let _turn = self.reads.acquire().await.ok();
        let answer = get(&self.client, path, Accept::Object, LIMIT).await;
        match answer {
            Ok(object) => Ok(Some(object)),
            Err(failure) => match failure.class() {
                Some(Class::NotFound) => Ok(None),
                Some(Class::Forbidden) => Err(FallbackFailure::Forbidden { what }),
                _ => Err(Failure::of_read(&what, &failure).into()),
            },
        }
    }

    fn all_nodes(&self) -> Listed {
        Listed {
            what: "nodes",
            source: Source::new::<Node>(self.client.clone(), &(), None, OBJECTS_PER_PAGE),
        }
    }

    fn pods_in(&self, namespace: &str) -> Listed {
        Listed {
            what: "pods",
            source: self.source::<Pod>(&(), namespace),
        }
    }

    fn pods_on(&self, node: &str) -> Listed {
        let source = Source::new::<Pod>(self.client.clone(), &(), None, OBJECTS_PER_PAGE);
        Listed {
            what: "pods",
            source: source.with_field("spec.nodeName", node),
        }
    }

    /// Takes each object of a list. Fails unless the list is complete.
    async fn each(
        &self,
        listed: &Listed,
        mut take: impl FnMut(&Value),
    ) -> Result<(), FallbackFailure> {
        let mut size = listed.source.page_size();
        let mut token = None;
        loop {
            let page = self
                .page(&listed.source, token.clone(), size.objects())
                .await;
            let (body, _turn) = match page {
                Err(pps_api::Failure::TooLarge(_)) if size.shrink() => continue,
                Err(failure) if failure.class() == Some(Class::Forbidden) => {
                    return Err(FallbackFailure::Forbidden { what: listed.what });
                }
                Err(failure) => return Err(Failure::of_read(&listed.what, &failure).into()),
                Ok(page) => page,
            };
            size.arrived(body.size());
            let page = body
                .read()
                .map_err(|failure| Failure::of_read(&listed.what, &failure))?;
            for object in page.items {
                let object = serde_json::from_str(object.get())
                    .map_err(|error| Failure::Unreadable(describe_json(&error)))?;
                take(&object);
            }
            token = page.continue_token;
            if token.is_none() {
                return Ok(());
            }
        }
    }
}

struct Listed {
    what: &'static str,
    source: Source,
}

struct WorkloadObject {
    kind: String,
    source: Source,
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
