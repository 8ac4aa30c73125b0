//! Refusals on the wire: what the API server answers with instead of an object.

use std::time::Duration;

use http::{HeaderMap, header};
use serde::Deserialize;

use super::encoding::{Encoded, Encoding, Message};
use super::object::{Malformed, null_as_default};
use super::protobuf::{Kind, Schema};

/// The longest wait that an answer can ask for, in seconds. Recording must not stop for an hour, in a process
/// that keeps the Lease, because a load balancer asks for that.
pub(crate) const LONGEST_WAIT: u32 = 60;

const STATUS: Schema = &[
    (3, "message", Kind::Text),
    (5, "details", Kind::Message(&[(5, "retryAfterSeconds", Kind::Number)])),
    (6, "code", Kind::Number),
];

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Refusal {
    /// `Status`, unless something else than an API server has answered.
    kind: Option<String>,
    pub(super) code: Option<u16>,
    pub(super) message: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    details: Details,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    #[serde(deserialize_with = "null_as_default")]
    retry_after_seconds: u32,
}

impl Refusal {
    /// Reads a body. One that no API server has sent says nothing.
    pub(crate) fn of_body(body: Vec<u8>) -> Self {
        let body = Message::new(Encoding::of_body(&body).unwrap_or(Encoding::Json), body);
        body.open().and_then(Self::read).unwrap_or_default()
    }

    pub(super) fn read(status: Encoded<'_>) -> Result<Self, Malformed> {
        let mut refusal: Self = status.read(STATUS)?;
        if let Encoded::Protobuf(_) = status {
            refusal.kind = Some("Status".into());
        }
        Ok(refusal)
    }

    /// What the API server says. What something else has sent is not shown.
    pub(crate) fn message_of_api_server(self) -> Option<String> {
        self.message.filter(|_| self.kind.as_deref() == Some("Status"))
    }

    /// How long to wait, as the answer asks for here or in its headers.
    pub(crate) fn retry_after(&self, headers: &HeaderMap) -> Duration {
        let header = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let seconds = self.details.retry_after_seconds.max(header.unwrap_or(0)).min(LONGEST_WAIT);
        Duration::from_secs(seconds.into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::protobuf::tests::{envelope, message, number};
    use super::*;

    #[test]
    fn a_refusal_is_the_same_in_both_encodings() {
        let json =
            br#"{"kind": "Status", "code": 429, "message": "busy", "details": {"retryAfterSeconds": 7}}"#;
        let status = [message(&[(2, b"Failure"), (3, b"busy"), (5, &number(5, 7))]), number(6, 429)].concat();
        let refusal = Refusal::of_body(json.to_vec());
        assert_eq!((refusal.code, refusal.message.as_deref()), (Some(429), Some("busy")));
        assert_eq!(Refusal::of_body(envelope(&status)), refusal);
        for other in [&br#"{"details": null}"#[..], b"<html>", b"[1]", b"k8s\0\xff", b""] {
            assert_eq!(Refusal::of_body(other.to_vec()), Refusal::default());
        }
        let foreign = Refusal::of_body(br#"{"message": "hunter2"}"#.to_vec());
        assert_eq!(foreign.message_of_api_server(), None);
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
            let body = format!(r#"{{"kind": "Status", "details": {{"retryAfterSeconds": {details}}}}}"#);
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, header.parse().unwrap())]);
            let wait = Refusal::of_body(body.into_bytes()).retry_after(&headers);
            assert_eq!(wait, Duration::from_secs(expected), "{header} {details}");
        }
    }
}
