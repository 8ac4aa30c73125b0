//! OpenKruise's CRD, which has fewer fields, and its manager, which records states as well.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use pps_e2e::{
    cluster::{Cluster, SIDECAR},
    manifests,
    repository::repository_file,
    scratch::Scratch,
    sidecar::SidecarOptions,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::permissions;
use crate::support::{
    HOSTNAME, IP_ANNOTATION, Pool, SOON, TIMEOUT, WHILE, ZONE, homes, places, required, spec_for,
};

/// A CRD like OpenKruise's: ours without the fields and the rules that only ours has.
pub(crate) fn definition() -> Scratch {
    let mut definition = manifests::read(&repository_file("deploy/base/crd.yaml"))
        .unwrap()
        .remove(0);
    manifests::render::remove_rules(&mut definition);
    definition["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .truncate(1);
    let version = &mut definition["spec"]["versions"][0];
    version
        .as_object_mut()
        .unwrap()
        .remove("additionalPrinterColumns");
    let properties = &mut version["schema"]["openAPIV3Schema"]["properties"];
    let remove = |object: &mut Value, field: &str| {
        assert!(
            object.as_object_mut().unwrap().remove(field).is_some(),
            "the CRD has no {field}"
        );
    };
    let spec = &mut properties["spec"]["properties"];
    remove(spec, "nodeDeletionPolicy");
    remove(spec, "recordingPolicy");
    remove(
        &mut spec["persistentPodAnnotations"]["items"]["properties"],
        "valueFrom",
    );
    spec["persistentPodStateRetentionPolicy"]["enum"] = json!(["WhenScaled", "WhenDeleted"]);
    let status = &mut properties["status"]["properties"];
    for field in ["targetUID", "recorded", "desired", "conditions", "packed"] {
        remove(status, field);
    }
    remove(&mut status["podStates"], "x-kubernetes-map-type");
    Scratch::file("openkruise.yaml", definition.to_string()).unwrap()
}

/// Replaces our definition by OpenKruise's while no sidecar runs, and starts the sidecar again.
pub(crate) async fn install_definition(cluster: &Cluster) {
    let theirs = definition();
    let path = theirs.path().to_str().unwrap();
    cluster
        .control_plane
        .kubectl(&["replace", "-f", path])
        .await
        .unwrap();
    let sidecar = cluster.sidecar().unwrap();
    sidecar.start_again().unwrap();
    sidecar.wait_ready(TIMEOUT).await.unwrap();
}

/// Waits until the sidecar has written nothing for five seconds. On a busy machine its last writes
/// may come late.
async fn stops_writing(cluster: &Cluster) {
    let writes = || permissions::writes(cluster, SIDECAR).len();
    let what = "the sidecar to write nothing while nothing changes";
    wait_for(what, TIMEOUT, async || {
        let before = writes();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let more = writes() - before;
        Ok(Progress::when(more == 0, (), format!("{more} writes")))
    })
    .await
    .unwrap();
}

pub(crate) async fn works_when_the_api_server_prunes_fields(cluster: &Cluster) {
    let pool = Pool::new(cluster, "pruned", 6, 2).await;
    let spec = json!({"requiredPersistentTopology": {"nodeTopologyKeys": [ZONE]},
        "preferredPersistentTopology": [{"weight": 100, "preference": {"nodeTopologyKeys": [HOSTNAME]}}],
        "persistentPodAnnotations": [{"key": IP_ANNOTATION}]});
    pool.object("mine", &spec_for("byhand", &spec)).await;
    let by_hand = pool.stateful_set("byhand", 2);
    // This workload uses a field that the API server prunes.
    let annotations = format!("{IP_ANNOTATION}=PodIPsCSV");
    let web = pool
        .stateful_set("web", 2)
        .persistent("", HOSTNAME, &annotations);
    let by_hand = cluster.run_stateful_set(&by_hand).await.unwrap();
    let web = cluster.run_stateful_set(&web).await.unwrap();
    pool.recorded("mine", "byhand").await;
    pool.recorded("web", "web").await;
    let status = pool.pps("web").await.unwrap().data["status"].clone();
    let fields: Vec<_> = status.as_object().unwrap().keys().cloned().collect();
    assert_eq!(
        fields,
        ["observedGeneration", "podStates"],
        "the API server prunes the rest"
    );

    pool.load_all(homes(&by_hand).values().chain(homes(&web).values()))
        .await;
    let again = pool.recreate("byhand", &["byhand-0", "byhand-1"]).await;
    assert_eq!(places(&again), places(&by_hand));
    let again = pool.recreate("web", &["web-0", "web-1"]).await;
    assert_eq!(places(&again), places(&web));
    pool.recorded("mine", "byhand").await;
    pool.recorded("web", "web").await;
    pool.scale("web", 1).await;
    pool.wait_for_entries("web", &["web-0"]).await;

    // The source of the annotation was pruned, and an Event reports it.
    assert_eq!(
        pool.pps("web").await.unwrap().data["spec"]["persistentPodAnnotations"],
        json!([{"key": IP_ANNOTATION}])
    );
    assert!(
        pool.event("web", "InvalidAnnotation")
            .await
            .contains("PodIPsCSV")
    );

    // Writing pruned fields is not retried.
    stops_writing(cluster).await;
    // The number of writes is in proportion to the changes.
    let mine = permissions::writes(cluster, SIDECAR);
    let mine = mine
        .iter()
        .filter(|event| event["objectRef"]["namespace"] == pool.namespace)
        .count();
    assert!(mine < 60, "{mine} writes for a dozen Pods");

    // Nor is it after a restart, which loses the memory of the attempt.
    let sidecar = cluster.sidecar().unwrap();
    sidecar.terminate(Duration::from_secs(10)).await.unwrap();
    sidecar.start_again().unwrap();
    sidecar.wait_ready(Duration::from_secs(20)).await.unwrap();
    stops_writing(cluster).await;
    pool.recorded("web", "web").await;
}

/// The options of a sidecar that leaves recording to OpenKruise's manager.
pub(crate) fn non_recording() -> SidecarOptions {
    let args = ["--recorder", "openkruise"].map(str::to_owned);
    SidecarOptions {
        args: args.into(),
        ..SidecarOptions::default()
    }
}

/// The Lease of OpenKruise's manager.
pub(crate) const LEASE: &str = "kruise-manager";

/// Renews it indefinitely, as that manager does.
pub(crate) async fn renew(cluster: &Cluster) {
    cluster.namespace("kruise-system").await.unwrap();
    loop {
        let now = format!("{:.6}", Timestamp::now());
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": "kruise-system"},
            "spec": {"holderIdentity": "kruise-controller-manager-0_1", "leaseDurationSeconds": 15, "renewTime": now}});
        cluster.apply_objects(&[lease]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

/// The manager itself does not run here. That a sidecar with `--recorder openkruise` sees it is
/// shown in `alerts.rs`; that a sidecar that records sees it and publishes an Event, in
/// `least_privilege.rs`.
pub(crate) async fn leaves_recording_to_openkruises_manager(cluster: &Cluster) {
    let pool = Pool::new(cluster, "beside", 3, 1).await;
    let recording = cluster.sidecar().unwrap();
    recording.terminate(SOON).await.unwrap();
    let former = permissions::requests(cluster).len();
    let options = SidecarOptions {
        name: "beside".to_owned(),
        ..non_recording()
    };
    let sidecar = cluster.run_sidecar(options).unwrap();
    sidecar.wait_ready(TIMEOUT).await.unwrap();

    // Nothing is recorded or generated, and only the Lease is read.
    pool.object("mine", &required("mine", &[HOSTNAME])).await;
    cluster
        .run_stateful_set(&pool.stateful_set("mine", 1))
        .await
        .unwrap();
    let web = pool
        .stateful_set("web", 1)
        .persistent(ZONE, HOSTNAME, IP_ANNOTATION);
    cluster.run_stateful_set(&web).await.unwrap();
    tokio::time::sleep(WHILE).await;
    assert_eq!(pool.pps("mine").await.unwrap().data.get("status"), None);
    assert!(pool.pps("web").await.is_err());
    let requests: std::collections::BTreeSet<String> = permissions::requests(cluster)
        .iter()
        .skip(former)
        .filter(|event| !event["objectRef"].is_null())
        .map(|event| format!("{} {}", event["verb"], event["objectRef"]["name"]))
        .collect();
    assert_eq!(Vec::from_iter(requests), [r#""get" "kruise-manager""#]);
    assert_eq!(
        sidecar.metric("persistentpodstate_leader").await.unwrap(),
        Some(0.0)
    );

    // The usual sidecar records the state and generates the object: nothing but `--recorder
    // openkruise` has kept the other one from it.
    sidecar.terminate(SOON).await.unwrap();
    recording.start_again().unwrap();
    recording.wait_ready(TIMEOUT).await.unwrap();
    pool.recorded("mine", "mine").await;
    pool.recorded("web", "web").await;
}
