//! Write: the only place that writes to the API server, apart from the Lease. Decides nothing.

pub(crate) mod events;
mod failure;
mod reads;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::client::Body;
use kube::core::{ObjectMeta, Request, Status, request};
use kube::{Api, Client};
use pps_core::status::{compact_patch, guarded_patch};
use pps_recorder::generate;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

pub(crate) use self::failure::Failure;
use crate::lead::Permit;
use crate::observe::client::bounded;
use pps_recorder::decide::{GeneratedPps, PodEviction, index::StatusWrite};
use pps_recorder::facts::{NamespacedName, PpsFact, PpsObject, StoredForm, WorkloadKey};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
/// What a patch is answered with. Without need, no write returns a whole object.
const OBJECT: &str = "application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// How many reads run at once, of all writes together. Each has its answer in memory.
const READS_AT_ONCE: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Unconfirmed {
    pub(crate) held: BTreeSet<Arc<str>>,
    /// Why some of them could not be checked.
    pub(crate) failure: Option<Failure>,
}

#[derive(Debug)]
pub(crate) enum WriteResult {
    /// Of a status write: the new resource version.
    Status(StatusWrite, Result<String, Failure>),
    /// Of a status write with the compact form, which the API server does not store: the new
    /// resource version, if it has stored the rest; else why not.
    CompactFormDropped(StatusWrite, Result<String, String>),
    LossUnconfirmed(StatusWrite, Unconfirmed),
    /// Of a read of a PPS after conflicts: the version that was known before, and the object, if it
    /// exists.
    PpsRead(
        NamespacedName,
        String,
        Result<Option<Box<PpsFact>>, Failure>,
    ),
    Generated(WorkloadKey, GeneratedPps, Result<ApplyResult, Failure>),
    Eviction(PodEviction, Result<(), Failure>),
    /// Of a read: whether a node exists, on which a later write depends.
    NodeLookup(Arc<str>, Result<bool, Failure>),
}

impl WriteResult {
    pub(crate) fn object(&self) -> Option<&NamespacedName> {
        match self {
            Self::Status(write, _)
            | Self::CompactFormDropped(write, _)
            | Self::LossUnconfirmed(write, _) => Some(&write.key),
            _ => None,
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

    pub(crate) async fn write_status(self, write: StatusWrite) -> WriteResult {
        if write.moves_to == Some(StoredForm::Compact) {
            return self.write_compact_form(write).await;
        }
        let patch = if write.keeps_compact_form {
            &compact_patch(&write.patch)
        } else {
            &write.patch
        };
        let result = self.patch_status(&write, patch, METADATA, false).await;
        written(write, result)
    }

    /// Moves the states of an object into the compact form. A definition that does not have it
    /// prunes it, and only the API server knows its present definition. So the compact form is
    /// first written beside `podStates`, which are removed once the API server has answered that it
    /// has both, and only where it still has both.
    async fn write_compact_form(self, write: StatusWrite) -> WriteResult {
        let mut beside = write.patch.clone();
        beside["status"]
            .as_object_mut()
            .map(|status| status.remove("podStates"));
        let stored = match self.patch_status(&write, &beside, OBJECT, false).await {
            Ok(stored) => stored,
            // Both forms together are too large.
            Err(Failure::TooLarge(_)) => return self.replace_with_compact_form(write).await,
            Err(Failure::Refused(reason)) => {
                return WriteResult::CompactFormDropped(write, Err(reason));
            }
            Err(failure) => return WriteResult::Status(write, Err(failure)),
        };
        if !stored.has_compact_form_of(&write.patch) {
            return WriteResult::CompactFormDropped(write, Ok(stored.version()));
        }
        if stored.has_only_compact_form() {
            return written(write, Ok(stored));
        }
        let removal = Map::from_iter([("podStates".to_owned(), Value::Null)]);
        let removal = compact_patch(&guarded_patch(&write.uid, &stored.version(), &removal));
        let result = self.patch_status(&write, &removal, METADATA, false).await;
        written(write, result)
    }

    /// Moves the states of an object that is too large to have both forms. The API server is asked
    /// first what it would store, and then what it has stored.
    async fn replace_with_compact_form(self, write: StatusWrite) -> WriteResult {
        match self.patch_status(&write, &write.patch, OBJECT, true).await {
            Ok(stored)
                if stored.has_compact_form_of(&write.patch) && stored.has_only_compact_form() => {}
            Ok(_) => {
                return WriteResult::CompactFormDropped(write, Err("it would be changed".into()));
            }
            // A webhook may refuse every request that only asks.
            Err(Failure::Refused(reason)) => {
                return WriteResult::CompactFormDropped(write, Err(reason));
            }
            Err(failure) => return WriteResult::Status(write, Err(failure)),
        }
        match self.patch_status(&write, &write.patch, OBJECT, false).await {
            Ok(stored) if !stored.has_compact_form_of(&write.patch) => {
                WriteResult::CompactFormDropped(write, Ok(stored.version()))
            }
            result => written(write, result),
        }
    }

    pub(crate) async fn write_generated_pps(
        self,
        workload: WorkloadKey,
        generated: GeneratedPps,
    ) -> WriteResult {
        let key = generated.key();
        let requests = requests::<PpsObject>(&key.namespace);
        let field_manager = Some(generate::FIELD_MANAGER.to_owned());
        let (request, sent) = match &generated {
            GeneratedPps::Create { body, .. } => {
                let params = PostParams {
                    field_manager,
                    ..PostParams::default()
                };
                (
                    requests.create(&params, body.to_string().into_bytes()),
                    body,
                )
            }
            GeneratedPps::Update { patch, .. } => {
                let params = PatchParams {
                    field_manager,
                    ..PatchParams::default()
                };
                (
                    requests.patch(&key.name, &params, &Patch::Merge(patch)),
                    patch,
                )
            }
            GeneratedPps::Delete {
                uid,
                resource_version,
                ..
            } => (
                requests.delete(&key.name, &delete_params(uid, resource_version)),
                &Value::Null,
            ),
        };
        let result = match self.send::<Value>(request).await {
            Err(Failure::NotFound) if sent.is_null() => Ok(ApplyResult::Complete),
            result => result.map(|stored| apply_result(sent, &stored)),
        };
        WriteResult::Generated(workload, generated, result)
    }

    /// Evicts a Pod, unless it was replaced or has changed: it may have been bound to a node.
    /// Before that it asks for what no watch has shown. A disruption budget does not protect a
    /// Pending Pod.
    pub(crate) async fn evict(self, eviction: PodEviction) -> WriteResult {
        let PodEviction {
            pod,
            uid,
            resource_version,
            ..
        } = &eviction;
        // kube's own eviction sends no precondition.
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": &*pod.name, "namespace": &*pod.namespace},
            "deleteOptions": delete_params(uid, resource_version),
        });
        let (params, body) = (PostParams::default(), body.to_string().into_bytes());
        let request = requests::<Pod>(&pod.namespace)
            .create_subresource("eviction", &pod.name, &params, body);
        let result = match self.expect_unschedulable(&eviction).await {
            Ok(()) => self.send(request).await.map(|_: IgnoredAny| ()),
            Err(failure) => Err(failure),
        };
        WriteResult::Eviction(eviction, result)
    }

    async fn create_event(&self, event: &Event) -> Result<(), Failure> {
        let requests = requests::<Event>(event.metadata.namespace.as_deref().unwrap_or_default());
        let request = requests.create(
            &PostParams::default(),
            json!(event).to_string().into_bytes(),
        );
        self.send(request).await.map(|_: IgnoredAny| ())
    }

    /// Reads from etcd, not from a cache, whether a node exists. Only an unambiguous `NotFound`
    /// counts: a proxy may also answer 404.
    pub(crate) async fn look_up_node(self, node: Arc<str>) -> WriteResult {
        let api: Api<Node> = Api::all(self.client.clone());
        // The semaphore is never closed.
        let _turn = self.reads.acquire().await.ok();
        let result = match bounded(REQUEST_TIMEOUT, api.get_metadata(&node)).await {
            Err(kube::Error::Api(status)) if is_node_not_found(&status, &node) => Ok(false),
            answer => answer.map(|_| true).map_err(Failure::from),
        };
        WriteResult::NodeLookup(node, result)
    }

    /// Sends a status patch: a list is a JSON patch, anything else a merge patch. With `dry_run`
    /// the API server only says what it would store.
    async fn patch_status(
        &self,
        write: &StatusWrite,
        patch: &Value,
        answer: &'static str,
        dry_run: bool,
    ) -> Result<StoredPps, Failure> {
        let field_manager = Some(generate::FIELD_MANAGER.to_owned());
        let params = PatchParams {
            field_manager,
            dry_run,
            ..PatchParams::default()
        };
        let NamespacedName { namespace, name } = &write.key;
        let patch_type = if patch.is_array() {
            JSON_PATCH
        } else {
            MERGE_PATCH
        };
        let request = requests::<PpsObject>(namespace);
        let request = request.patch_subresource("status", name, &params, &Patch::Merge(patch));
        let request = request.map(|mut request| {
            request
                .headers_mut()
                .insert(ACCEPT, HeaderValue::from_static(answer));
            request
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static(patch_type));
            request
        });
        self.send(request).await
    }

    /// Sends a write, and gives up when this process no longer leads.
    async fn send<T: DeserializeOwned>(&self, request: Built) -> Result<T, Failure> {
        let request = async {
            let request = request.map_err(kube::Error::BuildRequest)?.map(Body::from);
            let (head, body) = self.client.send(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            if head.status.is_success() {
                return serde_json::from_slice(&body).map_err(kube::Error::SerdeError);
            }
            Err(kube::Error::Api(failure::refusal(&head, &body).boxed()))
        };
        let answer = self
            .permit
            .run_while_valid(bounded(REQUEST_TIMEOUT, request))
            .await;
        answer.map_or(Err(Failure::NotLeading), |answer| {
            answer.map_err(Failure::from)
        })
    }
}

type Built = Result<http::Request<Vec<u8>>, request::Error>;

fn requests<O: kube::Resource<DynamicType = ()>>(namespace: &str) -> Request {
    Request::new(O::url_path(&(), Some(namespace)))
}

fn written(write: StatusWrite, result: Result<StoredPps, Failure>) -> WriteResult {
    WriteResult::Status(write, result.map(|stored| stored.version()))
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

/// Deletes only this version of an object.
fn delete_params(uid: &str, resource_version: &str) -> DeleteParams {
    let preconditions = Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: Some(resource_version.to_owned()),
    };
    DeleteParams {
        preconditions: Some(preconditions),
        ..DeleteParams::default()
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

/// Whether the API server itself says that there is no node of this name.
fn is_node_not_found(status: &Status, node: &str) -> bool {
    let is_about_node = status
        .details
        .as_ref()
        .is_some_and(|details| details.kind == "nodes" && details.name == node);
    status.code == 404 && status.reason == "NotFound" && is_about_node
}
