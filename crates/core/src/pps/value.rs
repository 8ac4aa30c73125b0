//! Reads lists and strings from JSON.

use serde_json::Value;

use crate::json::{shorten, to_text};

/// The error is a value that cannot be read, and what is expected in its place.
pub(super) type ReadResult<T> = Result<T, String>;

/// Reads a list; `null` is an empty one, as for the API server.
pub(super) fn read_list<T>(list: &Value, read: fn(&Value) -> ReadResult<T>) -> ReadResult<Vec<T>> {
    match list {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items.iter().map(read).collect(),
        _ => Err(wrong(list, "a list")),
    }
}

pub(super) fn read_text(text: &Value) -> ReadResult<String> {
    text.as_str()
        .map(str::to_owned)
        .ok_or_else(|| wrong(text, "a string"))
}

pub(super) fn wrong(value: &Value, expected: &str) -> String {
    format!("{} is not {expected}", shorten(&to_text(value)))
}
