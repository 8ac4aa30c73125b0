//! Write: what the sidecar writes, apart from the Lease, while it may. Decides nothing about what is
//! recorded, only how it is written safely.

pub(crate) mod events;
mod failure;
pub(crate) mod fallback;
mod reads;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::core::ObjectMeta;
use kube::{Client, Resource};
use pps_api::{Accept, AnswerLimit, Guard, Write, path};
use pps_core::status::{compact_patch, guarded_patch};
use pps_recorder::fallback::Successors;
use pps_recorder::generate;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

pub(crate) use self::failure::Failure;
use self::fallback::{FallbackFailure, FallbackResult};
use crate::lead::Permit;
use pps_recorder::facts::{NamespacedName, PpsFact, PpsObject, WorkloadKey};
use pps_recorder::{FallbackCandidate, GeneratedPps, PodEviction, StatusWrite, WriteForm};

/// In bytes. etcd takes objects of 1.5 MiB by default, which are six times as many bytes in JSON at
/// most.
const LARGEST_ANSWER: usize = 16 << 20;

/// Of a write, or of a read that one depends on.
const LIMIT: AnswerLimit = AnswerLimit {
    within: Duration::from_secs(30),
    bytes: LARGEST_ANSWER,
};

/// How many reads run at once, of all writes together. Each has its answer in memory.
const READS_AT_ONCE: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Unconfirmed {
    pub(crate) held: BTreeSet<Arc<str>>,
    /// Why some of them could not be checked.
    pub(crate) failure: Option<Failure>,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    Status {
        write: StatusWrite,
        /// The new resource version.
        result: Result<String, Failure>,
    },
    /// Of a status write with the compact form: the API server has stored the rest only.
    StoredWithoutCompactForm {
        write: StatusWrite,
        resource_version: String,
    },
    /// Of a status write with the compact form, which the API server would not store. It was not
    /// sent.
    CompactFormRefused { write: StatusWrite, reason: String },
    LossUnconfirmed {
        write: StatusWrite,
        unconfirmed: Unconfirmed,
    },
    /// Of a read of a PPS after conflicts.
    PpsRead {
        key: NamespacedName,
        /// The version that was known before.
        known_version: String,
        /// The object, if it exists.
        result: Result<Option<Box<PpsFact>>, Failure>,
    },
    Generated {
        workload: WorkloadKey,
        write: GeneratedPps,
        result: Result<ApplyResult, Failure>,
    },
    Eviction {
        eviction: PodEviction,
        result: Result<(), Failure>,
    },
    NodeLookup {
        node: Arc<str>,
        exists: Result<bool, Failure>,
    },
    Fallback {
        candidate: Box<FallbackCandidate>,
        result: Result<FallbackResult, FallbackFailure>,
    },
}

impl Outcome {
    /// The object whose status was to be written.
    pub(crate) fn object(&self) -> Option<&NamespacedName> {
        match self {
            Self::Status { write, .. }
            | Self::StoredWithoutCompactForm { write, .. }
            | Self::CompactFormRefused { write, .. }
            | Self::LossUnconfirmed { write, .. } => Some(&write.key),
            _ => None,
        }
    }

    fn stored_without_compact_form(write: StatusWrite, stored: &StoredPps) -> Self {
        Self::StoredWithoutCompactForm {
            write,
            resource_version: stored.version(),
        }
    }

    fn compact_form_refused(write: StatusWrite, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::CompactFormRefused { write, reason }
    }

    fn not_written(write: StatusWrite, failure: Failure) -> Self {
        Self::Status {
            write,
            result: Err(failure),
        }
    }
}

/// How much of a generated PPS the API server has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplyResult {
    Complete,
    /// Everything except `valueFrom`, which OpenKruise's definition does not have.
    WithoutSources,
    /// Everything except `fallbackAfterSeconds`, and perhaps `valueFrom`, which OpenKruise's
    /// definition does not have.
    WithoutFallback,
}

/// Writes with this client while the permit is valid.
#[derive(Clone)]
pub(crate) struct Writer {
    client: Client,
    /// Bounds the reads before writes, of all writes together.
    reads: Arc<Semaphore>,
    /// The Pods that fall back now, of all writers of this term.
    successors: Arc<Mutex<Successors>>,
    /// The label selector of the namespaces in scope; empty if all are.
    pub(crate) namespace_selector: Arc<str>,
    /// Checked immediately before each write and at each step of it.
    pub(crate) permit: Permit,
}

impl Writer {
    pub(crate) fn new(client: Client, permit: Permit) -> Self {
        let reads = Arc::new(Semaphore::new(READS_AT_ONCE));
        Self {
            client,
            reads,
            successors: Arc::default(),
            namespace_selector: Arc::default(),
            permit,
        }
    }

    pub(crate) async fn write_status(self, write: StatusWrite) -> Outcome {
        let patch = match write.form {
            WriteForm::MoveToCompact => return self.write_compact_form(write).await,
            WriteForm::StayCompact => &compact_patch(&write.patch),
            WriteForm::StayPlain | WriteForm::MoveToPlain => &write.patch,
        };
        let result = self.send(status_patch(&write, patch)).await;
        written(write, result)
    }

    /// Moves the states of an object into the compact form. A definition that does not have it
    /// prunes it, and only the API server knows its present definition. So the compact form is
    /// first written beside `podStates`, which are removed once the API server has answered that it
    /// has both, and only where it still has both.
    async fn write_compact_form(self, write: StatusWrite) -> Outcome {
        let mut beside = write.patch.clone();
        beside["status"]
            .as_object_mut()
            .map(|status| status.remove("podStates"));
        let patch = status_patch(&write, &beside).answered_with(Accept::Object);
        let stored = match self.send::<StoredPps>(patch).await {
            Ok(stored) => stored,
            // Both forms together are too large.
            Err(Failure::TooLarge(_)) => return self.replace_with_compact_form(write).await,
            Err(Failure::Refused(reason)) => {
                return Outcome::compact_form_refused(write, reason);
            }
            Err(failure) => return Outcome::not_written(write, failure),
        };
        if !stored.has_compact_form_of(&write.patch) {
            return Outcome::stored_without_compact_form(write, &stored);
        }
        if stored.has_only_compact_form() {
            return written(write, Ok(stored));
        }
        let removal = Map::from_iter([("podStates".to_owned(), Value::Null)]);
        let removal = compact_patch(&guarded_patch(&write.uid, &stored.version(), &removal));
        let result = self.send(status_patch(&write, &removal)).await;
        written(write, result)
    }

    /// Moves the states of an object that is too large to have both forms. The API server is asked
    /// first what it would store, and then what it has stored.
    async fn replace_with_compact_form(self, write: StatusWrite) -> Outcome {
        let patch = status_patch(&write, &write.patch).answered_with(Accept::Object);
        match self.send::<StoredPps>(patch.clone().as_dry_run()).await {
            Ok(stored)
                if stored.has_compact_form_of(&write.patch) && stored.has_only_compact_form() => {}
            Ok(_) => {
                return Outcome::compact_form_refused(write, "the dry run returned other states");
            }
            // A webhook may refuse dry runs.
            Err(Failure::Refused(reason)) => {
                return Outcome::compact_form_refused(write, reason);
            }
            Err(failure) => return Outcome::not_written(write, failure),
        }
        match self.send::<StoredPps>(patch).await {
            Ok(stored) if !stored.has_compact_form_of(&write.patch) => {
                Outcome::stored_without_compact_form(write, &stored)
            }
            result => written(write, result),
        }
    }

    pub(crate) async fn write_generated_pps(
        self,
        workload: WorkloadKey,
        generated: GeneratedPps,
    ) -> Outcome {
        let result = match &generated {
            GeneratedPps::Create { key, body, .. } => {
                let kind = PpsObject::url_path(&(), Some(&key.namespace));
                self.apply(Write::create(kind, body), body).await
            }
            GeneratedPps::Update { key, patch, .. } => {
                self.apply(Write::patch(pps_path(key), patch), patch).await
            }
            GeneratedPps::Delete {
                key,
                uid,
                resource_version,
                ..
            } => {
                let guard = Guard {
                    uid,
                    resource_version,
                };
                let deleted = self.send(Write::delete(pps_path(key), guard)).await;
                match deleted.map(|_: IgnoredAny| ()) {
                    Err(Failure::NotFound) | Ok(()) => Ok(ApplyResult::Complete),
                    Err(failure) => Err(failure),
                }
            }
        };
        Outcome::Generated {
            workload,
            write: generated,
            result,
        }
    }

    /// Evicts a Pod, unless it was replaced or has changed: it may have been bound to a node.
    /// Before that it asks for what no watch has shown. A disruption budget does not protect a
    /// Pending Pod.
    pub(crate) async fn evict(self, eviction: PodEviction) -> Outcome {
        let pod = &eviction.pod;
        let guard = Guard {
            uid: &eviction.uid,
            resource_version: &eviction.resource_version,
        };
        let write = Write::evict(&pod.namespace, &pod.name, guard);
        let result = match self.expect_unschedulable(&eviction).await {
            Ok(()) => self.send(write).await.map(|_: IgnoredAny| ()),
            Err(failure) => Err(failure),
        };
        Outcome::Eviction { eviction, result }
    }

    /// Creates or changes a generated PPS. Says how much of what was sent is stored.
    async fn apply(&self, write: Write, sent: &Value) -> Result<ApplyResult, Failure> {
        let stored = self.send(write.managed_by(generate::FIELD_MANAGER)).await;
        stored.map(|stored| apply_result(sent, &stored))
    }

    /// Sends a write, and gives up when this process no longer leads.
    async fn send<T: DeserializeOwned>(&self, write: Write) -> Result<T, Failure> {
        let answer = write.send(&self.client, LIMIT);
        match self.permit.run_while_valid(answer).await {
            Some(answer) => answer.map_err(Failure::from),
            None => Err(Failure::NotLeading),
        }
    }
}

fn pps_path(key: &NamespacedName) -> String {
    path::<PpsObject>(Some(&key.namespace), &key.name)
}

/// A patch of a status: a list is a JSON patch, anything else a merge patch. Asks for metadata only,
/// unless the caller needs the object.
fn status_patch(write: &StatusWrite, patch: &Value) -> Write {
    Write::patch(format!("{}/status", pps_path(&write.key)), patch)
        .managed_by(generate::FIELD_MANAGER)
        .answered_with(Accept::Metadata)
}

fn written(write: StatusWrite, result: Result<StoredPps, Failure>) -> Outcome {
    Outcome::Status {
        write,
        result: result.map(|stored| stored.version()),
    }
}

#[derive(Deserialize)]
struct StoredPps {
    metadata: ObjectMeta,
    #[serde(default)]
    status: Value,
}

impl StoredPps {
    fn version(&self) -> String {
        self.metadata.resource_version.clone().unwrap_or_default()
    }

    fn has_compact_form_of(&self, patch: &Value) -> bool {
        self.status["packed"] == patch["status"]["packed"]
    }

    fn has_only_compact_form(&self) -> bool {
        let states = &self.status["podStates"];
        states.is_null() || states.as_object().is_some_and(Map::is_empty)
    }
}

/// Compares what was sent with what the API server has stored: it drops fields that the definition
/// lacks.
fn apply_result(sent: &Value, stored: &Value) -> ApplyResult {
    let has_source = |object: &Value| {
        let annotations = object["spec"]["persistentPodAnnotations"].as_array();
        annotations
            .into_iter()
            .flatten()
            .any(|annotation| annotation["valueFrom"].is_string())
    };
    let has_fallback = |object: &Value| {
        !object["spec"]["requiredPersistentTopology"]["fallbackAfterSeconds"].is_null()
    };
    if has_fallback(sent) && !has_fallback(stored) {
        ApplyResult::WithoutFallback
    } else if has_source(sent) && !has_source(stored) {
        ApplyResult::WithoutSources
    } else {
        ApplyResult::Complete
    }
}
