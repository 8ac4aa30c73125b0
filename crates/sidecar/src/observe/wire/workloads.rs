//! Workloads on the wire, StatefulSets and those of custom kinds, and their facts.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{NamespaceResourceScope, Resource};
use kube::core::{ApiResource, DynamicResourceScope};
use pps_core::demand::{Demand, Naming};
use pps_core::workload::Ordinals;
use serde::Deserialize;
use serde_json::Value;

use super::metadata::{request_annotations, slim_metadata, slim_resource};
use crate::facts::WorkloadFact;

/// The fields of a StatefulSet that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StatefulSet {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    spec: StatefulSetSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct StatefulSetSpec {
    replicas: Option<i32>,
    ordinals: Option<StatefulSetOrdinals>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct StatefulSetOrdinals {
    start: Option<i32>,
}

slim_resource!(StatefulSet, NamespaceResourceScope, "apps", "v1", "apps/v1", "StatefulSet", "statefulsets");

/// The fields of a workload of a custom kind that are read.
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

pub fn workload_fact(workload: &StatefulSet) -> WorkloadFact {
    let number = |number: Option<i32>, default: u64| {
        number.map_or(default, |number| u64::try_from(number).unwrap_or(0))
    };
    let start = workload.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start);
    let ordinals = Ordinals::new(number(start, 0), number(workload.spec.replicas, 1), []);
    fact(&workload.metadata, StatefulSet::API_VERSION, Demand::of_ordinals(ordinals))
}

pub fn custom_workload_fact(workload: &CustomWorkload, api_version: &str, naming: &Naming) -> WorkloadFact {
    fact(&workload.metadata, api_version, Demand::read(&workload.spec, naming))
}

fn fact(metadata: &ObjectMeta, api_version: &str, demand: Demand) -> WorkloadFact {
    WorkloadFact {
        api_version: api_version.into(),
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        terminating: metadata.deletion_timestamp.is_some(),
        demand,
        annotations: request_annotations(metadata),
    }
}

#[cfg(test)]
mod tests {
    use pps_core::demand::ReplicasPath;
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn replicas_default_to_one_and_ordinals_to_zero() {
        let demand = |spec| {
            workload_fact(&StatefulSet { spec: from_value(spec).unwrap(), ..StatefulSet::default() }).demand
        };
        assert_eq!(demand(json!({})), Demand::of_ordinals(Ordinals::new(0, 1, [])));
        let spec = json!({"replicas": 3, "ordinals": {"start": 5}});
        assert_eq!(demand(spec), Demand::of_ordinals(Ordinals::new(5, 3, [])));
    }

    #[test]
    fn reads_the_replicas_of_a_custom_workload_at_the_path_of_its_kind() {
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
