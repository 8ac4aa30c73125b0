//! Why a node cannot take a Pod, and what is not known about it. Types only: `render` makes the
//! English.

use super::read::Taint;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exclusion {
    NodeName {
        wanted: String,
    },
    Label {
        by: RequiredBy,
        key: String,
        operator: String,
        wanted: Vec<String>,
        /// The node's value; none if it lacks the label.
        found: Option<String>,
    },
    Impossible {
        by: RequiredBy,
    },
    Taint(Taint),
    Cordon,
    /// Less of a resource is free than the Pod requests. CPU is in thousandths.
    Insufficient {
        resource: String,
        requested: i64,
        free: i64,
        limit: i64,
    },
    TooManyPods {
        running: usize,
        limit: i64,
    },
    PodAffinity {
        key: String,
        /// The node's value; none if it lacks the label.
        domain: Option<String>,
    },
    PodAntiAffinity {
        key: String,
        domain: String,
        of_running: bool,
    },
    TopologySpread {
        key: String,
        /// The excess; none if the node lacks the label.
        skew: Option<Skew>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skew {
    pub domain: String,
    pub pods: i64,
    pub least: i64,
    pub max: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequiredBy {
    Affinity,
    RecordedState,
    FormerState,
    NodeSelector,
    Claim(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ExclusionKind {
    NodeName,
    RequiredAffinity,
    NodeSelector,
    Volume,
    Taint,
    Cordon,
    Resources,
    PodAffinity,
    PodAntiAffinity,
    TopologySpread,
}

impl Exclusion {
    pub fn kind(&self) -> ExclusionKind {
        match self {
            Self::NodeName { .. } => ExclusionKind::NodeName,
            Self::Label { by, .. } | Self::Impossible { by } => match by {
                RequiredBy::NodeSelector => ExclusionKind::NodeSelector,
                RequiredBy::Claim(_) => ExclusionKind::Volume,
                _ => ExclusionKind::RequiredAffinity,
            },
            Self::Taint(_) => ExclusionKind::Taint,
            Self::Cordon => ExclusionKind::Cordon,
            Self::Insufficient { .. } | Self::TooManyPods { .. } => ExclusionKind::Resources,
            Self::PodAffinity { .. } => ExclusionKind::PodAffinity,
            Self::PodAntiAffinity { .. } => ExclusionKind::PodAntiAffinity,
            Self::TopologySpread { .. } => ExclusionKind::TopologySpread,
        }
    }

    pub fn from_pps(&self) -> bool {
        matches!(
            self,
            Self::Label {
                by: RequiredBy::RecordedState | RequiredBy::FormerState,
                ..
            }
        )
    }

    /// Whether the node could take the Pod if fewer or other Pods ran.
    pub fn is_about_pods(&self) -> bool {
        use ExclusionKind::{PodAntiAffinity, Resources, TopologySpread};
        matches!(self.kind(), Resources | PodAntiAffinity | TopologySpread)
    }

    /// The same of a state that is no longer recorded.
    #[must_use]
    pub fn of_former_state(mut self) -> Self {
        if let Self::Label {
            by: by @ RequiredBy::RecordedState,
            ..
        } = &mut self
        {
            *by = RequiredBy::FormerState;
        }
        self
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caveat {
    OtherScheduler,
    Volumes,
    /// The volume of this claim is not known, or the claim is not bound.
    Claim(String),
    VolumeLimits,
    PodAffinityFields,
    /// A Pod that runs may keep it away from some nodes; see
    /// [`Selection::unclear`](crate::Selection::unclear).
    AntiAffinityOfOthers,
    /// A field of the Pod's spec that is not simulated.
    Field(&'static str),
    Preemption,
}
