//! What is read of the objects that the API server sends, and what of that becomes a fact.
//!
//! Pods and StatefulSets are read into types that have only the fields needed here: the rest of the
//! JSON is skipped and never stored.

mod kinds;
mod object;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use k8s_openapi::{ListableResource, Metadata, NamespaceResourceScope, Resource};
use kube::core::PartialObjectMeta;
use pps_core::demand::Demand;
use pps_core::owner::has_stable_names;
use pps_core::required_affinity::RequiredAffinity;
use pps_core::workload::Ordinals;
use pps_core::{INJECTED_ANNOTATION, PersistentPodState, generate};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

pub use self::kinds::{
    ConfigMap, CustomResourceDefinition, CustomWorkload, config_fact, custom_workload_fact, definition_fact,
    definition_key,
};
pub use self::object::ReadObject;
use crate::facts::interest::Interest;
use crate::facts::{NamespacedName, NodeFact, PendingPod, PodFact, PpsFact, PpsStatus, WorkloadFact};

/// A PPS with its full metadata.
pub type PpsObject = PersistentPodState<ObjectMeta, PpsStatus>;

/// The parts of a Pod that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<String>,
    affinity: RequiredAffinity,
    scheduling_gates: Option<Vec<IgnoredAny>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: Option<String>,
    conditions: Vec<PodCondition>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pod_ips: Vec<PodIp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodIp {
    ip: Option<String>,
}

/// The parts of a StatefulSet that are read.
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

macro_rules! slim_resource {
    ($type:ty, $scope:ty, $group:literal, $version:literal, $api_version:literal, $kind:literal, $plural:literal) => {
        impl Resource for $type {
            const API_VERSION: &'static str = $api_version;
            const GROUP: &'static str = $group;
            const KIND: &'static str = $kind;
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = $scope;
        }

        impl ListableResource for $type {
            const LIST_KIND: &'static str = concat!($kind, "List");
        }

        impl Metadata for $type {
            type Ty = ObjectMeta;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

// For the module below, too.
use slim_resource;

slim_resource!(Pod, NamespaceResourceScope, "", "v1", "v1", "Pod", "pods");
slim_resource!(StatefulSet, NamespaceResourceScope, "apps", "v1", "apps/v1", "StatefulSet", "statefulsets");

/// Reads null as if the field were not there, as the API server does.
fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads of an object's metadata only what is used here; above all not its managed fields.
fn slim_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Slim {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        deletion_timestamp: Option<Time>,
        annotations: Option<BTreeMap<String, String>>,
        owner_references: Option<Vec<OwnerReference>>,
    }
    let slim = Slim::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: slim.name,
        namespace: slim.namespace,
        uid: slim.uid,
        resource_version: slim.resource_version,
        deletion_timestamp: slim.deletion_timestamp,
        annotations: slim.annotations,
        owner_references: slim.owner_references,
        ..ObjectMeta::default()
    })
}

/// Namespace and name of a namespaced object.
pub fn key_of(metadata: &ObjectMeta) -> NamespacedName {
    NamespacedName::new(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}

/// The key of a Node, which has no namespace.
pub fn node_key(node: &PartialObjectMeta<Node>) -> Arc<str> {
    node.metadata.name.as_deref().unwrap_or_default().into()
}

/// What is kept of a Pod; nothing if it can never have a state, since its controller gives a new name
/// to each Pod. A Pod without a controller is kept: it may be an orphan with a state.
pub fn pod_fact(pod: &Pod, interest: &Interest) -> Option<PodFact> {
    let owner = pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    if owner.is_some_and(|owner| !has_stable_names(&owner.api_version, &owner.kind)) {
        return None;
    }
    let annotations =
        pod.metadata.annotations.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    let mut ips: Vec<String> = pod.status.pod_ips.iter().filter_map(|ip| ip.ip.clone()).collect();
    if ips.is_empty() {
        ips.extend(pod.status.pod_ip.clone());
    }
    ips.shrink_to_fit();
    let node = pod.spec.node_name.as_deref().filter(|node| !node.is_empty());
    Some(PodFact {
        owner: owner.map(|owner| owner.uid.as_str().into()),
        node: node.map(Into::into),
        ready_since: None,
        ready: pod
            .status
            .conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        terminating: pod.metadata.deletion_timestamp.is_some(),
        annotations: interest.annotations().pick(annotations),
        ips,
        pending: pending(pod).filter(|_| node.is_none()).map(Box::new),
    })
}

/// What pins a Pod that bears the policy's mark, is pending, and is not held back by somebody else.
fn pending(pod: &Pod) -> Option<PendingPod> {
    let object = pod.metadata.annotations.as_ref()?.get(INJECTED_ANNOTATION)?;
    let held = pod.spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    if held || pod.status.phase.as_deref() != Some("Pending") {
        return None;
    }
    Some(PendingPod {
        uid: pod.metadata.uid.clone()?,
        resource_version: pod.metadata.resource_version.clone()?,
        object: object.as_str().into(),
        required_affinity: pod.spec.affinity.clone(),
    })
}

/// What is kept of a Node.
pub fn node_fact(node: &PartialObjectMeta<Node>, interest: &Interest) -> NodeFact {
    let labels = node.metadata.labels.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    NodeFact { labels: interest.labels().pick(labels) }
}

/// Those of a workload's annotations that ask for a PPS.
fn request_annotations(metadata: &ObjectMeta) -> BTreeMap<String, String> {
    let asked = generate::WORKLOAD_ANNOTATIONS.iter();
    asked
        .filter_map(|key| metadata.annotations.as_ref()?.get_key_value(*key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// What is kept of a StatefulSet.
pub fn workload_fact(workload: &StatefulSet) -> WorkloadFact {
    let metadata = &workload.metadata;
    let number = |number: Option<i32>, default: u64| {
        number.map_or(default, |number| u64::try_from(number).unwrap_or(0))
    };
    let start = workload.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start);
    WorkloadFact {
        api_version: StatefulSet::API_VERSION.into(),
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        terminating: metadata.deletion_timestamp.is_some(),
        demand: Demand::of_ordinals(Ordinals::new(number(start, 0), number(workload.spec.replicas, 1), [])),
        annotations: request_annotations(metadata),
    }
}

/// What is kept of a PPS.
pub fn object_fact(object: PpsObject) -> PpsFact {
    let metadata = object.metadata;
    let owners =
        metadata.owner_references.unwrap_or_default().into_iter().map(|owner| pps_core::OwnerReference {
            api_version: owner.api_version,
            kind: owner.kind,
            name: owner.name,
            uid: owner.uid,
            controller: owner.controller,
        });
    PpsFact {
        uid: metadata.uid.unwrap_or_default(),
        resource_version: metadata.resource_version.unwrap_or_default(),
        generation: metadata.generation,
        created: metadata.creation_timestamp.map(|time| time.0.to_string()).unwrap_or_default(),
        terminating: metadata.deletion_timestamp.is_some(),
        generated: metadata.labels.is_some_and(|labels| {
            labels.get(generate::MANAGED_BY_LABEL).is_some_and(|value| value == generate::FIELD_MANAGER)
        }),
        owners: owners.collect(),
        spec: object.spec,
        status: object.status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(json: serde_json::Value) -> Pod {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn little_is_kept_of_a_pod() {
        let interest = Interest::default();
        interest.take_up(
            &serde_json::from_value(serde_json::json!({
                "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
                "persistentPodAnnotations": ["ip"],
            }))
            .unwrap(),
        );
        let pod = pod(serde_json::json!({
            "metadata": {
                "name": "w-0", "namespace": "n", "uid": "1", "annotations": {"ip": "10.0.0.7", "other": "x"},
                "managedFields": [{"manager": "m"}],
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "uid": "u", "controller": true}],
            },
            "spec": {"nodeName": "node-1", "containers": [{"name": "c"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "podIP": "10.0.0.7"},
        }));
        assert!(pod.metadata.managed_fields.is_none());
        let expected = PodFact {
            ready_since: None,
            owner: Some("u".into()),
            node: Some("node-1".into()),
            ready: true,
            terminating: false,
            annotations: vec![("ip".into(), "10.0.0.7".into())],
            ips: vec!["10.0.0.7".into()],
            pending: None,
        };
        assert_eq!(pod_fact(&pod, &interest), Some(expected));
    }

    #[test]
    fn what_pins_a_pod_is_kept_only_while_it_waits() {
        let waiting = serde_json::json!({
            "metadata": {"name": "w-0", "namespace": "n", "uid": "1", "resourceVersion": "2",
                "annotations": {INJECTED_ANNOTATION: "p"}},
            "spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}}},
            "status": {"phase": "Pending"},
        });
        let pending =
            |json: &serde_json::Value| pod_fact(&pod(json.clone()), &Interest::default()).unwrap().pending;
        let kept = pending(&waiting).unwrap();
        assert_eq!((&*kept.uid, &*kept.resource_version, &*kept.object), ("1", "2", "p"));
        assert!(!kept.required_affinity.is_empty());
        for (pointer, value) in [
            ("/metadata/annotations", serde_json::json!({})),
            ("/status/phase", "Running".into()),
            ("/spec/nodeName", "node-1".into()),
            ("/spec/schedulingGates", serde_json::json!([{"name": "example.io/hold"}])),
        ] {
            let mut other = waiting.clone();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            other.pointer_mut(parent).unwrap()[field] = value;
            assert_eq!(pending(&other), None, "{pointer}");
        }
    }

    #[test]
    fn pods_that_can_have_no_state_are_not_kept() {
        let owned_by = |api_version: &str, kind: &str| {
            pod(serde_json::json!({"metadata": {"name": "p", "ownerReferences": [
                {"apiVersion": api_version, "kind": kind, "name": "w", "uid": "u", "controller": true}]}}))
        };
        let interest = Interest::default();
        assert!(pod_fact(&owned_by("apps/v1", "ReplicaSet"), &interest).is_none());
        assert!(pod_fact(&owned_by("example.io/v1", "Database"), &interest).is_some());
        assert!(pod_fact(&pod(serde_json::json!({"metadata": {"name": "bare"}})), &interest).is_some());
    }

    #[test]
    fn replicas_default_to_one_and_ordinals_to_zero() {
        let fact = |spec| {
            workload_fact(&StatefulSet { spec: serde_json::from_value(spec).unwrap(), ..Default::default() })
        };
        assert_eq!(fact(serde_json::json!({})).demand, Demand::of_ordinals(Ordinals::new(0, 1, [])));
        let spec = serde_json::json!({"replicas": 3, "ordinals": {"start": 5}});
        assert_eq!(fact(spec).demand, Demand::of_ordinals(Ordinals::new(5, 3, [])));
    }
}
