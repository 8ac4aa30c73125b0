//! Reads YAML as Kubernetes does, and remembers where everything was.
//!
//! Kubernetes' clients read YAML 1.1: `on` is true, `010` is eight. Unlike them, this reader refuses duplicate keys, as the API
//! server does if asked, since the one that a user reads is often not the one that counts.

mod builder;
mod document;
mod positions;
mod resolve;
mod surrogates;

use saphyr_parser::Event;
use serde_json::Value;

use self::builder::Builder;
pub use self::document::{Document, MAX_BYTES, MAX_DEPTH, YamlError};
pub use self::positions::{Place, Positions};
pub(crate) use self::resolve::is_read_as_string;

/// Reads all documents that are not empty, of a text of at most [`MAX_BYTES`].
///
/// # Errors
///
/// The first thing that is wrong.
pub fn parse(text: &str) -> Result<Vec<Document>, YamlError> {
    parse_up_to(text, MAX_BYTES)
}

/// Reads all documents that are not empty, of a text of at most so many bytes.
///
/// # Errors
///
/// The first thing that is wrong.
pub fn parse_up_to(text: &str, max_bytes: usize) -> Result<Vec<Document>, YamlError> {
    if text.len() > max_bytes {
        let message = format!(
            "the text has {} bytes, at most {max_bytes} are read: remove what is not needed",
            text.len()
        );
        return Err(YamlError { place: Place::START, message });
    }
    // Pasted from a file that some editor on Windows wrote.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    read(text).or_else(|error| match surrogates::without(text) {
        Some(text) => read(&text).map_err(|_| error),
        None => Err(error),
    })
}

fn read(text: &str) -> Result<Vec<Document>, YamlError> {
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

#[cfg(test)]
mod tests;
