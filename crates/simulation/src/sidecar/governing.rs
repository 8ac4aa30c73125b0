//! Which of several objects governs a workload.

use pps_core::TargetReference;
use pps_core::alias::precedence;
use pps_core::generate::second_name;

use crate::cluster::Cluster;

/// The name of the PPS that governs a workload.
pub(super) fn governing(cluster: &Cluster, workload: &TargetReference) -> Option<String> {
    let second = second_name(workload);
    cluster
        .pps
        .iter()
        .filter(|(_, pps)| pps.target.name == workload.name)
        .filter(|(_, pps)| !pps.is_alias() && pps.target.is_same_workload(workload))
        .min_by_key(|(name, pps)| precedence(&workload.name, &second, name, pps.created()))
        .map(|(name, _)| name.clone())
}
