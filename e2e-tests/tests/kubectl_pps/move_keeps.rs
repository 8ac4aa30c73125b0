//! What `move` keeps: required values that are not given up by name, and what its mark does.

use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use pps_core::{MOVE_ANNOTATION, RECORD_ANNOTATION};
use pps_e2e::cluster::Cluster;
use serde_json::json;

use super::move_pod::{pinned, run};
use crate::support::{HOSTNAME, Pool, TIMEOUT, ZONE, homes, required};

pub(super) async fn a_required_zone_is_given_up_only_by_name(cluster: &Cluster) {
    let pool = Pool::new(cluster, "mv-zone", 3, 2).await;
    pool.object("web", &required("web", &[ZONE, HOSTNAME])).await;
    // Nodes 0 and 2 are in one zone.
    cluster.nodes.cordon("mv-zone-1").await.unwrap();
    let before = cluster.run_stateful_set(&pool.stateful_set("web", 1)).await.unwrap();
    pool.recorded("web", "web").await;
    let home = homes(&before)["web-0"].clone();
    let other = if home == "mv-zone-0" { "mv-zone-2" } else { "mv-zone-0" };
    cluster.nodes.cordon(&home).await.unwrap();
    cluster.nodes.uncordon("mv-zone-1").await.unwrap();

    let args = ["move", "--node", &home, "--anywhere", "--yes"];
    let moved = run(&pool, &args).await;
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    assert_eq!(homes(&pool.ready("web", 1).await)["web-0"], other);
    let states = pool.recorded("web", "web").await;
    assert_eq!(states["web-0"]["nodeName"], other);

    cluster.nodes.cordon(other).await.unwrap();
    let refused = run(&pool, &["move", "web-0", "--anywhere", "--yes"]).await;
    let expected = "no node with zone=mv-zone-zone-0 can take Pod web-0, and --any zone gives that up:";
    assert_eq!((refused.exit_code, refused.stderr.contains(expected)), (1, true), "{refused:?}");
    assert_eq!(pool.states("web").await["web-0"]["nodeName"], other, "nothing was changed");
    let wrong = run(&pool, &["move", "web-0", "--anywhere", "--any", "zoen", "--yes"]).await;
    let expected = "no PersistentPodState names the node label zoen";
    assert_eq!((wrong.exit_code, wrong.stderr.contains(expected)), (2, true), "{wrong:?}");
    let moved = run(&pool, &["move", "web-0", "--anywhere", "--any", "zone", "--yes"]).await;
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    assert!(moved.stdout.contains("gives up  zone=mv-zone-zone-0, which is required now"), "{moved:?}");
    assert_eq!(homes(&pool.ready("web", 1).await)["web-0"], "mv-zone-1");

    // Nobody knows this node.
    let wrong = run(&pool, &["move", "--node", "mv-zone-9", "--anywhere", "--yes"]).await;
    let expected = "there is no node mv-zone-9";
    assert_eq!((wrong.exit_code, wrong.stderr.contains(expected)), (2, true), "{wrong:?}");
}

pub(super) async fn a_move_that_was_killed_is_finished_or_called_off(cluster: &Cluster) {
    let (pool, before) = pinned(cluster, "mv-mark", 2).await;
    let api: Api<Pod> = Api::namespaced(cluster.client(), "mv-mark");
    pool.annotate_pod("web-0", &json!({RECORD_ANNOTATION: "false", MOVE_ANNOTATION: "recorded"})).await;
    let home = &homes(&before)["web-0"];
    let explained = run(&pool, &["explain", "web-0"]).await;
    assert!(explained.stdout.contains(&format!("kubectl pps move web-0 --to {home}")), "{explained:?}");
    let off = run(&pool, &["move", "web-0", "--to", home, "--yes"]).await;
    assert_eq!(off.exit_code, 0, "{off:?}");
    // The same command finishes it.
    pool.ready("web", 2).await;
    pool.recorded("web", "web").await;
    pool.annotate_pod("web-0", &json!({RECORD_ANNOTATION: "false", MOVE_ANNOTATION: "recorded"})).await;
    let uid = api.get("web-0").await.unwrap().metadata.uid;
    let moved = run(&pool, &["move", "web-0", "--anywhere", "--yes"]).await;
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    assert_ne!(api.get("web-0").await.unwrap().metadata.uid, uid);
    cluster
        .wait_for_pods("mv-mark", "web", "all to be Ready", TIMEOUT, |pods| {
            pods.values().all(|pod| pod.ready)
        })
        .await
        .unwrap();
}
