//! The policy's settings, read from any text.

use std::collections::BTreeSet;
use std::fmt::Display;

use pps_admission::Settings;
use pps_admission::settings::OnLookupFailure;
use serde_json::Value;

use crate::rules::{NEVER_INJECTED, Rules, is_never_injected, pattern};

/// The policy accepts settings if and only if they are `null` or an object whose fields are all
/// known and valid or `null`. It then uses the values of these fields, and forbids exactly the
/// annotations that the lists forbid.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match (read(&text), Expected::parse(&text)) {
        (Ok(actual), Some(expected)) => {
            for key in &expected.keys() {
                let is_forbidden = actual.annotations.forbid(key).is_some();
                assert_eq!(
                    is_forbidden,
                    expected.annotations.forbid(key),
                    "{key}: {text}"
                );
            }
            assert_eq!(
                actual.on_lookup_failure, expected.on_lookup_failure,
                "{text}"
            );
        }
        (Err(error), None) => assert!(names_the_settings(&error), "{error}"),
        (actual, _) => panic!("{actual:?}: {text}"),
    }
}

fn read(text: &str) -> Result<Settings, String> {
    let settings = serde_json::from_str(text).map_err(|error| format!("settings: {error}"))?;
    Settings::read(&settings).map_err(|error| error.to_string())
}

fn names_the_settings(error: &dyn Display) -> bool {
    error.to_string().contains("settings")
}

/// What settings mean, read without the policy's code.
#[derive(Default)]
pub(crate) struct Expected {
    on_lookup_failure: OnLookupFailure,
    /// Which annotations a Pod may be given.
    pub(crate) annotations: Rules,
}

impl Expected {
    /// Nothing if the settings are invalid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut settings = Self::default();
        let fields = match serde_json::from_str(text).ok()? {
            Value::Null => return Some(settings),
            Value::Object(fields) => fields,
            _ => return None,
        };
        // A null is as good as a field that is missing, but an unknown field is a mistake.
        for (field, value) in &fields {
            match (field.as_str(), value) {
                ("onLookupFailure" | "annotations", Value::Null) => {}
                ("onLookupFailure", value) => {
                    settings.on_lookup_failure = match value.as_str()? {
                        "accept" => OnLookupFailure::Accept,
                        "reject" => OnLookupFailure::Reject,
                        _ => return None,
                    };
                }
                ("annotations", value) => settings.annotations = rules(value)?,
                _ => return None,
            }
        }
        Some(settings)
    }

    /// Keys that the lists name, keys close to them, and keys that are always forbidden.
    fn keys(&self) -> BTreeSet<String> {
        let named = self
            .annotations
            .allow
            .iter()
            .flatten()
            .chain(&self.annotations.deny);
        let near = named.flat_map(|pattern| {
            let key = pattern.trim_end_matches('*');
            [
                key.to_owned(),
                format!("{key}a"),
                key.to_ascii_uppercase(),
                format!("a{key}"),
            ]
        });
        near.chain(NEVER_INJECTED.into_iter().chain(["ip"]).map(str::to_owned))
            .collect()
    }
}

fn patterns(list: &Value) -> Option<Vec<String>> {
    let mut patterns = Vec::new();
    for value in list.as_array()? {
        patterns.push(pattern(value)?.to_owned());
    }
    Some(patterns)
}

fn rules(value: &Value) -> Option<Rules> {
    let mut rules = Rules::default();
    for (list, value) in value.as_object()? {
        let patterns = match value {
            Value::Null => None,
            value => Some(patterns(value)?),
        };
        match list.as_str() {
            "allow" => rules.allow = patterns,
            "deny" => rules.deny = patterns.unwrap_or_default(),
            _ => return None,
        }
    }
    let allows_what_nothing_can = rules
        .allow
        .iter()
        .flatten()
        .any(|allowed| is_never_injected(allowed));
    (!allows_what_nothing_can).then_some(rules)
}
