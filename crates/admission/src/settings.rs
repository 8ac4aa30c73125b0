//! The policy's settings.

use pps_core::annotations::{AnnotationRules, is_never_injected};
use pps_core::json::{ReadError, null_as_default, read};
use pps_core::shorten;
use serde::de::IntoDeserializer;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The policy's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Settings {
    /// What happens to a Pod whose PersistentPodState cannot be read.
    #[serde(deserialize_with = "read_name")]
    pub on_lookup_failure: OnLookupFailure,
    /// Which annotations a PersistentPodState may name and a Pod may get.
    #[serde(deserialize_with = "null_as_default")]
    pub annotations: AnnotationRules,
}

/// What happens to a Pod whose PersistentPodState cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnLookupFailure {
    /// It is rejected. The workload's controller tries again, and a Pod with data on a node does
    /// not start on another one.
    #[default]
    Reject,
    /// It starts without its recorded state, with a warning.
    Accept,
}

/// Reads the name of a value. The derived reader would also take an object with that name as its
/// key.
fn read_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OnLookupFailure, D::Error> {
    match Option::<String>::deserialize(deserializer)? {
        Some(name) => OnLookupFailure::deserialize(name.into_deserializer()),
        None => Ok(OnLookupFailure::default()),
    }
}

/// Settings that the policy cannot use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error(
        "the settings must be an object, such as {{\"onLookupFailure\": \"reject\"}}: they are \
         {0}"
    )]
    NotAnObject(String),
    /// A field is unknown, or has a wrong value.
    #[error("{0}; correct it, or remove it")]
    Field(ReadError),
    /// Keys that are in `allow`.
    #[error(
        "settings.annotations.allow has {}: remove this; it can never be allowed (its writer \
         treats it as its own state)",
        shorten(&.0.join(", "))
    )]
    NeverInjected(Vec<String>),
}

impl SettingsError {
    /// The field that is wrong.
    pub fn field(&self) -> &str {
        match self {
            Self::NotAnObject(_) => "settings",
            Self::Field(error) => &error.path,
            Self::NeverInjected(_) => "settings.annotations.allow",
        }
    }
}

impl Settings {
    /// Reads settings. `null` and `{}` mean the defaults.
    pub fn read(settings: &Value) -> Result<Self, SettingsError> {
        if settings.is_null() {
            return Ok(Self::default());
        }
        if !settings.is_object() {
            let shown = shorten(&settings.to_string());
            return Err(SettingsError::NotAnObject(shown));
        }
        let settings: Self = read("settings", settings).map_err(SettingsError::Field)?;
        let allowed = settings.annotations.allow.iter().flatten();
        let never: Vec<String> = allowed
            .map(ToString::to_string)
            .filter(|pattern| is_never_injected(pattern))
            .collect();
        if never.is_empty() {
            Ok(settings)
        } else {
            Err(SettingsError::NeverInjected(never))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A message names the field and the value, and says what to do.
    #[test]
    fn an_error_names_the_field_and_the_way_out() {
        let error = |settings: Value| Settings::read(&settings).unwrap_err().to_string();
        for (settings, expected) in [
            (
                json!({"annotations": {"deny": "a"}}),
                "settings.annotations.deny: invalid type: string \"a\", expected a sequence; \
                 correct it, or remove it",
            ),
            (
                json!({"annotations": {"allow": ["ovn.kubernetes.io/allocated", "good"]}}),
                "settings.annotations.allow has ovn.kubernetes.io/allocated: remove this; it can \
                 never be allowed (its writer treats it as its own state)",
            ),
        ] {
            assert_eq!(error(settings), expected);
        }
    }

    #[test]
    fn an_error_does_not_repeat_a_long_value() {
        let settings = json!({"onLookupFailure": "x".repeat(1_000_000)});
        let error = Settings::read(&settings).unwrap_err().to_string();
        assert!(error.len() < 1000, "{}", error.len());
    }
}
