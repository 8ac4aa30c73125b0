//! On a cluster with OpenKruise's definition, which knows fewer fields.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use pps_e2e::{
    cluster::{Cluster, SIDECAR, repository_file},
    manifests,
    sidecar::SidecarOptions,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::rights;
use crate::support::{
    HOSTNAME, IP_ANNOTATION, Pool, SOON, TIMEOUT, WHILE, ZONE, homes, places, required, spec_for,
};

/// A file that goes when this is dropped.
pub(crate) struct Definition(PathBuf);

impl Definition {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Definition {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Our definition without what is only in ours.
pub(crate) fn definition() -> Definition {
    let mut definition = manifests::read(&repository_file("deploy/base/crd.yaml")).unwrap().remove(0);
    let version = &mut definition["spec"]["versions"][0];
    version.as_object_mut().unwrap().remove("additionalPrinterColumns");
    let properties = &mut version["schema"]["openAPIV3Schema"]["properties"];
    let remove = |object: &mut Value, field: &str| {
        assert!(object.as_object_mut().unwrap().remove(field).is_some(), "the definition has no {field}");
    };
    let spec = &mut properties["spec"]["properties"];
    remove(spec, "nodeDeletionPolicy");
    remove(&mut spec["persistentPodAnnotations"]["items"]["properties"], "valueFrom");
    spec["persistentPodStateRetentionPolicy"]["enum"] = json!(["WhenScaled", "WhenDeleted"]);
    let status = &mut properties["status"]["properties"];
    for field in ["targetUID", "recorded", "desired", "conditions"] {
        remove(status, field);
    }
    remove(&mut status["podStates"], "x-kubernetes-map-type");
    let path = std::env::temp_dir().join(format!("pps-e2e-openkruise-{}.yaml", std::process::id()));
    fs::write(&path, definition.to_string()).unwrap();
    Definition(path)
}

pub(crate) async fn pruned_fields_are_not_missed(cluster: &Cluster) {
    let pool = Pool::new(cluster, "pruned", 6, 2).await;
    let spec = json!({"requiredPersistentTopology": {"nodeTopologyKeys": [ZONE]},
        "preferredPersistentTopology": [{"weight": 100, "preference": {"nodeTopologyKeys": [HOSTNAME]}}],
        "persistentPodAnnotations": [{"key": IP_ANNOTATION}]});
    pool.object("mine", &spec_for("byhand", &spec)).await;
    let by_hand = pool.stateful_set("byhand", 2);
    // This one asks for a field that the API server will drop.
    let annotations = format!("{IP_ANNOTATION}=PodIPsCSV");
    let web = pool.stateful_set("web", 2).persistent("", HOSTNAME, &annotations);
    let by_hand = cluster.run_stateful_set(&by_hand).await.unwrap();
    let web = cluster.run_stateful_set(&web).await.unwrap();
    pool.recorded("mine", "byhand").await;
    pool.recorded("web", "web").await;
    let status = pool.pps("web").await.unwrap().data["status"].clone();
    let fields: Vec<_> = status.as_object().unwrap().keys().cloned().collect();
    assert_eq!(fields, ["observedGeneration", "podStates"], "the API server prunes the rest");

    pool.load_all(homes(&by_hand).values().chain(homes(&web).values())).await;
    let again = pool.recreate("byhand", &["byhand-0", "byhand-1"]).await;
    assert_eq!(places(&again), places(&by_hand));
    let again = pool.recreate("web", &["web-0", "web-1"]).await;
    assert_eq!(places(&again), places(&web));
    pool.recorded("mine", "byhand").await;
    pool.recorded("web", "web").await;
    pool.scale("web", 1).await;
    pool.wait_for_entries("web", &["web-0"]).await;

    // The annotation's source was dropped, and its user knows.
    assert_eq!(
        pool.pps("web").await.unwrap().data["spec"]["persistentPodAnnotations"],
        json!([{"key": IP_ANNOTATION}])
    );
    assert!(pool.event("web", "InvalidAnnotation").await.contains("PodIPsCSV"));

    // What cannot be stored is not tried again and again.
    let writes = || rights::writes(cluster, SIDECAR).len();
    tokio::time::sleep(WHILE).await;
    let before = writes();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(writes(), before, "writes while nothing happens");
    // And over a while in which things happen, there are about as many as there were reasons.
    assert!(before < 60, "{before} writes for a dozen Pods");

    // Nor after a restart, when nothing in memory says that it was tried.
    let sidecar = cluster.sidecar().unwrap();
    sidecar.terminate(Duration::from_secs(10)).await.unwrap();
    sidecar.start_again().unwrap();
    sidecar.wait_ready(Duration::from_secs(20)).await.unwrap();
    tokio::time::sleep(WHILE).await;
    let before = writes();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(writes(), before, "writes while nothing happens");
    pool.recorded("web", "web").await;
}

/// A sidecar that leaves recording to OpenKruise's manager.
pub(crate) fn leaving() -> SidecarOptions {
    let args = ["--recorder", "openkruise"].map(str::to_owned);
    SidecarOptions { args: args.into(), ..SidecarOptions::default() }
}

/// The Lease of OpenKruise's manager.
pub(crate) const LEASE: &str = "kruise-manager";

/// Renews it as that manager does, for ever.
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

pub(crate) async fn recording_is_left_to_its_manager(cluster: &Cluster) {
    let pool = Pool::new(cluster, "beside", 3, 1).await;
    let sidecar = cluster.sidecar().unwrap();
    let told = async |runs: f64| {
        wait_for("the metric to tell of the manager", TIMEOUT, async || {
            let now = cluster.sidecar().unwrap().metric("persistentpodstate_conflicting_recorder").await?;
            Ok(Progress::when(now == Some(runs), (), format!("{now:?}")))
        })
        .await
        .unwrap();
    };
    let scenario = async {
        // Nothing is recorded or made, and nothing but the Lease is asked for.
        pool.object("mine", &required("mine", &[HOSTNAME])).await;
        cluster.run_stateful_set(&pool.stateful_set("mine", 1)).await.unwrap();
        let web = pool.stateful_set("web", 1).persistent(ZONE, HOSTNAME, IP_ANNOTATION);
        cluster.run_stateful_set(&web).await.unwrap();
        told(1.0).await;
        tokio::time::sleep(WHILE).await;
        assert_eq!(pool.pps("mine").await.unwrap().data.get("status"), None);
        assert!(pool.pps("web").await.is_err());
        let asked: std::collections::BTreeSet<String> = rights::requests(cluster)
            .iter()
            .filter(|event| !event["objectRef"].is_null())
            .map(|event| format!("{} {}", event["verb"], event["objectRef"]["name"]))
            .collect();
        assert_eq!(Vec::from_iter(asked), [r#""get" "kruise-manager""#]);
        assert_eq!(sidecar.metric("persistentpodstate_leader").await.unwrap(), Some(0.0));

        // One that records says that it is not alone.
        sidecar.terminate(SOON).await.unwrap();
        let options =
            SidecarOptions { name: "pps-sidecar-recording".to_owned(), ..SidecarOptions::default() };
        let recording = cluster.run_sidecar(options).unwrap();
        recording.wait_ready(TIMEOUT).await.unwrap();
        pool.recorded("mine", "mine").await;
        pool.recorded("web", "web").await;
        let system = Pool { cluster, namespace: "kruise-system" };
        assert!(
            system.event("kruise-manager", "ConflictingRecorder").await.contains("--recorder openkruise")
        );
        assert_eq!(recording.metric("persistentpodstate_conflicting_recorder").await.unwrap(), Some(1.0));
        recording.terminate(SOON).await.unwrap();
    };
    tokio::select! {
        () = scenario => {}
        () = renew(cluster) => {}
    }
}
