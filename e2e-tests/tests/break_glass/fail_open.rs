//! Which changes reach the webhook while a Pod of the PolicyServer is not ready.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use pps_e2e::{
    cluster::{Cluster, StatefulSetSpec},
    kubewarden::{NAMESPACE as KUBEWARDEN, install_definitions, reconciler::Reconciler},
    manifests::{self, render::render_kustomize},
    repository::repository_file,
    wait::{Progress, wait_for},
};
use serde_json::json;

use super::{NO_ANSWER, Reader, commands};
use crate::support::{Pool, TIMEOUT};

const SERVER: &str = "persistent-pod-state";
const CUSTOM: &str =
    "deploy/components/custom-workloads/cluster-admission-policy-custom-workloads.yaml";

/// The policies, also the one for custom kinds, on a PolicyServer with two Pods that nothing can
/// reach.
async fn install(cluster: &Cluster) -> Reconciler {
    install_definitions(&cluster.client()).await.unwrap();
    cluster.namespace(KUBEWARDEN).await.unwrap();
    let controller = Reconciler::install(cluster.client()).await.unwrap();
    let mut objects = render_kustomize("deploy").unwrap();
    objects.retain(|object| {
        object["kind"] == "PolicyServer"
            || object["kind"] == "ClusterAdmissionPolicy"
            || object["metadata"]["namespace"] == KUBEWARDEN
    });
    objects.extend(manifests::read(&repository_file(CUSTOM)).unwrap());
    cluster.apply_objects(&objects).await.unwrap();
    controller.run_servers().await.unwrap();
    controller.reconcile_policies().await.unwrap();
    controller
}

/// Sets whether one Pod of the PolicyServer is ready.
async fn set_ready(cluster: &Cluster, ready: bool) {
    let pods: Api<Pod> = cluster.pods_api(KUBEWARDEN);
    let labels = ListParams::default().labels(&format!("kubewarden/policy-server={SERVER}"));
    let pod = pods.list(&labels).await.unwrap().items.remove(0).name_any();
    let status = if ready { "True" } else { "False" };
    let patch =
        Patch::Strategic(json!({"status": {"conditions": [{"type": "Ready", "status": status}]}}));
    pods.patch_status(&pod, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// The `failurePolicy` of each webhook for Pods.
async fn failure_policies(cluster: &Cluster) -> Vec<String> {
    let fields = "--output=jsonpath={range .items[*]}{.metadata.name} \
                  {.webhooks[0].failurePolicy}{\"\\n\"}{end}";
    let webhooks = ["get", "mutatingwebhookconfigurations", fields];
    let webhooks = cluster.control_plane.kubectl(&webhooks).await.unwrap();
    webhooks
        .lines()
        .filter(|line| line.contains("persistent-pod-state"))
        .map(str::to_owned)
        .collect()
}

fn all(failure_policy: &str) -> Vec<String> {
    let names = [
        "persistent-pod-state",
        "persistent-pod-state-custom-workloads",
    ];
    names
        .iter()
        .map(|name| format!("clusterwide-{name} {failure_policy}"))
        .collect()
}

async fn patch_policies(cluster: &Cluster, failure_policy: &str) {
    let patch = format!(
        "--patch={}",
        json!({"spec": {"failurePolicy": failure_policy}})
    );
    for policy in [
        "persistent-pod-state",
        "persistent-pod-state-custom-workloads",
    ] {
        let patch = [
            "patch",
            "clusteradmissionpolicy",
            policy,
            "--type=merge",
            &patch,
        ];
        cluster.control_plane.kubectl(&patch).await.unwrap();
    }
}

#[tokio::test]
async fn only_a_change_of_the_webhook_lets_pods_start_while_the_policy_server_is_not_ready() {
    let cluster = Cluster::builder()
        .without_crd()
        .nodes(3, 3)
        .start()
        .await
        .unwrap();
    let controller = install(&cluster).await;
    let reader = Reader::new(&cluster);
    assert_eq!(failure_policies(&cluster).await, all("Fail"));
    set_ready(&cluster, false).await;
    cluster.namespace("shop").await.unwrap();
    cluster
        .create_stateful_set(&StatefulSetSpec::new("shop", "db", 1))
        .await
        .unwrap();
    let pool = Pool {
        cluster: &cluster,
        namespace: "shop",
    };
    wait_for("the Pod to be refused", TIMEOUT, async || {
        let messages = pool.events("db", "FailedCreate").await?;
        let refused = messages.iter().any(|message| message.contains(NO_ANSWER));
        Ok(Progress::when(refused, (), format!("{messages:?}")))
    })
    .await
    .unwrap();

    // The change of the policy does not reach the webhook.
    patch_policies(&cluster, "Ignore").await;
    controller.reconcile_policies().await.unwrap();
    assert_eq!(failure_policies(&cluster).await, all("Fail"));
    patch_policies(&cluster, "Fail").await;

    reader.play("ignore").await;
    controller.reconcile_policies().await.unwrap();
    assert_eq!(failure_policies(&cluster).await, all("Ignore"));
    reader.play("retry").await;
    cluster.wait_ready("shop", "db", 1, TIMEOUT).await.unwrap();
    // The other webhook, as the document says.
    let command = commands("ignore")
        .remove(0)
        .replace("mutatingwebhook", "validatingwebhook");
    let (printed, succeeded) = reader.run_commands(&[command]).await;
    assert!(
        succeeded && printed.contains("clusterwide-persistent-pod-state-validation patched"),
        "{printed}"
    );

    // There is nothing to undo.
    set_ready(&cluster, true).await;
    controller.reconcile_policies().await.unwrap();
    assert_eq!(failure_policies(&cluster).await, all("Fail"));

    // While all Pods are ready, it is the other way round.
    reader.play("ignore").await;
    controller.reconcile_policies().await.unwrap();
    assert_eq!(failure_policies(&cluster).await, all("Fail"));
    patch_policies(&cluster, "Ignore").await;
    controller.reconcile_policies().await.unwrap();
    assert_eq!(failure_policies(&cluster).await, all("Ignore"));
}
