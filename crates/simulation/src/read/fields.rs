//! Labels that the API server refuses, and fields of a PersistentPodState that it does not know, as after a typing error.

use pps_core::{is_dns_subdomain, shorten};
use serde_json::Value;

use crate::finding::Finding;
use crate::limits::MAX_LABEL_VALUE;

/// So many first letters have in common what a user wrote and what he may have meant.
const COMMON_LETTERS: usize = 3;

/// The maps of a PersistentPodState, and their fields; `[]` stands for each item of a list.
const PPS: [(&str, &[&str]); 7] = [
    ("", &["apiVersion", "kind", "metadata", "spec", "status"]),
    (
        "spec",
        &[
            "targetRef",
            "requiredPersistentTopology",
            "preferredPersistentTopology",
            "persistentPodAnnotations",
            "persistentPodStateRetentionPolicy",
            "nodeDeletionPolicy",
            "recordingPolicy",
        ],
    ),
    ("spec.targetRef", &["apiVersion", "kind", "name"]),
    ("spec.requiredPersistentTopology", &["nodeTopologyKeys", "keys"]),
    ("spec.preferredPersistentTopology[]", &["weight", "preference"]),
    ("spec.preferredPersistentTopology[].preference", &["nodeTopologyKeys", "keys"]),
    ("spec.persistentPodAnnotations[]", &["key", "valueFrom"]),
];

pub(super) fn check_pps(object: &Value, findings: &mut Vec<Finding>) {
    for (path, known) in PPS {
        for (path, map) in find(object, path) {
            let fields = map.as_object().into_iter().flat_map(|map| map.keys());
            let unknown = fields.filter(|field| !known.contains(&field.as_str()));
            findings.extend(unknown.map(|field| unknown_field(&path, field, known)));
        }
    }
}

/// The values at a path, each with its own path.
fn find<'a>(object: &'a Value, path: &str) -> Vec<(String, &'a Value)> {
    let mut found = vec![(String::new(), object)];
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let (field, is_list) = part.strip_suffix("[]").map_or((part, false), |field| (field, true));
        let values = found.into_iter().map(|(path, value)| (join(&path, field), &value[field]));
        found = if is_list {
            let items = |(path, list): (String, &'a Value)| {
                let items = list.as_array().into_iter().flatten().enumerate();
                items.map(|(index, item)| (format!("{path}[{index}]"), item)).collect::<Vec<_>>()
            };
            values.flat_map(items).collect()
        } else {
            values.collect()
        };
    }
    found
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

fn unknown_field(path: &str, field: &str, known: &[&str]) -> Finding {
    let letters = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<Vec<_>>();
    let common = |other: &&&str| {
        letters(field).into_iter().zip(letters(other)).take_while(|(one, two)| one == two).count()
    };
    let likely = known.iter().max_by_key(common).filter(|other| common(other) >= COMMON_LETTERS);
    let remedy = match likely {
        Some(likely) => format!("did you mean {likely}?"),
        None => format!("use {}", known.join(", ")),
    };
    let field = join(path, &shorten(field));
    let message =
        format!("{field} is an unknown field, which is ignored here and refused by kubectl: {remedy}");
    Finding::warning(field, message)
}

pub(crate) fn check_label(key: &str, value: &str) -> Result<(), String> {
    let is_end = |end: Option<char>| end.is_some_and(|end| end.is_ascii_alphanumeric());
    let is_name = |name: &str| {
        name.len() <= MAX_LABEL_VALUE
            && is_end(name.chars().next())
            && is_end(name.chars().next_back())
            && name.chars().all(|one| one.is_ascii_alphanumeric() || "-_.".contains(one))
    };
    let is_key = match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name(name),
        None => is_name(key),
    };
    if is_key && (value.is_empty() || is_name(value)) {
        return Ok(());
    }
    Err(format!(
        "{}={} is no label: use at most {MAX_LABEL_VALUE} letters, digits, -, _ and ., with a letter or digit at both ends, and for the key also a prefix: example.com/rack",
        shorten(key),
        shorten(value)
    ))
}

/// Reports keys and values that are no labels. Other types are reported elsewhere.
pub(super) fn check_labels(path: &str, labels: &Value, findings: &mut Vec<Finding>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        if let Err(message) = check_label(key, value.as_str().unwrap_or_default()) {
            findings.push(Finding::error(format!("{path}.{}", shorten(key)), format!("{path}: {message}")));
        }
    }
}
