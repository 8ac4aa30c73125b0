//! What the plugin writes: which right each write needs, and what its failure means to the user.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use pps_api::{AnswerLimit, Class, Guard, Refusal, event};
use pps_check::read::Right;
use serde_json::Value;
use tokio::time::sleep;

use crate::Failure;
use crate::cluster::Client;
use crate::snapshot::unreadable;

pub const FIELD_MANAGER: &str = "kubectl-pps";

const TIMEOUT: Duration = Duration::from_secs(30);
/// The largest answer to a write, in bytes. etcd takes objects of 1.5 MiB by default, which are six
/// times as many in JSON at most.
const LARGEST_ANSWER: usize = 16 << 20;

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
    Busy,
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
            WriteError::Busy => Self::Unreadable(
                "the API server has too many requests, and did not look at this one (429)".into(),
            ),
            WriteError::Failed(text) => Self::Unreadable(text),
        }
    }
}

/// A write, and the right that it needs.
#[derive(Clone, Debug)]
pub struct Write {
    api: pps_api::Write,
    right: Right,
}

impl Write {
    pub fn new(right: Right, api: pps_api::Write) -> Self {
        Self {
            api: api.managed_by(FIELD_MANAGER),
            right,
        }
    }

    /// Evicts exactly this Pod, in this version, unless a `PodDisruptionBudget` forbids it.
    pub fn evict(namespace: &str, pod: &str, guard: Guard<'_>) -> Self {
        let right = Right::new("create", "", "pods/eviction")
            .named(pod)
            .within(namespace);
        Self::new(right, pps_api::Write::evict(namespace, pod, guard))
    }

    /// The API server checks the write and does not do it.
    #[must_use]
    pub fn as_dry_run(self) -> Self {
        Self {
            api: self.api.as_dry_run(),
            ..self
        }
    }

    /// What a failure of this write means.
    fn error(&self, failure: pps_api::Failure) -> WriteError {
        match failure {
            pps_api::Failure::Refused(refusal) => self.refusal(*refusal),
            pps_api::Failure::Silent(within) => {
                let seconds = within.as_secs_f32();
                WriteError::Failed(if self.api.is_dry_run() {
                    format!("the API server did not answer within {seconds} s")
                } else {
                    format!(
                        "the API server did not answer within {seconds} s, and whether the write \
                         was done is not known: run the same command again"
                    )
                })
            }
            other => WriteError::Failed(other.to_string()),
        }
    }

    fn refusal(&self, refusal: Refusal) -> WriteError {
        let text = if refusal.is_of_api_server {
            refusal.message
        } else {
            refusal.to_string()
        };
        match refusal.class {
            Class::Conflict => WriteError::Conflict(text),
            Class::NotFound => WriteError::NotFound,
            Class::Forbidden => WriteError::Forbidden(self.right.clone()),
            Class::Budget => WriteError::Disruption(text),
            Class::Busy => WriteError::Busy,
            Class::Denied | Class::TooLarge => WriteError::Refused(text),
            _ if refusal.code < 500 => WriteError::Refused(text),
            _ => WriteError::Failed(text),
        }
    }
}

/// Sends a write, and returns the stored object. A busy API server is asked again some times.
pub async fn send(client: &Client, write: Write) -> Result<Value, WriteError> {
    for _ in 0..BUSY_TRIES {
        match send_once(client, &write).await {
            Err(WriteError::Busy) => sleep(BUSY_PAUSE).await,
            answer => return answer,
        }
    }
    send_once(client, &write).await
}

async fn send_once(client: &Client, write: &Write) -> Result<Value, WriteError> {
    let limit = AnswerLimit {
        within: client.request_timeout.unwrap_or(TIMEOUT),
        bytes: LARGEST_ANSWER,
    };
    let answer = write.api.send(&client.kube, limit).await;
    answer.map_err(|failure| write.error(failure))
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
    let event = Event {
        type_: Some("Normal".into()),
        reason: Some(note.reason.into()),
        action: Some(note.action.into()),
        note: Some(note.message.clone()),
        reporting_controller: Some(FIELD_MANAGER.into()),
        reporting_instance: Some(FIELD_MANAGER.into()),
        regarding: Some(ObjectReference {
            api_version: text(&note.about["apiVersion"]),
            kind: text(&note.about["kind"]),
            namespace: Some(namespace.to_owned()),
            name: text(&metadata["name"]),
            uid: text(&metadata["uid"]),
            ..ObjectReference::default()
        }),
        ..Event::default()
    };
    let right = Right::new("create", "events.k8s.io", "events").within(namespace);
    send(client, Write::new(right, event::publish(event)))
        .await
        .map(|_| ())
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use kube::Config;
    use serde_json::json;

    use super::*;

    const GUARD: Guard<'static> = Guard {
        uid: "uid",
        resource_version: "1",
    };

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
        let eviction = || Write::evict("prod", "db-0", GUARD);
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
        let evict = || Write::evict("prod", "db-0", GUARD);
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
        assert!(matches!(busy, WriteError::Busy), "{busy:?}");
        assert!(
            Failure::from(busy)
                .to_string()
                .starts_with("the API server has too many requests")
        );
    }

    #[tokio::test]
    async fn a_read_that_is_not_answered_ends() {
        use pps_check::reader::{CHECK_LIMITS, Reader};
        let (_listener, client) = silent();
        let limits = client.limits(CHECK_LIMITS);
        let reader = Reader::new(client.kube, limits, Duration::from_mins(1));
        let path = "/api/v1/namespaces/prod/pods/db-0";
        let _: pps_check::read::Read<Value> = reader.get(Right::new("get", "", "pods"), path).await;
        assert_eq!(reader.into_problems().len(), 1);
    }
}
