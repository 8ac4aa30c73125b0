//! The two encodings in which the API server sends objects.

use serde::Deserialize;

use super::malformed::{Malformed, describe};
use super::protobuf::{self, MAGIC, Schema};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Protobuf,
}

/// An unread object, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoded<'a> {
    Json(&'a str),
    /// The message, without the envelope around it.
    Protobuf(&'a [u8]),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Json(String),
    Protobuf(Vec<u8>),
}

/// How a body begins decides how it is read: a proxy may have removed or changed the
/// `Content-Type`, and whatever it sends instead must not pass for a list or a watch without
/// objects.
impl Encoding {
    /// The encoding of a body with one object or list; `None` if it is neither JSON nor protobuf.
    pub fn of_body(body: &[u8]) -> Option<Self> {
        if body.starts_with(MAGIC) {
            Some(Self::Protobuf)
        } else {
            Self::json(body)
        }
    }

    /// The encoding of a watch. A frame of protobuf begins with its length in four bytes. The first
    /// of them is less than 9 for any frame that is not far too long, and no JSON begins with such
    /// a byte.
    pub fn of_watch(bytes: &[u8]) -> Option<Self> {
        if bytes.first().is_some_and(|byte| *byte < 9) {
            Some(Self::Protobuf)
        } else {
            Self::json(bytes)
        }
    }

    fn json(bytes: &[u8]) -> Option<Self> {
        bytes
            .trim_ascii_start()
            .first()
            .is_none_or(|byte| *byte == b'{')
            .then_some(Self::Json)
    }
}

impl<'a> Encoded<'a> {
    /// Reads the fields of `T`. The schema names them in protobuf.
    pub(super) fn read<T: Deserialize<'a>>(self, schema: Schema) -> Result<T, Malformed> {
        match self {
            Self::Json(text) => {
                serde_json::from_str(text).map_err(|error| Malformed(describe(&error)))
            }
            Self::Protobuf(message) => protobuf::read(message, schema),
        }
    }
}

impl Message {
    /// Bytes of JSON that are no UTF-8 are replaced.
    pub fn new(encoding: Encoding, bytes: Vec<u8>) -> Self {
        match encoding {
            Encoding::Protobuf => Self::Protobuf(bytes),
            Encoding::Json => Self::Json(
                String::from_utf8(bytes)
                    .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
            ),
        }
    }

    /// What is in the envelope, which only protobuf has.
    pub(super) fn open(&self) -> Result<Encoded<'_>, Malformed> {
        match self {
            Self::Json(text) => Ok(Encoded::Json(text)),
            Self::Protobuf(envelope) => protobuf::open(envelope).map(Encoded::Protobuf),
        }
    }

    pub fn size(&self) -> usize {
        match self {
            Self::Json(text) => text.len(),
            Self::Protobuf(bytes) => bytes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_body_begins_decides_how_it_is_read() {
        assert_eq!(Encoding::of_body(b"k8s\0\x0a"), Some(Encoding::Protobuf));
        assert_eq!(Encoding::of_watch(b"\0\0\x01\0"), Some(Encoding::Protobuf));
        for json in [&b"{"[..], b" \n{\"", b"\n", b""] {
            assert_eq!(Encoding::of_body(json), Some(Encoding::Json));
            assert_eq!(Encoding::of_watch(json), Some(Encoding::Json));
        }
        assert_eq!(
            [Encoding::of_body(b"<html>"), Encoding::of_watch(b"k8s\0")],
            [None, None]
        );
    }
}
