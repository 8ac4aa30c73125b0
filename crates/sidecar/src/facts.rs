//! What is kept of the objects that are watched: little, and in memory only as long as it matters.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pps_core::demand::Demand;
use pps_core::pps::{Condition, null_as_default};
use pps_core::required_affinity::RequiredAffinity;
use pps_core::{OwnerReference, Reason, Spec};
use serde::Deserialize;

pub mod interest;
pub mod interner;
mod keys;
pub mod states;
pub mod store;

pub use self::keys::{GroupKind, NamespacedName, WorkloadKey};
use self::states::States;

/// A Pod, as far as its state can be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFact {
    /// UID of the managing controller.
    pub owner: Option<Arc<str>>,
    /// The node that the Pod is bound to.
    pub node: Option<Arc<str>>,
    /// Whether the Pod is Ready.
    pub ready: bool,
    /// Since when the Pod has been Ready, in Unix seconds.
    pub ready_since: Option<i64>,
    /// Whether the Pod is being deleted.
    pub terminating: bool,
    /// The annotations that some PPS names.
    pub annotations: Vec<(Arc<str>, Arc<str>)>,
    /// The Pod's addresses.
    pub ips: Vec<String>,
    /// What pins it, if it bears the policy's mark and waits for a node.
    pub pending: Option<Box<PendingPod>>,
}

/// What pins a Pod that waits for a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingPod {
    /// The Pod's UID.
    pub uid: String,
    /// The Pod's resource version.
    pub resource_version: String,
    /// The PPS that the mark names.
    pub object: Arc<str>,
    /// The values that a node has to have.
    pub required_affinity: RequiredAffinity,
}

/// A node: the labels that some PPS names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFact {
    /// Labels.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
}

impl NodeFact {
    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(name, _)| &**name == key).map(|(_, value)| &**value)
    }
}

/// A workload, as far as it decides about states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadFact {
    /// API group and version under which it was seen.
    pub api_version: String,
    /// UID.
    pub uid: Arc<str>,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// The Pods that it wants.
    pub demand: Demand,
    /// Those of its annotations that ask for a PPS.
    pub annotations: BTreeMap<String, String>,
}

/// The ConfigMap with the list of kinds, as far as it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigFact {
    /// UID.
    pub uid: String,
    /// The list of kinds.
    pub whitelist: Option<String>,
}

/// An object that something is to be told about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// API group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace and name.
    pub object: NamespacedName,
    /// UID.
    pub uid: String,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.object)
    }
}

/// Something that a user must know, to be published as an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What it is about.
    pub subject: Subject,
    /// What happened, in a word.
    pub reason: Reason,
    /// What happened, in a sentence.
    pub message: String,
}

/// A PPS as the API server has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PpsFact {
    /// UID.
    pub uid: String,
    /// Resource version.
    pub resource_version: String,
    /// GeneratedPps of the spec.
    pub generation: Option<i64>,
    /// Creation time, in RFC 3339.
    pub created: String,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Whether it bears the label that says that this program made it.
    pub generated: bool,
    /// Its owners.
    pub owners: Vec<OwnerReference>,
    /// Its spec.
    pub spec: Spec,
    /// Its status.
    pub status: PpsStatus,
}

/// The status of a PPS; for its fields see [`pps_core::pps::Status`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PpsStatus {
    /// The generation of the spec that it was made from.
    pub observed_generation: Option<i64>,
    /// What is remembered.
    #[serde(deserialize_with = "null_as_default")]
    pub pod_states: States,
    /// UID of the workload that the states belong to.
    #[serde(rename = "targetUID")]
    pub target_uid: Option<String>,
    /// How many Pods are remembered.
    pub recorded: Option<i32>,
    /// How many Pods the workload wants.
    pub desired: Option<i32>,
    /// Conditions of all types.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}
