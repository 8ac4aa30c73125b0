//! What an administrator can choose.

use std::collections::BTreeMap;

use pps_core::to_text;
use serde_json::Value;

/// The policy's settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What becomes of a Pod whose PersistentPodState cannot be read.
    pub on_lookup_failure: OnLookupFailure,
    /// How the PersistentPodState of a Pod is found.
    pub lookup: Lookup,
}

/// What becomes of a Pod whose PersistentPodState cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLookupFailure {
    /// It is refused. The workload's controller tries again, and a Pod with data on a node is not
    /// started on another one.
    #[default]
    Reject,
    /// It starts without its state, with a warning.
    Accept,
}

/// How the PersistentPodState of a Pod is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// By the name of the Pod's owner, then among all of the namespace.
    #[default]
    Full,
    /// By the name of the Pod's owner only: for clusters that use generated objects only.
    ByName,
}

impl Settings {
    /// Reads settings from JSON. Nothing, `null` and `{}` mean the defaults.
    ///
    /// # Errors
    ///
    /// A sentence for people that names every field that is wrong, its value and what it may be.
    pub fn parse(json: &str) -> Result<Self, String> {
        let fields: Option<BTreeMap<String, Value>> = serde_json::from_str(json).map_err(|error| {
            format!("the settings must be an object, such as {{\"lookup\": \"full\"}}: {error}")
        })?;
        let mut settings = Self::default();
        let mut errors = Vec::new();
        for (field, value) in fields.iter().flatten().filter(|(_, value)| !value.is_null()) {
            match (field.as_str(), value.as_str()) {
                ("onLookupFailure", Some("reject")) => settings.on_lookup_failure = OnLookupFailure::Reject,
                ("onLookupFailure", Some("accept")) => settings.on_lookup_failure = OnLookupFailure::Accept,
                ("onLookupFailure", _) => errors.push(not_one_of(field, value, "\"reject\" or \"accept\"")),
                ("lookup", Some("full")) => settings.lookup = Lookup::Full,
                ("lookup", Some("byName")) => settings.lookup = Lookup::ByName,
                ("lookup", _) => errors.push(not_one_of(field, value, "\"full\" or \"byName\"")),
                _ => errors.push(format!(
                    "settings.{field} is unknown: remove it; there are only settings.onLookupFailure and settings.lookup"
                )),
            }
        }
        if errors.is_empty() { Ok(settings) } else { Err(errors.join("; ")) }
    }
}

fn not_one_of(field: &str, value: &Value, choices: &str) -> String {
    let value = to_text(value);
    format!("settings.{field} is {value}: set it to {choices}, or leave it out")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_means_the_defaults() {
        for json in
            ["null", "{}", r#"{"lookup": null}"#, r#"{"lookup": "full", "onLookupFailure": "reject"}"#]
        {
            assert_eq!(Settings::parse(json), Ok(Settings::default()), "{json}");
        }
    }

    #[test]
    fn both_fields_are_read() {
        let settings = Settings::parse(r#"{"lookup": "byName", "onLookupFailure": "accept"}"#);
        let expected = Settings { on_lookup_failure: OnLookupFailure::Accept, lookup: Lookup::ByName };
        assert_eq!(settings, Ok(expected));
    }

    #[test]
    fn every_mistake_is_named_at_once() {
        assert_eq!(
            Settings::parse(r#"{"lookup": "ByName", "onLookupFailure": true, "retries": 3}"#).unwrap_err(),
            "settings.lookup is \"ByName\": set it to \"full\" or \"byName\", or leave it out; \
             settings.onLookupFailure is true: set it to \"reject\" or \"accept\", or leave it out; \
             settings.retries is unknown: remove it; there are only settings.onLookupFailure and settings.lookup"
        );
        for json in ["[]", "3", "", "{"] {
            assert!(
                Settings::parse(json).unwrap_err().starts_with("the settings must be an object"),
                "{json}"
            );
        }
    }
}
