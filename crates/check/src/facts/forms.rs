//! Which form the states of an object have, and which forms a definition keeps.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{DefinitionVersion, Recorded};

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

impl Recorded {
    /// Whether states were stored in the compact form, and none are shown in the plain one. Under a definition that does
    /// not have the compact form, these states are hidden.
    pub(crate) fn has_only_packed_states(&self) -> bool {
        self.metadata.managed_fields.0 && !self.status.pod_states.0
    }
}

impl DefinitionVersion {
    /// Whether the schema of the status lacks the compact form, so that the API server prunes it.
    pub(crate) fn prunes_packed(&self) -> bool {
        let status = &self.schema["openAPIV3Schema"]["properties"]["status"]["properties"];
        status.as_object().is_some_and(|fields| !fields.contains_key("packed"))
    }
}
