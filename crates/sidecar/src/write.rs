//! The only place that writes to the API server.

pub mod events;

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
use crate::facts::{NamespacedName, WorkloadKey};
use crate::lead::Permit;
use crate::observe::wire::{Pod, PpsObject};

/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// What the API server says of a server-side apply if its definition has no `valueFrom`.
const UNKNOWN_SOURCE: &str = ".valueFrom: field not declared in schema";

/// The outcome of one write.
#[derive(Debug)]
pub enum WriteResult {
    /// Of a status: the new resource version.
    Status(StatusWrite, Result<String, Failure>),
    /// Of a generated PPS.
    Generated(WorkloadKey, GeneratedPps, Result<ApplyResult, Failure>),
    /// Of a Pod that was to be deleted.
    Eviction(PodEviction, Result<(), Failure>),
    /// Nothing was written: a node was looked for, on which a write depends.
    Looked(Arc<str>, Result<NodeLookup, Failure>),
}

/// Whether the API server has a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeLookup {
    /// It has.
    There,
    /// It says that there is none.
    Gone,
}

/// How much of a generated PPS the API server has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyResult {
    /// All of it.
    Whole,
    /// All but where the values of annotations come from: OpenKruise's definition does not know that.
    WithoutSources,
}

/// Why a write did not go through.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The object is not what it was when the write was made. The watch will tell what it is now.
    #[error("the object has changed meanwhile")]
    Conflict,
    /// The object is gone.
    #[error("the object is gone")]
    Gone,
    /// The API server did not take it.
    #[error("{message}")]
    Refused {
        /// What it said.
        message: String,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// The object would be larger than the API server stores.
    #[error("{0}")]
    TooLarge(String),
    /// Another process leads now. Whether the API server has taken it is not known.
    #[error("this process leads no longer")]
    NotLeading,
}

/// Writes with this client, as long as that is permitted.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    /// Checked immediately before each write.
    pub permit: Permit,
}

impl Writer {
    /// A writer that uses this client.
    pub fn new(client: Client, permit: Permit) -> Self {
        Self { client, permit }
    }

    /// Writes a status.
    pub async fn status(self, write: StatusWrite) -> WriteResult {
        let result = self.permitted(self.patch_status(&write)).await;
        WriteResult::Status(write, result)
    }

    /// Makes, changes or deletes a generated PPS.
    pub async fn generation(self, workload: WorkloadKey, generation: GeneratedPps) -> WriteResult {
        let result = match &generation {
            GeneratedPps::Apply { key, body, new } => {
                let mut params = PatchParams::apply(generate::FIELD_MANAGER);
                params.force = !new;
                let api = self.api(key);
                let apply = async |body: &Value| {
                    let request =
                        async { api.patch(&key.name, &params, &Patch::Apply(body)).await.map(drop) };
                    self.permitted(request).await
                };
                match apply(body).await {
                    Err(Failure::Refused { message, .. }) if message.contains(UNKNOWN_SOURCE) => {
                        apply(&without_sources(body)).await.map(|()| ApplyResult::WithoutSources)
                    }
                    other => other.map(|()| ApplyResult::Whole),
                }
            }
            GeneratedPps::Delete { key, uid, resource_version } => {
                let preconditions = Preconditions {
                    uid: Some(uid.clone()),
                    resource_version: Some(resource_version.clone()),
                };
                let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                let api = self.api(key);
                match self.permitted(async { api.delete(&key.name, &params).await.map(drop) }).await {
                    Err(Failure::Gone) => Ok(ApplyResult::Whole),
                    other => other.map(|()| ApplyResult::Whole),
                }
            }
        };
        WriteResult::Generated(workload, generation, result)
    }

    /// Deletes a Pod, if it still is the one that it was and has no node.
    pub async fn evict(self, eviction: PodEviction) -> WriteResult {
        let preconditions = Preconditions {
            uid: Some(eviction.uid.clone()),
            resource_version: Some(eviction.resource_version.clone()),
        };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &eviction.pod.namespace);
        let result = self.permitted(async { api.delete(&eviction.pod.name, &params).await.map(drop) }).await;
        WriteResult::Eviction(eviction, result)
    }

    /// Asks whether there is a node of this name: the store itself, not a cache. Nothing but a clear no
    /// counts as one; something between may answer with 404, too.
    pub async fn look_for(self, node: Arc<str>) -> WriteResult {
        let api: Api<Node> = Api::all(self.client.clone());
        let sight = match timeout(REQUEST_TIMEOUT, api.get_metadata(&node)).await {
            Ok(Err(kube::Error::Api(status))) if says_gone(&status, &node) => Ok(NodeLookup::Gone),
            Ok(Ok(_)) => Ok(NodeLookup::There),
            Ok(Err(error)) => Err(failure(error)),
            Err(_) => Err(no_answer()),
        };
        WriteResult::Looked(node, sight)
    }

    /// Sends a status patch and asks for nothing but the metadata in return: the whole object would
    /// come back otherwise, at each write.
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

    /// A write: it goes on only as long as this process leads.
    async fn permitted<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Failure> {
        self.permit.during(bounded(request)).await.unwrap_or(Err(Failure::NotLeading))
    }

    fn api(&self, key: &NamespacedName) -> Api<PpsObject> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }
}

/// The configuration of a generated PPS without the fields that OpenKruise's definition does not know.
fn without_sources(body: &Value) -> Value {
    let mut body = body.clone();
    for annotation in body["spec"]["persistentPodAnnotations"].as_array_mut().into_iter().flatten() {
        annotation.as_object_mut().map(|annotation| annotation.remove("valueFrom"));
    }
    body
}

/// A request that ends one way or the other.
async fn bounded<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failure> {
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(failure(error)),
        Err(_) => Err(no_answer()),
    }
}

fn no_answer() -> Failure {
    Failure::Refused {
        message: format!("no answer from the API server for {} s", REQUEST_TIMEOUT.as_secs()),
        retry_after: None,
    }
}

/// Whether the API server says that there is no node of this name.
fn says_gone(status: &Status, node: &str) -> bool {
    let named =
        status.details.as_ref().is_some_and(|details| details.kind == "nodes" && details.name == node);
    status.code == 404 && status.reason == "NotFound" && named
}

/// Whether the API server, etcd behind it, or the connection between them does not take a request of this size.
fn is_too_large(status: &Status) -> bool {
    let says = |words: &str| status.message.contains(words);
    status.code == 413 || says("request is too large") || says("larger than max")
}

fn failure(error: kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) if status.code == 404 => Failure::Gone,
        kube::Error::Api(status) if status.code == 409 => Failure::Conflict,
        kube::Error::Api(status) if is_too_large(&status) => {
            Failure::TooLarge(format!("{} {}", status.code, status.message))
        }
        kube::Error::Api(status) => {
            let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
            Failure::Refused {
                message: format!("{} {}: {}", status.code, status.reason, status.message),
                retry_after: (seconds > 0).then(|| Duration::from_secs(seconds.into())),
            }
        }
        other => Failure::Refused { message: other.to_string(), retry_after: None },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_too_large_is_told_from_other_refusals() {
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
            let failure = failure(kube::Error::Api(serde_json::from_value(status).unwrap()));
            assert_eq!(matches!(failure, Failure::TooLarge(_)), expected, "{message}");
        }
    }

    #[test]
    fn only_a_clear_no_says_that_a_node_is_gone() {
        let status = |code: u16, reason: &str, kind: &str, name: &str| -> Status {
            let details = json!({"kind": kind, "name": name});
            serde_json::from_value(json!({"status": "Failure", "message": "", "code": code, "reason": reason,
                "details": details}))
            .unwrap()
        };
        assert!(says_gone(&status(404, "NotFound", "nodes", "n"), "n"));
        for other in [
            status(404, "Failed to parse error data", "", ""),
            status(404, "NotFound", "", ""),
            status(404, "NotFound", "nodes", "m"),
            status(403, "Forbidden", "nodes", "n"),
            status(410, "Gone", "nodes", "n"),
            status(500, "InternalError", "nodes", "n"),
        ] {
            assert!(!says_gone(&other, "n"), "{other:?}");
        }
    }
}
