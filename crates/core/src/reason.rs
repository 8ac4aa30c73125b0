//! What happened, in one word: the same word in logs, Events, metrics and conditions.

use std::fmt;

/// Why something is as it is. Displayed as the word itself, such as `TopologyKeyMissing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// As many states are recorded as the workload wants Pods.
    AllRecorded,
    /// Fewer states are recorded than the workload wants Pods: Pods are recorded as they become Ready.
    WaitingForPods,
    /// The workload does not say how many Pods it wants, so no state is dropped before it is deleted.
    ReplicasUnknown,
    /// The workload that the PPS names does not exist.
    WorkloadNotFound,
    /// The workload that the PPS names is of a kind that nobody watches.
    WorkloadKindNotWatched,
    /// Workloads of that kind may not be listed or watched.
    WorkloadKindForbidden,
    /// A kind that a ConfigMap lists cannot be watched.
    WorkloadKindUnsupported,
    /// The list of kinds cannot be read.
    MalformedWhitelist,
    /// A node lacks a topology label that the PPS names.
    TopologyKeyMissing,
    /// The PPS is near the size that the API server stores.
    NearCapacity,
    /// The API server does not store more in the PPS: some states are not recorded.
    CapacityExceeded,
    /// OpenKruise's manager runs in the cluster and writes the same objects.
    ConflictingRecorder,
    /// Another PPS names the same workload, and governs it.
    Superseded,
    /// A PPS was made for an annotated workload.
    Generated,
    /// A generated PPS was deleted, since nobody asks for it any longer.
    Deleted,
    /// A PPS that somebody else made has the name that a generated one would have.
    NameConflict,
    /// An annotation of the workload says nothing that can be used.
    InvalidAnnotation,
    /// What was recorded on a node was dropped: the node is gone.
    StatesForgotten,
    /// A Pod that waited for a node that no longer exists was deleted, to be made anew.
    PodEvicted,
}

impl Reason {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllRecorded => "AllRecorded",
            Self::WaitingForPods => "WaitingForPods",
            Self::ReplicasUnknown => "ReplicasUnknown",
            Self::WorkloadNotFound => "WorkloadNotFound",
            Self::WorkloadKindNotWatched => "WorkloadKindNotWatched",
            Self::WorkloadKindForbidden => "WorkloadKindForbidden",
            Self::WorkloadKindUnsupported => "WorkloadKindUnsupported",
            Self::MalformedWhitelist => "MalformedWhitelist",
            Self::TopologyKeyMissing => "TopologyKeyMissing",
            Self::NearCapacity => "NearCapacity",
            Self::CapacityExceeded => "CapacityExceeded",
            Self::ConflictingRecorder => "ConflictingRecorder",
            Self::Superseded => "Superseded",
            Self::Generated => "Generated",
            Self::Deleted => "Deleted",
            Self::NameConflict => "NameConflict",
            Self::InvalidAnnotation => "InvalidAnnotation",
            Self::StatesForgotten => "StatesForgotten",
            Self::PodEvicted => "PodEvicted",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
