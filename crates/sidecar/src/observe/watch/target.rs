//! What a watch is for: its name in logs and metrics, and what depends on it.

use std::sync::Arc;

use pps_core::kinds;

use crate::observe::discovery::WatchId;

pub(super) struct WatchTarget {
    /// The resource, such as `pods` or `databases.example.io`.
    pub(super) name: Arc<str>,
    pub(super) criticality: Criticality,
}

pub(super) enum Criticality {
    /// The sidecar is not ready without it.
    Essential(&'static str),
    /// Without it, only workloads of this kind are not recorded.
    Optional(WatchId),
}

impl WatchTarget {
    pub(super) fn essential(name: &'static str) -> Self {
        Self { name: name.into(), criticality: Criticality::Essential(name) }
    }

    pub(super) fn optional(id: &WatchId, resource: &kinds::Resource) -> Self {
        Self { name: resource_name(resource), criticality: Criticality::Optional(id.clone()) }
    }
}

/// The name of a custom resource in logs and metrics, such as `databases.example.io`.
pub(crate) fn resource_name(resource: &kinds::Resource) -> Arc<str> {
    format!("{}.{}", resource.plural, resource.group).into()
}
