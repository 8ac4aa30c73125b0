//! Facts: what the sidecar keeps in memory of each watched object. Plain data without I/O; `observe` creates it and
//! `decide` reads it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pps_core::demand::Demand;
use pps_core::required_affinity::RequiredAffinity;
use pps_core::{Reason, Spec};
use serde::Serialize;

pub mod interest;
pub(crate) mod interner;
mod keys;
pub mod states;
mod status;
pub mod store;

pub use self::keys::{GroupKind, NamespacedName, WorkloadKey};
pub use self::status::{Form, PackedClaim, PpsStatus, StoredForm};

/// The part of a Pod from which its state is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, of one byte each")]
pub struct PodFact {
    /// UID of the controller owner.
    pub owner: Option<Arc<str>>,
    pub node: Option<Arc<str>>,
    pub ready: bool,
    /// When the Pod became Ready, in Unix seconds; `None` while it is not Ready. The API server gives whole seconds.
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
    /// Set while a Pod that carries the policy's annotation is Pending without a node. Not set if its required affinity is
    /// larger than [`MAX_KEPT_AFFINITY_ITEMS`] or [`MAX_KEPT_AFFINITY_BYTES`]: such a Pod is never evicted.
    ///
    /// [`MAX_KEPT_AFFINITY_ITEMS`]: pps_core::limits::MAX_KEPT_AFFINITY_ITEMS
    /// [`MAX_KEPT_AFFINITY_BYTES`]: pps_core::limits::MAX_KEPT_AFFINITY_BYTES
    pub pending: Option<Box<PendingPod>>,
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
    /// The value of a label. The labels must be sorted.
    pub fn label(&self, key: &str) -> Option<&str> {
        let place = self.labels.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
        self.labels.get(place).map(|(_, value)| &**value)
    }
}

/// The part of a workload that determines which states are kept and whether a PPS is generated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadFact {
    /// API group and version through which it was read.
    pub api_version: String,
    pub uid: Arc<str>,
    pub terminating: bool,
    /// The Pods that it wants.
    pub demand: Demand,
    /// Only the annotations that request a generated PPS.
    pub annotations: BTreeMap<String, String>,
}

/// The ConfigMap that lists custom workload kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigFact {
    pub uid: String,
    /// The value of the key that holds the list, not parsed.
    pub whitelist: Option<String>,
}

/// The object that an Event is published on.
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

/// An Event to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub subject: Subject,
    pub reason: Reason,
    pub message: String,
}

/// A PPS as the API server last returned it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PpsFact {
    pub uid: String,
    pub resource_version: String,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// Creation time, in RFC 3339.
    pub created: String,
    pub terminating: bool,
    /// Whether the sidecar made it: the managed-by label says so, and the sidecar's field manager owns a part of the
    /// spec. A user's copy of such an object has only the label.
    pub generated: bool,
    pub owned: OwnedFields,
    pub owners: Vec<Owner>,
    pub spec: Spec,
    pub status: PpsStatus,
    /// Why the object cannot be read, if it cannot. It exists all the same. Its spec has the target if that can be read,
    /// and nothing else; its status is empty, whatever it has recorded. No decision may be made from them.
    pub unreadable: Option<String>,
}

impl PpsFact {
    /// Marks an object whose states the definition seems to hide as one that cannot be read: whatever was written to it
    /// would make their loss permanent.
    pub(crate) fn hide(&mut self) {
        self.unreadable = Some(
            "status.packed: the API server hides the recorded states; apply this product's definition of PersistentPodState again".into(),
        );
    }

    pub(crate) fn is_hidden_by_definition(&self) -> bool {
        self.unreadable.is_some() && self.status.packed_claim != PackedClaim::No
    }
}

/// The fields of a spec that the sidecar's field manager owns, of those that come from annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnedFields {
    pub required_topology: bool,
    pub preferred_topology: bool,
    pub annotations: bool,
}

/// An ownerReference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn looks_up_many_keys_among_many_labels_at_once() {
        let pair = |number: usize| (format!("k{number:05}").into(), number.to_string().into());
        let node = NodeFact { labels: (0..60_000).map(pair).collect() };
        let start = Instant::now();
        let keys = (0..120_000).map(|number| format!("k{number:05}"));
        assert_eq!(keys.filter(|key| node.label(key).is_some()).count(), 60_000);
        // Room for a busy machine: comparing each key with all labels takes far longer.
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
}
