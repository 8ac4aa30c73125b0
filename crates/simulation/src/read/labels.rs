//! Which keys and values the API server takes for labels.

use pps_core::{is_dns_subdomain, shorten};
use serde_json::Value;

use crate::finding::Finding;
use crate::limits::MAX_LABEL_VALUE;

/// Whether the API server takes this as the key of a label.
pub(crate) fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_label_name(name),
        None => is_label_name(key),
    }
}

/// Whether the API server takes this as the value of a label.
pub(crate) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_label_name(value)
}

fn is_label_name(name: &str) -> bool {
    let is_end = |end: Option<char>| end.is_some_and(|end| end.is_ascii_alphanumeric());
    name.len() <= MAX_LABEL_VALUE
        && is_end(name.chars().next())
        && is_end(name.chars().next_back())
        && name.chars().all(|one| one.is_ascii_alphanumeric() || "-_.".contains(one))
}

/// Reports keys and values that are no labels. Other types are reported elsewhere.
pub(super) fn check(path: &str, labels: &Value, findings: &mut Vec<Finding>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        if is_label_key(key) && is_label_value(value) {
            continue;
        }
        let message = format!(
            "{path}: {}={} is no label: use at most {MAX_LABEL_VALUE} letters, digits, -, _ and ., with a letter or digit at both ends, and for the key also a prefix: example.com/rack",
            shorten(key),
            shorten(value)
        );
        findings.push(Finding::error(format!("{path}.{}", shorten(key)), message));
    }
}
