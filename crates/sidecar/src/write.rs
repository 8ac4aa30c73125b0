//! Write: the only place that writes to the API server, apart from the Lease. Decides nothing.

pub(crate) mod events;
pub(crate) mod reads;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, HeaderValue};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::{Request, Status};
use kube::{Api, Client};
use pps_core::generate;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;

use crate::decide::index::StatusWrite;
use crate::decide::{GeneratedPps, PodEviction};
use crate::facts::{NamespacedName, PpsFact, WorkloadKey};
use crate::lead::Permit;
use crate::observe::wire::{Pod, PpsObject};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Part of the API server's error for a server-side apply if the definition has no `valueFrom`.
const UNKNOWN_SOURCE: &str = ".valueFrom: field not declared in schema";

/// The result of one request.
#[derive(Debug)]
pub(crate) enum WriteResult {
    /// Of a status write: the new resource version.
    Status(StatusWrite, Result<String, Failure>),
    /// Of a status write that was not sent: the entries that must not be dropped, or why they could not be checked.
    DropsUnconfirmed(StatusWrite, Result<BTreeSet<Arc<str>>, Failure>),
    /// Of a read of a PPS after conflicts: the version that was known before, and the object, if it exists.
    PpsRead(NamespacedName, String, Result<Option<Box<PpsFact>>, Failure>),
    Generated(WorkloadKey, GeneratedPps, Result<ApplyResult, Failure>),
    Eviction(PodEviction, Result<(), Failure>),
    /// Of a read: whether a node exists, on which a later write depends.
    NodeLookup(Arc<str>, Result<NodeLookup, Failure>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeLookup {
    Found,
    NotFound,
}

/// How much of a generated PPS the API server has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplyResult {
    Complete,
    /// Everything except `valueFrom`, which OpenKruise's definition does not have.
    WithoutSources,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The object has changed since the write was decided. The watch will deliver the new state.
    #[error("the object has changed in the meantime")]
    Conflict,
    #[error("the object no longer exists")]
    NotFound,
    /// The API server refused the request, or there was no answer.
    #[error("{message}")]
    Other {
        message: String,
        /// How long the API server asks to wait.
        retry_after: Option<Duration>,
    },
    /// The object would be larger than the API server stores.
    #[error("{0}")]
    TooLarge(String),
    /// Another process leads now. Whether the API server has accepted the request is unknown.
    #[error("this process no longer leads")]
    NotLeading,
}

impl Failure {
    /// Whether the next state from the watches resolves it, so that it deserves no warning.
    pub(crate) fn is_expected(&self) -> bool {
        matches!(self, Self::Conflict | Self::NotFound | Self::NotLeading)
    }

    /// How long the API server asks to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Other { retry_after, .. } => *retry_after,
            Self::Conflict | Self::NotFound | Self::TooLarge(_) | Self::NotLeading => None,
        }
    }
}

/// Writes with this client while the permit is valid.
#[derive(Clone)]
pub(crate) struct Writer {
    client: Client,
    /// Checked immediately before each write and at each step of it.
    pub(crate) permit: Permit,
}

impl Writer {
    pub(crate) fn new(client: Client, permit: Permit) -> Self {
        Self { client, permit }
    }

    pub(crate) async fn write_status(self, write: StatusWrite) -> WriteResult {
        let result = self.run_permitted(self.patch_status(&write)).await;
        WriteResult::Status(write, result)
    }

    /// Creates, changes or deletes a generated PPS.
    pub(crate) async fn write_generated_pps(
        self,
        workload: WorkloadKey,
        generated: GeneratedPps,
    ) -> WriteResult {
        let result = match &generated {
            GeneratedPps::Apply { key, body, new } => {
                let mut params = PatchParams::apply(generate::FIELD_MANAGER);
                params.force = !new;
                let api = self.api(key);
                let apply = async |body: &Value| {
                    let request =
                        async { api.patch(&key.name, &params, &Patch::Apply(body)).await.map(drop) };
                    self.run_permitted(request).await
                };
                match apply(body).await {
                    Err(Failure::Other { message, .. }) if message.contains(UNKNOWN_SOURCE) => {
                        apply(&without_sources(body)).await.map(|()| ApplyResult::WithoutSources)
                    }
                    other => other.map(|()| ApplyResult::Complete),
                }
            }
            GeneratedPps::Delete { key, uid, resource_version } => {
                let preconditions = Preconditions {
                    uid: Some(uid.clone()),
                    resource_version: Some(resource_version.clone()),
                };
                let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                let api = self.api(key);
                match self.run_permitted(async { api.delete(&key.name, &params).await.map(drop) }).await {
                    Err(Failure::NotFound) => Ok(ApplyResult::Complete),
                    other => other.map(|()| ApplyResult::Complete),
                }
            }
        };
        WriteResult::Generated(workload, generated, result)
    }

    /// Deletes a Pod, unless it was replaced or has changed: it may have been bound to a node.
    pub(crate) async fn evict(self, eviction: PodEviction) -> WriteResult {
        let preconditions = Preconditions {
            uid: Some(eviction.uid.clone()),
            resource_version: Some(eviction.resource_version.clone()),
        };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &eviction.pod.namespace);
        let result =
            self.run_permitted(async { api.delete(&eviction.pod.name, &params).await.map(drop) }).await;
        WriteResult::Eviction(eviction, result)
    }

    /// Reads from etcd, not from a cache, whether a node exists. Only an unambiguous `NotFound` counts: a proxy may
    /// also answer 404.
    pub(crate) async fn look_up_node(self, node: Arc<str>) -> WriteResult {
        let api: Api<Node> = Api::all(self.client.clone());
        let result = match timeout(REQUEST_TIMEOUT, api.get_metadata(&node)).await {
            Ok(Err(kube::Error::Api(status))) if is_node_not_found(&status, &node) => {
                Ok(NodeLookup::NotFound)
            }
            Ok(Ok(_)) => Ok(NodeLookup::Found),
            Ok(Err(error)) => Err(classify(error)),
            Err(_) => Err(no_answer()),
        };
        WriteResult::NodeLookup(node, result)
    }

    /// Sends a status patch and requests only the metadata in return. Otherwise each write would return the whole
    /// object.
    async fn patch_status(&self, write: &StatusWrite) -> Result<String, kube::Error> {
        #[derive(Deserialize)]
        struct Answer {
            metadata: Version,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            resource_version: String,
        }
        let url = <PpsObject as kube::Resource>::url_path(&(), Some(&write.key.namespace));
        let params =
            PatchParams { field_manager: Some(generate::FIELD_MANAGER.into()), ..PatchParams::default() };
        let mut request = Request::new(url)
            .patch_subresource("status", &write.key.name, &params, &Patch::Merge(&write.patch))
            .map_err(kube::Error::BuildRequest)?;
        request.headers_mut().insert(
            ACCEPT,
            HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
        );
        let answer: Answer = self.client.request(request).await?;
        Ok(answer.metadata.resource_version)
    }

    /// Runs a write, which stops when this process no longer leads.
    async fn run_permitted<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Failure> {
        self.permit.run_while_valid(bounded(request)).await.unwrap_or(Err(Failure::NotLeading))
    }

    fn api(&self, key: &NamespacedName) -> Api<PpsObject> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }
}

/// Removes the fields that OpenKruise's definition does not have.
fn without_sources(body: &Value) -> Value {
    let mut body = body.clone();
    for annotation in body["spec"]["persistentPodAnnotations"].as_array_mut().into_iter().flatten() {
        annotation.as_object_mut().map(|annotation| annotation.remove("valueFrom"));
    }
    body
}

/// Runs a request with a time limit.
async fn bounded<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failure> {
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(classify(error)),
        Err(_) => Err(no_answer()),
    }
}

fn no_answer() -> Failure {
    Failure::Other {
        message: format!("no answer from the API server for {} s", REQUEST_TIMEOUT.as_secs()),
        retry_after: None,
    }
}

/// Whether the API server itself says that there is no node of this name.
fn is_node_not_found(status: &Status, node: &str) -> bool {
    let is_about_node =
        status.details.as_ref().is_some_and(|details| details.kind == "nodes" && details.name == node);
    status.code == 404 && status.reason == "NotFound" && is_about_node
}

/// Whether the API server, etcd, or the connection between them refuses a request of this size.
fn is_too_large(status: &Status) -> bool {
    let says = |words: &str| status.message.contains(words);
    status.code == 413 || says("request is too large") || says("larger than max")
}

fn classify(error: kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) if status.code == 404 => Failure::NotFound,
        kube::Error::Api(status) if status.code == 409 => Failure::Conflict,
        kube::Error::Api(status) if is_too_large(&status) => {
            Failure::TooLarge(format!("{} {}", status.code, status.message))
        }
        kube::Error::Api(status) => {
            let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
            Failure::Other {
                message: format!("{} {}: {}", status.code, status.reason, status.message),
                retry_after: (seconds > 0).then(|| Duration::from_secs(seconds.into())),
            }
        }
        other => Failure::Other { message: other.to_string(), retry_after: None },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn classifies_refusals_for_size_as_too_large() {
        for (code, message, expected) in [
            (413, "Request entity too large: limit is 3145728", true),
            (500, "etcdserver: request is too large", true),
            (
                500,
                "rpc error: code = ResourceExhausted desc = trying to send message larger than max (3 vs. 2)",
                true,
            ),
            (500, "etcdserver: request timed out", false),
            (422, "podStates is invalid", false),
        ] {
            let status = json!({"status": "Failure", "message": message, "code": code, "reason": ""});
            let failure = classify(kube::Error::Api(serde_json::from_value(status).unwrap()));
            assert_eq!(matches!(failure, Failure::TooLarge(_)), expected, "{message}");
        }
    }

    #[test]
    fn only_an_unambiguous_not_found_means_that_a_node_does_not_exist() {
        let status = |code: u16, reason: &str, kind: &str, name: &str| -> Status {
            let details = json!({"kind": kind, "name": name});
            serde_json::from_value(json!({"status": "Failure", "message": "", "code": code, "reason": reason,
                "details": details}))
            .unwrap()
        };
        assert!(is_node_not_found(&status(404, "NotFound", "nodes", "n"), "n"));
        for other in [
            status(404, "Failed to parse error data", "", ""),
            status(404, "NotFound", "", ""),
            status(404, "NotFound", "nodes", "m"),
            status(403, "Forbidden", "nodes", "n"),
            status(410, "Gone", "nodes", "n"),
            status(500, "InternalError", "nodes", "n"),
        ] {
            assert!(!is_node_not_found(&other, "n"), "{other:?}");
        }
    }
}
