//! Merge patches for a PPS status.
//!
//! A patch holds only what changes, so its size depends on the change and not on the object.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::packed;
use crate::pps::PodState;

/// The merge patch (RFC 7396) for one entry of `podStates`: none if both are equal, `null` if the
/// entry is removed.
pub fn entry_patch(before: Option<&PodState>, after: Option<&PodState>) -> Option<Value> {
    if before == after {
        return None;
    }
    let Some(after) = after else {
        return Some(Value::Null);
    };
    let before = before.cloned().unwrap_or_default();
    let mut patch = Map::new();
    if before.node_name != after.node_name {
        // The API server takes an empty name for null, and refuses that.
        let name = Some(after.node_name.as_str()).filter(|name| !name.is_empty());
        patch.insert("nodeName".into(), name.into());
    }
    let labels = map_patch(&before.node_topology_labels, &after.node_topology_labels);
    patch.extend(labels.map(|labels| ("nodeTopologyLabels".to_owned(), labels)));
    let annotations = map_patch(&before.annotations, &after.annotations);
    patch.extend(annotations.map(|annotations| ("annotations".to_owned(), annotations)));
    Some(patch.into())
}

/// The merge patch for a map: none if nothing changes, `null` if the map becomes empty.
fn map_patch(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Option<Value> {
    if after.is_empty() && !before.is_empty() {
        return Some(Value::Null);
    }
    let removed = before.keys().filter(|key| !after.contains_key(*key));
    let mut changes: Map<String, Value> = removed.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in after {
        if before.get(key) != Some(value) {
            changes.insert(key.clone(), value.clone().into());
        }
    }
    (!changes.is_empty()).then(|| changes.into())
}

/// The body of a status patch for the object with this UID and resource version. If either has
/// changed, the API server answers with a conflict.
pub fn guarded_patch(uid: &str, resource_version: &str, status: &Map<String, Value>) -> Value {
    json!({"metadata": {"uid": uid, "resourceVersion": resource_version}, "status": status})
}

/// The same patch as a JSON patch (RFC 6902), for an object in the compact form. It applies only
/// where the API server has that form: under a definition without it, a merge patch would make the
/// API server store the object without its other states.
pub fn compact_patch(patch: &Value) -> Value {
    let mut operations =
        vec![json!({"op": "test", "path": "/status/packed/version", "value": packed::VERSION})];
    for (field, value) in patch["metadata"].as_object().into_iter().flatten() {
        operations.extend(set("/metadata", field, value));
    }
    for (field, value) in patch["status"].as_object().into_iter().flatten() {
        operations.extend(match (field.as_str(), value, &value["buckets"]) {
            ("packed", _, Value::Object(buckets)) => set_all("/status/packed/buckets", buckets),
            ("podStates", Value::Object(pods), _) => set_all("/status/podStates", pods),
            _ => set("/status", field, value),
        });
    }
    operations.into()
}

fn set_all(parent: &str, fields: &Map<String, Value>) -> Vec<Value> {
    fields
        .iter()
        .flat_map(|(field, value)| set(parent, field, value))
        .collect()
}

/// Sets a field, or removes it if the value is null, whether it is there or not.
fn set(parent: &str, field: &str, value: &Value) -> Vec<Value> {
    let path = format!("{parent}/{}", field.replace('~', "~0").replace('/', "~1"));
    if value.is_null() {
        // Only what exists can be removed.
        return vec![
            json!({"op": "add", "path": path, "value": ""}),
            json!({"op": "remove", "path": path}),
        ];
    }
    vec![json!({"op": "add", "path": path, "value": value})]
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_map;
    use proptest::prelude::*;

    use super::*;

    fn state() -> impl Strategy<Value = PodState> {
        let map = || btree_map("[a-c]", "[x-y]", 0..3);
        ("[m-n]?", map(), map()).prop_map(|(node_name, node_topology_labels, annotations)| {
            PodState {
                node_name,
                node_topology_labels,
                annotations,
            }
        })
    }

    proptest! {
        #[test]
        fn merging_the_patch_turns_one_state_into_the_other(
            before in proptest::option::of(state()),
            after in proptest::option::of(state()),
        ) {
            let mut states = json!({});
            if let Some(before) = &before {
                states["p"] = serde_json::to_value(before).unwrap();
            }
            match entry_patch(before.as_ref(), after.as_ref()) {
                None => prop_assert_eq!(before, after),
                Some(patch) => {
                    json_patch::merge(&mut states, &json!({"p": patch}));
                    let merged: Option<PodState> =
                        states.get("p").map(|state| serde_json::from_value(state.clone()).unwrap());
                    prop_assert_eq!(merged, after);
                }
            }
        }
    }

    #[test]
    fn a_compact_patch_does_what_the_merge_patch_does_and_applies_only_to_the_compact_form() {
        let merge = json!({
            "metadata": {"uid": "u", "resourceVersion": "7"},
            "status": {
                "packed": {"buckets": {"ordinals-0": "text", "ordinals-100": null, "hash-1": null}},
                "podStates": {"w-0": null, "a/b~c": null, "gone": null},
                "recorded": 3, "desired": null, "conditions": [{"type": "Recording"}],
            },
        });
        let object = json!({
            "metadata": {"name": "w", "uid": "u", "resourceVersion": "7"},
            "status": {
                "packed": {"version": 1, "buckets": {"ordinals-0": "old", "ordinals-100": "old", "ordinals-200": "old"}},
                "podStates": {"w-0": {}, "a/b~c": {}, "w-1": {}}, "desired": 4,
            },
        });
        let operations: json_patch::Patch = serde_json::from_value(compact_patch(&merge)).unwrap();
        let (mut merged, mut patched) = (object.clone(), object.clone());
        json_patch::merge(&mut merged, &merge);
        json_patch::patch(&mut patched, &operations).unwrap();
        assert_eq!(patched, merged);

        let mut pruned = object;
        pruned["status"].as_object_mut().unwrap().remove("packed");
        let before = pruned.clone();
        assert!(json_patch::patch(&mut pruned, &operations).is_err());
        assert_eq!(pruned, before);
    }
}
