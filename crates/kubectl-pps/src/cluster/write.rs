//! The only file that changes anything. Each write carries the UID and the resource version of the
//! object that was read.

use std::time::Duration;

use http::{Method, Request, StatusCode};
use k8s_openapi::jiff::Timestamp;
use pps_check::read::Right;
use pps_core::limits::MAX_NOTE_LENGTH;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::Failure;
use crate::cluster::Client;
use crate::snapshot::unreadable;

pub const FIELD_MANAGER: &str = "kubectl-pps";

const TIMEOUT: Duration = Duration::from_secs(30);

/// Retries of a write that a busy API server has not looked at, and the pause before each.
const BUSY_TRIES: u32 = 4;
const BUSY_PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// Another client has changed or deleted the object since it was read.
    Conflict(String),
    NotFound,
    /// A right is missing: `patch pods in namespace prod`.
    Forbidden(Right),
    /// An eviction would break a `PodDisruptionBudget`.
    Disruption(String),
    /// The API server has too many requests, and has not looked at the write.
    Busy(String),
    Refused(String),
    /// The API server did not answer, or with an error. Whether the write was done is not known.
    Failed(String),
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Conflict(text) => Self::Refused(format!(
                "another client has changed the object meanwhile; run the command again ({text})"
            )),
            WriteError::NotFound => Self::Refused("the object no longer exists".into()),
            WriteError::Forbidden(right) => Self::Unreadable(unreadable(&right, None)),
            WriteError::Disruption(text) | WriteError::Refused(text) => Self::Refused(text),
            WriteError::Busy(text) => Self::Unreadable(format!(
                "the API server has too many requests, and did not look at this one (429): {text}"
            )),
            WriteError::Failed(text) => Self::Unreadable(text),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Write {
    method: Method,
    path: String,
    content_type: &'static str,
    body: Value,
    right: Right,
    dry_run: bool,
}

impl Write {
    fn new(
        method: Method,
        path: String,
        content_type: &'static str,
        body: Value,
        right: Right,
    ) -> Self {
        Self {
            method,
            path,
            content_type,
            body,
            right,
            dry_run: false,
        }
    }

    /// A patch: a list is a JSON patch, anything else a merge patch. The body must have the UID and
    /// the resource version of the object that was read.
    pub fn patch(right: Right, path: String, body: Value) -> Self {
        let is_list = body.is_array();
        let content_type = if is_list {
            "application/json-patch+json"
        } else {
            "application/merge-patch+json"
        };
        Self::new(Method::PATCH, path, content_type, body, right)
    }

    pub fn create(right: Right, path: String, body: Value) -> Self {
        Self::new(Method::POST, path, "application/json", body, right)
    }

    /// Deletes exactly this object.
    pub fn delete(right: Right, path: String, uid: &str, resource_version: &str) -> Self {
        let body = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, "resourceVersion": resource_version},
        });
        Self::new(Method::DELETE, path, "application/json", body, right)
    }

    /// Evicts exactly this Pod, in this version, unless a `PodDisruptionBudget` forbids it.
    pub fn evict(namespace: &str, pod: &str, uid: &str, resource_version: &str) -> Self {
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid, "resourceVersion": resource_version}},
        });
        let right = Right::new("create", "", "pods/eviction")
            .named(pod)
            .within(namespace);
        Self::create(
            right,
            format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction"),
            body,
        )
    }

    /// The API server checks the write and does not do it.
    #[must_use]
    pub fn as_dry_run(mut self) -> Self {
        self.dry_run = true;
        // The API server takes the options of a deletion from the body alone: without this it would
        // delete the object.
        if self.method == Method::DELETE {
            self.body["dryRun"] = json!(["All"]);
        }
        self
    }
}

/// Sends a write, and returns the stored object. A busy API server is asked again some times.
pub async fn send(client: &Client, write: Write) -> Result<Value, WriteError> {
    for _ in 0..BUSY_TRIES {
        match send_once(client, &write).await {
            Err(WriteError::Busy(_)) => sleep(BUSY_PAUSE).await,
            answer => return answer,
        }
    }
    send_once(client, &write).await
}

/// Whether an authorizer refuses a request. An admission webhook may quote such a refusal.
fn lacks_right(message: &str) -> bool {
    message.contains("is forbidden: User \"") && !message.starts_with("admission webhook ")
}

async fn send_once(client: &Client, write: &Write) -> Result<Value, WriteError> {
    let dry_run = if write.dry_run { "&dryRun=All" } else { "" };
    let request = Request::builder()
        .method(&write.method)
        .uri(format!(
            "{}?fieldManager={FIELD_MANAGER}{dry_run}",
            write.path
        ))
        .header(http::header::CONTENT_TYPE, write.content_type)
        .header(http::header::ACCEPT, "application/json")
        .body(write.body.to_string().into_bytes())
        .map_err(|error| WriteError::Failed(error.to_string()))?;
    let within = client.request_timeout.unwrap_or(TIMEOUT);
    let Ok(answer) = tokio::time::timeout(within, client.kube.request::<Value>(request)).await
    else {
        let seconds = within.as_secs_f32();
        return Err(WriteError::Failed(if write.dry_run {
            format!("the API server did not answer within {seconds} s")
        } else {
            format!(
                "the API server did not answer within {seconds} s, and whether the write was done \
                 is not known: run the same command again"
            )
        }));
    };
    match answer {
        Ok(stored) => Ok(stored),
        Err(kube::Error::Api(status)) => {
            let message = status.message.clone();
            Err(match StatusCode::from_u16(status.code) {
                Ok(StatusCode::CONFLICT) => WriteError::Conflict(message),
                Ok(StatusCode::NOT_FOUND) => WriteError::NotFound,
                Ok(StatusCode::FORBIDDEN) if lacks_right(&message) => {
                    WriteError::Forbidden(write.right.clone())
                }
                Ok(StatusCode::TOO_MANY_REQUESTS) => {
                    // The API server's flow control answers with the same code.
                    let mut causes = status.details.iter().flat_map(|details| &details.causes);
                    let is_budget = causes.any(|cause| cause.reason == "DisruptionBudget");
                    if is_budget {
                        WriteError::Disruption(message)
                    } else {
                        WriteError::Busy(message)
                    }
                }
                Ok(code) if code.is_client_error() => WriteError::Refused(message),
                _ => WriteError::Failed(message),
            })
        }
        Err(error) => Err(WriteError::Failed(error.to_string())),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// The regarded object, as it was read.
    pub about: &'a Value,
    /// `PodMoved`
    pub reason: &'static str,
    /// `Move`
    pub action: &'static str,
    pub message: String,
}

/// Leaves an Event on an object.
pub async fn publish(client: &Client, note: &Note<'_>) -> Result<(), WriteError> {
    let metadata = &note.about["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or("default");
    let name = metadata["name"].as_str().unwrap_or_default();
    let body = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": format!("{name}-"), "namespace": namespace},
        "eventTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
        "type": "Normal",
        "reason": note.reason,
        "action": note.action,
        "note": note.message[..note.message.floor_char_boundary(MAX_NOTE_LENGTH)],
        "reportingController": FIELD_MANAGER,
        "reportingInstance": FIELD_MANAGER,
        "regarding": {
            "apiVersion": note.about["apiVersion"],
            "kind": note.about["kind"],
            "namespace": namespace,
            "name": name,
            "uid": metadata["uid"],
        },
    });
    let right = Right::new("create", "events.k8s.io", "events").within(namespace);
    let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    send(client, Write::create(right, path, body))
        .await
        .map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use kube::Config;

    use super::*;

    /// Takes connections, and never answers.
    fn silent() -> (TcpListener, Client) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut config = Config::new(url.parse().unwrap());
        config.root_cert = Some(Vec::new());
        let request_timeout = Some(Duration::from_millis(200));
        (
            listener,
            Client {
                kube: config.try_into().unwrap(),
                request_timeout,
            },
        )
    }

    #[tokio::test]
    async fn a_write_that_is_not_answered_ends() {
        let (_listener, client) = silent();
        let begun = std::time::Instant::now();
        let eviction = || Write::evict("prod", "db-0", "uid", "1");
        let Err(WriteError::Failed(text)) = send(&client, eviction()).await else {
            panic!("nobody answers")
        };
        assert_eq!(
            text,
            "the API server did not answer within 0.2 s, and whether the write was done is not \
             known: run the same command again"
        );
        let Err(WriteError::Failed(text)) = send(&client, eviction().as_dry_run()).await else {
            panic!("nobody answers")
        };
        assert_eq!(
            text, "the API server did not answer within 0.2 s",
            "a dry run does nothing"
        );
        let taken = begun.elapsed();
        assert!(
            Duration::from_millis(400) <= taken && taken < Duration::from_secs(20),
            "{taken:?}"
        );
    }

    #[tokio::test]
    async fn only_a_budget_is_called_one_and_a_busy_api_server_is_asked_again() {
        let refusal = |causes: Value| {
            let text = "Cannot evict pod as it would violate the pod's disruption budget.";
            (
                429,
                json!({"kind": "Status", "code": 429, "message": text, "details": {"causes": causes}}),
            )
        };
        let budget =
            refusal(json!([{"reason": "DisruptionBudget", "message": "The budget db needs 2"}]));
        let client = crate::cluster::tests::serve(move |_| budget.clone());
        let evict = || Write::evict("prod", "db-0", "uid", "1");
        let refused = send(&client, evict()).await;
        assert!(
            matches!(refused, Err(WriteError::Disruption(_))),
            "{refused:?}"
        );
        let busy = || (429, json!("Too many requests, please try again later."));
        let mut asked = 0;
        let client = crate::cluster::tests::serve(move |_| {
            asked += 1;
            if asked < 2 {
                busy()
            } else {
                (201, json!({"kind": "Status", "status": "Success"}))
            }
        });
        assert!(send(&client, evict()).await.is_ok(), "asked again");
        let client = crate::cluster::tests::serve(move |_| busy());
        let busy = send(&client, evict()).await.unwrap_err();
        assert!(matches!(busy, WriteError::Busy(_)), "{busy:?}");
        assert!(
            Failure::from(busy)
                .to_string()
                .starts_with("the API server has too many requests")
        );
    }

    #[tokio::test]
    async fn a_read_that_is_not_answered_ends() {
        use pps_check::reader::{Limits, Reader};
        let (_listener, client) = silent();
        let limits = client.limits(Limits::CHECK);
        let reader = Reader::new(client.kube, limits, Duration::from_mins(1));
        let path = "/api/v1/namespaces/prod/pods/db-0";
        let _: pps_check::read::Read<Value> = reader.get(Right::new("get", "", "pods"), path).await;
        assert_eq!(reader.into_problems().len(), 1);
    }
}
