//! An upgrade from the chart as it was when there was one policy for everything, on the PolicyServer `default`.
//!
//! `fixtures/chart-before-two-policies.tgz` is that chart, without the parts that no default installs.

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use pps_e2e::{
    cluster::{Cluster, pps_resource},
    kubewarden::{Controller, NAMESPACE, Policy, SERVICE_ACCOUNT, stand_in::PolicyModule},
    repository::{policy_path, repository_file},
    scratch::Scratch,
};
use serde_json::{Value, json};

use super::release::Release;

fn former_chart() -> Scratch {
    let folder = Scratch::folder("former").unwrap();
    let archive = repository_file("e2e-tests/fixtures/chart-before-two-policies.tgz");
    let unpacked =
        Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder.path()).status().unwrap();
    assert!(unpacked.success());
    folder
}

fn pod(name: &str, owners: &Value) -> Pod {
    let pod = json!({"metadata": {"name": name, "ownerReferences": owners,
            "labels": {"statefulset.kubernetes.io/pod-name": name}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/main"}]}});
    serde_json::from_value(pod).unwrap()
}

/// Serves the installed policy with the permissions of its PolicyServer, as long as the cluster runs.
async fn serve(cluster: &mut Cluster, account: &str) -> Result<()> {
    let object =
        cluster.control_plane.kubectl(&["get", "clusteradmissionpolicy", "persistent-pod-state", "-o=json"]);
    let policy = Policy::new(serde_json::from_str(&object.await?)?);
    let token = cluster.control_plane.service_account_token(NAMESPACE, account).await?;
    let kubeconfig = cluster.control_plane.kubeconfig_with_token(account, &token)?;
    let module = PolicyModule::load_file(&policy_path())?;
    cluster.start_installed_webhook(&module, vec![policy], &kubeconfig).await
}

/// Creates Pods (as a dry run) until it is stopped, and returns how many, and what was refused.
struct Creations {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<(usize, Vec<String>)>,
}

impl Creations {
    fn start(cluster: &Cluster) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let client = cluster.client();
        let task = tokio::spawn(async move {
            let pods: Api<Pod> = Api::namespaced(client, "default");
            let dry = PostParams { dry_run: true, ..PostParams::default() };
            let owned = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u1",
                "controller": true}]);
            let (mut created, mut refused) = (0, Vec::new());
            while !stopped.load(Ordering::Relaxed) {
                for pod in [pod("of-others", &json!([])), pod("web-0", &owned)] {
                    match pods.create(&dry, &pod).await {
                        Ok(_) => created += 1,
                        Err(error) => refused.push(error.to_string()),
                    }
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            (created, refused)
        });
        Self { stop, task }
    }

    async fn stop(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_keeps_the_recorded_states_and_refuses_no_pod() {
    let mut cluster = Cluster::builder().without_crd().start().await.unwrap();
    let _kubewarden = Controller::install(&cluster).await.unwrap();
    let folder = former_chart();
    let former = Release::of(&cluster, &folder.path().join("persistent-pod-state"));
    former.run("install", json!({}));
    serve(&mut cluster, SERVICE_ACCOUNT).await.unwrap();

    let states: Api<DynamicObject> = Api::namespaced_with(cluster.client(), "default", &pps_resource());
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"name": "web"}, "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["kubernetes.io/hostname"]}}});
    cluster.apply_objects(&[object]).await.unwrap();
    let recorded = json!({"podStates": {"web-0":
        {"nodeName": "node-1", "nodeTopologyLabels": {"kubernetes.io/hostname": "node-1"}}}});
    let status = Patch::Merge(json!({"status": recorded}));
    let stored = states.patch_status("web", &PatchParams::default(), &status).await.unwrap();

    let creations = Creations::start(&cluster);
    let release = Release::new(&cluster);
    // The policy is installed on `default`, and the new default is another one.
    let refusal = release.try_run("upgrade", json!({})).unwrap_err();
    assert!(format!("{refusal:#}").contains("nothing was changed"), "{refusal:#}");
    release.run("upgrade", json!({"policyServer": {"create": false}, "policy": {"policyServer": "default"}}));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (created, refused) = creations.stop().await;
    assert!(created > 10 && refused.is_empty(), "{created} {refused:?}");
    let now = states.get("web").await.unwrap();
    assert_eq!(now.data["status"], stored.data["status"]);
    assert_eq!(now.metadata.uid, stored.metadata.uid);
}

impl<'a> Release<'a> {
    /// Of another chart.
    fn of(cluster: &'a Cluster, chart: &Path) -> Self {
        Self { cluster, chart: super::release::chart_for(chart, cluster.control_plane.version()) }
    }
}
