//! What the API server checks of objects, as far as the simulation reads them.

use pps_core::limits::MAX_LABEL_VALUE_LENGTH;
use pps_core::{is_dns_subdomain, is_label_key, shorten};
use serde_json::Value;

use crate::finding::Finding;

const PPS_FIELDS: [&str; 7] = [
    "targetRef",
    "requiredPersistentTopology",
    "preferredPersistentTopology",
    "persistentPodAnnotations",
    "persistentPodStateRetentionPolicy",
    "nodeDeletionPolicy",
    "recordingPolicy",
];

pub(super) type Findings = Vec<Finding>;

pub(super) fn metadata(object: &Value, findings: &mut Findings) {
    let metadata = &object["metadata"];
    if !metadata.is_object() {
        findings.push(Finding::wrong(
            "metadata",
            metadata,
            "give the object a name",
        ));
        return;
    }
    let name = &metadata["name"];
    if !name.as_str().is_some_and(is_dns_subdomain) {
        let remedy = "use lower-case letters, digits, - and ., at most 253 of them";
        findings.push(Finding::wrong("metadata.name", name, remedy));
    }
    for field in ["uid", "namespace", "creationTimestamp"] {
        let value = &metadata[field];
        if !value.is_null() && !value.is_string() {
            findings.push(Finding::wrong(
                &format!("metadata.{field}"),
                value,
                "use a string, or remove it",
            ));
        }
    }
    for field in ["labels", "annotations"] {
        strings(&format!("metadata.{field}"), &metadata[field], findings);
    }
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        if let Err(message) = check_label(key, value.as_str().unwrap_or_default()) {
            let field = format!("metadata.labels.{}", shorten(key));
            findings.push(Finding::error(field, format!("metadata.labels: {message}")));
        }
    }
}

/// Checks that these fields are maps, or missing.
pub(super) fn maps(object: &Value, fields: &[&str], findings: &mut Findings) {
    for field in fields {
        let value = &object[*field];
        if !value.is_null() && !value.is_object() {
            findings.push(Finding::wrong(field, value, "use a map"));
        }
    }
}

/// Checks that a value is a map of strings, or missing.
pub(super) fn strings(path: &str, value: &Value, findings: &mut Findings) {
    match value {
        Value::Null => {}
        Value::Object(map) => {
            if let Some((key, value)) = map.iter().find(|(_, value)| !value.is_string()) {
                let field = format!("{path}.{}", shorten(key));
                findings.push(Finding::wrong(&field, value, "put the value in quotes"));
            }
        }
        other => findings.push(Finding::wrong(path, other, "use a map of strings")),
    }
}

pub(crate) fn check_label(key: &str, value: &str) -> Result<(), String> {
    // The value of a label is written as the name in a key.
    if is_label_key(key) && (value.is_empty() || (is_label_key(value) && !value.contains('/'))) {
        return Ok(());
    }
    Err(format!(
        "{}={} is no label: use at most {MAX_LABEL_VALUE_LENGTH} letters, digits, -, _ and ., \
         with a letter or digit at both ends, and for the key also a prefix: example.com/rack",
        shorten(key),
        shorten(value)
    ))
}

/// Warns of fields that the spec of a PersistentPodState does not have, as after a typing error.
pub(super) fn pps(object: &Value, findings: &mut Findings) {
    let fields = object["spec"]
        .as_object()
        .into_iter()
        .flat_map(|spec| spec.keys());
    for field in fields.filter(|field| !PPS_FIELDS.contains(&field.as_str())) {
        let field = format!("spec.{}", shorten(field));
        let message = format!(
            "{field} is an unknown field, which kubectl refuses: use {}",
            PPS_FIELDS.join(", ")
        );
        findings.push(Finding::warning(field, message));
    }
}
