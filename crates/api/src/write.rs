//! Writes. Each is about the version of an object that was read: a write that names no version is
//! not sent. This is the only file of the workspace's programs that makes such requests.
//!
//! kube's own functions cannot make them: its eviction sends no precondition that the API server
//! honours, its patch of a subresource always returns the whole object, and none of them limits an
//! answer.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::client::{Accept, AnswerLimit, exchange};
use crate::failure::Failure;

const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// The version of an object that a write is about.
#[derive(Clone, Copy, Debug)]
pub struct Guard<'a> {
    /// `metadata.uid`
    pub uid: &'a str,
    /// `metadata.resourceVersion`
    pub resource_version: &'a str,
}

/// One request that changes something.
#[derive(Clone, Debug)]
pub struct Write {
    method: Method,
    path: String,
    content_type: &'static str,
    body: Bytes,
    is_guarded: bool,
    accept: Accept,
    field_manager: Option<&'static str>,
    is_dry_run: bool,
}

impl Write {
    fn new(method: Method, path: String, body: &Value) -> Self {
        Self {
            method,
            path,
            content_type: JSON,
            body: body.to_string().into(),
            is_guarded: true,
            accept: Accept::Object,
            field_manager: None,
            is_dry_run: false,
        }
    }

    /// Creates an object below the path of its kind. One that exists is a conflict.
    pub fn create(path: String, body: &Value) -> Self {
        Self::new(Method::POST, path, body)
    }

    /// Replaces an object. The body must have the resource version that was read.
    pub fn replace(path: String, body: &Value) -> Self {
        Self {
            is_guarded: is_text(&body["metadata"]["resourceVersion"]),
            ..Self::new(Method::PUT, path, body)
        }
    }

    /// Patches an object: a list is a JSON patch, anything else a merge patch. The body must have
    /// the UID and the resource version that were read.
    pub fn patch(path: String, body: &Value) -> Self {
        let content_type = if body.is_array() {
            JSON_PATCH
        } else {
            MERGE_PATCH
        };
        Self {
            content_type,
            is_guarded: is_text(patched(body, "uid")) && is_text(patched(body, "resourceVersion")),
            ..Self::new(Method::PATCH, path, body)
        }
    }

    /// Deletes exactly this object in this version.
    pub fn delete(path: String, guard: Guard<'_>) -> Self {
        let mut options = delete_options(guard);
        options["apiVersion"] = "v1".into();
        options["kind"] = "DeleteOptions".into();
        Self::new(Method::DELETE, path, &options)
    }

    /// Evicts exactly this Pod in this version, unless a `PodDisruptionBudget` forbids it.
    pub fn evict(namespace: &str, pod: &str, guard: Guard<'_>) -> Self {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction");
        // kube sends `delete_options`, which the API server ignores.
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": delete_options(guard),
        });
        Self::new(Method::POST, path, &body)
    }

    /// Names who owns the fields that are written.
    #[must_use]
    pub fn managed_by(self, field_manager: &'static str) -> Self {
        Self {
            field_manager: Some(field_manager),
            ..self
        }
    }

    /// What the API server answers with; the whole object unless this is called.
    #[must_use]
    pub fn answered_with(self, accept: Accept) -> Self {
        Self { accept, ..self }
    }

    /// The API server checks the write, says what it would store, and does not do it.
    #[must_use]
    pub fn as_dry_run(mut self) -> Self {
        self.is_dry_run = true;
        // The API server takes the options of a deletion from the body alone: without this it would
        // delete the object.
        if self.method == Method::DELETE {
            let mut options: Value = serde_json::from_slice(&self.body).unwrap_or_default();
            options["dryRun"] = json!(["All"]);
            self.body = options.to_string().into();
        }
        self
    }

    /// Whether the API server only checks the write.
    pub fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }

    /// Sends the write once. Returns the answer, which [`serde::de::IgnoredAny`] leaves unread.
    pub async fn send<T: DeserializeOwned>(
        &self,
        client: &Client,
        limit: AnswerLimit,
    ) -> Result<T, Failure> {
        exchange(client, self.request()?, limit).await
    }

    fn request(&self) -> Result<Request<Body>, Failure> {
        if !self.is_guarded {
            return Err(Failure::Unguarded);
        }
        if self.path.ends_with('/') || self.path.contains("//") {
            return Err(Failure::Nameless);
        }
        let field_manager = self
            .field_manager
            .map(|manager| format!("fieldManager={manager}"));
        let dry_run = self.is_dry_run.then(|| "dryRun=All".to_owned());
        let options: Vec<String> = field_manager.into_iter().chain(dry_run).collect();
        Request::builder()
            .method(&self.method)
            .uri(format!("{}?{}", self.path, options.join("&")))
            .header(CONTENT_TYPE, self.content_type)
            .header(ACCEPT, self.accept.media_type())
            .body(Body::from(self.body.clone()))
            .map_err(|error| Failure::Invalid(error.to_string()))
    }
}

/// The value that a patch gives to a field of the metadata; null if it gives none.
fn patched<'a>(patch: &'a Value, field: &str) -> &'a Value {
    let Some(operations) = patch.as_array() else {
        return &patch["metadata"][field];
    };
    let path = format!("/metadata/{field}");
    operations
        .iter()
        .find(|operation| operation["path"] == path)
        .map_or(&Value::Null, |operation| &operation["value"])
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

fn delete_options(guard: Guard<'_>) -> Value {
    let Guard {
        uid,
        resource_version,
    } = guard;
    json!({"preconditions": {"uid": uid, "resourceVersion": resource_version}})
}

#[cfg(test)]
mod tests;
