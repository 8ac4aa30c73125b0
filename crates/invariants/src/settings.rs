//! The policy's settings, read from any text.

use std::collections::BTreeSet;

use persistent_pod_state_policy::Settings;
use persistent_pod_state_policy::settings::{Lookup, OnLookupFailure};
use pps_core::{INJECTED_ANNOTATION, is_never_injected};
use serde_json::Value;

/// Settings are taken if and only if they are null or an object whose fields are known and fit, or null;
/// and what they say comes out. What lists of annotations forbid is judged anew.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match (Settings::parse(&text), expected(&text)) {
        (Ok(actual), Some(expected)) => {
            for key in &expected.keys() {
                let is_forbidden = actual.annotations.forbid(key).is_some();
                assert_eq!(is_forbidden, expected.forbids(key), "{key}: {text}");
            }
            let Expected { on_lookup_failure, lookup, .. } = expected;
            assert_eq!((actual.on_lookup_failure, actual.lookup), (on_lookup_failure, lookup), "{text}");
        }
        (Err(error), None) => assert!(error.to_string().contains("settings"), "{error}"),
        (actual, _) => panic!("{actual:?}: {text}"),
    }
}

#[derive(Default)]
struct Expected {
    on_lookup_failure: OnLookupFailure,
    lookup: Lookup,
    allow: Option<Vec<String>>,
    deny: Vec<String>,
}

impl Expected {
    /// Keys near to what the lists name.
    fn keys(&self) -> BTreeSet<String> {
        let named = self.allow.iter().flatten().chain(&self.deny);
        let near = named.flat_map(|pattern| {
            let key = pattern.trim_end_matches('*');
            [key.to_owned(), format!("{key}a"), key.to_ascii_uppercase(), format!("a{key}")]
        });
        near.chain(["ip".to_owned(), INJECTED_ANNOTATION.to_owned()]).collect()
    }

    fn forbids(&self, key: &str) -> bool {
        let names = |patterns: &[String]| {
            patterns.iter().any(|pattern| {
                let start = pattern.trim_end_matches('*');
                key == start || (start != pattern && key.starts_with(start))
            })
        };
        let is_left_out = self.allow.as_ref().is_some_and(|allow| !names(allow));
        is_never_injected(key) || names(&self.deny) || is_left_out
    }
}

fn expected(text: &str) -> Option<Expected> {
    let mut settings = Expected::default();
    let fields = match serde_json::from_str(text).ok()? {
        Value::Null => return Some(settings),
        Value::Object(fields) => fields,
        _ => return None,
    };
    for (field, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        match (field.as_str(), value.as_str()) {
            ("onLookupFailure", Some("accept")) => settings.on_lookup_failure = OnLookupFailure::Accept,
            ("lookup", Some("byName")) => settings.lookup = Lookup::ByName,
            ("onLookupFailure", Some("reject")) | ("lookup", Some("full")) => {}
            ("annotations", None) => {
                for (list, value) in value.as_object()?.iter().filter(|(_, value)| !value.is_null()) {
                    let patterns: Option<Vec<String>> = value.as_array()?.iter().map(pattern).collect();
                    match list.as_str() {
                        "allow" => settings.allow = Some(patterns?),
                        "deny" => settings.deny = patterns?,
                        _ => return None,
                    }
                }
                if settings.allow.iter().flatten().any(|allowed| is_never_injected(allowed)) {
                    return None;
                }
            }
            _ => return None,
        }
    }
    Some(settings)
}

/// A pattern that fits: in lower case a DNS name and a slash, if there is a slash, then a name.
fn pattern(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    let whole = text.strip_suffix('*').map_or_else(|| text.to_owned(), |start| format!("{start}x"));
    let (domain, name) = match whole.split_once('/') {
        Some((domain, name)) => (Some(domain.to_ascii_lowercase()), name),
        None => (None, whole.as_str()),
    };
    let is_between = |text: &str, separators: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric();
        text.starts_with(is_plain)
            && text.ends_with(is_plain)
            && text.chars().all(|c| is_plain(c) || separators.contains(c))
    };
    let is_domain =
        |domain: String| domain.len() <= 253 && domain.split('.').all(|label| is_between(label, "-"));
    (is_between(name, "-_.") && name.len() <= 63 && domain.is_none_or(is_domain)).then(|| text.to_owned())
}
