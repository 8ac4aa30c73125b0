//! Lists and watches as the API server sends them: pages of a list, and the events of a watch, which are lines of JSON
//! or frames of protobuf. The objects in them stay unread, so that each can be read alone.

mod events;
mod page;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

pub use self::events::Events;
pub use self::page::Page;
use super::encoding::Encoded;
use super::object::{Malformed, describe};
use super::protobuf::{Damaged, Fields, open};
use super::status::Refusal;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
}

/// One event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<O> {
    /// An object was created or changed.
    Applied(O),
    Deleted(O),
    /// Everything up to this resource version has been sent.
    Bookmark(String),
    /// The API server ends the watch, for example because the resource version is too old.
    Error {
        code: u16,
        message: String,
    },
}

/// One line of a watch in JSON.
pub type Line<'a> = Event<&'a str>;

impl<'a> Line<'a> {
    pub fn read(text: &'a str) -> Result<Self, Malformed> {
        #[derive(Deserialize)]
        struct JsonEvent<'a> {
            #[serde(rename = "type", borrow)]
            kind: Cow<'a, str>,
            #[serde(borrow)]
            object: &'a RawValue,
        }
        #[derive(Deserialize)]
        struct Bookmark {
            metadata: PageMetadata,
        }
        let malformed = |error: serde_json::Error| Malformed(describe(&error));
        let event: JsonEvent<'a> = serde_json::from_str(text).map_err(malformed)?;
        let object = event.object.get();
        Self::new(&event.kind, object, Encoded::Json(object), || {
            let bookmark: Bookmark = serde_json::from_str(object).map_err(malformed)?;
            Ok(bookmark.metadata.resource_version)
        })
    }
}

impl<'a> Event<&'a [u8]> {
    /// Reads the frame of an event. Each object in it is in an envelope of its own.
    pub fn read_frame(frame: &'a [u8]) -> Result<Self, Malformed> {
        let (mut kind, mut envelope) = (&[][..], &[][..]);
        for field in Fields::of(frame) {
            match field? {
                (1, value) => kind = value.bytes()?,
                (2, value) => {
                    for field in value.fields()? {
                        if let (1, value) = field? {
                            envelope = value.bytes()?;
                        }
                    }
                }
                _ => {}
            }
        }
        let object = open(envelope)?;
        let kind = std::str::from_utf8(kind).unwrap_or_default();
        Self::new(kind, object, Encoded::Protobuf(envelope), || Ok(bookmarked_version(object)?))
    }
}

/// The version in the metadata of an object.
fn bookmarked_version(object: &[u8]) -> Result<Option<String>, Damaged> {
    for field in Fields::of(object) {
        if let (1, value) = field? {
            return Ok(super::protobuf::metadata(value.fields()?)?.resource_version);
        }
    }
    Ok(None)
}

impl<O> Event<O> {
    fn new(
        kind: &str,
        object: O,
        status: Encoded<'_>,
        bookmark: impl FnOnce() -> Result<Option<String>, Malformed>,
    ) -> Result<Self, Malformed> {
        match kind {
            "ADDED" | "MODIFIED" => Ok(Self::Applied(object)),
            "DELETED" => Ok(Self::Deleted(object)),
            "BOOKMARK" => {
                let version = bookmark()?.filter(|version| !version.is_empty());
                version.map(Self::Bookmark).ok_or_else(|| Malformed("a bookmark without a version".into()))
            }
            "ERROR" => {
                let status = Refusal::read(status)?;
                Ok(Self::Error {
                    code: status.code.unwrap_or(500),
                    message: status.message.unwrap_or_else(|| "the API server gives no reason".into()),
                })
            }
            _ => Err(Malformed("an event of an unknown type".into())),
        }
    }

    fn map<T>(self, object: impl FnOnce(O) -> T) -> Event<T> {
        match self {
            Self::Applied(applied) => Event::Applied(object(applied)),
            Self::Deleted(deleted) => Event::Deleted(object(deleted)),
            Self::Bookmark(version) => Event::Bookmark(version),
            Self::Error { code, message } => Event::Error { code, message },
        }
    }
}

impl<'a> Event<Encoded<'a>> {
    /// Reads an event in either encoding.
    pub fn of(event: Encoded<'a>) -> Result<Self, Malformed> {
        match event {
            Encoded::Json(line) => Line::read(line).map(|event| event.map(Encoded::Json)),
            Encoded::Protobuf(frame) => Event::read_frame(frame).map(|event| event.map(Encoded::Protobuf)),
        }
    }
}

/// Splits what a watch sends into lines.
#[derive(Debug)]
pub struct Lines {
    buffer: Vec<u8>,
    /// Where the search for the end of the line continues.
    searched: usize,
    longest: usize,
    /// Whether the rest of the line is dropped because the line is too long.
    skips: bool,
}

impl Lines {
    /// Lines longer than this number of bytes are dropped.
    pub fn new(longest: usize) -> Self {
        Self { buffer: Vec::new(), searched: 0, longest, skips: false }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete line that is not empty. Bytes that are no UTF-8 are replaced.
    pub fn next_line(&mut self) -> Option<Result<String, Malformed>> {
        loop {
            let Some(length) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
                self.searched = self.buffer.len();
                if self.buffer.len() > self.longest {
                    (self.buffer, self.searched, self.skips) = (Vec::new(), 0, true);
                }
                return None;
            };
            let end = self.searched + length;
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            self.searched = 0;
            if std::mem::take(&mut self.skips) || line.len() > self.longest {
                return Some(Err(Malformed(format!("an event of more than {} bytes", self.longest))));
            }
            let line = String::from_utf8_lossy(&line);
            let line = line.trim();
            if !line.is_empty() {
                return Some(Ok(line.to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::protobuf::tests::{envelope, message, number};
    use super::*;

    fn frame(kind: &str, object: &[u8]) -> Vec<u8> {
        message(&[(1, kind.as_bytes()), (2, &message(&[(1, &envelope(object))]))])
    }

    #[test]
    fn reads_each_kind_of_event_in_protobuf() {
        let read = |kind: &str, object: &[u8]| {
            let frame = frame(kind, object);
            Event::of(Encoded::Protobuf(&frame)).map(|event| format!("{event:?}"))
        };
        assert_eq!(read("ADDED", b"\xff").unwrap(), "Applied(Protobuf([255]))", "unread");
        assert_eq!(read("MODIFIED", b"").unwrap(), "Applied(Protobuf([]))");
        assert_eq!(read("DELETED", b"").unwrap(), "Deleted(Protobuf([]))");
        let bookmark = message(&[(1, &message(&[(6, b"8")]))]);
        assert_eq!(read("BOOKMARK", &bookmark).unwrap(), r#"Bookmark("8")"#);
        let status = [message(&[(3, b"too old")]), number(6, 410)].concat();
        assert_eq!(read("ERROR", &status).unwrap(), r#"Error { code: 410, message: "too old" }"#);
        for (kind, object) in [("BOOKMARK", &b""[..]), ("OTHER", b""), ("ERROR", b"\xff"), ("", b"")] {
            assert!(read(kind, object).is_err(), "{kind}");
        }
        assert!(Event::of(Encoded::Protobuf(b"\x0a\x05ADDED")).is_err(), "no object");
    }

    #[test]
    fn reads_each_kind_of_event() {
        let read = |kind: &str, object: &str| {
            Line::read(&format!(r#"{{"type": "{kind}", "object": {object}}}"#))
                .map(|line| format!("{line:?}"))
        };
        assert_eq!(read("ADDED", "[1]").unwrap(), r#"Applied("[1]")"#);
        assert_eq!(read("MODIFIED", "{}").unwrap(), r#"Applied("{}")"#);
        assert_eq!(read("DELETED", "{}").unwrap(), r#"Deleted("{}")"#);
        assert_eq!(
            read("BOOKMARK", r#"{"metadata": {"resourceVersion": "8"}}"#).unwrap(),
            r#"Bookmark("8")"#
        );
        let error = read("ERROR", r#"{"code": 410, "message": "too old"}"#).unwrap();
        assert_eq!(error, r#"Error { code: 410, message: "too old" }"#);
        for (kind, object) in [("BOOKMARK", "{}"), ("OTHER", "{}"), ("ERROR", "5")] {
            assert!(read(kind, object).is_err(), "{kind}");
        }
        let deep = "[".repeat(500) + &"]".repeat(500);
        let reversed = format!(r#"{{"object": {deep}, "type": "ADDED"}}"#);
        assert_eq!(Line::read(&reversed), Ok(Line::Applied(&deep)));
    }

    #[test]
    fn splits_lines_however_the_bytes_arrive() {
        let text = b"one\n\r\ntwo \xff\nmuch too long\nlast\nopen";
        for size in 1..=text.len() {
            let mut lines = Lines::new(10);
            let mut found = Vec::new();
            for piece in text.chunks(size) {
                lines.push(piece);
                while let Some(line) = lines.next_line() {
                    found.push(line.map_err(|_| ()));
                }
            }
            let expected = [Ok("one"), Ok("two \u{fffd}"), Err(()), Ok("last")];
            assert_eq!(found, expected.map(|line| line.map(str::to_owned)), "{size}");
        }
    }
}
