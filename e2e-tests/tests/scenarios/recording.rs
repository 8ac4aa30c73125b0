//! Which states the sidecar records, and when.

use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use pps_e2e::cluster::Cluster;
use serde_json::{Value, json};

use crate::support::{
    HOSTNAME, IP_ANNOTATION, MARKER, Pool, SOON, TIMEOUT, WHILE, ZONE, homes, recording, required, spec_for,
};

pub(crate) async fn records_first_pods_without_changing_them(cluster: &Cluster) {
    let pool = Pool::new(cluster, "first", 3, 2).await;
    let web = pool.stateful_set("web", 3).persistent(ZONE, HOSTNAME, IP_ANNOTATION);
    let pods = cluster.run_stateful_set(&web).await.unwrap();
    for (name, pod) in &pods {
        let json = pool.pod_json(name).await;
        assert_eq!(json["spec"]["affinity"], Value::Null, "{name} has no state yet");
        assert!(!pod.annotations.contains_key(MARKER), "{:?}", pod.annotations);
    }

    let states = pool.recorded("web", "web").await;
    assert_eq!(states.len(), 3);
    for (name, pod) in &pods {
        let node = pod.node.clone().unwrap();
        let expected = json!({
            "nodeName": node,
            "nodeTopologyLabels": {HOSTNAME: node, ZONE: pool.zone(&node).await},
            "annotations": {IP_ANNOTATION: pod.ip},
        });
        assert_eq!(states[name], expected);
    }
    let pps = pool
        .wait_for_object("web", "three Pods to be recorded", TIMEOUT, |pps| {
            pps.data["status"]["recorded"] == 3
        })
        .await;
    let stateful_set = cluster.stateful_sets("first").get("web").await.unwrap();
    let generation = pps.metadata.generation;
    let since = &recording(&pps)["lastTransitionTime"];
    assert!(since.as_str().is_some_and(|time| time.len() == 20 && time.ends_with('Z')), "{since}");
    let expected = json!({
        "observedGeneration": generation,
        "podStates": states,
        "targetUID": stateful_set.metadata.uid,
        "recorded": 3,
        "desired": 3,
        "conditions": [{"type": "Recording", "status": "True", "reason": "AllRecorded",
            "message": recording(&pps)["message"], "lastTransitionTime": since, "observedGeneration": generation}],
    });
    assert_eq!(pps.data["status"], expected);
}

pub(crate) async fn records_later_changes_of_labels_and_annotations(cluster: &Cluster) {
    let pool = Pool::new(cluster, "later", 2, 1).await;
    let keep = "example.io/later";
    let spec = json!({"requiredPersistentTopology": {"nodeTopologyKeys": [ZONE]},
        "persistentPodAnnotations": [{"key": IP_ANNOTATION}, {"key": keep}]});
    pool.object("mine", &spec_for("web", &spec)).await;
    let pods = cluster.run_stateful_set(&pool.stateful_set("web", 2)).await.unwrap();
    let states = pool.recorded("mine", "web").await;
    assert_eq!(states["web-0"]["annotations"].get(keep), None);

    // A node gets another label.
    let node = homes(&pods)["web-0"].clone();
    cluster.nodes.label(&node, ZONE, Some("later-zone-new")).await.unwrap();
    let states = pool.recorded_within("mine", "web", SOON).await;
    assert_eq!(states["web-0"]["nodeTopologyLabels"][ZONE], "later-zone-new");

    // An annotation appears after Ready, and another one changes.
    pool.annotate_pod("web-0", &json!({keep: "x", IP_ANNOTATION: "10.9.9.9"})).await;
    let states = pool.recorded_within("mine", "web", SOON).await;
    assert_eq!(states["web-0"]["annotations"], json!({keep: "x", IP_ANNOTATION: "10.9.9.9"}));

    // A blank value does not replace a recorded one. The other annotation shows that the change was seen.
    pool.annotate_pod("web-0", &json!({keep: "y", IP_ANNOTATION: ""})).await;
    let kept = json!({keep: "y", IP_ANNOTATION: "10.9.9.9"});
    pool.wait_for_object("mine", "the other annotation to change", SOON, |pps| {
        pps.data["status"]["podStates"]["web-0"]["annotations"] == kept
    })
    .await;

    // Removing a label removes its recorded value, and the condition names node and key.
    cluster.nodes.label(&node, ZONE, None).await.unwrap();
    let pps = pool
        .wait_for_object("mine", "the condition to report the missing label", SOON, |pps| {
            recording(pps)["reason"] == "TopologyKeyMissing"
        })
        .await;
    let message = recording(&pps)["message"].as_str().unwrap().to_owned();
    assert!(message.contains(&node) && message.contains(ZONE), "{message}");
    assert_eq!(
        pps.data["status"]["podStates"]["web-0"].get("nodeTopologyLabels").unwrap_or(&json!({})),
        &json!({})
    );
    cluster.nodes.label(&node, ZONE, Some("later-zone-0")).await.unwrap();
    let good = |pps: &DynamicObject| recording(pps)["status"] == "True";
    pool.wait_for_object("mine", "the label to be back", SOON, good).await;
}

/// A running Pod is moved so: with the annotation, what another client writes into its state stays.
pub(crate) async fn leaves_the_state_of_an_exempt_pod_alone(cluster: &Cluster) {
    let pool = Pool::new(cluster, "exempt", 3, 1).await;
    let named = "example.io/exempt";
    let spec = json!({"requiredPersistentTopology": {"nodeTopologyKeys": [HOSTNAME]},
        "persistentPodAnnotations": [{"key": named}]});
    pool.object("mine", &spec_for("web", &spec)).await;
    let before = homes(&cluster.run_stateful_set(&pool.stateful_set("web", 2)).await.unwrap());
    pool.recorded("mine", "web").await;
    let target =
        (0..3).map(|index| format!("exempt-{index}")).find(|node| !before.values().any(|home| home == node));
    let target = target.unwrap();

    pool.annotate_pod("web-0", &json!({pps_core::RECORD_ANNOTATION: "false"})).await;
    let moved = json!({"nodeName": target, "nodeTopologyLabels": {HOSTNAME: target}});
    write_state(&pool, "web-0", &moved).await;
    // That the other Pod's annotation is recorded shows that the sidecar has seen all this.
    for pod in ["web-0", "web-1"] {
        pool.annotate_pod(pod, &json!({named: "x"})).await;
    }
    pool.wait_for_object("mine", "the other Pod's annotation to be recorded", SOON, |pps| {
        pps.data["status"]["podStates"]["web-1"]["annotations"][named] == "x"
    })
    .await;
    tokio::time::sleep(WHILE).await;
    assert_eq!(pool.states("mine").await["web-0"], moved);

    // The Pod's successor goes there, and is recorded as any other.
    let after = pool.recreate("web", &["web-0"]).await;
    assert_eq!(homes(&after)["web-0"], target);
    pool.annotate_pod("web-0", &json!({named: "y"})).await;
    let states = pool.recorded_within("mine", "web", SOON).await;
    assert_eq!(states["web-0"]["annotations"], json!({named: "y"}));

    // Without the annotation, the Pod itself is recorded again.
    pool.annotate_pod("web-1", &json!({pps_core::RECORD_ANNOTATION: "false"})).await;
    write_state(&pool, "web-1", &json!({"nodeName": null, "nodeTopologyLabels": null, "annotations": null}))
        .await;
    pool.annotate_pod("web-1", &json!({pps_core::RECORD_ANNOTATION: null})).await;
    pool.recorded_within("mine", "web", SOON).await;
}

async fn write_state(pool: &Pool<'_>, pod: &str, state: &Value) {
    let patch = Patch::Merge(json!({"status": {"podStates": {pod: state}}}));
    let api = pool.cluster.pps_api(pool.namespace);
    api.patch_status("mine", &PatchParams::default(), &patch).await.unwrap();
}

pub(crate) async fn records_a_newly_named_topology_key(cluster: &Cluster) {
    let pool = Pool::new(cluster, "newkey", 2, 1).await;
    for index in 0..2 {
        let node = format!("newkey-{index}");
        cluster.nodes.label(&node, "example.io/rack", Some(&format!("rack-{index}"))).await.unwrap();
    }
    pool.object("mine", &required("web", &[ZONE])).await;
    let template = json!({"metadata": {"annotations": {"example.io/never-named": "x"}}});
    let pods = cluster.run_stateful_set(&pool.stateful_set("web", 2).template(&template)).await.unwrap();
    pool.recorded("mine", "web").await;

    // No object named the key or the annotation before.
    let spec = json!({"requiredPersistentTopology": {"nodeTopologyKeys": [ZONE, "example.io/rack"]},
        "persistentPodAnnotations": [{"key": "example.io/never-named"}]});
    let pps = pool.object("mine", &spec_for("web", &spec)).await;
    let states = pool.recorded_within("mine", "web", SOON).await;
    let rack = homes(&pods)["web-0"].replace("newkey-", "rack-");
    assert_eq!(states["web-0"]["nodeTopologyLabels"]["example.io/rack"], json!(rack));
    assert_eq!(states["web-0"]["annotations"], json!({"example.io/never-named": "x"}));
    pool.wait_for_object("mine", "the new generation to be observed", SOON, |now| {
        now.data["status"]["observedGeneration"] == json!(pps.metadata.generation)
    })
    .await;

    // A key that is no longer named is dropped.
    pool.object("mine", &required("web", &["example.io/rack"])).await;
    let states = pool.recorded_within("mine", "web", SOON).await;
    assert_eq!(states["web-0"]["nodeTopologyLabels"], json!({"example.io/rack": rack}));
}

pub(crate) async fn older_of_two_objects_takes_precedence(cluster: &Cluster) {
    let pool = Pool::new(cluster, "two", 2, 1).await;
    pool.object("z-older", &required("web", &[HOSTNAME])).await;
    // Creation times have a resolution of one second.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let web = pool.stateful_set("web", 1);
    let before = cluster.run_stateful_set(&web).await.unwrap();
    pool.recorded("z-older", "web").await;
    wait_for_alias(&pool, "z-older").await;
    let refusal = pool.refusal("a-newer", &required("web", &[ZONE])).await;
    assert!(refusal.contains("it is already the target of PersistentPodState z-older"), "{refusal}");
    pool.refused_object("a-newer", &required("web", &[ZONE])).await;
    let newer = pool
        .wait_for_object("a-newer", "the newer object to report that it is superseded", TIMEOUT, |pps| {
            recording(pps)["reason"] == "Superseded"
        })
        .await;
    assert_eq!(recording(&newer)["status"], "False");
    assert!(recording(&newer)["message"].as_str().unwrap().contains("z-older"), "{}", recording(&newer));
    assert_eq!(newer.data["status"].get("podStates").unwrap_or(&json!({})), &json!({}));

    pool.load(&homes(&before)["web-0"]).await;
    let after = pool.recreate("web", &["web-0"]).await;
    assert_eq!(homes(&after), homes(&before));
    assert_eq!(after["web-0"].annotations[MARKER], "z-older");

    // Once the older object is deleted, the other one takes over.
    cluster.pps_api("two").delete("z-older", &DeleteParams::default()).await.unwrap();
    pool.recorded("a-newer", "web").await;
    wait_for_alias(&pool, "a-newer").await;
    let after = pool.recreate("web", &["web-0"]).await;
    assert_eq!(after["web-0"].annotations[MARKER], "a-newer");
}

/// Waits until the policy finds this object as that of the StatefulSet `web`.
async fn wait_for_alias(pool: &Pool<'_>, pps: &str) {
    pool.wait_for_object("web-bfaad516", "the alias to lead to the governing object", TIMEOUT, |alias| {
        alias.data["spec"]["targetRef"]["name"] == pps
    })
    .await;
}

/// The policy reads the object with the workload's name first and uses it if it targets the workload. The
/// sidecar must record there, even if another object is older.
pub(crate) async fn object_with_the_workloads_name_takes_precedence(cluster: &Cluster) {
    let pool = Pool::new(cluster, "own", 3, 1).await;
    pool.object("older", &required("web", &[HOSTNAME])).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    pool.refused_object("web", &required("web", &[HOSTNAME])).await;
    let before = cluster.run_stateful_set(&pool.stateful_set("web", 1)).await.unwrap();
    let superseded = |pps: &DynamicObject| recording(pps)["reason"] == "Superseded";
    pool.recorded("web", "web").await;
    pool.wait_for_object("older", "the other object to report that it is superseded", TIMEOUT, superseded)
        .await;
    tokio::time::sleep(WHILE).await;
    pool.load(&homes(&before)["web-0"]).await;
    let after = pool.recreate("web", &["web-0"]).await;
    assert_eq!(homes(&after), homes(&before), "{:?}", after["web-0"].annotations);
}

/// The warnings in the policy's last response for that Pod.
pub(crate) fn warnings(cluster: &Cluster, namespace: &str, pod: &str) -> String {
    let served = cluster.webhook().unwrap().served();
    let mine = served.iter().rfind(|one| one.namespace == namespace && one.name == pod).unwrap();
    mine.evaluation.response.warnings.clone().unwrap_or_default().join("\n")
}

pub(crate) async fn records_and_injects_in_the_spelling_of_v1beta1(cluster: &Cluster) {
    let pool = Pool::new(cluster, "beta", 3, 1).await;
    let object = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "PersistentPodState",
    "metadata": {"namespace": pool.namespace, "name": "web"},
    "spec": {
        "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
        "requiredPersistentTopology": {"keys": [HOSTNAME]},
    }});
    cluster.apply_objects(&[object]).await.unwrap();
    let before = homes(&cluster.run_stateful_set(&pool.stateful_set("web", 1)).await.unwrap());
    let states = pool.wait_for_entries("web", &["web-0"]).await;
    assert_eq!(states["web-0"]["nodeTopologyLabels"], json!({HOSTNAME: before["web-0"]}));
    pool.load_all(before.values()).await;
    assert_eq!(homes(&pool.recreate("web", &["web-0"]).await), before);
}
