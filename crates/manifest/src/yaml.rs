//! Reads YAML as Kubernetes does, and remembers where everything was.
//!
//! Kubernetes' clients read YAML 1.1: `on` is true, `010` is eight. Unlike them, this reader
//! refuses duplicate keys, as the API server does if asked, since the value that a user reads is
//! often not the value that counts.

mod builder;
mod positions;
mod resolve;

use std::fmt;

use serde_json::Value;

use self::builder::Builder;
pub use self::positions::{Place, Positions};
pub(crate) use self::resolve::is_read_as_string;

/// The largest text that [`parse`] reads.
pub const MAX_BYTES: usize = 1 << 20;
pub const MAX_DEPTH: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct Document {
    pub value: Value,
    pub positions: Positions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlError {
    pub place: Place,
    pub message: String,
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: {}",
            self.place.line, self.place.column, self.message
        )
    }
}

/// Reads all documents that are not empty, of a text of at most [`MAX_BYTES`].
pub fn parse(text: &str) -> Result<Vec<Document>, YamlError> {
    parse_up_to(text, MAX_BYTES)
}

/// Reads all documents that are not empty, of a text of at most so many bytes.
pub fn parse_up_to(text: &str, max_bytes: usize) -> Result<Vec<Document>, YamlError> {
    let length = text.len();
    if length > max_bytes {
        let message = format!(
            "the text has {length} bytes, at most {max_bytes} are read: remove what is not needed"
        );
        return Err(YamlError {
            place: Place::default(),
            message,
        });
    }
    // Pasted from a file that some editor on Windows wrote.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    Builder::new(text).documents().or_else(|error| {
        // The one thing of JSON that is not YAML: a character beyond the first 65536 as a pair of
        // escapes, `\ud83d\ude00`.
        let json: Value = serde_json::from_str(text).map_err(|_| error)?;
        // serde_json keeps the last one of duplicate keys.
        Builder::new(&text.replace("\\ud", "/ud").replace("\\uD", "/uD")).documents()?;
        Builder::new(&json.to_string()).documents()
    })
}

/// Reads one document; null if there is none.
pub fn parse_one(text: &str) -> Result<Document, YamlError> {
    let mut documents = parse(text)?.into_iter();
    let first = documents.next().unwrap_or_default();
    match documents.next() {
        None => Ok(first),
        Some(second) => Err(YamlError {
            place: second.positions.start,
            message: "there is a second document: keep one, and remove the line ---".into(),
        }),
    }
}

#[cfg(test)]
mod tests;
