//! `recordingPolicy: IfNotPresent`: the first place of a Pod stays its home.

use kube::api::{Patch, PatchParams};
use pps_e2e::cluster::Cluster;
use serde_json::json;

use crate::support::{HOSTNAME, MARKER, Pool, WHILE, spec_for};

pub(crate) async fn goes_home_after_a_drain(cluster: &Cluster) {
    let pool = Pool::new(cluster, "homes", 3, 3).await;
    let preferred = json!([{"weight": 100, "preference": {"nodeTopologyKeys": [HOSTNAME]}}]);
    let spec = json!({"preferredPersistentTopology": preferred, "recordingPolicy": "IfNotPresent"});
    pool.object("db", &spec_for("db", &spec)).await;
    cluster.run_stateful_set(&pool.stateful_set("db", 1)).await.unwrap();
    let state = pool.recorded("db", "db").await["db-0"].clone();
    let home = state["nodeName"].as_str().unwrap();

    cluster.nodes.cordon(home).await.unwrap();
    let away = pool.recreate("db", &["db-0"]).await["db-0"].clone();
    assert_ne!(away.node.as_deref(), Some(home), "no Pod starts there");
    tokio::time::sleep(WHILE).await;
    assert_eq!(pool.states("db").await["db-0"], state, "its home stays");

    cluster.nodes.uncordon(home).await.unwrap();
    let back = pool.recreate("db", &["db-0"]).await["db-0"].clone();
    assert_eq!(back.node.as_deref(), Some(home), "it goes home at its next creation");
    assert!(back.annotations.contains_key(MARKER), "{back:?}");

    // Without a node, as `kubectl pps move` leaves it, the state follows the Pod.
    cluster.nodes.cordon(home).await.unwrap();
    let away = pool.recreate("db", &["db-0"]).await["db-0"].clone();
    let emptied = Patch::Merge(json!({"status": {"podStates": {"db-0": {"nodeName": null}}}}));
    cluster.pps_api("homes").patch_status("db", &PatchParams::default(), &emptied).await.unwrap();
    assert_eq!(pool.recorded("db", "db").await["db-0"]["nodeName"], json!(away.node));
    cluster.nodes.uncordon(home).await.unwrap();
}
