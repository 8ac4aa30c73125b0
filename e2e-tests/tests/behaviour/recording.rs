//! Which states the sidecar records, and when.

use kube::api::DynamicObject;
use pps_e2e::cluster::Cluster;
use serde_json::{Value, json};

use crate::support::{
    HOSTNAME, IP_ANNOTATION, MARKER, Pool, SOON, TIMEOUT, ZONE, homes, recording, spec_for,
};

pub(crate) async fn records_first_pods_without_changing_them(cluster: &Cluster) {
    let pool = Pool::new(cluster, "first", 3, 2).await;
    let web = pool
        .stateful_set("web", 3)
        .persistent(ZONE, HOSTNAME, IP_ANNOTATION);
    let pods = cluster.run_stateful_set(&web).await.unwrap();
    for (name, pod) in &pods {
        let json = pool.pod_json(name).await;
        assert_eq!(
            json["spec"]["affinity"],
            Value::Null,
            "{name} has no state yet"
        );
        assert!(
            !pod.annotations.contains_key(MARKER),
            "{:?}",
            pod.annotations
        );
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
    assert!(
        since
            .as_str()
            .is_some_and(|time| time.len() == 20 && time.ends_with('Z')),
        "{since}"
    );
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
    let pods = cluster
        .run_stateful_set(&pool.stateful_set("web", 2))
        .await
        .unwrap();
    let states = pool.recorded("mine", "web").await;
    assert_eq!(states["web-0"]["annotations"].get(keep), None);

    // A node gets another label.
    let node = homes(&pods)["web-0"].clone();
    cluster
        .nodes
        .label(&node, ZONE, Some("later-zone-new"))
        .await
        .unwrap();
    let states = pool.recorded_within("mine", "web", SOON).await;
    assert_eq!(
        states["web-0"]["nodeTopologyLabels"][ZONE],
        "later-zone-new"
    );

    // An annotation appears after Ready, and another one changes.
    pool.annotate_pod("web-0", &json!({keep: "x", IP_ANNOTATION: "10.9.9.9"}))
        .await;
    let states = pool.recorded_within("mine", "web", SOON).await;
    assert_eq!(
        states["web-0"]["annotations"],
        json!({keep: "x", IP_ANNOTATION: "10.9.9.9"})
    );

    // A blank value does not replace a recorded one. The other annotation shows that the change was
    // seen.
    pool.annotate_pod("web-0", &json!({keep: "y", IP_ANNOTATION: ""}))
        .await;
    let kept = json!({keep: "y", IP_ANNOTATION: "10.9.9.9"});
    pool.wait_for_object("mine", "the other annotation to change", SOON, |pps| {
        pps.data["status"]["podStates"]["web-0"]["annotations"] == kept
    })
    .await;

    // Removing a label removes its recorded value, and the condition names node and key.
    cluster.nodes.label(&node, ZONE, None).await.unwrap();
    let pps = pool
        .wait_for_object(
            "mine",
            "the condition to report the missing label",
            SOON,
            |pps| recording(pps)["reason"] == "TopologyKeyMissing",
        )
        .await;
    let message = recording(&pps)["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains(&node) && message.contains(ZONE),
        "{message}"
    );
    assert_eq!(
        pps.data["status"]["podStates"]["web-0"]
            .get("nodeTopologyLabels")
            .unwrap_or(&json!({})),
        &json!({})
    );
    cluster
        .nodes
        .label(&node, ZONE, Some("later-zone-0"))
        .await
        .unwrap();
    let good = |pps: &DynamicObject| recording(pps)["status"] == "True";
    pool.wait_for_object("mine", "the label to be back", SOON, good)
        .await;
}

/// The warnings in the policy's last response for that Pod.
pub(crate) fn warnings(cluster: &Cluster, namespace: &str, pod: &str) -> String {
    let served = cluster.webhook().unwrap().served();
    let mine = served
        .iter()
        .rfind(|one| one.namespace == namespace && one.name == pod)
        .unwrap();
    mine.evaluation
        .response
        .warnings
        .clone()
        .unwrap_or_default()
        .join("\n")
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
    let before = homes(
        &cluster
            .run_stateful_set(&pool.stateful_set("web", 1))
            .await
            .unwrap(),
    );
    let states = pool.wait_for_entries("web", &["web-0"]).await;
    assert_eq!(
        states["web-0"]["nodeTopologyLabels"],
        json!({HOSTNAME: before["web-0"]})
    );
    pool.load_all(before.values()).await;
    assert_eq!(homes(&pool.recreate("web", &["web-0"]).await), before);
}
