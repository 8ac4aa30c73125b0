//! The two encodings in which the API server sends objects.

use super::object::Malformed;

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

/// A page or an event that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Json(String),
    Protobuf(Vec<u8>),
}

impl Encoding {
    /// The encoding that a `Content-Type` names. Whatever is no protobuf is read as JSON: a proxy may answer as well.
    pub fn of(content_type: Option<&str>) -> Self {
        Self::named(content_type).unwrap_or(Self::Json)
    }

    /// The encoding that a `Content-Type` names. JSON if there is none.
    fn named(content_type: Option<&str>) -> Option<Self> {
        let media_type = media_type(content_type);
        if media_type.eq_ignore_ascii_case("application/vnd.kubernetes.protobuf") {
            Some(Self::Protobuf)
        } else if media_type.is_empty() || media_type.eq_ignore_ascii_case("application/json") {
            Some(Self::Json)
        } else {
            None
        }
    }

    /// The encoding of an answer with objects. Fails for one that was not asked for: whatever a proxy sends instead must
    /// not pass for a list or a watch without objects.
    pub fn of_objects(content_type: Option<&str>, takes_protobuf: bool) -> Result<Self, Malformed> {
        match Self::named(content_type) {
            Some(encoding) if takes_protobuf || encoding == Self::Json => Ok(encoding),
            _ => {
                let is_shown = |one: &char| one.is_ascii_alphanumeric() || "/.+-".contains(*one);
                let found: String = media_type(content_type).chars().filter(is_shown).take(100).collect();
                let expected = if takes_protobuf { "JSON or protobuf" } else { "JSON" };
                Err(Malformed(format!("its Content-Type is {found}, not that of {expected}")))
            }
        }
    }
}

fn media_type(content_type: Option<&str>) -> &str {
    content_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim()
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
    fn objects_come_only_in_an_encoding_that_was_asked_for() {
        let protobuf = Some("application/vnd.kubernetes.protobuf;stream=watch");
        assert_eq!(Encoding::of_objects(protobuf, true), Ok(Encoding::Protobuf));
        for json in [None, Some(""), Some("application/json;stream=watch"), Some("Application/JSON")] {
            assert_eq!(Encoding::of_objects(json, true), Ok(Encoding::Json), "{json:?}");
            assert_eq!(Encoding::of_objects(json, false), Ok(Encoding::Json), "{json:?}");
        }
        for (content_type, takes_protobuf, error) in [
            ("text/html; charset=utf-8", true, "its Content-Type is text/html, not that of JSON or protobuf"),
            (
                "application/vnd.kubernetes.protobuf",
                false,
                "its Content-Type is application/vnd.kubernetes.protobuf, not that of JSON",
            ),
            ("a\u{1b}[1m b", false, "its Content-Type is a1mb, not that of JSON"),
        ] {
            let refused = Encoding::of_objects(Some(content_type), takes_protobuf);
            assert_eq!(refused, Err(Malformed(error.to_owned())));
        }
    }
}
