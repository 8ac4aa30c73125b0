//! What the document lists as away.

use super::Reader;
use crate::support::{Pool, ZONE, homes, installed::Installed, required};

/// Pods in a zone that a PersistentPodState requires are where they belong, on whichever node.
pub(super) async fn pods_in_their_zone_are_where_they_belong(installed: &Installed, reader: &Reader) {
    let pool = Pool::new(&installed.cluster, "zonal", 3, 1).await;
    pool.object("web", &required("web", &[ZONE])).await;
    installed.cluster.run_stateful_set(&pool.stateful_set("web", 1)).await.unwrap();
    pool.recorded("web", "web").await;
    reader.play("keep").await;
    installed.wait_for_sidecars(0).await;
    let node = homes(&installed.cluster.pods("zonal", "web").await.unwrap())["web-0"].clone();
    pool.load(&node).await;
    installed.cluster.delete_pods("zonal", "web", &["web-0"]).await.unwrap();
    let pod = pool.ready("web", 1).await.remove("web-0").unwrap();
    assert_ne!(pod.node, Some(node), "the scheduler prefers the nodes that are not loaded");
    assert_eq!(reader.play("away").await, "");
    reader.play("record").await;
    installed.wait_for_sidecars(2).await;
}
