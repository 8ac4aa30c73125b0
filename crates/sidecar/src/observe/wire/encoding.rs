//! The two encodings in which the API server sends objects.

use super::object::Malformed;
use super::protobuf::MAGIC;

/// How a body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Protobuf,
}

/// An unread object, page or event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoded<'a> {
    Json(&'a str),
    /// The message, without the envelope around it.
    Protobuf(&'a [u8]),
}

/// A reader of objects in either encoding.
pub fn in_either<T>(json: impl Fn(&str) -> T, protobuf: impl Fn(&[u8]) -> T) -> impl Fn(Encoded<'_>) -> T {
    move |object| match object {
        Encoded::Json(text) => json(text),
        Encoded::Protobuf(message) => protobuf(message),
    }
}

/// A page or an event that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Json(String),
    Protobuf(Vec<u8>),
}

impl Encoding {
    /// The encoding that a `Content-Type` names. Whatever is no protobuf is read as JSON: a proxy may answer as well.
    pub fn of(content_type: Option<&str>) -> Self {
        if media_type(content_type).eq_ignore_ascii_case("application/vnd.kubernetes.protobuf") {
            Self::Protobuf
        } else {
            Self::Json
        }
    }
}

fn media_type(content_type: Option<&str>) -> &str {
    content_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim()
}

/// What is known of an answer with objects before its body arrives. How the body begins decides how it is read: a proxy
/// may have removed or changed the `Content-Type`, and whatever it sends instead must not pass for a list or a watch
/// without objects.
#[derive(Clone, Debug)]
pub struct Answer {
    takes_protobuf: bool,
    /// For the error only.
    media_type: String,
}

impl Answer {
    pub fn new(content_type: Option<&str>, takes_protobuf: bool) -> Self {
        let is_shown = |one: &char| one.is_ascii_alphanumeric() || "/.+-".contains(*one);
        let media_type = media_type(content_type).chars().filter(is_shown).take(100).collect();
        Self { takes_protobuf, media_type }
    }

    /// The encoding of a page of a list.
    pub fn encoding_of_page(&self, body: &[u8]) -> Result<Encoding, Malformed> {
        self.encoding(body, body.starts_with(MAGIC))
    }

    /// The encoding of a watch. A frame of protobuf begins with its length in four bytes. The first of them is less than 9
    /// for any frame that is not far too long, and no JSON begins with such a byte.
    pub fn encoding_of_watch(&self, body: &[u8]) -> Result<Encoding, Malformed> {
        self.encoding(body, body.first().is_some_and(|byte| *byte < 9))
    }

    fn encoding(&self, body: &[u8], is_protobuf: bool) -> Result<Encoding, Malformed> {
        if is_protobuf {
            let refusal = || Malformed("it is protobuf, which was not asked for".into());
            return self.takes_protobuf.then_some(Encoding::Protobuf).ok_or_else(refusal);
        }
        if body.trim_ascii_start().first().is_none_or(|byte| *byte == b'{') {
            return Ok(Encoding::Json);
        }
        let expected =
            if self.takes_protobuf { "neither like JSON nor like protobuf" } else { "not like JSON" };
        let found = if self.media_type.is_empty() { "missing" } else { &self.media_type };
        Err(Malformed(format!("it begins {expected}; its Content-Type is {found}")))
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

    pub fn as_encoded(&self) -> Encoded<'_> {
        match self {
            Self::Json(text) => Encoded::Json(text),
            Self::Protobuf(bytes) => Encoded::Protobuf(bytes),
        }
    }

    /// How many bytes it has.
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
    fn only_the_media_type_of_protobuf_is_read_as_protobuf() {
        for protobuf in [
            "application/vnd.kubernetes.protobuf",
            "application/vnd.kubernetes.protobuf;stream=watch",
            "Application/vnd.Kubernetes.protobuf ; as=x",
        ] {
            assert_eq!(Encoding::of(Some(protobuf)), Encoding::Protobuf, "{protobuf}");
        }
        for json in [
            None,
            Some(""),
            Some("application/json"),
            Some("text/html"),
            Some("x;application/vnd.kubernetes.protobuf"),
        ] {
            assert_eq!(Encoding::of(json), Encoding::Json, "{json:?}");
        }
    }

    #[test]
    fn how_an_answer_begins_decides_how_it_is_read() {
        let both = Answer::new(Some("text/html; charset=utf-8"), true);
        assert_eq!(both.encoding_of_page(b"k8s\0\x0a"), Ok(Encoding::Protobuf));
        assert_eq!(both.encoding_of_watch(b"\0\0\x01\0"), Ok(Encoding::Protobuf));
        for json in [&b"{"[..], b" \n{\"", b"\n", b""] {
            assert_eq!(both.encoding_of_page(json), Ok(Encoding::Json));
            assert_eq!(both.encoding_of_watch(json), Ok(Encoding::Json));
        }
        let json = Answer::new(Some("a\u{1b}[1m b"), false);
        for (refused, error) in [
            (
                both.encoding_of_page(b"<html>"),
                "it begins neither like JSON nor like protobuf; its Content-Type is text/html",
            ),
            (
                both.encoding_of_watch(b"k8s\0"),
                "it begins neither like JSON nor like protobuf; its Content-Type is text/html",
            ),
            (json.encoding_of_page(b"k8s\0"), "it is protobuf, which was not asked for"),
            (json.encoding_of_watch(b"\0"), "it is protobuf, which was not asked for"),
            (json.encoding_of_watch(b"<"), "it begins not like JSON; its Content-Type is a1mb"),
            (
                Answer::new(None, false).encoding_of_page(b"<"),
                "it begins not like JSON; its Content-Type is missing",
            ),
        ] {
            assert_eq!(refused, Err(Malformed(error.to_owned())));
        }
    }
}
