//! Why nodes are excluded, and in which version of Kubernetes.

/// One reason why a Pod cannot run on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exclusion {
    /// Which of the scheduler's filters excludes it.
    pub what: ExclusionKind,
    /// A sentence for users: `node-2: topology.kubernetes.io/zone is b, the Pod requires a`.
    pub text: String,
    /// Whether the policy injected the requirement.
    pub from_pps: bool,
}

/// A filter of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ExclusionKind {
    /// `spec.nodeName`
    NodeName,
    /// `spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution`
    RequiredAffinity,
    /// `spec.nodeSelector`
    NodeSelector,
    /// Where a volume of the Pod is.
    Volume,
    /// A taint that the Pod does not tolerate.
    Taint,
    /// `spec.unschedulable`
    Cordon,
    /// Pods, CPU, memory or another resource.
    Room,
    /// `spec.affinity.podAffinity`
    PodAffinity,
    /// `spec.affinity.podAntiAffinity`, of this Pod or of one that runs there.
    PodAntiAffinity,
    /// `spec.topologySpreadConstraints`
    TopologySpread,
}

impl ExclusionKind {
    /// Whether the node could take the Pod after other Pods were evicted.
    pub(super) fn is_about_pods(self) -> bool {
        matches!(self, Self::Room | Self::PodAntiAffinity | Self::TopologySpread)
    }
}

/// Versions between which the scheduler's rules changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kubernetes {
    /// 1.20
    V1_20,
    /// 1.32
    V1_32,
    /// 1.36
    V1_36,
}

impl Kubernetes {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::V1_20, Self::V1_32, Self::V1_36];
}
