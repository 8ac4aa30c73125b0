//! JSON values: how they are read, and how messages repeat them.

use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::limits::MAX_REPEATED_REASON;

/// A value that cannot be read as its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// The field, such as `spec.preferredPersistentTopology[0].weight`; empty for the whole value.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.reason);
        }
        write!(f, "{}: {}", self.path, self.reason)
    }
}

impl std::error::Error for ReadError {}

/// Reads a value as a type. `path` says where the value is, such as `spec`; empty for an object.
pub fn read<'de, T: Deserialize<'de>>(path: &str, value: &'de Value) -> Result<T, ReadError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let below = error.path().to_string();
        let path = match below.as_str() {
            "." => path.to_owned(),
            index if index.starts_with('[') => format!("{path}{index}"),
            field if path.is_empty() => field.to_owned(),
            field => format!("{path}.{field}"),
        };
        ReadError {
            path: shorten(&path),
            reason: shorten_to(MAX_REPEATED_REASON, &error.inner().to_string()),
        }
    })
}

/// Reads `null` as if the field were missing, as the API server does.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// The items of a list; none of anything else.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// How many characters of a value a message repeats.
const MAX_SHOWN: usize = 100;

/// A value as a message repeats it: its first characters, if it is long.
pub fn shorten(text: &str) -> String {
    shorten_to(MAX_SHOWN, text)
}

/// The first `max` characters of a text, with a sign that there are more.
pub fn shorten_to(max: usize, text: &str) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}
