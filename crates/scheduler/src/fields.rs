//! Reads single fields of objects, which may have another type than Kubernetes allows.

use serde_json::Value;

/// The items of a list; none if it is none.
pub fn list(value: &Value) -> impl Iterator<Item = &Value> + Clone {
    value.as_array().into_iter().flatten()
}

/// A text; an empty one if it is none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The reference of an object to the controller that owns it.
pub fn controller(object: &Value) -> Option<&Value> {
    list(&object["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true)
}
