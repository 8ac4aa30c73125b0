//! Objects close to the size below which they are kept.

use std::time::Duration;

use kube::api::{DynamicObject, Patch, PatchParams};
use pps_e2e::cluster::{Cluster, SIDECAR};
use serde_json::{Map, Value, json};

use super::permissions;
use crate::support::{
    HOSTNAME, IP_ANNOTATION, Pool, SOON, TIMEOUT, WHILE, ZONE, recording, required, spec_for,
};

/// An entry of a Pod that does not exist. Its annotation is so long, and so unlike others, that the compact
/// form would save little: the object stays plain.
fn entry(number: usize) -> Value {
    let host = format!("ip-10-0-{}-{}.eu-central-1.compute.internal", number / 250, number % 250);
    json!({"nodeName": host, "nodeTopologyLabels": {HOSTNAME: host, ZONE: "eu-central-1a"},
        "annotations": {IP_ANNOTATION: format!("{number:0>800}")}})
}

async fn patch_status(pool: &Pool<'_>, status: &Value) -> Result<DynamicObject, kube::Error> {
    let params = PatchParams { field_manager: Some("someone-else".to_owned()), ..PatchParams::default() };
    let api = pool.cluster.pps_api(pool.namespace);
    api.patch_status("big", &params, &Patch::Merge(json!({"status": status}))).await
}

/// Entries with these numbers.
fn entries(numbers: std::ops::Range<usize>, entry: impl Fn(usize) -> Value) -> Value {
    let states: Map<String, Value> = numbers.map(|number| (format!("big-{number}"), entry(number))).collect();
    json!({"podStates": states})
}

fn has(object: &DynamicObject, reason: &str) -> bool {
    recording(object)["reason"] == reason
}

pub(crate) async fn reports_a_full_object_and_records_others(cluster: &Cluster) {
    let pool = Pool::new(cluster, "size", 3, 1).await;
    let spec = json!({"requiredPersistentTopology": {"nodeTopologyKeys": [HOSTNAME]},
        "persistentPodAnnotations": [{"key": IP_ANNOTATION}],
        "persistentPodStateRetentionPolicy": "WhenDeleted"});
    pool.object("big", &spec_for("big", &spec)).await;
    cluster.run_stateful_set(&pool.stateful_set("big", 1)).await.unwrap();
    pool.recorded("big", "big").await;

    // More than a thousand entries are restored.
    patch_status(&pool, &entries(1000..1880, entry)).await.unwrap();
    let pps = pool.wait_for_object("big", "the warning", SOON, |pps| has(pps, "NearCapacity")).await;
    let condition = recording(&pps);
    assert_eq!(condition["status"], "True");
    let message = condition["message"].as_str().unwrap();
    assert!(message.starts_with("split the workload"), "{message}");
    assert!(message.contains("881 states take 90 % of the 1000 KiB"), "{message}");
    assert!(pool.event("big", "NearCapacity").await.contains("split the workload"));

    // Another client goes beyond. One more Pod is not recorded. Other objects are, as before.
    patch_status(&pool, &entries(1880..2100, entry)).await.unwrap();
    pool.scale("big", 2).await;
    pool.ready("big", 2).await;
    pool.wait_for_object("big", "the refusal", SOON, |pps| has(pps, "CapacityExceeded")).await;
    pool.object("small", &required("small", &[HOSTNAME])).await;
    cluster.run_stateful_set(&pool.stateful_set("small", 1)).await.unwrap();
    pool.recorded_within("small", "small", SOON).await;
    tokio::time::sleep(WHILE).await;
    let writes = permissions::writes(cluster, SIDECAR).len();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(permissions::writes(cluster, SIDECAR).len() <= writes + 3, "nothing is tried again and again");
    assert!(!pool.states("big").await.contains_key("big-1"));

    // So many entries are removed that it fits.
    patch_status(&pool, &entries(1000..1180, |_| Value::Null)).await.unwrap();
    pool.wait_for_object("big", "the second Pod to be recorded", TIMEOUT, |pps| {
        pps.data["status"]["podStates"]["big-1"].is_object()
    })
    .await;

    // The object shrinks: everything is recorded again, and what others wrote is kept.
    let foreign = json!({"podStates": entries(1200..2100, |_| Value::Null)["podStates"], "conditions": [
        {"type": "Theirs", "status": "True", "reason": "R", "message": "theirs", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    patch_status(&pool, &foreign).await.unwrap();
    let pps = pool
        .wait_for_object("big", "everything to be recorded", TIMEOUT, |pps| {
            has(pps, "AllRecorded") && pps.data["status"]["podStates"]["big-1"].is_object()
        })
        .await;
    assert!(
        pps.data["status"]["conditions"].to_string().contains("Theirs"),
        "{}",
        pps.data["status"]["conditions"]
    );
    assert!(pps.data["status"]["podStates"]["big-1199"].is_object());
    cluster.delete_stateful_set("size", "big", false).await.unwrap();
}
