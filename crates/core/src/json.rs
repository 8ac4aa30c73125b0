//! JSON as text.

use serde_json::Value;

/// A value as compact JSON.
// `Value::to_string` can also indent, and that code would be in the Wasm module: 0.9 KB more.
pub fn to_text(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// How many characters of a value a message repeats.
const MAX_SHOWN: usize = 100;

/// A value as a message repeats it: its first characters, if it is long.
pub fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}
