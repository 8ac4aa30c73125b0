//! Reads YAML as Kubernetes does, and remembers where everything was.
//!
//! Kubernetes' clients read YAML 1.1: `on` is true, `010` is eight. Unlike them, this reader refuses duplicate keys, as the API
//! server does if asked, since the one that a user reads is often not the one that counts.

mod builder;
mod positions;
mod resolve;

use std::fmt;

use saphyr_parser::{Event, Parser};
use serde_json::Value;

use self::builder::Builder;
pub use self::positions::{Place, Positions};
pub(crate) use self::resolve::is_read_as_string;

/// The largest text that is read.
pub const MAX_BYTES: usize = 1 << 20;
/// How deep lists and mappings may be nested.
pub const MAX_DEPTH: usize = 64;
/// What all documents may hold after aliases have been replaced, in bytes of text and `NODE_COST` for each value.
const MAX_EXPANDED: usize = 8 << 20;
const NODE_COST: usize = 16;

/// One document.
#[derive(Clone, Debug)]
pub struct Document {
    /// What it says.
    pub value: Value,
    /// Where it says so.
    pub positions: Positions,
}

/// Why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlError {
    /// Where.
    pub place: Place,
    /// Why, and what to do about it.
    pub message: String,
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.place.line, self.place.column, self.message)
    }
}

/// Reads all documents that are not empty.
///
/// # Errors
///
/// The first thing that is wrong.
pub fn parse(text: &str) -> Result<Vec<Document>, YamlError> {
    if text.len() > MAX_BYTES {
        let message = format!(
            "the text has {} bytes, at most {MAX_BYTES} are read: remove what is not needed",
            text.len()
        );
        return Err(YamlError { place: Place::START, message });
    }
    // Pasted from a file that some editor on Windows wrote.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder::new(text);
    let mut documents = Vec::new();
    loop {
        match builder.next()? {
            (Event::StreamEnd, _) => return Ok(documents),
            (Event::DocumentStart(_), _) => {
                let first = builder.next()?;
                let document = builder.document(first)?;
                if !document.value.is_null() {
                    documents.push(document);
                }
            }
            _ => {}
        }
    }
}

/// Reads one document; null if there is none.
///
/// # Errors
///
/// What is wrong, or that there are several documents.
pub fn parse_one(text: &str) -> Result<Document, YamlError> {
    let mut documents = parse(text)?.into_iter();
    let first =
        documents.next().unwrap_or_else(|| Document { value: Value::Null, positions: Positions::default() });
    match documents.next() {
        None => Ok(first),
        Some(second) => Err(YamlError {
            place: second.positions.start(),
            message: "there is a second document: keep one, and remove the line ---".into(),
        }),
    }
}

type Source<'a> = Parser<'a, saphyr_parser::StrInput<'a>>;

#[cfg(test)]
mod tests;
