//! Definitions of custom resources, and their facts.

use std::sync::Arc;

use pps_core::pps::{GROUP, VERSION};
use pps_recorder::kinds;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::item::{Item, Metadata, Parsed, Parts};
use super::malformed::Malformed;

#[derive(Default, Deserialize)]
#[serde(default)]
struct DefinitionSpec {
    group: String,
    names: Value,
    scope: String,
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Version {
    name: String,
    served: bool,
    storage: bool,
    subresources: Value,
    /// Unread: schemas are large.
    schema: Option<Box<RawValue>>,
}

/// Reads a definition. One that cannot be read defines nothing.
pub fn read_definition(object: &str) -> Result<Item<Arc<str>, kinds::Definition>, Malformed> {
    let parsed = Parsed::<Option<DefinitionSpec>, Option<Value>>::read(object)?;
    Ok(parsed.into_item(Metadata::name, |metadata, parts| {
        let Parts { spec, status } = parts.unwrap_or_default();
        Some(definition(
            &metadata,
            spec.unwrap_or_default(),
            &status.unwrap_or_default(),
        ))
    }))
}

fn definition(metadata: &Metadata, spec: DefinitionSpec, status: &Value) -> kinds::Definition {
    let keeps_packed = keeps_packed(&spec);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let version = |version: Version| kinds::Version {
        name: version.name,
        replicas: version.subresources["scale"]["specReplicasPath"]
            .as_str()
            .map(str::to_owned),
    };
    let mut versions = spec.versions;
    versions.retain(|version| version.served);
    versions.sort_by_key(|version| !version.storage);
    kinds::Definition {
        group: spec.group,
        kind: text(&spec.names["kind"]),
        plural: text(&spec.names["plural"]),
        namespaced: spec.scope == "Namespaced",
        established: conditions.any(|one| one["type"] == "Established" && one["status"] == "True"),
        terminating: metadata.is_terminating(),
        versions: versions.into_iter().map(version).collect(),
        generation: metadata.generation.unwrap_or_default(),
        keeps_packed,
    }
}

/// Whether the version of this product of its own objects keeps `status.packed`.
fn keeps_packed(spec: &DefinitionSpec) -> bool {
    let is_own =
        |version: &&Version| spec.group == GROUP && version.served && version.name == VERSION;
    let schema = spec
        .versions
        .iter()
        .find(is_own)
        .and_then(|version| version.schema.as_ref());
    let schema: Value = schema
        .and_then(|schema| serde_json::from_str(schema.get()).ok())
        .unwrap_or_default();
    let root = &schema["openAPIV3Schema"];
    let status = &root["properties"]["status"];
    let keeps_all = |part: &Value| part["x-kubernetes-preserve-unknown-fields"] == true;
    keeps_all(root) || keeps_all(status) || !status["properties"]["packed"].is_null()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keeps_the_names_served_versions_and_state_of_a_definition() {
        let definition = json!({
            "metadata": {"name": "databases.a.io", "generation": 4, "annotations": {"x": "y"}},
            "spec": {
                "group": "a.io", "names": {"kind": "Database", "plural": "databases"}, "scope": "Namespaced",
                "versions": [
                    {"name": "v1beta1", "served": true, "storage": false},
                    {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {}},
                        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}}},
                    {"name": "v1alpha1", "served": false, "storage": false},
                ],
            },
            "status": {"conditions": [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]},
        });
        let version = |name: &str, replicas: Option<&str>| kinds::Version {
            name: name.into(),
            replicas: replicas.map(Into::into),
        };
        let expected = kinds::Definition {
            group: "a.io".into(),
            kind: "Database".into(),
            plural: "databases".into(),
            namespaced: true,
            established: true,
            terminating: false,
            versions: vec![version("v1", Some(".spec.size")), version("v1beta1", None)],
            generation: 4,
            keeps_packed: false,
        };
        let item = read_definition(&definition.to_string()).unwrap();
        assert_eq!((&*item.key, item.fact), ("databases.a.io", Some(expected)));
        let read = |object: Value| read_definition(&object.to_string()).unwrap().fact.unwrap();
        let new = json!({"metadata": {"name": "a"}, "spec": {"versions": [{"subresources": null}]}, "status": null});
        assert!(!read(new).established);
        let deleted = json!({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {}});
        assert!(read(deleted).terminating);
    }

    #[test]
    fn finds_the_compact_form_in_the_schema() {
        let keeps = |versions: Value| {
            let spec = json!({"group": "apps.kruise.io", "versions": versions});
            keeps_packed(&serde_json::from_str(&spec.to_string()).unwrap())
        };
        let version = |schema: Value| json!([{"name": "v1alpha1", "served": true, "schema": {"openAPIV3Schema": schema}}]);
        let packed = json!({"type": "object", "properties": {"status": {"properties": {"packed": {"type": "object"}}}}});
        assert!(keeps(version(packed.clone())));
        assert!(keeps(version(
            json!({"x-kubernetes-preserve-unknown-fields": true})
        )));
        assert!(keeps(version(
            json!({"properties": {"status": {"x-kubernetes-preserve-unknown-fields": true, "properties": {}}}})
        )));
        assert!(!keeps(version(
            json!({"properties": {"status": {"properties": {"podStates": {}}}}})
        )));
        assert!(!keeps(version(
            json!({"properties": {"spec": {"properties": {"packed": {}}}}})
        )));
        for (name, served) in [("v1beta1", true), ("v1alpha1", false)] {
            assert!(!keeps(
                json!([{"name": name, "served": served, "schema": {"openAPIV3Schema": packed}}])
            ));
        }
        assert!(!keeps(
            json!([{"name": "v1alpha1", "served": true, "schema": null}])
        ));
    }
}
