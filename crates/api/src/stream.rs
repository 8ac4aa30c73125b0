//! Lists and watches as the API server sends them: the pages of a list, and the lines of a watch.
//! The objects in them stay unread, so that each can be read alone.

use std::borrow::Cow;
use std::io;

use bytes::Bytes;
use futures::{Stream, StreamExt, future};
use kube::core::{ObjectList, Status, WatchEvent};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, FramedRead};
use tokio_util::io::StreamReader;

use crate::describe::describe_json;
use crate::failure::Failure;

/// The most objects that a page may have, far more than are asked for.
const MAX_OBJECTS: usize = 100_000;

/// One page of a list. Its objects stay unread.
#[derive(Debug)]
pub struct Page<'a> {
    /// Such as `PodList`; `List` if the list does not say.
    pub kind: String,
    /// The API version of the list, and so of its objects.
    pub api_version: String,
    /// The version at which the objects were as they are in the list; empty if it does not say.
    pub resource_version: String,
    /// Gives the next page; none for the last one.
    pub continue_token: Option<String>,
    /// How many objects follow, if the API server says so.
    pub remaining: Option<i64>,
    /// The objects, unread.
    pub items: Vec<&'a RawValue>,
}

impl<'a> Page<'a> {
    /// Reads a page. Fails if it is no list.
    pub fn read(page: &'a str) -> Result<Self, Failure> {
        let list = serde_json::from_str::<ObjectList<&RawValue>>(page)
            .map_err(|error| Failure::Unreadable(describe_json(&error)))?;
        if list.items.len() > MAX_OBJECTS {
            return Err(Failure::Unreadable("the page has too many objects".into()));
        }
        Ok(Self {
            kind: list.types.kind,
            api_version: list.types.api_version,
            remaining: list.metadata.remaining_item_count,
            resource_version: list.metadata.resource_version.unwrap_or_default(),
            continue_token: list.metadata.continue_.filter(|token| !token.is_empty()),
            items: list.items,
        })
    }
}

/// Reads a line of a watch. Its object may come before its type, as from a proxy that sorts keys. An
/// error whose status cannot be read is one all the same: the API server has ended the watch.
pub fn read_event(line: &str) -> Result<WatchEvent<&RawValue>, Failure> {
    #[derive(Deserialize)]
    struct Line<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let malformed = |error| Failure::Unreadable(describe_json(&error));
    let Line { kind, object } = serde_json::from_str(line).map_err(malformed)?;
    Ok(match &*kind {
        "ADDED" => WatchEvent::Added(object),
        "MODIFIED" => WatchEvent::Modified(object),
        "DELETED" => WatchEvent::Deleted(object),
        "BOOKMARK" => WatchEvent::Bookmark(serde_json::from_str(object.get()).map_err(malformed)?),
        "ERROR" => WatchEvent::Error(serde_json::from_str(object.get()).unwrap_or_else(|_| {
            Status::failure("the API server gives no readable reason", "").boxed()
        })),
        _ => return Err(Failure::Unreadable("an event of an unknown type".into())),
    })
}

/// Why the lines of a watch end.
#[derive(Debug)]
pub enum LineError {
    /// A line is longer than an event can be.
    TooLong,
    /// The connection has failed.
    Io(io::Error),
}

/// The lines of a watch that are not empty, each of at most `longest` bytes. The last one may be cut
/// at the end of the watch, and is no event then.
pub fn lines(
    chunks: impl Stream<Item = io::Result<Bytes>> + Unpin,
    longest: usize,
) -> impl Stream<Item = Result<String, LineError>> + Unpin {
    let codec = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), Vec::new(), longest);
    FramedRead::new(StreamReader::new(chunks), codec)
        .map(|line| match line {
            Ok(line) => Ok(text_of(line.trim_ascii().to_vec())),
            Err(AnyDelimiterCodecError::MaxChunkLengthExceeded) => Err(LineError::TooLong),
            Err(AnyDelimiterCodecError::Io(error)) => Err(LineError::Io(error)),
        })
        .filter(|line| future::ready(!matches!(line, Ok(line) if line.is_empty())))
}

/// Text in UTF-8. What is none is replaced.
pub(crate) fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use futures::{TryStreamExt, stream};

    use super::*;

    #[test]
    fn reads_each_kind_of_event() {
        let describe = |line: String| {
            Ok::<_, Failure>(match read_event(&line)? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    format!("applied {object}")
                }
                WatchEvent::Deleted(object) => format!("deleted {object}"),
                WatchEvent::Bookmark(bookmark) => bookmark.metadata.resource_version,
                WatchEvent::Error(status) => format!("{} {}", status.code, status.message),
            })
        };
        let read = |kind: &str, object: &str| {
            let read = describe(format!(r#"{{"type": "{kind}", "object": {object}}}"#));
            let sorted = describe(format!(r#"{{"object": {object}, "type": "{kind}"}}"#));
            assert_eq!(read.is_ok(), sorted.is_ok(), "{kind} {object}");
            assert!(read.is_err() || read == sorted, "{kind} {object}");
            read
        };
        let deep = "[".repeat(500) + &"]".repeat(500);
        assert_eq!(read("ADDED", &deep).unwrap(), format!("applied {deep}"));
        assert_eq!(read("MODIFIED", "{}").unwrap(), "applied {}");
        assert_eq!(read("DELETED", "{}").unwrap(), "deleted {}");
        let bookmark =
            r#"{"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "8"}}"#;
        assert_eq!(read("BOOKMARK", bookmark).unwrap(), "8");
        let error = r#"{"code": 410, "message": "too old"}"#;
        assert_eq!(read("ERROR", error).unwrap(), "410 too old");
        for unreadable in ["5", r#"{"code": 410, "status": "Odd"}"#] {
            assert_eq!(
                read("ERROR", unreadable).unwrap(),
                "0 the API server gives no readable reason"
            );
        }
        for (kind, object) in [("BOOKMARK", "{}"), ("OTHER", "{}")] {
            assert!(read(kind, object).is_err(), "{kind}");
        }
    }

    #[test]
    fn reads_a_page_whose_objects_are_nested_deeper_than_the_parser_follows() {
        let deep = format!("{}1{}", "[".repeat(2000), "]".repeat(2000));
        let page = format!(
            r#"{{"kind": "List", "metadata": {{"resourceVersion": "7", "continue": "t"}}, "items": [{deep} , {{}},"x" ,7]}}"#
        );
        let page = Page::read(&page).unwrap();
        assert_eq!(page.resource_version, "7");
        assert_eq!(page.continue_token.as_deref(), Some("t"));
        let items: Vec<&str> = page.items.iter().map(|item| item.get()).collect();
        assert_eq!(items, [&deep, "{}", "\"x\"", "7"]);
        let last = r#"{"metadata": {"resourceVersion": "7", "continue": ""}, "items": null}"#;
        let last = Page::read(last).unwrap();
        assert!(last.continue_token.is_none() && last.items.is_empty());
        let too_many = format!(
            r#"{{"metadata": {{"resourceVersion": "7"}}, "items": [{}1]}}"#,
            "1,".repeat(MAX_OBJECTS)
        );
        for wrong in [
            &too_many,
            r#"{"metadata": {"resourceVersion": "7"}}"#,
            r#"{"metadata": {"resourceVersion": "7"}, "items": {}}"#,
            r#"{"metadata": {"resourceVersion": "7"}, "items": [1 2]}"#,
            "<html>",
        ] {
            assert!(
                Page::read(wrong).is_err(),
                "{}",
                &wrong[..20.min(wrong.len())]
            );
        }
    }

    /// The lines in these bytes, which arrive in pieces of this size.
    async fn split(
        bytes: &'static [u8],
        size: usize,
        longest: usize,
    ) -> Result<Vec<String>, LineError> {
        let pieces = bytes
            .chunks(size)
            .map(|piece| Ok(Bytes::from_static(piece)));
        lines(stream::iter(pieces), longest).try_collect().await
    }

    #[tokio::test]
    async fn splits_lines_however_the_bytes_arrive() {
        let text = b"one\n\r\ntwo \xff\nlast\n";
        for size in 1..=text.len() {
            let lines = split(text, size, 10).await.unwrap();
            assert_eq!(lines, ["one", "two \u{fffd}", "last"], "{size}");
        }
    }

    #[tokio::test]
    async fn an_event_that_is_too_long_ends_the_watch() {
        let lines = split(b"12345678901", 5, 10).await;
        assert!(matches!(lines, Err(LineError::TooLong)), "{lines:?}");
    }
}
