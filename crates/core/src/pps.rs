//! The API object `apps.kruise.io/v1alpha1 PersistentPodState`.
//!
//! Wire-compatible with OpenKruise's object of that name: objects written for it are read
//! unchanged, in both spellings (`nodeTopologyKeys` of v1alpha1 and `keys` of v1beta1). Fields that
//! OpenKruise does not have are optional, since its CRD prunes them.

mod excess;
#[cfg(feature = "schema")]
mod rules;
mod spec;
mod status;

use serde::Deserialize;
use serde_json::Value;

use crate::json::read;

pub use crate::json::null_as_default;
pub use spec::{
    FallbackAfter, NodeDeletionPolicy, NodeTopologyTerm, PodAnnotation, PreferredTopologyTerm,
    RecordingPolicy, RequiredTopologyTerm, RetentionPolicy, Spec, TargetReference, ValueFrom,
    group_of, short,
};
pub use status::{Condition, Packed, PodState, Status};

/// API group.
pub const GROUP: &str = "apps.kruise.io";
/// API version within the group.
pub const VERSION: &str = "v1alpha1";
/// Group and version, as in an object's `apiVersion`.
pub const API_VERSION: &str = "apps.kruise.io/v1alpha1";
/// The versions in which objects can be read, in the order in which they are tried. OpenKruise
/// serves both; their common fields differ in one spelling only.
pub const API_VERSIONS: [&str; 2] = [API_VERSION, "apps.kruise.io/v1beta1"];
/// Kind of the object.
pub const KIND: &str = "PersistentPodState";
/// Kind of a list of such objects.
pub const LIST_KIND: &str = "PersistentPodStateList";
/// Resource name, as in URLs and RBAC rules.
pub const PLURAL: &str = "persistentpodstates";

/// A `PersistentPodState` object. `M` and `S` are the parts of the metadata and of the status that
/// the reader needs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(bound(deserialize = "M: Default + Deserialize<'de>, S: Default + Deserialize<'de>"))]
pub struct PersistentPodState<M = Metadata, S = Status> {
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: M,
    /// What to persist, and for which workload.
    pub spec: Spec,
    /// What has been recorded.
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: S,
}

/// The metadata fields that decisions need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name of the object.
    pub name: String,
    /// Creation time: RFC 3339 in UTC with whole seconds, so that the strings sort by time.
    pub creation_timestamp: Option<String>,
    /// Set once the object is terminating.
    pub deletion_timestamp: Option<String>,
}

impl Metadata {
    /// Reads the metadata of an object in JSON; empty if a field has another type.
    pub fn read(object: &Value) -> Self {
        read("metadata", &object["metadata"]).unwrap_or_default()
    }
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
    fn a_requirement_ends_after_a_valid_number_of_seconds_alone() {
        for (seconds, ends_after, is_unknown) in [
            (json!(600), Some(600), false),
            (json!(30), Some(30), false),
            (json!(14_400), Some(14_400), false),
            (json!(29), None, false),
            (json!(14_401), None, false),
            (json!(-1), None, false),
            (json!(null), None, false),
            (json!("600"), None, true),
            (json!(600.5), None, true),
            (json!([]), None, true),
        ] {
            let spec: Spec = serde_json::from_value(json!({
                "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
                "requiredPersistentTopology": {"keys": ["zone"], "fallbackAfterSeconds": seconds},
            }))
            .unwrap();
            assert_eq!(spec.fallback_after_seconds(), ends_after, "{seconds}");
            let path = "spec.requiredPersistentTopology.fallbackAfterSeconds";
            assert_eq!(
                spec.unknown_field(),
                is_unknown.then_some(path),
                "{seconds}"
            );
            assert_eq!(spec.required_keys().collect::<Vec<_>>(), ["zone"]);
        }
    }

    #[test]
    fn reads_a_topology_with_neither_spelling_or_both() {
        for (term, keys) in [
            (json!({}), &[][..]),
            (json!({"nodeTopologyKeys": null, "keys": ["b"]}), &["b"]),
            (json!({"nodeTopologyKeys": ["a"], "keys": ["b"]}), &["a"]),
            (json!({"nodeTopologyKeys": [], "keys": ["b"]}), &["b"]),
            (json!({"nodeTopologyKeys": ["a"], "keys": []}), &["a"]),
        ] {
            let read: NodeTopologyTerm = serde_json::from_value(term).unwrap();
            assert_eq!(read.node_topology_keys, keys);
        }
    }

    #[test]
    fn reads_both_spellings_of_an_annotation() {
        let list: Vec<PodAnnotation> = serde_json::from_value(json!([
            "a", {"key": "b"}, {"key": "c", "valueFrom": "PodIPsCSV"}
        ]))
        .unwrap();
        let expected = [("a", None), ("b", None), ("c", Some(ValueFrom::PodIpsCsv))];
        assert_eq!(list.len(), expected.len());
        for (annotation, (key, value_from)) in list.iter().zip(expected) {
            assert_eq!(
                (annotation.key.as_str(), annotation.value_from),
                (key, value_from)
            );
        }
    }

    #[test]
    fn reads_null_as_missing() {
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

    /// Who acts on a policy refuses the whole object: the sidecar must not drop states by a policy
    /// that it does not know.
    #[test]
    fn an_injection_reads_a_spec_whose_policies_are_unknown() {
        let of = |retention: &str, key: serde_json::Value| {
            json!({
                "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "a"},
                "requiredPersistentTopology": {"keys": ["zone"]},
                "preferredPersistentTopology": [
                    {"weight": 500, "preference": {"nodeTopologyKeys": ["host"]}},
                ],
                "persistentPodAnnotations": ["a", {"key": key, "valueFrom": "NodeIP"}],
                "persistentPodStateRetentionPolicy": retention,
                "nodeDeletionPolicy": {"after": "5m"},
                "recordingPolicy": "Unknown",
            })
        };
        for (retention, expected, unknown) in [
            (
                "Never",
                RetentionPolicy::Unknown,
                "spec.persistentPodStateRetentionPolicy",
            ),
            ("Retain", RetentionPolicy::Retain, "spec.nodeDeletionPolicy"),
        ] {
            let spec: Spec = serde_json::from_value(of(retention, "b".into())).unwrap();
            assert_eq!(spec.retention(), expected);
            assert_eq!(spec.unknown_field(), Some(unknown));
            assert_eq!(spec.recording_policy, Some(RecordingPolicy::Unknown));
            assert_eq!(spec.topology_keys().collect::<Vec<_>>(), ["zone", "host"]);
            let annotations = spec.persistent_pod_annotations;
            let annotations: Vec<(&str, Option<ValueFrom>)> = annotations
                .iter()
                .map(|one| (one.key.as_str(), one.value_from))
                .collect();
            let expected = [("a", None), ("b", Some(ValueFrom::Unknown))];
            assert_eq!(annotations, expected);
        }
        let error = read::<Spec>("spec", &of("Retain", 7.into())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "spec.persistentPodAnnotations[1].key: invalid type: integer `7`, expected a string"
        );
    }

    #[test]
    fn compares_workloads_without_their_version() {
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
