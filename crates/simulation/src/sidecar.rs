//! The sidecar: it generates objects, records, drops states and evicts Pods. What it decides, it decides by the
//! functions of `pps-core`; here it has what it needs to know, and nothing that it knows is late.

mod eviction;
mod generated;
mod governing;
mod recording;

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
