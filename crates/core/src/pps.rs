//! The API object `apps.kruise.io/v1alpha1 PersistentPodState`.
//!
//! Wire-compatible with OpenKruise's object of that name: what was written for it is read unchanged,
//! in both of its spellings (`nodeTopologyKeys` of v1alpha1 and `keys` of v1beta1). Fields that exist
//! only here are optional, since OpenKruise's CRD prunes them.

#![allow(clippy::doc_markdown, reason = "kubectl explain shows these texts as they are")]

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// API group.
pub const GROUP: &str = "apps.kruise.io";
/// API version within the group.
pub const VERSION: &str = "v1alpha1";
/// Group and version, as in an object's `apiVersion`.
pub const API_VERSION: &str = "apps.kruise.io/v1alpha1";
/// The versions in which objects can be read, in the order in which they are tried. OpenKruise serves
/// both; the fields that both have differ in one spelling only.
pub const API_VERSIONS: [&str; 2] = [API_VERSION, "apps.kruise.io/v1beta1"];
/// Kind of the object.
pub const KIND: &str = "PersistentPodState";
/// Kind of a list of such objects.
pub const LIST_KIND: &str = "PersistentPodStateList";
/// Resource name, as in URLs and RBAC rules.
pub const PLURAL: &str = "persistentpodstates";

/// A PersistentPodState object; `M` is how much of the metadata the reader cares for, and `S` of the status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(bound(deserialize = "M: Default + Deserialize<'de>, S: Default + Deserialize<'de>"))]
pub struct PersistentPodState<M = Metadata, S = Status> {
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: M,
    /// What is to be remembered, and of which workload.
    pub spec: Spec,
    /// What has been recorded.
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: S,
}

/// The few metadata fields that decisions need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name of the object.
    pub name: String,
    /// When it was created: RFC 3339 in UTC with whole seconds, so that the order of the strings is
    /// the order of the times.
    pub creation_timestamp: Option<String>,
    /// Set once deletion has been asked for.
    pub deletion_timestamp: Option<String>,
}

impl Metadata {
    /// Reads them from an object in JSON. What is missing or of another type is empty.
    pub fn read(object: &Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
        Self {
            name: text("name").unwrap_or_default(),
            creation_timestamp: text("creationTimestamp"),
            deletion_timestamp: text("deletionTimestamp"),
        }
    }
}

/// Which workload's Pods come back to where they were, and what is remembered of each of them. At
/// least one topology or one annotation has to be named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The workload whose Pods are remembered. It must live in the same namespace and give its Pods
    /// stable names, as a StatefulSet does. Group, kind and name identify it; the version does not
    /// count. It cannot be changed later.
    pub target_ref: TargetReference,

    /// Topology that a Pod must come back to. For each of these node labels that the Pod's node
    /// carried, the Pod is only scheduled to nodes with the same value; it stays Pending while there
    /// is none. Example: topology.kubernetes.io/zone keeps a Pod in its zone. The Pod's own node
    /// affinity and node selector stay in force beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_persistent_topology: Option<NodeTopologyTerm>,

    /// Topologies that a Pod should come back to, if it can: where it cannot, it runs elsewhere.
    /// Example: kubernetes.io/hostname prefers the node where the Pod was.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub preferred_persistent_topology: Vec<PreferredTopologyTerm>,

    /// Annotations that a Pod gets back, for example those by which a network plugin gives it the
    /// address that it had. A value that the Pod's template sets wins.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub persistent_pod_annotations: Vec<PodAnnotation>,

    /// How long what was recorded is kept. If this is not set, WhenScaled holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_pod_state_retention_policy: Option<RetentionPolicy>,

    /// What becomes of what was recorded on a node that no longer exists. If this is not set, Keep
    /// holds. A node that is only not ready, cordoned or out of sight still exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_deletion_policy: Option<NodeDeletionPolicy>,
}

/// A workload in the namespace of the object that refers to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TargetReference {
    /// API group and version of the workload, such as apps/v1 or apps.kruise.io/v1beta1.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub api_version: String,
    /// Kind of the workload, such as StatefulSet. A kind whose Pods have random names, such as
    /// Deployment, cannot be remembered.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub kind: String,
    /// Name of the workload.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub name: String,
}

impl TargetReference {
    /// Reads it from JSON. What is missing or of another type is empty.
    pub fn read(target: &Value) -> Self {
        let text = |field: &str| target[field].as_str().unwrap_or_default().to_owned();
        Self { api_version: text("apiVersion"), kind: text("kind"), name: text("name") }
    }

    /// The API group: what stands before the slash, or nothing for the core group.
    pub fn group(&self) -> &str {
        group_of(&self.api_version)
    }

    /// Whether both name the same workload. The version does not count.
    pub fn is_same_workload(&self, other: &Self) -> bool {
        self.group() == other.group() && self.kind == other.kind && self.name == other.name
    }
}

/// The API group of an `apiVersion`: `apps` for `apps/v1`, nothing for `v1`.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Node labels that name a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeTopologyTerm {
    /// Keys of node labels, such as kubernetes.io/hostname or topology.kubernetes.io/zone. The values
    /// that the Pod's node has for them are recorded, and the Pod comes back to where all of them are
    /// the same. A key that the node does not carry is left out.
    #[serde(alias = "keys")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1), inner(length(min = 1))))]
    pub node_topology_keys: Vec<String>,
}

/// A topology that a Pod should come back to, with a weight.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PreferredTopologyTerm {
    /// How strongly the scheduler prefers this topology over others, from 1 to 100. It is added to
    /// the score of every node that matches.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100)))]
    pub weight: i32,
    /// The node labels of the topology; a node must match all that were recorded.
    pub preference: NodeTopologyTerm,
}

/// An annotation that is recorded from a running Pod and given to its successor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PodAnnotation {
    /// Key of the annotation, such as ovn.kubernetes.io/ip_address. What the Pod carries under it is
    /// recorded.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub key: String,
    /// What to record if the Pod does not carry the annotation, for a network plugin that reads the
    /// wanted address from an annotation but does not write it there. If this is not set, nothing is
    /// recorded for such a Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ValueFrom>,
}

// A bare string is read as `{key: …}`. The CRD does not let one through: an item schema that allows
// both forms cannot tell what `key` and `valueFrom` are to whoever reads OpenAPI v2, and would take
// numbers and misspelt fields without a word.
impl<'de> Deserialize<'de> for PodAnnotation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Object {
            key: String,
            value_from: Option<ValueFrom>,
        }

        struct Spelling;

        impl<'de> Visitor<'de> for Spelling {
            type Value = PodAnnotation;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an annotation key, or an object with a key")
            }

            fn visit_str<E: de::Error>(self, key: &str) -> Result<PodAnnotation, E> {
                Ok(PodAnnotation { key: key.into(), value_from: None })
            }

            fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<PodAnnotation, A::Error> {
                let Object { key, value_from } = Object::deserialize(MapAccessDeserializer::new(object))?;
                Ok(PodAnnotation { key, value_from })
            }
        }

        deserializer.deserialize_any(Spelling)
    }
}

/// Where the value of a recorded annotation comes from if the Pod does not carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ValueFrom {
    /// The Pod's addresses as a JSON list, such as `["10.0.0.7","fd00::7"]`.
    #[serde(rename = "PodIPsJSON")]
    PodIpsJson,
    /// The Pod's addresses with commas between them, such as `10.0.0.7,fd00::7`.
    #[serde(rename = "PodIPsCSV")]
    PodIpsCsv,
}

/// How long recorded states are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum RetentionPolicy {
    /// Until the workload is scaled down so far that it no longer wants a Pod of that name.
    #[default]
    WhenScaled,
    /// Until the workload is gone.
    WhenDeleted,
    /// Also after the workload is gone, for the next one of the same group, kind and name.
    Retain,
}

/// What becomes of states recorded on a node that no longer exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum NodeDeletionPolicy {
    /// It stays, and a Pod with a required topology waits for a node that matches.
    #[default]
    Keep,
    /// It is dropped once the node has been gone for the grace period, under every retention policy,
    /// and the Pod starts anew on any node. A Pod that waits for a node that no longer exists is
    /// deleted then, so that its controller makes it anew.
    Forget,
}

impl Spec {
    /// The retention policy in force.
    pub fn retention(&self) -> RetentionPolicy {
        self.persistent_pod_state_retention_policy.unwrap_or_default()
    }

    /// The node deletion policy in force.
    pub fn node_deletion(&self) -> NodeDeletionPolicy {
        self.node_deletion_policy.unwrap_or_default()
    }

    /// Keys of the required topology, in the order of the spec.
    pub fn required_keys(&self) -> impl Iterator<Item = &str> {
        self.required_persistent_topology.iter().flat_map(NodeTopologyTerm::keys)
    }

    /// Every node label that this object remembers: the required ones, then the preferred ones. One
    /// that is named twice comes twice.
    pub fn topology_keys(&self) -> impl Iterator<Item = &str> {
        self.required_keys()
            .chain(self.preferred_persistent_topology.iter().flat_map(|term| term.preference.keys()))
    }
}

impl NodeTopologyTerm {
    fn keys(&self) -> impl Iterator<Item = &str> {
        self.node_topology_keys.iter().map(String::as_str)
    }
}

/// What has been recorded, and how that goes. Written by the sidecar, read by the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The generation of the spec that this status was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is remembered of each Pod, by the Pod's name. A Pod comes in here once it is ready.
    // Atomic, so that managedFields does not list every Pod and thereby double the object.
    #[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-map-type" = "atomic")))]
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_states: BTreeMap<String, PodState>,
    /// UID of the workload that the states belong to. A workload that was deleted and created anew
    /// has another one.
    #[serde(rename = "targetUID", skip_serializing_if = "Option::is_none")]
    pub target_uid: Option<String>,
    /// How many Pods are remembered: the entries of podStates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<i32>,
    /// How many Pods the workload wants. While fewer are recorded, some have not been ready yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<i32>,
    /// The condition of type Recording says whether states are being recorded; if not, why not and
    /// what to do.
    #[cfg_attr(
        feature = "schema",
        schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))
    )]
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Where a Pod ran, and what it gets back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PodState {
    /// Name of the node where the Pod ran.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// The values that this node had for the topology keys of the spec, by key.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub node_topology_labels: BTreeMap<String, String>,
    /// The values that the Pod had for the annotations of the spec, by key.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// One aspect of the object's state, in the standard form of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which aspect: Recording.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["True", "False", "Unknown"])))]
    pub status: String,
    /// One word for the cause.
    pub reason: String,
    /// A sentence for people: what is the matter, and what to do.
    #[serde(default)]
    pub message: String,
    /// When the status last changed, in RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub last_transition_time: String,
    /// The generation of the spec that this was found with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Reads `null` as if the field were not there, as the API server does.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(feature = "k8s")]
mod k8s {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use k8s_openapi::{ListableResource, Metadata, NamespaceResourceScope, Resource};

    use super::{API_VERSION, GROUP, KIND, LIST_KIND, PLURAL, PersistentPodState, VERSION};

    impl<M, S> Resource for PersistentPodState<M, S> {
        const API_VERSION: &'static str = API_VERSION;
        const GROUP: &'static str = GROUP;
        const KIND: &'static str = KIND;
        const VERSION: &'static str = VERSION;
        const URL_PATH_SEGMENT: &'static str = PLURAL;
        type Scope = NamespaceResourceScope;
    }

    impl<M, S> ListableResource for PersistentPodState<M, S> {
        const LIST_KIND: &'static str = LIST_KIND;
    }

    impl<S> Metadata for PersistentPodState<ObjectMeta, S> {
        type Ty = ObjectMeta;

        fn metadata(&self) -> &ObjectMeta {
            &self.metadata
        }

        fn metadata_mut(&mut self) -> &mut ObjectMeta {
            &mut self.metadata
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_spellings_of_a_topology_are_read() {
        for key in ["nodeTopologyKeys", "keys"] {
            let term: NodeTopologyTerm = serde_json::from_value(json!({key: ["zone"]})).unwrap();
            assert_eq!(term.node_topology_keys, ["zone"]);
        }
    }

    #[test]
    fn both_spellings_of_an_annotation_are_read() {
        let list: Vec<PodAnnotation> = serde_json::from_value(json!([
            "a", {"key": "b"}, {"key": "c", "valueFrom": "PodIPsCSV"}
        ]))
        .unwrap();
        let expected = [("a", None), ("b", None), ("c", Some(ValueFrom::PodIpsCsv))];
        assert_eq!(list.len(), expected.len());
        for (annotation, (key, value_from)) in list.iter().zip(expected) {
            assert_eq!((annotation.key.as_str(), annotation.value_from), (key, value_from));
        }
    }

    #[test]
    fn null_means_absent() {
        let object: PersistentPodState = serde_json::from_value(json!({
            "metadata": {"name": "a"},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "a"},
                "preferredPersistentTopology": null,
                "persistentPodAnnotations": null,
                "requiredPersistentTopology": null,
                "persistentPodStateRetentionPolicy": null,
            },
            "status": null,
        }))
        .unwrap();
        assert_eq!(object.status, Status::default());
        assert_eq!(object.spec.retention(), RetentionPolicy::WhenScaled);
    }

    #[test]
    fn the_version_of_a_workload_does_not_count() {
        let of = |api_version: &str| TargetReference {
            api_version: api_version.into(),
            kind: "StatefulSet".into(),
            name: "a".into(),
        };
        assert!(of("apps.kruise.io/v1beta1").is_same_workload(&of("apps.kruise.io/v1alpha1")));
        assert!(!of("apps/v1").is_same_workload(&of("apps.kruise.io/v1")));
        assert_eq!(group_of("v1"), "");
    }
}
