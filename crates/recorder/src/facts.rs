//! Facts: what the sidecar keeps in memory of each watched object. Plain data without I/O; `observe` creates
//! it and `decide` reads it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::demand::Demand;
use pps_core::pps::NodeDeletionPolicy;
use pps_core::required_affinity::RequiredAffinity;
use pps_core::{Reason, Spec};
use serde::{Deserialize, Serialize};

pub mod interest;
pub mod interner;
mod keys;
mod object;
pub mod states;
mod status;
pub mod store;

pub use self::keys::{GroupKind, NamespacedName, WorkloadKey};
pub use self::object::*;
pub use self::status::{Form, PackedClaim, PpsStatus, StoredForm};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, of one byte each")]
pub struct PodFact {
    /// UID of the controller owner.
    pub owner: Option<Arc<str>>,
    pub node: Option<Arc<str>>,
    pub ready: bool,
    /// When the Pod became Ready, in Unix seconds; `None` while it is not Ready. The API server gives whole
    /// seconds.
    pub ready_since: Option<i64>,
    pub terminating: bool,
    /// Whether the Pod carries the policy's annotation.
    pub injected: bool,
    /// Whether the Pod is not to be recorded, as its annotation says.
    pub exempt: bool,
    /// The annotations that some PPS names, sorted by key once the index has them.
    pub annotations: Vec<(Arc<str>, Arc<str>)>,
    /// The Pod's addresses, the primary one first.
    pub ips: Vec<String>,
    /// Set while a Pod that carries the policy's annotation is Pending without a node. Not set if its
    /// required affinity
    /// [exceeds its limits](pps_core::required_affinity): such a Pod is never evicted.
    pub pending: Option<Box<PendingPod>>,
}

impl PodFact {
    pub fn annotation(&self, key: &str) -> Option<&str> {
        find(&self.annotations, key)
    }
}

/// Finds a value among pairs that are sorted by key: a user decides how many there are.
fn find<'a>(pairs: &'a [(Arc<str>, Arc<str>)], key: &str) -> Option<&'a str> {
    let place = pairs.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
    Some(&pairs.get(place)?.1)
}

/// What restricts a Pending Pod to nodes, and what is needed to delete it safely.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingPod {
    pub uid: String,
    pub resource_version: String,
    /// Name of the PPS that the policy's annotation gives.
    pub pps: Arc<str>,
    pub required_affinity: RequiredAffinity,
    /// Since when the scheduler has found no node for it, in Unix seconds.
    pub unschedulable_since: Option<i64>,
}

/// A Node: the labels that some PPS names, sorted by key once the index has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFact {
    pub labels: Vec<(Arc<str>, Arc<str>)>,
}

impl NodeFact {
    pub fn label(&self, key: &str) -> Option<&str> {
        find(&self.labels, key)
    }
}

/// The part of a workload that determines which states are kept and whether a PPS is generated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadFact {
    /// API group and version through which it was read.
    pub api_version: String,
    pub uid: Arc<str>,
    pub terminating: bool,
    pub demand: Demand,
    /// Only the annotations that request a generated PPS.
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigFact {
    pub uid: String,
    /// The value of the key that holds the list, not parsed.
    pub whitelist: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub api_version: String,
    pub kind: String,
    pub object: NamespacedName,
    pub uid: String,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.object)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub subject: Subject,
    pub reason: Reason,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PpsFact {
    pub uid: String,
    pub resource_version: String,
    pub generation: Option<i64>,
    pub created: String,
    pub terminating: bool,
    /// Whether the sidecar made it: the managed-by label says so, and the sidecar's field manager owns a part
    /// of the spec. A user's copy of such an object has only the label.
    pub generated: bool,
    /// The fields of the spec that the sidecar's field manager owns, of those that come from annotations.
    pub owned: Vec<&'static str>,
    pub owners: Vec<Owner>,
    pub spec: Spec,
    pub status: PpsStatus,
    /// Why the object cannot be read, if it cannot. It exists all the same. Its spec has the target if that
    /// can be read, and nothing else; its status is empty, whatever it has recorded. No decision may be made
    /// from them.
    pub unreadable: Option<String>,
}

impl PpsFact {
    /// Marks an object whose states the definition seems to hide as one that cannot be read: whatever was
    /// written to it would make their loss permanent.
    pub fn hide(&mut self) {
        self.unreadable = Some(
            "status.packed: the API server hides the recorded states; apply this product's definition of PersistentPodState again".into(),
        );
    }

    pub fn forgets_nodes(&self) -> bool {
        self.spec.node_deletion() == NodeDeletionPolicy::Forget
    }

    pub fn is_hidden_by_definition(&self) -> bool {
        self.unreadable.is_some() && self.status.packed_claim != PackedClaim::No
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}
