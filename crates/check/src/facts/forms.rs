//! Which forms of states an object has: read from maps that may be large, without keeping them.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Of managed fields: whether a client owns `status.packed`. They say so also under a definition that hides the field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WritesPacked(pub bool);

impl<'de> Deserialize<'de> for WritesPacked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = Value::deserialize(deserializer)?;
        let is_packed = |entry: &Value| entry["fieldsV1"]["f:status"].get("f:packed").is_some();
        Ok(Self(entries.as_array().is_some_and(|entries| entries.iter().any(is_packed))))
    }
}

/// Of a map: whether it has entries. The map itself may be large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HasEntries(pub bool);

impl<'de> Deserialize<'de> for HasEntries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = Value::deserialize(deserializer)?;
        Ok(Self(map.as_object().is_some_and(|map| !map.is_empty())))
    }
}
