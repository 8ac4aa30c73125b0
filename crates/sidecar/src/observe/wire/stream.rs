//! Lists and watches as the API server sends them: pages of a list, and the events of a watch,
//! which are lines of JSON or frames of protobuf. The objects in them stay unread, so that each can
//! be read alone. And what it answers with instead of an object: refusals.

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderMap, header};
use pps_core::pps::null_as_default;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::encoding::{Encoded, Encoding, Message};
use super::malformed::{Malformed, describe};
use super::protobuf::{self, Fields, Kind, Schema};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
}

const LIST: Schema = &[(
    1,
    "metadata",
    Kind::Message(&[
        (2, "resourceVersion", Kind::Text),
        (3, "continue", Kind::Text),
    ]),
)];
const BOOKMARK: Schema = &[(
    1,
    "metadata",
    Kind::Message(&[(6, "resourceVersion", Kind::Text)]),
)];

/// The most objects that a page may have, far more than are asked for.
const MAX_OBJECTS: usize = 100_000;

/// One page of a list. Its objects stay unread.
#[derive(Debug)]
pub struct Page<'a> {
    pub resource_version: String,
    /// Gives the next page; none for the last one.
    pub continue_token: Option<String>,
    pub items: Vec<Encoded<'a>>,
}

impl<'a> Page<'a> {
    /// Reads a page. Fails if it is no list, if it is damaged in any place between its objects,
    /// which then may not be all, or if its place in time is unknown, so that it could not be
    /// watched from.
    pub fn read(page: &'a Message) -> Result<Self, Malformed> {
        #[derive(Deserialize)]
        struct List<'a> {
            #[serde(default)]
            metadata: ListMetadata,
            #[serde(borrow, default, deserialize_with = "null_as_default")]
            items: Vec<&'a RawValue>,
        }
        let page = page.open()?;
        let list: List<'a> = page.read(LIST)?;
        let mut items: Vec<_> = list
            .items
            .into_iter()
            .map(|item| Encoded::Json(item.get()))
            .collect();
        if let Encoded::Protobuf(message) = page {
            for field in Fields(message) {
                if let (2, object) = field? {
                    items.push(Encoded::Protobuf(object.bytes()?));
                }
            }
        }
        if items.len() > MAX_OBJECTS {
            return Err(Malformed("the page has too many objects".into()));
        }
        let ListMetadata {
            resource_version,
            continue_token,
        } = list.metadata;
        let Some(resource_version) = resource_version.filter(|version| !version.is_empty()) else {
            return Err(Malformed("the list has no resource version".into()));
        };
        Ok(Self {
            resource_version,
            continue_token: continue_token.filter(|token| !token.is_empty()),
            items,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    Applied(Encoded<'a>),
    Deleted(Encoded<'a>),
    /// Everything up to this resource version has been sent.
    Bookmark(String),
    /// The API server ends the watch, for example because the resource version is too old.
    Error {
        code: u16,
        message: String,
    },
}

impl<'a> Event<'a> {
    pub fn read(event: &'a Message) -> Result<Self, Malformed> {
        #[derive(Deserialize)]
        struct Bookmark {
            metadata: ListMetadata,
        }
        let (kind, object) = match event {
            Message::Json(line) => read_line(line)?,
            Message::Protobuf(frame) => read_frame(frame)?,
        };
        match &*kind {
            "ADDED" | "MODIFIED" => Ok(Self::Applied(object)),
            "DELETED" => Ok(Self::Deleted(object)),
            "BOOKMARK" => {
                let version = object.read::<Bookmark>(BOOKMARK)?.metadata.resource_version;
                let version = version.filter(|version| !version.is_empty());
                version
                    .map(Self::Bookmark)
                    .ok_or_else(|| Malformed("a bookmark without a version".into()))
            }
            "ERROR" => {
                let status = Refusal::read(object)?;
                Ok(Self::Error {
                    code: status.code.unwrap_or(500),
                    message: status
                        .message
                        .unwrap_or_else(|| "the API server gives no reason".into()),
                })
            }
            _ => Err(Malformed("an event of an unknown type".into())),
        }
    }
}

fn read_line(line: &str) -> Result<(Cow<'_, str>, Encoded<'_>), Malformed> {
    #[derive(Deserialize)]
    struct Line<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let line: Line<'_> = serde_json::from_str(line).map_err(|error| Malformed(describe(&error)))?;
    Ok((line.kind, Encoded::Json(line.object.get())))
}

/// The type of an event and its object, which is in an envelope of its own.
fn read_frame(frame: &[u8]) -> Result<(Cow<'_, str>, Encoded<'_>), Malformed> {
    let field = |message, number| match Fields(message).find(number)? {
        Some(value) => value.bytes(),
        None => Ok(&[][..]),
    };
    let kind = str::from_utf8(field(frame, 1)?).unwrap_or_default();
    let object = protobuf::open(field(field(frame, 2)?, 1)?)?;
    Ok((kind.into(), Encoded::Protobuf(object)))
}

#[derive(Debug)]
pub struct Events {
    encoding: Encoding,
    buffer: Vec<u8>,
    /// Where the search for the end of the line continues.
    searched: usize,
    longest: usize,
}

impl Events {
    /// The API server has no object that makes an event of more than `longest` bytes.
    pub fn new(encoding: Encoding, longest: usize) -> Self {
        Self {
            encoding,
            buffer: Vec::new(),
            searched: 0,
            longest,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete event. Fails if there is none in as many bytes as an event can have.
    pub fn next_event(&mut self) -> Result<Option<Message>, Malformed> {
        match self.encoding {
            Encoding::Json => self.next_line(),
            Encoding::Protobuf => self.next_frame(),
        }
    }

    /// The next complete line that is not empty.
    fn next_line(&mut self) -> Result<Option<Message>, Malformed> {
        loop {
            let length = self.buffer[self.searched..]
                .iter()
                .position(|byte| *byte == b'\n');
            let end = length.map(|length| self.searched + length);
            self.searched = if end.is_some() { 0 } else { self.buffer.len() };
            self.expect_possible(end.unwrap_or(self.buffer.len()))?;
            let Some(end) = end else { return Ok(None) };
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            if !line.trim_ascii().is_empty() {
                return Ok(Some(Message::new(
                    Encoding::Json,
                    line.trim_ascii().to_vec(),
                )));
            }
        }
    }

    /// The next frame: four bytes with the length, and as many bytes.
    fn next_frame(&mut self) -> Result<Option<Message>, Malformed> {
        let Some((head, rest)) = self.buffer.split_first_chunk() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*head) as usize;
        self.expect_possible(length)?;
        let frame = rest.get(..length).map(<[u8]>::to_vec);
        if frame.is_some() {
            self.buffer.drain(..head.len() + length);
        }
        Ok(frame.map(Message::Protobuf))
    }

    fn expect_possible(&self, length: usize) -> Result<(), Malformed> {
        let error = || {
            format!(
                "it has an event of {length} bytes, more than {}",
                self.longest
            )
        };
        if length > self.longest {
            Err(Malformed(error()))
        } else {
            Ok(())
        }
    }
}

/// The longest wait that an answer can ask for, in seconds. Recording must not stop for an hour, in
/// a process that keeps the Lease, because a load balancer asks for that.
pub const LONGEST_WAIT: u32 = 60;

const REFUSAL: Schema = &[
    (3, "message", Kind::Text),
    (
        5,
        "details",
        Kind::Message(&[(5, "retryAfterSeconds", Kind::Number)]),
    ),
    (6, "code", Kind::Number),
];

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Refusal {
    /// `Status`, unless something else than an API server has answered.
    kind: Option<String>,
    code: Option<u16>,
    message: Option<String>,
    details: Value,
}

impl Refusal {
    /// Reads a body. One that no API server has sent says nothing.
    pub(crate) fn of_body(body: Vec<u8>) -> Self {
        let body = Message::new(Encoding::of_body(&body).unwrap_or(Encoding::Json), body);
        body.open().and_then(Self::read).unwrap_or_default()
    }

    fn read(status: Encoded<'_>) -> Result<Self, Malformed> {
        let mut refusal: Self = status.read(REFUSAL)?;
        if let Encoded::Protobuf(_) = status {
            refusal.kind = Some("Status".into());
        }
        Ok(refusal)
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
    use super::super::protobuf::tests::{envelope, message, number};
    use super::*;

    #[test]
    fn reads_each_kind_of_event_in_protobuf() {
        let read = |kind: &str, object: &[u8]| {
            let frame = message(&[
                (1, kind.as_bytes()),
                (2, &message(&[(1, &envelope(object))])),
            ]);
            Event::read(&Message::Protobuf(frame)).map(|event| format!("{event:?}"))
        };
        assert_eq!(
            read("ADDED", b"\xff").unwrap(),
            "Applied(Protobuf([255]))",
            "unread"
        );
        assert_eq!(read("MODIFIED", b"").unwrap(), "Applied(Protobuf([]))");
        assert_eq!(read("DELETED", b"").unwrap(), "Deleted(Protobuf([]))");
        let bookmark = message(&[(1, &message(&[(6, b"8")]))]);
        assert_eq!(read("BOOKMARK", &bookmark).unwrap(), r#"Bookmark("8")"#);
        let status = [message(&[(3, b"too old")]), number(6, 410)].concat();
        assert_eq!(
            read("ERROR", &status).unwrap(),
            r#"Error { code: 410, message: "too old" }"#
        );
        for (kind, object) in [
            ("BOOKMARK", &b""[..]),
            ("OTHER", b""),
            ("ERROR", b"\xff"),
            ("", b""),
        ] {
            assert!(read(kind, object).is_err(), "{kind}");
        }
        assert!(
            Event::read(&Message::Protobuf(b"\x0a\x05ADDED".to_vec())).is_err(),
            "no object"
        );
    }

    #[test]
    fn reads_each_kind_of_event() {
        let read = |kind: &str, object: &str| {
            let line = Message::Json(format!(r#"{{"type": "{kind}", "object": {object}}}"#));
            Event::read(&line).map(|event| format!("{event:?}"))
        };
        assert_eq!(read("ADDED", "[1]").unwrap(), r#"Applied(Json("[1]"))"#);
        assert_eq!(read("MODIFIED", "{}").unwrap(), r#"Applied(Json("{}"))"#);
        assert_eq!(read("DELETED", "{}").unwrap(), r#"Deleted(Json("{}"))"#);
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
        let reversed = Message::Json(format!(r#"{{"object": {deep}, "type": "ADDED"}}"#));
        assert_eq!(
            Event::read(&reversed),
            Ok(Event::Applied(Encoded::Json(&deep)))
        );
    }

    #[test]
    fn reads_a_page_whose_objects_are_nested_deeper_than_the_parser_follows() {
        let deep = format!("{}1{}", "[".repeat(2000), "]".repeat(2000));
        let page = Message::Json(format!(
            r#"{{"kind": "List", "metadata": {{"resourceVersion": "7", "continue": "t"}}, "items": [{deep} , {{}},"x" ,7]}}"#
        ));
        let page = Page::read(&page).unwrap();
        assert_eq!(
            (&*page.resource_version, page.continue_token.as_deref()),
            ("7", Some("t"))
        );
        let items = [&deep, "{}", "\"x\"", "7"].map(Encoded::Json);
        assert_eq!(page.items, items);
        let last = Message::Json(
            r#"{"metadata": {"resourceVersion": "7", "continue": ""}, "items": null}"#.into(),
        );
        let last = Page::read(&last).unwrap();
        assert_eq!((last.continue_token, last.items), (None, vec![]));
        let too_many = format!(
            r#"{{"metadata": {{"resourceVersion": "7"}}, "items": [{}1]}}"#,
            "1,".repeat(MAX_OBJECTS)
        );
        for wrong in [
            &too_many,
            r#"{"metadata": {}, "items": []}"#,
            r#"{"metadata": {"resourceVersion": "7"}, "items": {}}"#,
            r#"{"metadata": {"resourceVersion": "7"}, "items": [1 2]}"#,
            "<html>",
        ] {
            assert!(
                Page::read(&Message::Json(wrong.into())).is_err(),
                "{}",
                &wrong[..20.min(wrong.len())]
            );
        }
    }

    #[test]
    fn reads_a_page_of_protobuf_whose_objects_are_damaged() {
        let list = message(&[
            (1, &message(&[(2, b"7"), (3, b"t")])),
            (2, b"\xff\xff"),
            (2, b""),
        ]);
        let page = Message::Protobuf(envelope(&list));
        let page = Page::read(&page).unwrap();
        assert_eq!(
            (&*page.resource_version, page.continue_token.as_deref()),
            ("7", Some("t"))
        );
        let expected = [Encoded::Protobuf(b"\xff\xff"), Encoded::Protobuf(b"")];
        assert_eq!(page.items, expected);
        let cut_short = &list[..list.len() - 1];
        // Between two objects: a number in place of an object, and a field of no type.
        let odd =
            [&number(2, 7)[..], b"\x17"].map(|odd| envelope(&[&list, odd, b"\x12\0"].concat()));
        let too_many = envelope(&[&list, &b"\x12\0".repeat(MAX_OBJECTS)[..]].concat());
        let others = [
            envelope(cut_short),
            envelope(&message(&[(2, b"")])),
            b"{}".to_vec(),
            Vec::new(),
        ];
        for other in others.into_iter().chain(odd).chain([too_many]) {
            let length = other.len();
            assert!(
                Page::read(&Message::Protobuf(other)).is_err(),
                "{length} bytes"
            );
        }
    }

    /// The events in these bytes, which arrive in pieces of this size.
    fn split(bytes: &[u8], encoding: Encoding, size: usize) -> Vec<Message> {
        let mut events = Events::new(encoding, 10);
        let mut found = Vec::new();
        for piece in bytes.chunks(size) {
            events.push(piece);
            while let Some(event) = events.next_event().unwrap() {
                found.push(event);
            }
        }
        found
    }

    #[test]
    fn splits_lines_however_the_bytes_arrive() {
        let text = b"one\n\r\ntwo \xff\nlast\nopen";
        for size in 1..=text.len() {
            let expected =
                ["one", "two \u{fffd}", "last"].map(|line| Message::Json(line.to_owned()));
            assert_eq!(split(text, Encoding::Json, size), expected, "{size}");
        }
    }

    #[test]
    fn splits_frames_however_the_bytes_arrive() {
        let frame =
            |bytes: &[u8]| [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat();
        let mut bytes = [
            frame(b"one"),
            frame(b""),
            frame(&[0xff; 10]),
            frame(b"last"),
        ]
        .concat();
        bytes.extend(b"\0\0\0\x05open");
        for size in 1..=bytes.len() {
            let frame = |bytes: &[u8]| Message::Protobuf(bytes.to_vec());
            let expected = [
                frame(b"one"),
                frame(b""),
                frame(&[0xff; 10]),
                frame(b"last"),
            ];
            assert_eq!(split(&bytes, Encoding::Protobuf, size), expected, "{size}");
        }
    }

    #[test]
    fn an_event_that_is_too_long_ends_the_watch() {
        for (encoding, bytes) in [
            (Encoding::Protobuf, &1001_u32.to_be_bytes()[..]),
            (Encoding::Json, &[b' '; 1001]),
        ] {
            let mut events = Events::new(encoding, 1000);
            events.push(bytes);
            assert!(events.next_event().is_err());
        }
    }

    #[test]
    fn a_refusal_is_the_same_in_both_encodings() {
        let json =
            br#"{"kind": "Status", "code": 429, "message": "busy", "details": {"retryAfterSeconds": 7}}"#;
        let status = [
            message(&[(2, b"Failure"), (3, b"busy"), (5, &number(5, 7))]),
            number(6, 429),
        ]
        .concat();
        let refusal = Refusal::of_body(json.to_vec());
        assert_eq!(
            (refusal.code, refusal.message.as_deref()),
            (Some(429), Some("busy"))
        );
        assert_eq!(Refusal::of_body(envelope(&status)), refusal);
        for other in [
            &br#"{"details": null}"#[..],
            b"<html>",
            b"[1]",
            b"k8s\0\xff",
            b"",
        ] {
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
            let body =
                format!(r#"{{"kind": "Status", "details": {{"retryAfterSeconds": {details}}}}}"#);
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, header.parse().unwrap())]);
            let wait = Refusal::of_body(body.into_bytes()).retry_after(&headers);
            assert_eq!(wait, Duration::from_secs(expected), "{header} {details}");
        }
    }
}
