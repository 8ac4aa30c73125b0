//! The two encodings in which the API server sends objects.

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
        let media_type = content_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
        if media_type.eq_ignore_ascii_case("application/vnd.kubernetes.protobuf") {
            Self::Protobuf
        } else {
            Self::Json
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
}
