//! Objects that come near the size that the API server stores.

use kube::api::{DynamicObject, Patch, PatchParams};
use pps_e2e::cluster::{Cluster, SIDECAR};
use serde_json::{Map, Value, json};

use crate::{
    rights,
    support::{
        HOSTNAME, IP_ANNOTATION, Pool, SOON, TIMEOUT, WHILE, ZONE, list, recording, required, spec_for,
    },
};

/// An annotation with much in it.
const LARGE: &str = "example.io/large";

/// An entry of a Pod that is gone, as large as most are.
fn entry(number: usize) -> Value {
    let host = format!("ip-10-0-{}-{}.eu-central-1.compute.internal", number / 250, number % 250);
    json!({"nodeName": host, "nodeTopologyLabels": {HOSTNAME: host, ZONE: "eu-central-1a"},
        "annotations": {IP_ANNOTATION: format!("10.16.{}.{}", number / 250, number % 250)}})
}

async fn patch_status(pool: &Pool<'_>, status: &Value) -> Result<DynamicObject, kube::Error> {
    let params = PatchParams { field_manager: Some("somebody".to_owned()), ..PatchParams::default() };
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

pub(crate) async fn an_object_that_is_full_warns_and_goes_on(cluster: &Cluster) {
    let pool = Pool::new(cluster, "size", 3, 1).await;
    let spec = json!({"requiredPersistentTopology": {"nodeTopologyKeys": [HOSTNAME]},
        "persistentPodAnnotations": [{"key": LARGE}],
        "persistentPodStateRetentionPolicy": "WhenDeleted"});
    pool.object("big", &spec_for("big", &spec)).await;
    let template = json!({"metadata": {"annotations": {LARGE: "x".repeat(120 * 1024)}}});
    cluster.run_stateful_set(&pool.stateful_set("big", 1).template(&template)).await.unwrap();
    pool.recorded("big", "big").await;

    // Somebody restores what was recorded of thousands of Pods.
    patch_status(&pool, &entries(1000..6000, entry)).await.unwrap();
    let pps = pool.wait_for_object("big", "the warning", SOON, |pps| has(pps, "ObjectNearlyFull")).await;
    let condition = recording(&pps);
    assert_eq!(condition["status"], "True");
    let message = condition["message"].as_str().unwrap();
    assert!(message.starts_with("5001 states take 90 % of the 1536 KiB"), "{message}");
    assert!(pool.event("big", "ObjectNearlyFull").await.contains("split the workload"));

    // There is no room for another Pod. That is told, and others go on.
    pool.scale("big", 2).await;
    pool.ready("big", 2).await;
    let pps =
        pool.wait_for_object("big", "the object to be full", TIMEOUT, |pps| has(pps, "ObjectFull")).await;
    assert_eq!((&recording(&pps)["status"], &pps.data["status"]["desired"]), (&json!("False"), &json!(2)));
    assert!(pool.event("big", "ObjectFull").await.contains("does not store more than these 5001 states"));
    pool.object("small", &required("small", &[HOSTNAME])).await;
    cluster.run_stateful_set(&pool.stateful_set("small", 1)).await.unwrap();
    pool.recorded_within("small", "small", SOON).await;

    // It does not try again and again.
    let metric = r#"pps_writes_total{what="status",outcome="too_large"}"#;
    let refused = async || cluster.sidecar().unwrap().metric(metric).await.unwrap().unwrap_or_default();
    let (before, writes) = (refused().await, rights::writes(cluster, SIDECAR).len());
    assert!(before > 0.0);
    tokio::time::sleep(WHILE).await;
    assert_eq!((refused().await, rights::writes(cluster, SIDECAR).len()), (before, writes));
    assert!(!pool.states("big").await.contains_key("big-1"));

    // Some entries go: that makes room. What others wrote is still there.
    let conditions = json!([{"type": "Theirs", "status": "True", "reason": "R", "message": "theirs",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let mut fewer = entries(1000..1100, |_| Value::Null);
    fewer["conditions"] = conditions;
    patch_status(&pool, &fewer).await.unwrap();
    let all = |pps: &DynamicObject| {
        has(pps, "ObjectNearlyFull") && pps.data["status"]["podStates"]["big-1"].is_object()
    };
    let pps = pool.wait_for_object("big", "the second Pod to be recorded", TIMEOUT, all).await;
    assert!(list(&pps.data["status"]["conditions"]).any(|one| one["type"] == "Theirs"));
    patch_status(&pool, &entries(1100..6000, |_| Value::Null)).await.unwrap();
    pool.wait_for_object("big", "all to be well", TIMEOUT, |pps| has(pps, "Recording")).await;
    pool.wait_for_entries("big", &["big-0", "big-1"]).await;
}
