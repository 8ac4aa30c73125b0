//! JSON as text.

use serde_json::Value;

/// A value as compact JSON.
// `Value::to_string` can also indent, and that code would be in the Wasm module: 0.9 KB more.
pub fn to_text(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
