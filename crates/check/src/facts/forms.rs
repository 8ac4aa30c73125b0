//! Which forms of states an object has: read from maps that may be large, without keeping them.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Of managed fields: what they say about the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusWrites {
    /// Whether a client owns `status.packed`. They say so also under a definition that hides the field.
    pub packed: bool,
    /// When the status was written last, as the API server writes times.
    pub last: Option<String>,
}

impl<'de> Deserialize<'de> for StatusWrites {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let entries = value.as_array().into_iter().flatten();
        let of_status: Vec<(&Value, &Value)> =
            entries.filter_map(|entry| Some((entry, entry["fieldsV1"].get("f:status")?))).collect();
        // All times have the same form, in UTC.
        let times = of_status.iter().filter_map(|(entry, _)| entry["time"].as_str());
        Ok(Self {
            packed: of_status.iter().any(|(_, status)| status.get("f:packed").is_some()),
            last: times.max().map(str::to_owned),
        })
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
