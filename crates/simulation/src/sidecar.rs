//! The sidecar: it generates objects, records, drops states and evicts Pods. What it decides, it decides by the
//! functions of `pps-core`; here it has what it needs to know, and nothing that it knows is late.

mod eviction;
mod generated;
mod recording;

use pps_core::TargetReference;
use pps_core::alias::precedence;
use pps_core::generate::second_name;

pub(crate) use self::eviction::evict;
use crate::cluster::Cluster;

/// Lets the sidecar examine what has changed. Returns whether it has changed something itself.
pub(crate) fn react(cluster: &mut Cluster) -> bool {
    let dirty = std::mem::take(&mut cluster.dirty);
    if !dirty.all && dirty.pods.is_empty() {
        return false;
    }
    let has_generated = dirty.all && generated::react(cluster);
    recording::react(cluster, &dirty) || has_generated
}

/// The name of the PPS that governs a workload.
fn governing(cluster: &Cluster, workload: &TargetReference) -> Option<String> {
    let second = second_name(workload);
    cluster
        .pps
        .iter()
        .filter(|(_, pps)| !pps.is_alias() && pps.target.is_same_workload(workload))
        .min_by_key(|(name, pps)| precedence(&workload.name, &second, name, pps.created()))
        .map(|(name, _)| name.clone())
}
