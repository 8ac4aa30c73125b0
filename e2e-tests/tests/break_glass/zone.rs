//! What the document lists as away.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{Reader, document};
use crate::support::{Pool, ZONE, homes, installed::Installed, required};

/// Pods in a zone that a PersistentPodState requires are where they belong, on whichever node.
pub(super) async fn pods_in_their_zone_are_where_they_belong(
    installed: &Installed,
    reader: &Reader,
) {
    let pool = Pool::new(&installed.cluster, "zonal", 3, 1).await;
    pool.object("web", &required("web", &[ZONE])).await;
    installed
        .cluster
        .run_stateful_set(&pool.stateful_set("web", 1))
        .await
        .unwrap();
    pool.recorded("web", "web").await;
    reader.play("keep").await;
    installed.wait_for_sidecars(0).await;
    let node = homes(&installed.cluster.pods("zonal", "web").await.unwrap())["web-0"].clone();
    pool.load(&node).await;
    installed
        .cluster
        .delete_pods("zonal", "web", &["web-0"])
        .await
        .unwrap();
    let pod = pool.ready("web", 1).await.remove("web-0").unwrap();
    assert_ne!(
        pod.node,
        Some(node),
        "the scheduler prefers the nodes that are not loaded"
    );
    assert_eq!(reader.play("away without the plugin").await, "");
    let (problems, _) = reader.run("away").await;
    let advice = "Ready and recorded elsewhere";
    assert!(
        problems.contains("web-0") && problems.contains(advice) && document().contains(advice),
        "{problems}"
    );

    // One that belongs elsewhere is listed, also where the keys have the spelling of v1beta1.
    let (api, params) = (installed.cluster.pps_api("zonal"), PatchParams::default());
    let spelling =
        json!({"spec": {"requiredPersistentTopology": {"nodeTopologyKeys": null, "keys": [ZONE]}}});
    api.patch("web", &params, &Patch::Merge(spelling))
        .await
        .unwrap();
    let elsewhere =
        json!({"status": {"podStates": {"web-0": {"nodeTopologyLabels": {ZONE: "elsewhere"}}}}});
    api.patch_status("web", &params, &Patch::Merge(elsewhere))
        .await
        .unwrap();
    let away = reader.play("away without the plugin").await;
    assert!(
        away.contains(&format!(
            "zonal/web-0 belongs to {ZONE}=elsewhere and is on"
        )),
        "{away}"
    );
    reader.play("record").await;
    installed.wait_for_sidecars(2).await;
}
