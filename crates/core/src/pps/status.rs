//! The object's status.

#![allow(
    clippy::doc_markdown,
    reason = "kubectl explain shows these texts unchanged"
)]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::json::null_as_default;
#[cfg(feature = "schema")]
use crate::limits;

/// What has been recorded, and whether recording works. Written by the sidecar, read by the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The generation of the spec that this status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The recorded state of each Pod, by the Pod's name. A Pod is added once it is Ready.
    // Atomic, so that managedFields does not list every Pod, which would double the object's size.
    #[cfg_attr(feature = "schema", schemars(extend(
        "x-kubernetes-map-type" = "atomic",
        "maxProperties" = limits::MAX_POD_STATES
    )))]
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub pod_states: BTreeMap<String, PodState>,
    /// The states of a large object, in place of podStates. The Pod's name says in which bucket its
    /// state is. A state in podStates takes precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packed: Option<Packed>,
    /// UID of the workload that the states belong to. A workload that was deleted and created again
    /// has another UID.
    #[serde(rename = "targetUID", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = limits::MAX_UID_LENGTH)))]
    pub target_uid: Option<String>,
    /// How many Pods have a recorded state, in podStates and packed together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<i32>,
    /// How many Pods the workload wants. If fewer are recorded, some have not been Ready yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<i32>,
    /// The condition of type Recording says whether states are being recorded; if not, why, and
    /// what to do.
    #[cfg_attr(
        feature = "schema",
        schemars(
            length(max = limits::MAX_CONDITIONS),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
        )
    )]
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub conditions: Vec<Condition>,
}

/// Limits the values of a map of strings.
#[cfg(feature = "schema")]
fn limit_values(max: usize) -> impl FnMut(&mut schemars::Schema) {
    move |schema| {
        if let Some(values) = schema.get_mut("additionalProperties") {
            values["maxLength"] = max.into();
        }
    }
}

/// Recorded states in the compact form, see [`packed`](crate::packed).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Packed {
    /// The version of this form: 1.
    pub version: i32,
    /// The states, about a hundred Pods in each bucket. A bucket is a table. Its first line says
    /// how many Pods follow, and what is in each column: the Pod, the node, labels and annotations
    /// by key. What all values of a column begin and end with is written there once, around a *. A
    /// cell is - if there is no such label or annotation, = for a label that is the name of the
    /// node, and % if it is empty; %XX stands for a byte.
    #[cfg_attr(
        feature = "schema",
        schemars(
            extend("x-kubernetes-map-type" = "atomic", "maxProperties" = crate::packed::Bucket::COUNT),
            transform = limit_values(limits::MAX_BUCKET_LENGTH)
        )
    )]
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub buckets: BTreeMap<String, String>,
}

/// Where a Pod ran, and what is injected when it is created again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PodState {
    /// Name of the node on which the Pod ran.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    #[cfg_attr(feature = "schema", schemars(length(max = limits::MAX_NAME_LENGTH)))]
    pub node_name: String,
    /// The node's values of the topology keys in the spec, by key.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[cfg_attr(
        feature = "schema",
        schemars(
            extend("maxProperties" = limits::MAX_RECORDED_LABELS),
            transform = limit_values(limits::MAX_LABEL_VALUE_LENGTH)
        )
    )]
    pub node_topology_labels: BTreeMap<String, String>,
    /// The Pod's values of the annotations in the spec, by key.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[cfg_attr(
        feature = "schema",
        schemars(
            extend("maxProperties" = limits::MAX_ANNOTATIONS),
            transform = limit_values(limits::MAX_ANNOTATION_VALUE_LENGTH)
        )
    )]
    pub annotations: BTreeMap<String, String>,
}

/// One aspect of the object's state, in the standard form of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The aspect: Recording.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(length(max = limits::MAX_CONDITION_TYPE_LENGTH)))]
    pub type_: String,
    /// True, False or Unknown.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["True", "False", "Unknown"])))]
    pub status: String,
    /// The cause, as one CamelCase word.
    #[cfg_attr(feature = "schema", schemars(length(max = limits::MAX_REASON_LENGTH)))]
    pub reason: String,
    /// What the cause means, and what to do.
    // A condition of another writer may have none, and is written back as it was.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    #[cfg_attr(feature = "schema", schemars(length(max = limits::MAX_CONDITION_MESSAGE_LENGTH)))]
    pub message: String,
    /// When the status last changed, in RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time", "maxLength" = 64)))]
    pub last_transition_time: String,
    /// The generation of the spec that this condition was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
