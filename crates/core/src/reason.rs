//! The reason for a condition, an Event, a log entry or a metric: the same word in all of them.

use std::fmt;

/// A reason. It is displayed as its name, such as `TopologyKeyMissing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// As many states are recorded as the workload wants Pods.
    AllRecorded,
    /// Fewer states are recorded than the workload wants Pods. States are recorded as Pods become
    /// Ready.
    WaitingForPods,
    /// The workload does not say how many Pods it wants, so no state is dropped before the workload
    /// is deleted.
    ReplicasUnknown,
    /// The namespace is not in scope, so nothing in it is recorded, dropped or injected.
    NamespaceNotEnabled,
    /// The workload that the PPS names does not exist.
    WorkloadNotFound,
    /// The sidecar does not watch workloads of the kind that the PPS names.
    WorkloadKindNotWatched,
    /// The sidecar lacks the permission to list or watch workloads of this kind.
    WorkloadKindForbidden,
    /// Workloads of this kind cannot be listed for another reason than a missing permission. The
    /// sidecar retries.
    WorkloadKindUnavailable,
    /// The whitelist names a kind that cannot be watched.
    WorkloadKindUnsupported,
    /// The whitelist cannot be read.
    MalformedWhitelist,
    /// A node lacks a topology label that the PPS names.
    TopologyKeyMissing,
    /// The PPS is close to the largest size that the API server stores.
    NearCapacity,
    /// The PPS has reached the largest size that the API server stores. Some states are not
    /// recorded.
    CapacityExceeded,
    /// OpenKruise's manager runs in the cluster and writes the same objects.
    ConflictingRecorder,
    /// A PPS cannot be read, so nothing is recorded in it.
    UnreadableObject,
    /// Another client changes a PPS between each read of it and the write that follows, so nothing
    /// is recorded in it.
    WriteConflicts,
    /// A field of the PPS is larger than the limit, so nothing is recorded.
    LimitExceeded,
    /// Another PPS names the same workload and takes precedence.
    Superseded,
    /// The sidecar generated a PPS for an annotated workload.
    Generated,
    /// The sidecar deleted a generated PPS that no annotation asks for anymore.
    Deleted,
    /// A PPS that the sidecar did not generate has the name of the one to generate.
    NameConflict,
    /// An annotation of the workload has an invalid value.
    InvalidAnnotation,
    /// The API server, or an admission policy, refuses an object that the sidecar generates, or a
    /// status.
    WriteRefused,
    /// The sidecar dropped states that were recorded on a node that no longer exists.
    StatesForgotten,
    /// The sidecar dropped states of Pods that the workload no longer wants.
    StatesDropped,
    /// The sidecar evicted a Pod that waited for a node that no longer exists, so that its
    /// controller creates it again.
    PodEvicted,
    /// A Pod waits for a node that no longer exists, and the sidecar does not evict it.
    PodNotEvicted,
    /// An operator creates a Pod again and again, perhaps because the policy adds node affinity.
    RecreationLoop,
    /// The sidecar gave up a part of a Pod's recorded place, after the Pod had waited for it as long
    /// as the PPS says.
    FellBack,
    /// A Pod has waited for its recorded place as long as the PPS says, and keeps the place.
    FallbackBlocked,
}

impl Reason {
    /// The reason's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllRecorded => "AllRecorded",
            Self::WaitingForPods => "WaitingForPods",
            Self::ReplicasUnknown => "ReplicasUnknown",
            Self::NamespaceNotEnabled => "NamespaceNotEnabled",
            Self::WorkloadNotFound => "WorkloadNotFound",
            Self::WorkloadKindNotWatched => "WorkloadKindNotWatched",
            Self::WorkloadKindForbidden => "WorkloadKindForbidden",
            Self::WorkloadKindUnavailable => "WorkloadKindUnavailable",
            Self::WorkloadKindUnsupported => "WorkloadKindUnsupported",
            Self::MalformedWhitelist => "MalformedWhitelist",
            Self::TopologyKeyMissing => "TopologyKeyMissing",
            Self::NearCapacity => "NearCapacity",
            Self::CapacityExceeded => "CapacityExceeded",
            Self::ConflictingRecorder => "ConflictingRecorder",
            Self::UnreadableObject => "UnreadableObject",
            Self::WriteConflicts => "WriteConflicts",
            Self::LimitExceeded => "LimitExceeded",
            Self::Superseded => "Superseded",
            Self::Generated => "Generated",
            Self::Deleted => "Deleted",
            Self::NameConflict => "NameConflict",
            Self::InvalidAnnotation => "InvalidAnnotation",
            Self::WriteRefused => "WriteRefused",
            Self::StatesForgotten => "StatesForgotten",
            Self::StatesDropped => "StatesDropped",
            Self::PodEvicted => "PodEvicted",
            Self::PodNotEvicted => "PodNotEvicted",
            Self::RecreationLoop => "RecreationLoop",
            Self::FellBack => "FellBack",
            Self::FallbackBlocked => "FallbackBlocked",
        }
    }
}

/// Whether nothing is recorded while the condition Recording is False for this reason. Under other
/// reasons some Pods are not recorded, or recorded states are not injected.
pub fn stops_recording(reason: &str) -> bool {
    use Reason::{LimitExceeded, NamespaceNotEnabled, Superseded, WorkloadKindForbidden};
    use Reason::{WorkloadKindNotWatched, WorkloadKindUnavailable, WorkloadNotFound};
    let of_kind = [
        WorkloadKindForbidden,
        WorkloadKindNotWatched,
        WorkloadKindUnavailable,
    ];
    let others = [
        LimitExceeded,
        NamespaceNotEnabled,
        Superseded,
        WorkloadNotFound,
    ];
    of_kind
        .iter()
        .chain(&others)
        .any(|one| one.as_str() == reason)
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
