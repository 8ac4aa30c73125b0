//! The object's spec.

#![allow(
    clippy::doc_markdown,
    reason = "kubectl explain shows these texts unchanged"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::json::{null_as_default, read};
#[cfg(feature = "schema")]
use crate::limits;
use crate::limits::{MAX_FALLBACK_SECONDS, MIN_FALLBACK_SECONDS};
use crate::names::HOSTNAME;
use crate::pps::PodState;
#[cfg(feature = "schema")]
use crate::pps::rules;

/// The workload whose Pods return to where they ran, and what is persisted of each Pod. At least
/// one topology or one annotation is required.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-validations" = rules::persists_something())))]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The workload whose Pods are recorded. It must be in the same namespace and give its Pods
    /// stable names, as a StatefulSet does. It is identified by group, kind and name; the version
    /// does not count. It cannot be changed later.
    pub target_ref: TargetReference,

    /// Topology to which a Pod must return. For each of these node labels that the Pod's node had,
    /// the Pod is scheduled only to nodes with the same value; while there is none, it stays
    /// Pending, for fallbackAfterSeconds at most if that is set. Example:
    /// topology.kubernetes.io/zone keeps a Pod in its zone. The Pod's own node affinity and node
    /// selector stay in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_persistent_topology: Option<RequiredTopologyTerm>,

    /// Topologies to which a Pod should return if possible; otherwise it runs elsewhere. Example:
    /// kubernetes.io/hostname prefers the node on which the Pod ran.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "schema", schemars(length(max = limits::MAX_PREFERRED_TERMS)))]
    pub preferred_persistent_topology: Vec<PreferredTopologyTerm>,

    /// Annotations that are recorded from a Pod and injected when it is created again, for example
    /// those by which a network plugin assigns an IP address. A value that the Pod's template sets
    /// is kept.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "schema", schemars(length(max = limits::MAX_ANNOTATIONS)))]
    pub persistent_pod_annotations: Vec<PodAnnotation>,

    /// How long recorded states are kept. The default is WhenScaled.
    #[serde(
        default,
        deserialize_with = "known_or_unknown",
        skip_serializing_if = "Option::is_none"
    )]
    pub persistent_pod_state_retention_policy: Option<RetentionPolicy>,

    /// What happens to states recorded on a node that no longer exists. The default is Keep. A node
    /// that is NotReady, cordoned or unreachable still exists.
    #[serde(
        default,
        deserialize_with = "known_or_unknown",
        skip_serializing_if = "Option::is_none"
    )]
    pub node_deletion_policy: Option<NodeDeletionPolicy>,

    /// Whether a recorded state follows a Pod that runs on another node. The default is Always.
    /// Example: with IfNotPresent and a preferred topology, a Pod that a drain has moved returns to
    /// its first node when it is next created.
    #[serde(
        default,
        deserialize_with = "known_or_unknown",
        skip_serializing_if = "Option::is_none"
    )]
    pub recording_policy: Option<RecordingPolicy>,
}

/// A workload in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-validations" = rules::has_stable_names())))]
#[serde(rename_all = "camelCase")]
pub struct TargetReference {
    /// API group and version of the workload, such as apps/v1 or apps.kruise.io/v1beta1.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = limits::MAX_API_VERSION_LENGTH),
            extend("x-kubernetes-validations" = rules::has_immutable_group())))]
    pub api_version: String,
    /// Kind of the workload, such as StatefulSet. A kind whose Pods get random names, such as
    /// Deployment, is refused.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = limits::MAX_KIND_LENGTH),
            extend("x-kubernetes-validations" = rules::is_immutable())))]
    pub kind: String,
    /// Name of the workload.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = limits::MAX_NAME_LENGTH),
            extend("x-kubernetes-validations" = rules::is_immutable())))]
    pub name: String,
}

impl TargetReference {
    /// Reads a reference from JSON; empty, and so no workload's, if a field is missing or has
    /// another type.
    pub fn read(target: &Value) -> Self {
        read("targetRef", target).unwrap_or_default()
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        group_of(&self.api_version)
    }

    /// Whether both refer to the same workload. The version does not count.
    pub fn is_same_workload(&self, other: &Self) -> bool {
        self.group() == other.group() && self.kind == other.kind && self.name == other.name
    }
}

/// The API group of an `apiVersion`: `apps` for `apps/v1`, empty for `v1`.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// A topology: a set of node labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(from = "Spellings")
)]
#[serde(rename_all = "camelCase")]
pub struct NodeTopologyTerm {
    /// Keys of node labels. Empty if the object, which nobody validated, names none.
    pub node_topology_keys: Vec<String>,
}

/// A topology: a set of node labels, under one of two names.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(rename_all = "camelCase", extend("x-kubernetes-validations" = rules::has_keys_once()))]
#[expect(dead_code, reason = "it only describes the schema")]
struct Spellings {
    /// Keys of node labels, such as kubernetes.io/hostname or topology.kubernetes.io/zone. The
    /// values that the Pod's node has for them are recorded; the Pod returns to nodes on which all
    /// of them are the same. A key that the node does not have is left out. At least one key is
    /// required, here or in keys.
    #[schemars(length(min = 1, max = limits::MAX_TOPOLOGY_KEYS),
            inner(length(min = 1, max = limits::MAX_KEY_LENGTH)))]
    node_topology_keys: Option<Vec<String>>,
    /// Another name of nodeTopologyKeys, which OpenKruise uses in v1beta1. Set only one of them.
    #[schemars(length(min = 1, max = limits::MAX_TOPOLOGY_KEYS),
            inner(length(min = 1, max = limits::MAX_KEY_LENGTH)))]
    keys: Option<Vec<String>>,
}

// Not derived, since the keys have two names. `null` and an empty list count as missing in each: a
// looser definition than this product's may allow them.
impl<'de> Deserialize<'de> for NodeTopologyTerm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Term {
            node_topology_keys: Option<Vec<String>>,
            keys: Option<Vec<String>>,
        }
        let term = Term::deserialize(deserializer)?;
        Ok(Self {
            node_topology_keys: given(term.node_topology_keys, term.keys),
        })
    }
}

/// The keys of a topology, from its two spellings.
fn given(node_topology_keys: Option<Vec<String>>, keys: Option<Vec<String>>) -> Vec<String> {
    let is_given = |keys: &Vec<String>| !keys.is_empty();
    node_topology_keys
        .filter(is_given)
        .or(keys)
        .unwrap_or_default()
}

/// A topology to which a Pod must return: a set of node labels, and how long it waits for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(from = "RequiredSpellings")
)]
#[serde(rename_all = "camelCase")]
pub struct RequiredTopologyTerm {
    /// Keys of node labels. Empty if the object, which nobody validated, names none.
    pub node_topology_keys: Vec<String>,
    /// How long a Pod waits for its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<i32>"))]
    pub fallback_after_seconds: Option<FallbackAfter>,
}

/// How long a Pod waits for its recorded place before the place is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum FallbackAfter {
    /// A number of seconds, which nobody may have validated.
    Seconds(i64),
    /// A value that this version does not know.
    #[serde(skip)]
    Unknown,
}

/// A topology to which a Pod must return: a set of node labels, under one of two names, and how
/// long it waits for them.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(rename_all = "camelCase", extend("x-kubernetes-validations" = rules::has_keys_once()))]
#[expect(dead_code, reason = "it only describes the schema")]
struct RequiredSpellings {
    /// Keys of node labels, such as kubernetes.io/hostname or topology.kubernetes.io/zone. The
    /// values that the Pod's node has for them are recorded; the Pod returns to nodes on which all
    /// of them are the same. A key that the node does not have is left out. At least one key is
    /// required, here or in keys.
    #[schemars(length(min = 1, max = limits::MAX_TOPOLOGY_KEYS),
            inner(length(min = 1, max = limits::MAX_KEY_LENGTH)))]
    node_topology_keys: Option<Vec<String>>,
    /// Another name of nodeTopologyKeys, which OpenKruise uses in v1beta1. Set only one of them.
    #[schemars(length(min = 1, max = limits::MAX_TOPOLOGY_KEYS),
            inner(length(min = 1, max = limits::MAX_KEY_LENGTH)))]
    keys: Option<Vec<String>>,
    /// How many seconds an unschedulable Pod waits for its recorded place, from 30 to 14400. Then
    /// the sidecar gives up as much of the place as no node can serve, if another node can take the
    /// Pod, and evicts it; the place where it is Ready next is recorded instead. Of several Pods of
    /// the workload one falls back at a time. If this is not set, a Pod waits forever. Needs a
    /// sidecar that may evict Pending Pods and read volumes. A Pod whose volume pins it keeps its
    /// place.
    #[schemars(range(min = limits::MIN_FALLBACK_SECONDS, max = limits::MAX_FALLBACK_SECONDS))]
    fallback_after_seconds: Option<i32>,
}

impl<'de> Deserialize<'de> for RequiredTopologyTerm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Term {
            node_topology_keys: Option<Vec<String>>,
            keys: Option<Vec<String>>,
            #[serde(default, deserialize_with = "known_or_unknown")]
            fallback_after_seconds: Option<FallbackAfter>,
        }
        let term = Term::deserialize(deserializer)?;
        Ok(Self {
            node_topology_keys: given(term.node_topology_keys, term.keys),
            fallback_after_seconds: term.fallback_after_seconds,
        })
    }
}

/// A topology to which a Pod should return, with a weight.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PreferredTopologyTerm {
    /// How strongly the scheduler prefers this topology, from 1 to 100: it is added to the score of
    /// every node that matches.
    // Wider than the schema: where another definition lets a number out of range pass, it is no
    // reason to refuse Pods.
    #[cfg_attr(feature = "schema", schemars(with = "i32", range(min = 1, max = 100)))]
    pub weight: i64,
    /// The node labels of the topology. A node matches if it has the recorded values of all of
    /// them.
    pub preference: NodeTopologyTerm,
}

/// An annotation that is recorded from a running Pod and injected when the Pod is created again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PodAnnotation {
    /// Key of the annotation, such as ovn.kubernetes.io/ip_address. The Pod's value is recorded.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = limits::MAX_KEY_LENGTH)))]
    pub key: String,
    /// What to record if the Pod does not have the annotation: for a network plugin that reads the
    /// wanted address from an annotation but does not write it. If this is not set, nothing is
    /// recorded for such a Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ValueFrom>,
}

// A bare string is read as `{key: …}`. The CRD refuses it: in OpenAPI v2, a schema that allows both
// forms cannot describe `key` and `valueFrom`, and would accept numbers and misspelt fields.
impl<'de> Deserialize<'de> for PodAnnotation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Object {
            key: String,
            #[serde(default, deserialize_with = "known_or_unknown")]
            value_from: Option<ValueFrom>,
        }

        struct AnnotationVisitor;

        impl<'de> Visitor<'de> for AnnotationVisitor {
            type Value = PodAnnotation;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an annotation key, or an object with a key")
            }

            fn visit_str<E: de::Error>(self, key: &str) -> Result<PodAnnotation, E> {
                Ok(PodAnnotation {
                    key: key.into(),
                    value_from: None,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<PodAnnotation, A::Error> {
                let Object { key, value_from } =
                    Object::deserialize(MapAccessDeserializer::new(object))?;
                Ok(PodAnnotation { key, value_from })
            }
        }

        deserializer.deserialize_any(AnnotationVisitor)
    }
}

/// What to record for an annotation that the Pod does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ValueFrom {
    /// The Pod's addresses as a JSON list, such as `["10.0.0.7","fd00::7"]`.
    #[serde(rename = "PodIPsJSON")]
    PodIpsJson,
    /// The Pod's addresses separated by commas, such as `10.0.0.7,fd00::7`.
    #[serde(rename = "PodIPsCSV")]
    PodIpsCsv,
    /// A value that this version does not know.
    #[serde(skip)]
    Unknown,
}

/// How long recorded states are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum RetentionPolicy {
    /// Until the workload is deleted, or scaled down so that it no longer wants a Pod of that name.
    #[default]
    WhenScaled,
    /// Until the workload is deleted.
    WhenDeleted,
    /// Even after the workload is deleted, for the next workload of the same group, kind and name.
    Retain,
    /// A value that this version does not know.
    #[serde(skip)]
    Unknown,
}

/// What happens to states recorded on a node that no longer exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum NodeDeletionPolicy {
    /// They are kept, and a Pod with a required topology waits for a node that matches.
    #[default]
    Keep,
    /// They are dropped once the node has been gone for the grace period, whatever the retention
    /// policy, and the Pod can start on any node when it is next created. A Pod that already waits
    /// for the node is reported; a sidecar with --evict-pending-pods evicts it, so that its
    /// controller creates it again.
    Forget,
    /// A value that this version does not know.
    #[serde(skip)]
    Unknown,
}

/// Whether a recorded state follows a Pod that runs on another node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum RecordingPolicy {
    /// It does: the Pod returns to the node on which it was last Ready.
    #[default]
    Always,
    /// It does not: the recorded node is the Pod's home. While the Pod runs elsewhere, its recorded
    /// state stays unchanged, with all annotations. kubectl pps move and forget change it, and so
    /// does nodeDeletionPolicy: Forget once that node is gone. It is dropped when the workload no
    /// longer wants the Pod.
    IfNotPresent,
    /// A value that this version does not know.
    #[serde(skip)]
    Unknown,
}

/// An enumeration to which a newer version may add values.
trait OpenEnum {
    /// Stands for a value that this version does not know.
    const UNKNOWN: Self;
}

impl OpenEnum for ValueFrom {
    const UNKNOWN: Self = Self::Unknown;
}

impl OpenEnum for FallbackAfter {
    const UNKNOWN: Self = Self::Unknown;
}

impl OpenEnum for RetentionPolicy {
    const UNKNOWN: Self = Self::Unknown;
}

impl OpenEnum for NodeDeletionPolicy {
    const UNKNOWN: Self = Self::Unknown;
}

impl OpenEnum for RecordingPolicy {
    const UNKNOWN: Self = Self::Unknown;
}

/// Reads an optional field. A value that this version does not know, or of another type, is
/// unknown: what does not need the field can do without it.
fn known_or_unknown<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: OpenEnum + DeserializeOwned,
{
    let value = Option::<Value>::deserialize(deserializer)?;
    Ok(value.map(|value| read("", &value).unwrap_or(T::UNKNOWN)))
}

impl Spec {
    /// The path of the first field with a value that this version does not know. Whoever acts on
    /// these fields must refuse such an object.
    pub fn unknown_field(&self) -> Option<&'static str> {
        let sources = &self.persistent_pod_annotations;
        let is_unknown =
            |annotation: &PodAnnotation| annotation.value_from == Some(ValueFrom::Unknown);
        if self.persistent_pod_state_retention_policy == Some(RetentionPolicy::Unknown) {
            Some("spec.persistentPodStateRetentionPolicy")
        } else if self.node_deletion_policy == Some(NodeDeletionPolicy::Unknown) {
            Some("spec.nodeDeletionPolicy")
        } else if self.recording_policy == Some(RecordingPolicy::Unknown) {
            Some("spec.recordingPolicy")
        } else if self.required().and_then(|term| term.fallback_after_seconds)
            == Some(FallbackAfter::Unknown)
        {
            Some("spec.requiredPersistentTopology.fallbackAfterSeconds")
        } else if sources.iter().any(is_unknown) {
            Some("spec.persistentPodAnnotations.valueFrom")
        } else {
            None
        }
    }

    /// The retention policy in force.
    pub fn retention(&self) -> RetentionPolicy {
        self.persistent_pod_state_retention_policy
            .unwrap_or_default()
    }

    /// The node deletion policy in force.
    pub fn node_deletion(&self) -> NodeDeletionPolicy {
        self.node_deletion_policy.unwrap_or_default()
    }

    /// Whether a Pod that is recorded on one node and runs on another is away from its home: its
    /// recorded state does not follow it.
    pub fn is_away(&self, recorded: &str, node: &str) -> bool {
        let keeps_home = self.recording_policy == Some(RecordingPolicy::IfNotPresent);
        keeps_home && !recorded.is_empty() && recorded != node
    }

    fn required(&self) -> Option<&RequiredTopologyTerm> {
        self.required_persistent_topology.as_ref()
    }

    /// How many seconds a Pod waits for its recorded place; none if it waits forever. A number that
    /// validation would refuse bounds nothing.
    pub fn fallback_after_seconds(&self) -> Option<u32> {
        match self.required()?.fallback_after_seconds? {
            FallbackAfter::Seconds(seconds) => u32::try_from(seconds)
                .ok()
                .filter(|seconds| (MIN_FALLBACK_SECONDS..=MAX_FALLBACK_SECONDS).contains(seconds)),
            FallbackAfter::Unknown => None,
        }
    }

    /// Keys of the required topology, in the order of the spec.
    pub fn required_keys(&self) -> impl Iterator<Item = &str> {
        self.required_persistent_topology
            .iter()
            .flat_map(|term| term.node_topology_keys.iter().map(String::as_str))
    }

    /// All topology keys: the required ones, then the preferred ones. A key that the spec repeats
    /// is repeated.
    pub fn topology_keys(&self) -> impl Iterator<Item = &str> {
        self.required_keys().chain(
            self.preferred_persistent_topology
                .iter()
                .flat_map(|term| term.preference.keys()),
        )
    }

    /// The topology keys that a user's word names: the key itself, or all keys that end with it.
    pub fn keys_named(&self, word: &str) -> BTreeSet<&str> {
        let whole = self.topology_keys().find(|key| *key == word);
        let is_named = |key: &&str| whole.map_or(short(key) == word, |whole| *key == whole);
        self.topology_keys().filter(is_named).collect()
    }

    /// The recorded values that the Pod requires, beside the node itself.
    pub fn required_values<'a>(&'a self, state: &'a PodState) -> BTreeMap<&'a str, &'a str> {
        let keys = self.required_keys().filter(|key| *key != HOSTNAME);
        keys.filter_map(|key| Some((key, state.node_topology_labels.get(key)?.as_str())))
            .collect()
    }
}

/// A key as users write it: `zone`.
pub fn short(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

impl NodeTopologyTerm {
    fn keys(&self) -> impl Iterator<Item = &str> {
        self.node_topology_keys.iter().map(String::as_str)
    }
}
