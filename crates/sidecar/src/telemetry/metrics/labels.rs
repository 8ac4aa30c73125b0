//! The labels of the metrics and their values.

use std::fmt::{self, Write};
use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WrittenResource {
    PpsStatus,
    /// A generated PPS.
    Pps,
    /// A Pod, which was deleted.
    Pod,
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WriteOutcome {
    Success,
    Conflict,
    NotFound,
    Refused,
    Error,
    TooLarge,
    NotLeading,
}

/// What the lookup of a missing node found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LookupOutcome {
    Found,
    NotFound,
    Unknown,
}

/// What the reads before a drop of states have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DropCheckOutcome {
    Confirmed,
    Refuted,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResourceLabel {
    pub(super) resource: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LevelLabel {
    pub(super) level: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CauseLabel {
    pub(super) cause: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LookupLabel {
    pub(super) result: LookupOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DropCheckLabel {
    pub(super) result: DropCheckOutcome,
}

/// Where a Pod was bound, compared with its recorded state, and whether it carries the policy's annotation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct BoundPodLabels {
    pub(super) placement: &'static str,
    pub(super) injected: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WriteLabels {
    pub(super) resource: WrittenResource,
    pub(super) result: WriteOutcome,
}

impl WrittenResource {
    pub(super) const ALL: [Self; 3] = [Self::PpsStatus, Self::Pps, Self::Pod];
}

impl WriteOutcome {
    pub(super) const ALL: [Self; 7] = [
        Self::Success,
        Self::Conflict,
        Self::NotFound,
        Self::Refused,
        Self::Error,
        Self::TooLarge,
        Self::NotLeading,
    ];
}

impl LookupOutcome {
    pub(super) const ALL: [Self; 3] = [Self::Found, Self::NotFound, Self::Unknown];
}

impl DropCheckOutcome {
    pub(super) const ALL: [Self; 3] = [Self::Confirmed, Self::Refuted, Self::Unknown];
}

impl EncodeLabelValue for DropCheckOutcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(match self {
            Self::Confirmed => "confirmed",
            Self::Refuted => "refuted",
            Self::Unknown => "unknown",
        })
    }
}

impl EncodeLabelValue for WrittenResource {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(match self {
            Self::PpsStatus => "persistentpodstates/status",
            Self::Pps => "persistentpodstates",
            Self::Pod => "pods",
        })
    }
}

impl EncodeLabelValue for WriteOutcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(match self {
            Self::Success => "success",
            Self::Conflict => "conflict",
            Self::NotFound => "not_found",
            Self::Refused => "refused",
            Self::Error => "error",
            Self::TooLarge => "too_large",
            Self::NotLeading => "not_leading",
        })
    }
}

impl EncodeLabelValue for LookupOutcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(match self {
            Self::Found => "found",
            Self::NotFound => "not_found",
            Self::Unknown => "unknown",
        })
    }
}
