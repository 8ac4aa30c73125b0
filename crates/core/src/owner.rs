//! Which workload a Pod belongs to, and whether its Pods can have recorded states.

use serde::Deserialize;

use crate::pps::{TargetReference, group_of};

/// The owner of an object, as in `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// API group and version of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner, which is in the namespace of the owned object.
    pub name: String,
    /// UID of the owner.
    pub uid: String,
    /// Whether this is the controller owner.
    pub controller: Option<bool>,
}

impl OwnerReference {
    /// The owner as the target of a PPS.
    pub fn target(&self) -> TargetReference {
        TargetReference {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
        }
    }
}

/// Kinds whose Pods get a new name each time, so that no state can be found by name. API group and
/// kind, sorted.
pub const KINDS_WITHOUT_STABLE_NAMES: &[(&str, &str)] = &[
    ("", "Node"),
    ("", "ReplicationController"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps.kruise.io", "AdvancedCronJob"),
    ("apps.kruise.io", "BroadcastJob"),
    ("apps.kruise.io", "CloneSet"),
    ("apps.kruise.io", "DaemonSet"),
    ("batch", "CronJob"),
    ("batch", "Job"),
    ("extensions", "DaemonSet"),
    ("extensions", "Deployment"),
    ("extensions", "ReplicaSet"),
];

/// Whether re-created Pods of this kind of workload keep their names. An unknown kind is assumed to
/// have stable names.
pub fn has_stable_names(api_version: &str, kind: &str) -> bool {
    !KINDS_WITHOUT_STABLE_NAMES.contains(&(group_of(api_version), kind))
}
