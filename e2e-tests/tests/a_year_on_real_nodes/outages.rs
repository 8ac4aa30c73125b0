//! Nodes that stop working, and come back.

use std::time::Instant;

use pps_e2e::wait::{Progress, wait_for};

use super::{RECOVERY, Stage};
use crate::support::{note, places};

/// Nothing is deleted: the Pods start again under their UIDs, with their addresses.
pub(super) async fn a_reboot(stage: &Stage<'_>) {
    let before = stage.pods().await;
    let (pod, node) = stage.node_without_the_leader().await;
    stage.nodes().reboot(&node).await.unwrap();
    wait_for(&format!("the container of {pod} to start again"), RECOVERY, async || {
        let now = stage.pool().pod_json(&pod).await;
        let status = &now["status"]["containerStatuses"][0];
        let again = status["restartCount"].as_u64() > Some(0) && status["ready"] == true;
        Ok(Progress::when(again, (), status))
    })
    .await
    .unwrap_or_else(|error| panic!("{error:#}\n{}", stage.nodes().log(&node, "kubelet")));
    stage.are_back(&places(&before)).await;
    let after = stage.pods().await;
    assert!(before.iter().all(|(name, pod)| after[name].uid == pod.uid), "{before:?} {after:?}");
}

/// Its Pods are no longer Ready, but nobody deletes them.
pub(super) async fn a_frozen_node(stage: &Stage<'_>) {
    let before = stage.places().await;
    let (_, node) = stage.node_without_the_leader().await;
    stage.nodes().freeze(&node).unwrap();
    stage.nodes().wait_ready(&node, false).await.unwrap();
    stage.nodes().thaw(&node).unwrap();
    stage.nodes().wait_ready(&node, true).await.unwrap();
    stage.are_back(&before).await;
}

/// A Pod on a node without network is deleted. It ends when the network is back, and the next one returns.
pub(super) async fn a_cut_network(stage: &Stage<'_>) {
    let before = stage.places().await;
    let (pod, node) = stage.node_without_the_leader().await;
    stage.nodes().disconnect(&node).unwrap();
    stage.nodes().wait_ready(&node, false).await.unwrap();
    let old = stage.cluster.delete_pods("shop", "db", &[&pod]).await.unwrap().remove(&pod).unwrap();
    stage.nodes().connect(&node).unwrap();
    stage.replaced(&old).await;
    stage.are_back(&before).await;
}

/// The Pods of a node without power terminate until it comes back.
pub(super) async fn a_loss_of_power_with_pods_that_terminate(stage: &Stage<'_>) {
    let before = stage.places().await;
    let (pod, node) = stage.node_without_the_leader().await;
    stage.nodes().power_off(&node).await.unwrap();
    stage.nodes().wait_ready(&node, false).await.unwrap();
    let old = stage.cluster.delete_pods("shop", "db", &[&pod]).await.unwrap().remove(&pod).unwrap();
    assert!(stage.pods().await[&pod].terminating);
    stage.nodes().power_on(&node).unwrap();
    stage.replaced(&old).await;
    stage.are_back(&before).await;
}

/// The standby leads, and Pods of other nodes are re-created as before. The node stays away meanwhile.
pub(super) async fn the_loss_of_the_leaders_node(stage: &Stage<'_>) {
    let before = stage.places().await;
    let node = stage.leaders_node().await;
    let lost = Instant::now();
    stage.nodes().power_off(&node).await.unwrap();
    let old = stage.installation.leader(stage.cluster).await.unwrap();
    wait_for("the standby to lead", RECOVERY, async || {
        let leader = stage.installation.leader(stage.cluster).await?;
        Ok(Progress::when(leader.is_some() && leader != old, (), format!("{leader:?}")))
    })
    .await
    .unwrap();
    note(&format!("the standby leads {:.1?} after the leader's node was lost", lost.elapsed()));
    let (pod, _) = stage.node_without(&node).await;
    let again = stage.pool().recreate("db", &[&pod]).await;
    assert_eq!(places(&again)[&pod], before[&pod]);
    stage.nodes().power_on(&node).unwrap();
    stage.nodes().wait_ready(&node, true).await.unwrap();
    stage.are_back(&before).await;
}

/// Somebody deletes the Node of a machine without power. The Pod that needs this node waits until one of that name
/// comes. The Pod that prefers it moves, and stays where it then is.
pub(super) async fn a_deleted_node_that_comes_back(stage: &Stage<'_>) {
    let before = stage.places().await;
    let (pod, node) = stage.node_without_the_leader().await;
    stage.nodes().power_off(&node).await.unwrap();
    stage.nodes().wait_ready(&node, false).await.unwrap();
    stage.cluster.nodes.delete(&node).await.unwrap();
    let old = stage.pods().await.remove(&pod).unwrap();
    let caches = stage.cluster.pods("shop", "cache").await.unwrap();
    let cache = caches.into_values().find(|cache| cache.node.as_ref() == Some(&node)).unwrap();
    let force = ["delete", "pod", "-n", "shop", &pod, &cache.name, "--force"];
    stage.cluster.control_plane.kubectl(&force).await.unwrap();
    let moved = stage.cluster.wait_ready("shop", "cache", 3, RECOVERY).await.unwrap();
    assert_ne!(moved[&cache.name].node.as_ref(), Some(&node));
    stage.pool().recorded("cache", "cache").await;
    let waiting = stage.replaced(&old).await;
    assert_eq!((waiting.node, waiting.ready), (None, false));
    let recorded = stage.pool().states("db").await;
    assert_eq!(recorded[&pod]["nodeName"], node, "the state must be kept meanwhile");
    stage.nodes().power_on(&node).unwrap();
    stage.nodes().wait_ready(&node, true).await.unwrap();
    stage.are_back(&before).await;
    assert_eq!(places(&stage.pool().ready("cache", 3).await), places(&moved));
}
