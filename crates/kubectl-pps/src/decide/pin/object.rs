//! What is to be known of a PersistentPodState.

use pps_core::TargetReference;
use pps_core::alias::{aliased, precedence};
use pps_core::generate::{FIELD_MANAGER, MANAGED_BY_LABEL, second_name};
use serde_json::{Map, Value};

/// Whether the sidecar generated it: it has the sidecar's label, and the sidecar owns a part of its spec. A copy that a user
/// applies has only the label.
pub(super) fn is_generated(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let managers = metadata["managedFields"].as_array().into_iter().flatten();
    metadata["labels"][MANAGED_BY_LABEL] == FIELD_MANAGER
        && managers
            .filter(|entry| entry["manager"] == FIELD_MANAGER)
            .any(|entry| entry["fieldsV1"].get("f:spec").is_some())
}

/// The objects that name a workload, the governing one first.
pub(super) fn targeting<'a>(objects: &'a [Value], target: &TargetReference) -> Vec<&'a Value> {
    let second = second_name(target);
    let text = |object: &'a Value, field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let mut found: Vec<&Value> = objects
        .iter()
        .filter(|object| {
            let own = TargetReference::read(&object["spec"]["targetRef"]);
            aliased(&own).is_none() && own.is_same_workload(target)
        })
        .collect();
    found.sort_by(|one, other| {
        let key = |object| {
            precedence(&target.name, &second, text(object, "name"), text(object, "creationTimestamp"))
        };
        key(one).cmp(&key(other))
    });
    found
}

pub(super) fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// What of an object a difference shows: nothing that the API server or the sidecar writes.
pub(super) fn shown(object: &Value) -> Value {
    let mut shown = Map::new();
    for field in ["apiVersion", "kind", "spec"] {
        if !object[field].is_null() {
            shown.insert(field.into(), object[field].clone());
        }
    }
    let mut metadata = Map::new();
    for field in ["name", "namespace", "labels", "annotations"] {
        if !object["metadata"][field].is_null() {
            metadata.insert(field.into(), object["metadata"][field].clone());
        }
    }
    shown.insert("metadata".into(), metadata.into());
    shown.into()
}

/// What of a workload a difference shows: what it is, and its annotations.
pub(super) fn shown_workload(object: &Value) -> Value {
    let mut shown = self::shown(object);
    if let Some(fields) = shown.as_object_mut() {
        fields.remove("spec");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("labels");
        }
    }
    if let Some(annotations) = shown.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
    shown
}

/// The object after a JSON merge patch.
pub(super) fn merged(object: &Value, patch: &Value) -> Value {
    let Some(fields) = patch.as_object() else { return patch.clone() };
    let mut merged = object.as_object().cloned().unwrap_or_default();
    for (field, value) in fields {
        if value.is_null() {
            merged.remove(field);
        } else {
            let before = merged.get(field).cloned().unwrap_or_default();
            merged.insert(field.clone(), self::merged(&before, value));
        }
    }
    merged.into()
}

/// `1 Pod`, `2 Pods`
pub(super) fn pods(count: usize) -> String {
    if count == 1 { "1 Pod".into() } else { format!("{count} Pods") }
}
