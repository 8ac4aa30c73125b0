//! The policy's settings, read from any text.

use persistent_pod_state_policy::Settings;
use persistent_pod_state_policy::settings::{Lookup, OnLookupFailure};
use serde_json::Value;

/// Settings are taken if and only if they are null or an object whose fields are known and fit, or null;
/// and what they say comes out.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match (Settings::parse(&text), expected(&text)) {
        (Ok(actual), Some(expected)) => assert_eq!(actual, expected, "{text}"),
        (Err(message), None) => assert!(message.contains("settings"), "{message}"),
        (actual, _) => panic!("{actual:?}: {text}"),
    }
}

fn expected(text: &str) -> Option<Settings> {
    let mut settings = Settings::default();
    let fields = match serde_json::from_str(text).ok()? {
        Value::Null => return Some(settings),
        Value::Object(fields) => fields,
        _ => return None,
    };
    for (field, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        match (field.as_str(), value.as_str()?) {
            ("onLookupFailure", "accept") => settings.on_lookup_failure = OnLookupFailure::Accept,
            ("lookup", "byName") => settings.lookup = Lookup::ByName,
            ("onLookupFailure", "reject") | ("lookup", "full") => {}
            _ => return None,
        }
    }
    Some(settings)
}
