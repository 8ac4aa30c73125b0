//! The API server refuses a status as too large: here with a `--max-object-size` above what etcd
//! stores. With the default no write gets so far.

use kube::api::{DynamicObject, Patch, PatchParams};
use pps_e2e::{
    cluster::{Cluster, SIDECAR},
    sidecar::SidecarOptions,
    wait::{Progress, wait_for},
};
use serde_json::{Map, Value, json};

use super::permissions;
use crate::support::{HOSTNAME, Pool, SOON, TIMEOUT, WHILE, recording, required, spec_for};

const KEY: &str = "example.io/large";
/// The length of a recorded annotation. etcd stores 1.5 MiB, so six entries fit, and the seventh
/// does not.
const LENGTH: usize = 230 * 1024;

/// Entries of Pods that do not exist, or none in their place.
fn entries(numbers: std::ops::Range<usize>, exist: bool) -> Value {
    let entry = || json!({"nodeName": "elsewhere", "annotations": {KEY: "x".repeat(LENGTH)}});
    let entry = |number| {
        (
            format!("big-{number}"),
            if exist { entry() } else { Value::Null },
        )
    };
    json!({"podStates": numbers.map(entry).collect::<Map<String, Value>>()})
}

async fn patch_status(pool: &Pool<'_>, status: &Value) {
    let api = pool.cluster.pps_api(pool.namespace);
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status("big", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

fn has(object: &DynamicObject, reason: &str) -> bool {
    recording(object)["reason"] == reason
}

pub(crate) async fn reports_a_full_object_and_records_others(cluster: &Cluster) {
    let pool = Pool::new(cluster, "size", 3, 1).await;
    let usual = cluster.sidecar().unwrap();
    usual.terminate(SOON).await.unwrap();
    let args = vec!["--max-object-size=3000".to_owned()];
    let options = SidecarOptions {
        name: "unlimited".to_owned(),
        args,
        ..SidecarOptions::default()
    };
    let sidecar = cluster.run_sidecar(options).unwrap();
    sidecar.wait_ready(TIMEOUT).await.unwrap();
    let spec = json!({"requiredPersistentTopology": {"nodeTopologyKeys": [HOSTNAME]},
        "persistentPodAnnotations": [{"key": KEY}], "persistentPodStateRetentionPolicy": "WhenDeleted"});
    pool.object("big", &spec_for("big", &spec)).await;
    let large = json!({"metadata": {"annotations": {KEY: "x".repeat(LENGTH)}}});
    // The second Pod does not become Ready yet.
    cluster.kubelet.hold("size", "big-1");
    cluster
        .create_stateful_set(&pool.stateful_set("big", 2).template(&large))
        .await
        .unwrap();
    let created = cluster.wait_for_pods("size", "big", "two Pods", TIMEOUT, |pods| pods.len() == 2);
    created.await.unwrap();
    pool.wait_for_entries("big", &["big-0"]).await;
    // Entries are restored.
    patch_status(&pool, &entries(1000..1005, true)).await;
    let restored = |pps: &DynamicObject| pps.data["status"]["recorded"] == 6;
    pool.wait_for_object("big", "the entries to be counted", TIMEOUT, restored)
        .await;

    // One more Pod cannot be recorded. Other objects are, as before.
    cluster.kubelet.release("size", "big-1");
    let full = pool
        .wait_for_object("big", "the refusal", TIMEOUT, |pps| {
            has(pps, "CapacityExceeded")
        })
        .await;
    assert_eq!(recording(&full)["status"], "False");
    assert!(
        sidecar
            .log()
            .contains("the API server refuses a status as too large")
    );
    let refused = "persistentpodstate_writes_total{resource=\"persistentpodstates/status\",\
                   result=\"too_large\"}";
    wait_for("the metric to count it", SOON, async || {
        let refused = sidecar.metric(refused).await?;
        Ok(Progress::when(
            refused.is_some_and(|refused| refused >= 1.0),
            (),
            format!("{refused:?}"),
        ))
    })
    .await
    .unwrap();
    pool.object("small", &required("small", &[HOSTNAME])).await;
    cluster
        .run_stateful_set(&pool.stateful_set("small", 1))
        .await
        .unwrap();
    pool.recorded_within("small", "small", SOON).await;
    tokio::time::sleep(WHILE).await;
    let writes = permissions::writes(cluster, SIDECAR).len();
    tokio::time::sleep(2 * WHILE).await;
    assert!(
        permissions::writes(cluster, SIDECAR).len() <= writes + 3,
        "nothing is tried again and again"
    );
    assert!(!pool.states("big").await.contains_key("big-1"));

    // Entries are removed, so that it fits.
    patch_status(&pool, &entries(1001..1005, false)).await;
    pool.wait_for_entries("big", &["big-0", "big-1", "big-1000"])
        .await;
    sidecar.terminate(SOON).await.unwrap();
    usual.start_again().unwrap();
    usual.wait_ready(TIMEOUT).await.unwrap();
    usual.wait_leading(TIMEOUT).await.unwrap();

    // By default, four such entries get a warning, and a fifth is not even tried.
    patch_status(&pool, &entries(1001..1002, true)).await;
    pool.event_with("big", "NearCapacity", "4 states take 90 % of the 1000 KiB")
        .await;
    pool.scale("big", 3).await;
    pool.event_with(
        "big",
        "CapacityExceeded",
        "no capacity for more than these 4 states",
    )
    .await;
    pool.wait_for_object("big", "the refusal", SOON, |pps| {
        has(pps, "CapacityExceeded")
    })
    .await;
    assert_eq!(
        usual.metric(refused).await.unwrap(),
        Some(0.0),
        "no write was too large"
    );
    assert!(!pool.states("big").await.contains_key("big-2"));
    cluster
        .delete_stateful_set("size", "big", false)
        .await
        .unwrap();
}
