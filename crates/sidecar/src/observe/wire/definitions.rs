//! Custom resource definitions and the ConfigMap with the whitelist on the wire, and their facts.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pps_core::pps;
use pps_recorder::facts::{ConfigFact, NamespacedName};
use pps_recorder::kinds;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::encoding::Encoded;
use super::object::{Item, Malformed, item, key_of, null_as_default, slim_metadata};

/// The fields of a `CustomResourceDefinition` that are read: above all not its schemas.
#[derive(Default, Deserialize)]
#[serde(default)]
struct CustomResourceDefinition {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    spec: DefinitionSpec,
    status: Value,
}

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
    #[serde(deserialize_with = "null_as_default")]
    schema: VersionSchema,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct VersionSchema {
    #[serde(rename = "openAPIV3Schema", deserialize_with = "null_as_default")]
    root: Schema,
}

/// The part of a schema that says whether the status keeps the compact form.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Schema {
    #[serde(rename = "x-kubernetes-preserve-unknown-fields", deserialize_with = "null_as_default")]
    preserves_unknown_fields: bool,
    #[serde(deserialize_with = "null_as_default")]
    properties: Properties,
}

/// Properties of these names. Of other kinds they may mean anything.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Properties {
    status: Option<Box<Schema>>,
    packed: Option<IgnoredAny>,
}

/// Reads a definition. One that cannot be read defines nothing.
pub fn read_definition(object: Encoded<'_>) -> Result<Item<Arc<str>, kinds::Definition>, Malformed> {
    let key = |metadata: &ObjectMeta| metadata.name.as_deref().unwrap_or_default().into();
    let whole = |definition: CustomResourceDefinition| Some(definition.into_fact());
    let rest = |metadata: &ObjectMeta| {
        whole(CustomResourceDefinition { metadata: metadata.clone(), ..CustomResourceDefinition::default() })
    };
    item(object, &[], |definition: &CustomResourceDefinition| &definition.metadata, key, whole, rest)
}

impl CustomResourceDefinition {
    fn into_fact(self) -> kinds::Definition {
        let keeps_packed = self.keeps_packed();
        let Self { metadata, spec, status } = self;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let version = |version: Version| kinds::Version {
            name: version.name,
            replicas: version.subresources["scale"]["specReplicasPath"].as_str().map(str::to_owned),
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
            terminating: metadata.deletion_timestamp.is_some(),
            versions: versions.into_iter().map(version).collect(),
            generation: metadata.generation.unwrap_or_default(),
            keeps_packed,
        }
    }

    /// Whether objects that are read in the version of this product keep `status.packed`.
    fn keeps_packed(&self) -> bool {
        let own = self.spec.versions.iter().find(|version| version.served && version.name == pps::VERSION);
        let Some(Version { schema: VersionSchema { root }, .. }) = own else { return false };
        let keeps = |status: &Schema| status.preserves_unknown_fields || status.properties.packed.is_some();
        root.preserves_unknown_fields || root.properties.status.as_deref().is_some_and(keeps)
    }
}

/// Reads the ConfigMap. The list of one that cannot be read counts as malformed, so that the last valid one
/// stays in force.
pub fn read_config(object: Encoded<'_>) -> Result<Item<NamespacedName, ConfigFact>, Malformed> {
    #[derive(Deserialize)]
    struct ConfigMap {
        #[serde(deserialize_with = "slim_metadata")]
        metadata: ObjectMeta,
        #[serde(default, deserialize_with = "null_as_default")]
        data: ConfigData,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ConfigData {
        #[serde(rename = "PPS_Watch_Custom_Workload_WhiteList")]
        whitelist: Option<String>,
    }
    let fact = |metadata: &ObjectMeta, whitelist| {
        Some(ConfigFact { uid: metadata.uid.clone().unwrap_or_default(), whitelist })
    };
    let whole = |config: ConfigMap| fact(&config.metadata, config.data.whitelist);
    let rest = |metadata: &ObjectMeta| fact(metadata, Some("the ConfigMap cannot be read".into()));
    item(object, &[], |config: &ConfigMap| &config.metadata, key_of, whole, rest)
}

#[cfg(test)]
mod tests {
    use pps_recorder::whitelist;
    use serde_json::{from_value, json};

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
        let item = read_definition(Encoded::Json(&definition.to_string())).unwrap();
        assert_eq!((&*item.key, item.fact), ("databases.a.io", Some(expected)));
        let new: CustomResourceDefinition =
            from_value(json!({"spec": {"versions": [{"subresources": null}]}, "status": null})).unwrap();
        assert!(!new.into_fact().established);
        let terminating: CustomResourceDefinition =
            from_value(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})).unwrap();
        assert!(terminating.into_fact().terminating);
    }

    #[test]
    fn finds_the_compact_form_in_the_schema() {
        let keeps = |versions: Value| {
            let definition: CustomResourceDefinition =
                from_value(json!({"spec": {"versions": versions}})).unwrap();
            definition.into_fact().keeps_packed
        };
        let version = |schema: Value| json!([{"name": "v1alpha1", "served": true, "schema": {"openAPIV3Schema": schema}}]);
        let packed = json!({"type": "object", "properties": {"status": {"properties": {"packed": {"type": "object"}}}}});
        assert!(keeps(version(packed.clone())));
        assert!(keeps(version(json!({"x-kubernetes-preserve-unknown-fields": true}))));
        assert!(keeps(version(
            json!({"properties": {"status": {"x-kubernetes-preserve-unknown-fields": true, "properties": {}}}})
        )));
        assert!(!keeps(version(json!({"properties": {"status": {"properties": {"podStates": {}}}}}))));
        assert!(!keeps(version(json!({"properties": {"spec": {"properties": {"packed": {}}}}}))));
        for (name, served) in [("v1beta1", true), ("v1alpha1", false)] {
            assert!(!keeps(json!([{"name": name, "served": served, "schema": {"openAPIV3Schema": packed}}])));
        }
        assert!(!keeps(json!([{"name": "v1alpha1", "served": true, "schema": null}])));
    }

    #[test]
    fn keeps_only_the_list_of_kinds() {
        let config = |data: Value| {
            let text = json!({"metadata": {"name": "c", "uid": "u"}, "data": data}).to_string();
            read_config(Encoded::Json(&text)).unwrap().fact.unwrap().whitelist
        };
        assert_eq!(config(json!({whitelist::KEY: "[]", "other": "x"})).as_deref(), Some("[]"));
        assert_eq!((config(json!(null)), config(json!({}))), (None, None));
    }
}
