//! Write: what the sidecar writes, apart from the Lease, while it may. Decides nothing.

pub(crate) mod events;
mod failure;
mod reads;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::{Client, Resource};
use pps_api::{Accept, AnswerLimit, Guard, Write, get, path};
use pps_core::status::{compact_patch, guarded_patch};
use pps_recorder::generate;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

pub(crate) use self::failure::Failure;
use crate::lead::Permit;
use pps_recorder::facts::{NamespacedName, PpsFact, PpsObject, StoredForm, WorkloadKey};
use pps_recorder::{GeneratedPps, PodEviction, StatusWrite};

/// Of a write, or of a read that one depends on. etcd takes objects of 1.5 MiB by default, which
/// are six times as many bytes in JSON at most.
const LIMIT: AnswerLimit = AnswerLimit {
    within: Duration::from_secs(30),
    bytes: 16 << 20,
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
    /// Of a status write with the compact form, which the API server does not store.
    CompactFormDropped {
        write: StatusWrite,
        /// The new resource version, if the API server has stored the rest; else why not.
        stored: Result<String, String>,
    },
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
}

impl Outcome {
    /// The object whose status was to be written.
    pub(crate) fn object(&self) -> Option<&NamespacedName> {
        match self {
            Self::Status { write, .. }
            | Self::CompactFormDropped { write, .. }
            | Self::LossUnconfirmed { write, .. } => Some(&write.key),
            _ => None,
        }
    }

    fn compact_form_dropped(write: StatusWrite, stored: Result<String, String>) -> Self {
        Self::CompactFormDropped { write, stored }
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
}

/// Writes with this client while the permit is valid.
#[derive(Clone)]
pub(crate) struct Writer {
    client: Client,
    /// Bounds the reads before writes, of all writes together.
    reads: Arc<Semaphore>,
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
            namespace_selector: Arc::default(),
            permit,
        }
    }

    pub(crate) async fn write_status(self, write: StatusWrite) -> Outcome {
        if write.moves_to == Some(StoredForm::Compact) {
            return self.write_compact_form(write).await;
        }
        let patch = if write.keeps_compact_form {
            &compact_patch(&write.patch)
        } else {
            &write.patch
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
                return Outcome::compact_form_dropped(write, Err(reason));
            }
            Err(failure) => return Outcome::not_written(write, failure),
        };
        if !stored.has_compact_form_of(&write.patch) {
            return Outcome::compact_form_dropped(write, Ok(stored.version()));
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
                return Outcome::compact_form_dropped(write, Err("it would be changed".into()));
            }
            // A webhook may refuse every request that only asks.
            Err(Failure::Refused(reason)) => {
                return Outcome::compact_form_dropped(write, Err(reason));
            }
            Err(failure) => return Outcome::not_written(write, failure),
        }
        match self.send::<StoredPps>(patch).await {
            Ok(stored) if !stored.has_compact_form_of(&write.patch) => {
                Outcome::compact_form_dropped(write, Ok(stored.version()))
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

    /// Reads from etcd, not from a cache, whether a node exists. Only an unambiguous `NotFound`
    /// counts: a proxy may also answer 404.
    pub(crate) async fn look_up_node(self, node: Arc<str>) -> Outcome {
        // The semaphore is never closed.
        let _turn = self.reads.acquire().await.ok();
        let path = path::<Node>(None, &node);
        let answer = get(&self.client, &path, Accept::Metadata, LIMIT).await;
        let exists = match answer.map(|_: PartialObjectMeta<Node>| ()) {
            Err(failure) if failure.is_not_found("nodes", &node) => Ok(false),
            answer => answer.map(|()| true).map_err(Failure::from),
        };
        Outcome::NodeLookup { node, exists }
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

/// A patch of a status: a list is a JSON patch, anything else a merge patch. Without need, no whole
/// object is returned.
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
    if has_source(sent) && !has_source(stored) {
        ApplyResult::WithoutSources
    } else {
        ApplyResult::Complete
    }
}
