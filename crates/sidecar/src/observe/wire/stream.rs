//! Lists and watches as the API server sends them: pages of a list, and the lines of a watch. The objects in them stay
//! unread, so that each can be read alone.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::object::{Malformed, describe};

/// One page of a list.
#[derive(Debug, Deserialize)]
pub struct Page<'a> {
    #[serde(default)]
    metadata: PageMetadata,
    /// The objects, unread.
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
}

impl<'a> Page<'a> {
    /// Reads a page. Fails if it is no list, or if its place in time is unknown, so that it could not be watched from.
    pub fn read(text: &'a str) -> Result<Self, Malformed> {
        let page: Self = serde_json::from_str(text).map_err(|error| Malformed(describe(&error)))?;
        if page.resource_version().is_empty() {
            return Err(Malformed("the list has no resource version".into()));
        }
        Ok(page)
    }

    pub fn resource_version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }

    /// The token that gives the next page; none for the last one.
    pub fn continue_token(&self) -> Option<&str> {
        self.metadata.continue_token.as_deref().filter(|token| !token.is_empty())
    }

    pub fn items(&self) -> impl Iterator<Item = &'a str> {
        self.items.iter().flatten().map(|item| item.get())
    }
}

/// One line of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// An object was created or changed.
    Applied(&'a str),
    Deleted(&'a str),
    /// Everything up to this resource version has been sent.
    Bookmark(String),
    /// The API server ends the watch, for example because the resource version is too old.
    Error {
        code: u16,
        message: String,
    },
}

impl<'a> Line<'a> {
    pub fn read(text: &'a str) -> Result<Self, Malformed> {
        #[derive(Deserialize)]
        struct Event<'a> {
            #[serde(rename = "type", borrow)]
            kind: Cow<'a, str>,
            #[serde(borrow)]
            object: &'a RawValue,
        }
        #[derive(Deserialize)]
        struct Bookmark {
            metadata: PageMetadata,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Status {
            code: Option<u16>,
            message: Option<String>,
        }
        let malformed = |error: serde_json::Error| Malformed(describe(&error));
        let event: Event<'a> = serde_json::from_str(text).map_err(malformed)?;
        let object = event.object.get();
        match &*event.kind {
            "ADDED" | "MODIFIED" => Ok(Self::Applied(object)),
            "DELETED" => Ok(Self::Deleted(object)),
            "BOOKMARK" => {
                let bookmark: Bookmark = serde_json::from_str(object).map_err(malformed)?;
                let version = bookmark.metadata.resource_version.filter(|version| !version.is_empty());
                version.map(Self::Bookmark).ok_or_else(|| Malformed("a bookmark without a version".into()))
            }
            "ERROR" => {
                let status: Status = serde_json::from_str(object).map_err(malformed)?;
                Ok(Self::Error {
                    code: status.code.unwrap_or(500),
                    message: status.message.unwrap_or_else(|| "the API server gives no reason".into()),
                })
            }
            _ => Err(Malformed("an event of an unknown type".into())),
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
    use super::*;

    #[test]
    fn reads_a_page_whose_objects_are_nested_deeper_than_the_parser_follows() {
        let deep = format!("{}1{}", "[".repeat(2000), "]".repeat(2000));
        let text = format!(
            r#"{{"kind": "List", "metadata": {{"resourceVersion": "7", "continue": "t"}}, "items": [{deep}, {{}}]}}"#
        );
        let page = Page::read(&text).unwrap();
        assert_eq!((page.resource_version(), page.continue_token()), ("7", Some("t")));
        assert_eq!(page.items().collect::<Vec<_>>(), [&*deep, "{}"]);
        let last =
            Page::read(r#"{"metadata": {"resourceVersion": "7", "continue": ""}, "items": null}"#).unwrap();
        assert_eq!((last.continue_token(), last.items().count()), (None, 0));
        assert!(Page::read(r#"{"metadata": {}, "items": []}"#).is_err());
        assert!(Page::read("<html>").is_err());
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
