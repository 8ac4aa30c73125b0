//! Why a move is not possible.

use crate::decide::landing::Landing;
use crate::snapshot::{Unread, WorkloadKey};

/// Why a move is not possible.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are what they are called")]
pub enum Refusal {
    /// Too little could be read.
    Unread(Unread),
    /// The labels of the destination could not be read.
    UnreadNode { node: String, unread: Unread },
    /// The PersistentPodState has another definition, or its states are damaged.
    UnreadablePps { pps: String, why: String },
    /// The user does not say where the Pod should go. `landing` is where it could go.
    NoDestination { pod: String, landing: Option<Landing>, knows_nodes: bool },
    /// There is no such node.
    NoNode { node: String, similar: Vec<String> },
    /// There is no such Pod, and no recorded state of one.
    NoPod { namespace: String, pod: String },
    /// The Pod has no controller.
    NoController { pod: String },
    /// No PersistentPodState names the workload of the Pod. A Pod that waits was created while one did.
    NotGoverned { pod: String, workload: Box<WorkloadKey>, waits: bool },
    /// The workload is being deleted.
    WorkloadTerminating { pod: String, workload: Box<WorkloadKey> },
    /// The workload wants other Pods, and so many.
    NotWanted { pod: String, workload: Box<WorkloadKey>, replicas: u64 },
    /// A word of `--any` may mean several keys.
    AmbiguousKey { word: String, keys: Vec<String> },
    /// A word of `--any` names no key of a governing PersistentPodState.
    UnknownKey { word: String, keys: Vec<String> },
}

impl From<&Unread> for Refusal {
    fn from(unread: &Unread) -> Self {
        Self::Unread(unread.clone())
    }
}
