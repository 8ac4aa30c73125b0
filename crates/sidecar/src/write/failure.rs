//! Why a request failed, and what follows from the API server's answer.

use std::fmt::Display;
use std::time::Duration;

use http::response::Parts;
use kube::core::Status;
use pps_core::shorten_to;
use serde_json::json;

use crate::observe::client::describe;
use crate::observe::watch::{LONGEST_WAIT, Refusal, WatchError};

/// How long a message of the API server may be in an Event or a log entry.
const MAX_REFUSAL: usize = 400;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The object has changed since the write was decided. The watch will deliver the new state.
    #[error("the object has changed in the meantime")]
    Conflict,
    #[error("the object no longer exists")]
    NotFound,
    /// The API server or an admission policy refuses what is asked for. The same request would be
    /// refused again.
    #[error("{0}")]
    Refused(String),
    #[error("{message}")]
    Other {
        message: String,
        retry_after: Duration,
    },
    /// This object cannot be read, or its answer is too large. Other objects may be readable.
    #[error("{0}")]
    Unreadable(String),
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

    pub(super) fn of_read(what: &impl Display, error: &WatchError) -> Self {
        let message = shortened(&format!("cannot read {what}: {error}"));
        match error {
            WatchError::TooLarge(_) => {
                Self::Unreadable(format!("{message}; make the object smaller"))
            }
            WatchError::Malformed(_) => Self::Unreadable(message),
            _ => Self::Other {
                message,
                retry_after: error.retry_after(),
            },
        }
    }

    pub(crate) fn result(&self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::NotFound => "not_found",
            Self::Refused(_) => "refused",
            Self::Other { .. } | Self::Unreadable(_) => "error",
            Self::TooLarge(_) => "too_large",
            Self::NotLeading => "not_leading",
        }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Other { retry_after, .. } if !retry_after.is_zero() => Some(*retry_after),
            _ => None,
        }
    }
}

/// What an answer refuses. Of one that a gateway has written, or a full queue of the API server,
/// only the head counts: it says the code, and how long to wait. The page of another server may
/// hold secrets.
pub(super) fn refusal(head: &Parts, body: &[u8]) -> Status {
    let code = head.status;
    let reason = code.canonical_reason().unwrap_or_default();
    let status = serde_json::from_slice(body)
        .ok()
        .filter(|status: &Status| status.status.is_some());
    let mut status = status.unwrap_or_else(|| Status::failure("the answer is no Status", reason));
    status.code = code.as_u16();
    let seconds = Refusal::default().retry_after(&head.headers).as_secs();
    let details = || serde_json::from_value(json!({"retryAfterSeconds": seconds})).ok();
    status.details = status.details.or_else(details);
    status
}

/// Whether the API server, etcd, or the connection between them refuses a request of this size.
fn is_too_large(status: &Status) -> bool {
    let says = |words: &str| status.message.contains(words);
    status.code == 413 || says("request is too large") || says("larger than max")
}

/// Whether the API server or an admission webhook refuses what a request asks for. A webhook's
/// denial may have any status code.
fn is_refusal(status: &Status) -> bool {
    let is_denial = status.message.starts_with("admission webhook ")
        && status.message.contains("denied the request");
    is_denial || matches!(status.code, 400 | 403 | 405 | 422)
}

/// A message on one line, without the end of a long one.
fn shortened(message: &str) -> String {
    shorten_to(
        MAX_REFUSAL,
        &message.split_whitespace().collect::<Vec<_>>().join(" "),
    )
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::Other {
                message: describe(&error),
                retry_after: Duration::ZERO,
            };
        };
        let message = shortened(&status.message);
        match status.code {
            code if is_too_large(&status) => Self::TooLarge(format!("{code} {message}")),
            code if is_refusal(&status) => Self::Refused(format!("{code} {message}")),
            404 => Self::NotFound,
            409 => Self::Conflict,
            code => {
                let seconds = status
                    .details
                    .as_ref()
                    .map_or(0, |details| details.retry_after_seconds);
                let seconds = seconds.min(LONGEST_WAIT);
                Self::Other {
                    message: format!("{code} {}: {message}", shortened(&status.reason)),
                    retry_after: Duration::from_secs(seconds.into()),
                }
            }
        }
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
                "rpc error: code = ResourceExhausted desc = trying to send message larger than \
                 max (3 vs. 2)",
                true,
            ),
            (500, "etcdserver: request timed out", false),
            (422, "podStates is invalid", false),
        ] {
            let status =
                json!({"status": "Failure", "message": message, "code": code, "reason": ""});
            let failure = Failure::from(kube::Error::Api(serde_json::from_value(status).unwrap()));
            assert_eq!(
                matches!(failure, Failure::TooLarge(_)),
                expected,
                "{message}"
            );
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
            (
                500,
                r#"failed calling webhook "p.kubewarden.admission": timeout"#,
                false,
            ),
            (429, "the server has received too many requests", false),
            (401, "Unauthorized", false),
            (404, "not found", false),
        ] {
            let status =
                json!({"status": "Failure", "message": message, "code": code, "reason": ""});
            let failure = Failure::from(kube::Error::Api(serde_json::from_value(status).unwrap()));
            assert_eq!(
                matches!(failure, Failure::Refused(_)),
                expected,
                "{code} {message}"
            );
        }
        assert!(shortened(&"é ".repeat(9_000)).chars().count() <= MAX_REFUSAL + 1);
    }

    #[test]
    fn the_page_of_another_server_is_not_repeated() {
        for (body, expected) in [
            (
                "<html>secret</html>",
                "502 Bad Gateway: the answer is no Status",
            ),
            (
                r#"{"message": "secret"}"#,
                "502 Bad Gateway: the answer is no Status",
            ),
            (
                r#"{"status": "Failure", "reason": "InternalError", "message": "no etcd"}"#,
                "502 InternalError: no etcd",
            ),
        ] {
            let (head, ()) = http::Response::builder()
                .status(502)
                .body(())
                .unwrap()
                .into_parts();
            let failure = Failure::from(kube::Error::Api(refusal(&head, body.as_bytes()).boxed()));
            assert_eq!(failure.to_string(), expected);
        }
    }
}
