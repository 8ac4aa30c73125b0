//! Refusals on the wire: what the API server answers with instead of an object.

use http::{HeaderMap, header};
use serde::{Deserialize, Serialize};

use super::encoding::{Encoded, Message};
use super::object::{Malformed, null_as_default};
use super::protobuf::{Kind, Schema};

/// The longest wait that an API server can ask for, in seconds.
const LONGEST_WAIT: u64 = 60;
/// The longest wait, in seconds, that anything else can ask for: a proxy or load balancer that knows nothing
/// of the API server, or the API server's guard against too many requests, which asks for one second.
const LONGEST_FOREIGN_WAIT: u64 = 10;

const STATUS: Schema = &[
    (3, "message", Kind::Text),
    (5, "details", Kind::Message(&[(5, "retryAfterSeconds", Kind::Number)])),
    (6, "code", Kind::Number),
];

/// The fields of a `Status` that are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Refusal {
    /// `Status`, unless something else than an API server has answered.
    kind: Option<String>,
    pub(crate) code: Option<u16>,
    pub(crate) message: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    details: Details,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    #[serde(deserialize_with = "null_as_default")]
    retry_after_seconds: u32,
}

impl Refusal {
    /// Reads a body.
    pub(crate) fn read(body: &Message) -> Result<Self, Malformed> {
        Self::read_object(body.open()?)
    }

    /// Reads the object of an event.
    pub(super) fn read_object(status: Encoded<'_>) -> Result<Self, Malformed> {
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

    /// How many seconds the API server asks to wait.
    pub(crate) fn retry_after_seconds(&self) -> u32 {
        self.details.retry_after_seconds
    }
}

/// How many seconds to wait, as a refusal asks for in its headers and, if it is a `Status`, there. Recording
/// must not stop for an hour, in a process that keeps the Lease, because a load balancer asks for that.
pub(crate) fn wait_seconds(headers: &HeaderMap, in_status: Option<u64>) -> u64 {
    let header = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let longest = if in_status.is_some() { LONGEST_WAIT } else { LONGEST_FOREIGN_WAIT };
    header.unwrap_or(0).max(in_status.unwrap_or(0)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::super::protobuf::tests::{envelope, message, number};
    use super::*;

    #[test]
    fn a_refusal_is_the_same_in_both_encodings() {
        let json = |text: &str| Refusal::read(&Message::Json(text.into()));
        let status = [message(&[(2, b"Failure"), (3, b"busy"), (5, &number(5, 7))]), number(6, 429)].concat();
        let refusal = json(
            r#"{"kind": "Status", "code": 429, "message": "busy", "details": {"retryAfterSeconds": 7}}"#,
        );
        let refusal = refusal.unwrap();
        assert_eq!((refusal.code, refusal.message.as_deref()), (Some(429), Some("busy")));
        assert_eq!(refusal.retry_after_seconds(), 7);
        assert_eq!(Refusal::read(&Message::Protobuf(envelope(&status))), Ok(refusal));
        assert_eq!(json(r#"{"details": null}"#), Ok(Refusal::default()));
        let empty = Refusal { kind: Some("Status".into()), ..Refusal::default() };
        assert_eq!(Refusal::read(&Message::Protobuf(envelope(&[]))), Ok(empty));
        assert!(Refusal::read(&Message::Protobuf(b"{}".to_vec())).is_err());
    }
}
