//! JSON as text.

use serde_json::{Map, Value};

/// A value as compact JSON.
// `Value::to_string` can also indent, and that code would be in the Wasm module: 0.9 KB more.
pub fn to_text(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// An object with these fields.
// `json!` and `collect` would add 10 KB to the Wasm module.
pub fn object(fields: Vec<(&str, Value)>) -> Map<String, Value> {
    let mut object = Map::new();
    for (name, value) in fields {
        object.insert(name.to_owned(), value);
    }
    object
}

/// The items of a list; none of anything else.
pub(crate) fn list(value: &Value) -> &[Value] {
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
