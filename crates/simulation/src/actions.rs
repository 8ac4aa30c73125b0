//! What an action changes, before the cluster reacts.

mod change;
mod nodes;
mod pods;
mod workloads;

use pps_core::pps::KIND;

use crate::cluster::Cluster;
use crate::cluster::{fallback, recorder};
use crate::finding::Finding;
use crate::result::EventKind;
use crate::scenario::Action;
use crate::settle::{Scheduling, settle};

/// Does what an action says, and lets the cluster react.
///
/// # Errors
///
/// Why it cannot be done. Nothing has changed then.
pub(crate) fn apply(cluster: &mut Cluster, action: &Action) -> Result<(), Vec<Finding>> {
    cluster.mark_all();
    match action {
        Action::RollOut {} => workloads::roll_out(cluster)?,
        Action::DeletePod { pod } => pods::delete_pod(cluster, pod)?,
        Action::MovePod { pod } => pods::move_pod(cluster, pod)?,
        Action::Cordon { node } => nodes::set_cordoned(cluster, node, true)?,
        Action::Uncordon { node } => nodes::set_cordoned(cluster, node, false)?,
        Action::Drain { node } => nodes::drain(cluster, node)?,
        Action::LoseNode { node } => nodes::lose(cluster, std::slice::from_ref(node))?,
        Action::LoseNodes { nodes } => nodes::lose(cluster, nodes)?,
        Action::ReturnNode { node } => nodes::return_node(cluster, node)?,
        Action::LoseZone { zone } => {
            nodes::in_zone(cluster, zone).and_then(|nodes| nodes::lose(cluster, &nodes))?;
        }
        Action::LabelNode { node, key, value } => {
            nodes::label(cluster, node, key, value.as_deref())?;
        }
        Action::Scale { workload, replicas } => workloads::scale(cluster, workload, *replicas)?,
        Action::RollingUpdate { workload } => workloads::restart(cluster, workload)?,
        Action::ChangeSpec { object } => change::change(cluster, object)?,
        Action::DeleteWorkload { workload } => workloads::delete(cluster, workload)?,
        Action::CreateWorkload { workload } => workloads::create(cluster, workload)?,
        Action::EndGracePeriod {} => end_grace_period(cluster),
        Action::EndFallbackPeriod {} => fallback::end_period(cluster),
    }
    settle(cluster, Scheduling::AllPending);
    Ok(())
}

/// Nodes that are missing have been gone for the grace period, and others are no longer new.
fn end_grace_period(cluster: &mut Cluster) {
    cluster.minutes += 5;
    cluster.settle_nodes();
    recorder::end_grace_period(cluster);
    if cluster.with_pps {
        tell_kept(cluster);
    }
    settle(cluster, Scheduling::AllPending);
    recorder::evict(cluster);
}

/// Says that no state is dropped, if no PPS asks for it.
fn tell_kept(cluster: &mut Cluster) {
    if cluster
        .pps
        .values()
        .any(|pps| pps.object["spec"]["nodeDeletionPolicy"] == "Forget")
    {
        return;
    }
    for name in cluster.pps.keys().cloned().collect::<Vec<_>>() {
        let text = "has nodeDeletionPolicy: Keep, the default, so no state is dropped";
        cluster.tell(EventKind::StatesKept, format!("{KIND}/{name}"), text);
    }
}
