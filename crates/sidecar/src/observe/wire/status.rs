//! Refusals on the wire: what the API server answers with instead of an object.

use http::{HeaderMap, header};
use serde::Deserialize;

use super::encoding::Encoded;
use super::metadata::null_as_default;
use super::object::{Malformed, describe};
use super::protobuf::{Damaged, Fields, open};

/// The fields of a `Status` that are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Refusal {
    pub(crate) code: Option<u16>,
    pub(crate) message: Option<String>,
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
    /// Reads a body, or the object of an event.
    pub(crate) fn read(status: Encoded<'_>) -> Result<Self, Malformed> {
        match status {
            Encoded::Json(text) => serde_json::from_str(text).map_err(|error| Malformed(describe(&error))),
            Encoded::Protobuf(bytes) => Ok(read_message(open(bytes)?)?),
        }
    }

    /// How many seconds the API server asks to wait.
    pub(crate) fn retry_after_seconds(&self) -> u32 {
        self.details.retry_after_seconds
    }
}

/// How many seconds the headers of an answer ask to wait.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<u32> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()
}

fn read_message(message: &[u8]) -> Result<Refusal, Damaged> {
    let mut refusal = Refusal::default();
    for field in Fields::of(message) {
        match field? {
            (3, value) => refusal.message = value.some_text()?,
            (5, value) => {
                for field in value.fields()? {
                    if let (5, value) = field? {
                        refusal.details.retry_after_seconds = u32::try_from(value.signed()?).unwrap_or(0);
                    }
                }
            }
            (6, value) => refusal.code = u16::try_from(value.signed()?).ok(),
            _ => {}
        }
    }
    Ok(refusal)
}

#[cfg(test)]
mod tests {
    use super::super::protobuf::tests::{envelope, message, number};
    use super::*;

    #[test]
    fn a_refusal_is_the_same_in_both_encodings() {
        let json =
            r#"{"kind": "Status", "code": 429, "message": "busy", "details": {"retryAfterSeconds": 7}}"#;
        let status = [message(&[(2, b"Failure"), (3, b"busy"), (5, &number(5, 7))]), number(6, 429)].concat();
        let refusal = Refusal::read(Encoded::Json(json)).unwrap();
        assert_eq!((refusal.code, refusal.message.as_deref()), (Some(429), Some("busy")));
        assert_eq!(refusal.retry_after_seconds(), 7);
        assert_eq!(Refusal::read(Encoded::Protobuf(&envelope(&status))), Ok(refusal));
        assert_eq!(Refusal::read(Encoded::Json(r#"{"details": null}"#)), Ok(Refusal::default()));
        assert_eq!(Refusal::read(Encoded::Protobuf(&envelope(&[]))), Ok(Refusal::default()));
        assert!(Refusal::read(Encoded::Protobuf(b"{}")).is_err());
    }
}
