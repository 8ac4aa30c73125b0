//! How fields that are `null` are read.

use serde::{Deserialize, Deserializer};

/// Reads `null` as if the field were missing, as the API server does.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
