//! What the API server answers with instead of an object.

use std::time::Duration;

use http::{HeaderMap, header};
use serde::Deserialize;
use serde_json::Value;

/// The longest wait that an answer can ask for, in seconds. Recording must not stop for an hour, in
/// a process that keeps the Lease, because a load balancer asks for that.
pub(crate) const LONGEST_WAIT: u32 = 60;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Refusal {
    /// `Status`, unless something else than an API server has answered.
    kind: Option<String>,
    message: Option<String>,
    details: Value,
}

impl Refusal {
    /// Reads a body. One that no API server has sent says nothing.
    pub(crate) fn of_body(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// What the API server says. What something else has sent is not shown.
    pub(crate) fn message_of_api_server(self) -> Option<String> {
        self.message
            .filter(|_| self.kind.as_deref() == Some("Status"))
    }

    /// How long to wait, as the answer asks for here or in its headers.
    pub(crate) fn retry_after(&self, headers: &HeaderMap) -> Duration {
        let header = headers
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        let seconds = self.details["retryAfterSeconds"]
            .as_u64()
            .max(header)
            .unwrap_or(0);
        Duration::from_secs(seconds.min(LONGEST_WAIT.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_message_of_an_api_server_is_shown() {
        let message = |body: &str| Refusal::of_body(body.as_bytes()).message_of_api_server();
        assert_eq!(
            message(r#"{"kind": "Status", "message": "busy"}"#).as_deref(),
            Some("busy")
        );
        for other in [r#"{"message": "hunter2"}"#, "<html>", "[1]", ""] {
            assert_eq!(message(other), None, "{other}");
        }
    }

    #[test]
    fn no_refusal_asks_for_more_than_a_minute() {
        for (header, details, expected) in [
            ("3600", 0, 60),
            ("7", 0, 7),
            ("1", 30, 30),
            ("1", 3600, 60),
            ("-5", 0, 0),
            ("Wed, 21 Oct", 2, 2),
        ] {
            let body =
                format!(r#"{{"kind": "Status", "details": {{"retryAfterSeconds": {details}}}}}"#);
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, header.parse().unwrap())]);
            let wait = Refusal::of_body(body.as_bytes()).retry_after(&headers);
            assert_eq!(wait, Duration::from_secs(expected), "{header} {details}");
        }
    }
}
