//! Write: the only place that writes to the API server, apart from the Lease. Decides nothing.

pub(crate) mod events;

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use k8s_openapi::api::core::v1::Node;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{Request, Status};
use kube::{Api, Client};
use pps_core::generate;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::decide::index::StatusWrite;
use crate::decide::{GeneratedPps, PodEviction};
use crate::facts::WorkloadKey;
use crate::lead::Permit;
use crate::observe::wire::{Pod, PpsObject};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a message of the API server may be in an Event or a log entry.
const MAX_REFUSAL: usize = 400;

/// The result of one request.
#[derive(Debug)]
pub(crate) enum WriteResult {
    /// Of a status write: the new resource version.
    Status(StatusWrite, Result<String, Failure>),
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
    /// The API server or an admission policy refuses what is asked for. The same request would be refused again.
    #[error("{0}")]
    Refused(String),
    /// The request failed, or there was no answer.
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
            Self::Conflict | Self::NotFound | Self::Refused(_) | Self::TooLarge(_) | Self::NotLeading => None,
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

    /// Creates, changes or deletes a generated PPS or an alias.
    pub(crate) async fn write_generated_pps(
        self,
        workload: WorkloadKey,
        generated: GeneratedPps,
    ) -> WriteResult {
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            &generated.key().namespace,
            &ApiResource::erase::<PpsObject>(&()),
        );
        let name = &*generated.key().name;
        let result = match &generated {
            GeneratedPps::Create { body, .. } => {
                let params = PostParams {
                    field_manager: Some(generate::FIELD_MANAGER.into()),
                    ..PostParams::default()
                };
                let request = async {
                    let object = serde_json::from_value(body.clone()).map_err(kube::Error::SerdeError)?;
                    api.create(&params, &object).await
                };
                self.run_permitted(request).await.map(|stored| apply_result(body, &stored.data))
            }
            GeneratedPps::Update { patch, .. } => {
                let params = PatchParams {
                    field_manager: Some(generate::FIELD_MANAGER.into()),
                    ..PatchParams::default()
                };
                let merge = Patch::Merge(patch);
                self.run_permitted(api.patch(name, &params, &merge))
                    .await
                    .map(|stored| apply_result(patch, &stored.data))
            }
            GeneratedPps::Delete { uid, resource_version, .. } => {
                let params = delete_params(uid, resource_version);
                match self.run_permitted(async { api.delete(name, &params).await.map(drop) }).await {
                    Err(Failure::NotFound) => Ok(ApplyResult::Complete),
                    other => other.map(|()| ApplyResult::Complete),
                }
            }
        };
        WriteResult::Generated(workload, generated, result)
    }

    /// Evicts a Pod, unless it was replaced or has changed: it may have been bound to a node. A disruption budget does
    /// not protect a Pod that is Pending.
    pub(crate) async fn evict(self, eviction: PodEviction) -> WriteResult {
        let result = self.run_permitted(self.create_eviction(&eviction)).await;
        WriteResult::Eviction(eviction, result)
    }

    async fn create_eviction(&self, eviction: &PodEviction) -> Result<(), kube::Error> {
        let pods = <Pod as kube::Resource>::url_path(&(), Some(&eviction.pod.namespace));
        // Without a version the API server assumes its own: policy/v1beta1 before Kubernetes 1.22, then policy/v1.
        let body = json!({
            "metadata": {"name": &*eviction.pod.name, "namespace": &*eviction.pod.namespace},
            "deleteOptions": delete_params(&eviction.uid, &eviction.resource_version),
        });
        let request = http::Request::post(format!("{pods}/{}/eviction", eviction.pod.name))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(body.to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
        self.client.request_text(request).await.map(drop)
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
}

/// Deletes only this version of an object.
fn delete_params(uid: &str, resource_version: &str) -> DeleteParams {
    let preconditions =
        Preconditions { uid: Some(uid.to_owned()), resource_version: Some(resource_version.to_owned()) };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}

/// Compares what was sent with what the API server has stored: it drops fields that the definition does not have.
fn apply_result(sent: &Value, stored: &Value) -> ApplyResult {
    let has_source = |object: &Value| {
        let annotations = object["spec"]["persistentPodAnnotations"].as_array();
        annotations.into_iter().flatten().any(|annotation| annotation["valueFrom"].is_string())
    };
    if has_source(sent) && !has_source(stored) { ApplyResult::WithoutSources } else { ApplyResult::Complete }
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

/// Whether the API server or an admission webhook refuses what a request asks for. A webhook's denial may have any
/// status code.
fn is_refusal(status: &Status) -> bool {
    let is_denial =
        status.message.starts_with("admission webhook ") && status.message.contains("denied the request");
    is_denial || matches!(status.code, 400 | 403 | 405 | 422)
}

/// A message on one line, without the end of a long one.
fn shortened(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_REFUSAL) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn classify(error: kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) if is_refusal(&status) && !is_too_large(&status) => {
            Failure::Refused(format!("{} {}", status.code, shortened(&status.message)))
        }
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
    fn a_refusal_is_what_the_api_server_or_a_policy_says_about_the_request() {
        let denied = r#"admission webhook "p.kubewarden.admission" denied the request: no"#;
        let invalid = r#"PersistentPodState "w" is invalid"#;
        for (code, message, expected) in [
            (422, invalid, true),
            (403, "forbidden: exceeded quota: pps", true),
            (400, denied, true),
            (409, denied, true),
            (500, denied, true),
            (409, r#"persistentpodstates "w" already exists"#, false),
            (500, r#"failed calling webhook "p.kubewarden.admission": timeout"#, false),
            (429, "the server has received too many requests", false),
            (401, "Unauthorized", false),
            (404, "not found", false),
        ] {
            let status = json!({"status": "Failure", "message": message, "code": code, "reason": ""});
            let failure = classify(kube::Error::Api(serde_json::from_value(status).unwrap()));
            assert_eq!(matches!(failure, Failure::Refused(_)), expected, "{code} {message}");
        }
        assert!(shortened(&"é ".repeat(9_000)).chars().count() <= MAX_REFUSAL + 1);
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
