//! What the ledger wants to be done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::facts::{NamespacedName, Notice, WorkloadKey};
use crate::record::Placement;

/// Work that has come up since it was last taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// PPS objects whose status may have to be written.
    pub statuses: BTreeSet<NamespacedName>,
    /// Workloads whose generated PPS may have to be created, changed or deleted.
    pub generated: BTreeSet<WorkloadKey>,
    /// Nodes that went missing, or are missing no longer.
    pub absences: BTreeSet<Arc<str>>,
    /// Nodes that have appeared. Each is new until [`Fact::NodeSettled`](crate::Fact::NodeSettled).
    pub new_nodes: BTreeSet<Arc<str>>,
    /// Pods that may have to be deleted, since they wait for a node that no longer exists.
    pub evictions: BTreeSet<NamespacedName>,
    /// How many Pods were bound to a node.
    pub bound_pods: BTreeMap<BoundPod, u64>,
    pub notices: Vec<Notice>,
    /// The PPS objects have to be listed again, in a list of this revision: their definition has
    /// changed.
    pub relist_objects: Option<u64>,
}

/// What is counted of a Pod that was bound to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BoundPod {
    pub placement: Placement,
    /// Whether it carries the policy's annotation.
    pub is_injected: bool,
}
