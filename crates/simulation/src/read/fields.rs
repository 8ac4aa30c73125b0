//! Fields that the API server does not know, as after a typing error.

use std::collections::BTreeSet;

use pps_core::shorten;
use serde_json::Value;

use crate::finding::Finding;

/// So many first letters have in common what a user wrote and what he may have meant.
const COMMON_LETTERS: usize = 3;
/// Fewer fields than these are listed.
const MAX_LISTED: usize = 20;

const OBJECT: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// The maps of a PersistentPodState, and their fields; `[]` stands for each item of a list.
const PPS: [(&str, &[&str]); 7] = [
    ("", &OBJECT),
    (
        "spec",
        &[
            "targetRef",
            "requiredPersistentTopology",
            "preferredPersistentTopology",
            "persistentPodAnnotations",
            "persistentPodStateRetentionPolicy",
            "nodeDeletionPolicy",
        ],
    ),
    ("spec.targetRef", &["apiVersion", "kind", "name"]),
    ("spec.requiredPersistentTopology", &["nodeTopologyKeys", "keys"]),
    ("spec.preferredPersistentTopology[]", &["weight", "preference"]),
    ("spec.preferredPersistentTopology[].preference", &["nodeTopologyKeys", "keys"]),
    ("spec.persistentPodAnnotations[]", &["key", "valueFrom"]),
];

/// The same of a StatefulSet of apps/v1.
const STATEFUL_SET: [(&str, &[&str]); 2] = [
    ("", &OBJECT),
    (
        "spec",
        &[
            "replicas",
            "selector",
            "template",
            "serviceName",
            "podManagementPolicy",
            "updateStrategy",
            "revisionHistoryLimit",
            "minReadySeconds",
            "ordinals",
            "volumeClaimTemplates",
            "persistentVolumeClaimRetentionPolicy",
        ],
    ),
];

/// Reports unknown fields of a PersistentPodState.
pub(super) fn check_pps(object: &Value, findings: &mut Vec<Finding>) {
    check(object, &PPS, findings);
    let mut keys = BTreeSet::new();
    for (index, annotation) in
        items("spec.persistentPodAnnotations", &object["spec"]["persistentPodAnnotations"]).iter().enumerate()
    {
        let Some(key) = annotation.1["key"].as_str() else { continue };
        if !keys.insert(key) {
            let field = format!("spec.persistentPodAnnotations[{index}].key");
            let message =
                format!("{field} is {}, which the list has already: remove one of them", shorten(key));
            findings.push(Finding::warning(field, message));
        }
    }
}

/// Reports unknown fields of a StatefulSet of apps/v1.
pub(super) fn check_stateful_set(object: &Value, findings: &mut Vec<Finding>) {
    check(object, &STATEFUL_SET, findings);
}

fn check(object: &Value, maps: &[(&str, &[&str])], findings: &mut Vec<Finding>) {
    for (path, known) in maps {
        for (path, map) in find(object, path) {
            let fields = map.as_object().into_iter().flat_map(|map| map.keys());
            let unknown = fields.filter(|field| !known.contains(&field.as_str()));
            findings.extend(unknown.map(|field| describe(&path, field, known)));
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
            values.flat_map(|(path, value)| items(&path, value)).collect()
        } else {
            values.collect()
        };
    }
    found
}

fn items<'a>(path: &str, list: &'a Value) -> Vec<(String, &'a Value)> {
    let items = list.as_array().into_iter().flatten().enumerate();
    items.map(|(index, item)| (format!("{path}[{index}]"), item)).collect()
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

pub(super) fn describe(path: &str, field: &str, known: &[&str]) -> Finding {
    let common = |other: &str| {
        let letters = field.chars().flat_map(char::to_lowercase);
        letters.zip(other.chars().flat_map(char::to_lowercase)).take_while(|(one, two)| one == two).count()
    };
    let likely =
        known.iter().max_by_key(|other| common(other)).filter(|other| common(other) >= COMMON_LETTERS);
    let remedy = match likely {
        Some(likely) => format!("did you mean {likely}?"),
        None if known.len() > MAX_LISTED => "remove it".to_owned(),
        None => format!("use {}", known.join(", ")),
    };
    let field = join(path, &shorten(field));
    let message =
        format!("{field} is an unknown field, which is ignored here and refused by kubectl: {remedy}");
    Finding::warning(field, message)
}
