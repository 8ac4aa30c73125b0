//! What is read to find out which kinds of workloads there are, and what is read of workloads whose
//! kind is known only then.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, ListableResource, Metadata, NamespaceResourceScope, Resource};
use kube::core::{ApiResource, DynamicResourceScope};
use pps_core::demand::{Demand, Naming};
use pps_core::kinds;
use serde::Deserialize;
use serde_json::Value;

use super::{null_as_default, request_annotations, slim_metadata, slim_resource};
use crate::facts::{ConfigFact, WorkloadFact};

/// The parts of a workload of any kind that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CustomWorkload {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    spec: Value,
}

impl kube::Resource for CustomWorkload {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// What is kept of a workload; the rest of its spec goes at once.
pub fn custom_workload_fact(workload: &CustomWorkload, api_version: &str, naming: &Naming) -> WorkloadFact {
    let metadata = &workload.metadata;
    WorkloadFact {
        api_version: api_version.into(),
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        terminating: metadata.deletion_timestamp.is_some(),
        demand: Demand::read(&workload.spec, naming),
        annotations: request_annotations(metadata),
    }
}

/// The parts of a `CustomResourceDefinition` that are read; above all not its schema.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CustomResourceDefinition {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    spec: DefinitionSpec,
    #[serde(deserialize_with = "null_as_default")]
    status: DefinitionStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct DefinitionSpec {
    group: String,
    names: Names,
    scope: String,
    versions: Vec<Version>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Names {
    kind: String,
    plural: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Version {
    name: String,
    served: bool,
    #[serde(deserialize_with = "null_as_default")]
    subresources: Subresources,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Subresources {
    scale: Option<Scale>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scale {
    spec_replicas_path: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct DefinitionStatus {
    #[serde(deserialize_with = "null_as_default")]
    conditions: Vec<super::PodCondition>,
}

slim_resource!(
    CustomResourceDefinition,
    ClusterResourceScope,
    "apiextensions.k8s.io",
    "v1",
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions"
);

/// The key of a definition, which has no namespace.
pub fn definition_key(definition: &CustomResourceDefinition) -> Arc<str> {
    definition.metadata.name.as_deref().unwrap_or_default().into()
}

/// What is kept of a definition.
pub fn definition_fact(definition: CustomResourceDefinition) -> kinds::Definition {
    let spec = definition.spec;
    let versions = spec.versions.into_iter().filter(|version| version.served);
    kinds::Definition {
        group: spec.group,
        kind: spec.names.kind,
        plural: spec.names.plural,
        namespaced: spec.scope == "Namespaced",
        established: definition
            .status
            .conditions
            .iter()
            .any(|condition| condition.type_ == "Established" && condition.status == "True"),
        terminating: definition.metadata.deletion_timestamp.is_some(),
        versions: versions
            .map(|version| kinds::Version {
                name: version.name,
                replicas: version.subresources.scale.map(|scale| scale.spec_replicas_path),
            })
            .collect(),
    }
}

/// The parts of the ConfigMap that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConfigMap {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(deserialize_with = "null_as_default")]
    data: ConfigData,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ConfigData {
    #[serde(rename = "PPS_Watch_Custom_Workload_WhiteList")]
    whitelist: Option<String>,
}

slim_resource!(ConfigMap, NamespaceResourceScope, "", "v1", "v1", "ConfigMap", "configmaps");

/// What is kept of the ConfigMap.
pub fn config_fact(config: ConfigMap) -> ConfigFact {
    ConfigFact { uid: config.metadata.uid.unwrap_or_default(), whitelist: config.data.whitelist }
}

#[cfg(test)]
mod tests {
    use pps_core::demand::ReplicasPath;
    use pps_core::whitelist;
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn little_is_kept_of_a_definition() {
        let definition = json!({
            "metadata": {"name": "databases.a.io", "annotations": {"x": "y"}},
            "spec": {
                "group": "a.io", "names": {"kind": "Database", "plural": "databases"}, "scope": "Namespaced",
                "versions": [
                    {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {}},
                        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}}},
                    {"name": "v1beta1", "served": true, "storage": false},
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
        };
        let definition: CustomResourceDefinition = from_value(definition).unwrap();
        assert_eq!(&*definition_key(&definition), "databases.a.io");
        assert_eq!(definition_fact(definition), expected);
        let new: CustomResourceDefinition =
            from_value(json!({"spec": {"versions": [{"subresources": null}]}, "status": null})).unwrap();
        assert!(!definition_fact(new).established);
        let terminating: CustomResourceDefinition =
            from_value(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})).unwrap();
        assert!(definition_fact(terminating).terminating);
    }

    #[test]
    fn only_the_list_is_kept_of_the_config() {
        let config = |data: Value| {
            config_fact(from_value(json!({"metadata": {"uid": "u"}, "data": data})).unwrap()).whitelist
        };
        assert_eq!(config(json!({whitelist::KEY: "[]", "other": "x"})).as_deref(), Some("[]"));
        assert_eq!((config(json!(null)), config(json!({}))), (None, None));
    }

    #[test]
    fn a_custom_workload_asks_for_what_its_spec_says() {
        let workload = json!({
            "metadata": {"name": "w", "uid": "u", "managedFields": [{"manager": "m"}],
                "annotations": {"other": "x", "kruise.io/auto-generate-persistent-pod-state": "true"}},
            "spec": {"shape": {"size": 3}},
            "status": {"replicas": 3},
        });
        let workload: CustomWorkload = from_value(workload).unwrap();
        let naming = Naming::Custom(ReplicasPath::new(".spec.shape.size"));
        let fact = custom_workload_fact(&workload, "a.io/v1", &naming);
        assert_eq!((&*fact.uid, fact.demand.replicas(), fact.annotations.len()), ("u", Some(3), 1));
        assert!(from_value::<CustomWorkload>(json!({"metadata": {"name": "w"}})).is_ok());
    }
}
