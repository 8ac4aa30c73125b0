//! A label protects PersistentPodStates from deletion.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use pps_e2e::{
    cluster::{Cluster, POLICY_SERVER},
    control_plane::Options,
    kubewarden::{Policy, stand_in::PolicyModule},
    manifests,
    repository::{policy_path, repository_file},
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use crate::support::{HOSTNAME, required};

const LABEL: &str = "policy.kruise.io/delete-protection";
/// The garbage collector looks for new kinds every 30 seconds.
const COLLECTED: Duration = Duration::from_mins(3);

/// As most clusters do, this one gives each of the controller manager's controllers an identity of
/// its own.
pub(crate) fn control_plane(options: &mut Options) {
    options
        .controller_manager_flags
        .push("--use-service-account-credentials=true".to_owned());
    options.audit_log = true;
}

/// Registers the policies as `deploy/` does, with their match conditions.
pub(crate) async fn install_deployed_policy(cluster: &mut Cluster) {
    let policies = [
        "cluster-admission-policy",
        "cluster-admission-policy-validation",
    ];
    let policies = policies.map(|name| {
        let file = repository_file(&format!("deploy/base/{name}.yaml"));
        Policy::new(manifests::read(&file).unwrap().remove(0))
    });
    let module = PolicyModule::load_file(&policy_path()).unwrap();
    let kubeconfig = cluster.control_plane.kubeconfig_for(POLICY_SERVER).unwrap();
    let webhook = cluster
        .start_installed_webhook(&module, policies.into(), &kubeconfig)
        .await;
    cluster.webhook = Some(webhook.unwrap());
}

/// Applies a protected object with that status.
async fn protect(cluster: &Cluster, namespace: &str, value: &str, status: &Value) {
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"namespace": namespace, "name": "web", "labels": {LABEL: value}},
        "spec": required("web", &[HOSTNAME])});
    cluster.apply_objects(&[object]).await.unwrap();
    set_status(cluster, namespace, status).await;
}

async fn set_status(cluster: &Cluster, namespace: &str, status: &Value) {
    let patch = Patch::Merge(json!({"status": status}));
    let api = cluster.pps_api(namespace);
    api.patch_status("web", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// What kubectl says when it deletes the object.
async fn delete(cluster: &Cluster, namespace: &str) -> Result<String, String> {
    let args = [
        "delete",
        "pps",
        "web",
        "--namespace",
        namespace,
        "--wait=false",
    ];
    cluster
        .control_plane
        .kubectl(&args)
        .await
        .map_err(|error| format!("{error:#}"))
}

pub(crate) async fn refuses_to_delete_protected_objects(cluster: &Cluster) {
    let namespace = "protected";
    cluster.namespace(namespace).await.unwrap();
    let api = cluster.pps_api(namespace);
    let recorded = json!({"podStates": {"web-0": {"nodeName": "node-0"}}, "desired": 1});

    protect(cluster, namespace, "Always", &json!({})).await;
    let refusal = delete(cluster, namespace).await.unwrap_err();
    assert!(
        refusal.contains("delete-protection=Always: remove the label"),
        "{refusal}"
    );
    let collection = api
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await;
    assert!(collection.is_err_and(|error| error.to_string().contains("delete-protection=Always")));
    assert!(api.get_opt("web").await.unwrap().is_some());

    protect(cluster, namespace, "Cascading", &recorded).await;
    let refusal = delete(cluster, namespace).await.unwrap_err();
    assert!(refusal.contains("scale StatefulSet web to 0"), "{refusal}");
    set_status(
        cluster,
        namespace,
        &json!({"podStates": null, "desired": 0}),
    )
    .await;
    delete(cluster, namespace).await.unwrap();

    protect(cluster, namespace, "Always", &recorded).await;
    let unprotect = Patch::Merge(json!({"metadata": {"labels": {LABEL: null}}}));
    api.patch("web", &PatchParams::default(), &unprotect)
        .await
        .unwrap();
    delete(cluster, namespace).await.unwrap();
}

pub(crate) async fn lets_the_garbage_collector_delete_protected_objects(cluster: &Cluster) {
    let namespace = "owned";
    cluster.namespace(namespace).await.unwrap();
    let owners: Api<ConfigMap> = Api::namespaced(cluster.client(), namespace);
    let owner: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "owner"}})).unwrap();
    let owner = owners.create(&PostParams::default(), &owner).await.unwrap();
    protect(cluster, namespace, "Always", &json!({})).await;
    let reference =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid()}]);
    let patch = Patch::Merge(json!({"metadata": {"ownerReferences": reference}}));
    cluster
        .pps_api(namespace)
        .patch("web", &PatchParams::default(), &patch)
        .await
        .unwrap();
    owners
        .delete("owner", &DeleteParams::default())
        .await
        .unwrap();
    wait_for(
        "the garbage collector to delete the object",
        COLLECTED,
        async || {
            let found = cluster.pps_api(namespace).get_opt("web").await?;
            Ok(Progress::when(found.is_none(), (), "it is still there"))
        },
    )
    .await
    .unwrap();
}

pub(crate) async fn lets_a_namespace_with_protected_objects_be_deleted(cluster: &Cluster) {
    let namespace = "deleted";
    cluster.namespace(namespace).await.unwrap();
    protect(cluster, namespace, "Always", &json!({})).await;
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    namespaces
        .delete(namespace, &DeleteParams::default())
        .await
        .unwrap();
    wait_for("the namespace to be gone", COLLECTED, async || {
        let found = namespaces.get_opt(namespace).await?;
        let seen = format!(
            "{:?}",
            found.as_ref().and_then(|found| found.status.as_ref())
        );
        Ok(Progress::when(found.is_none(), (), seen))
    })
    .await
    .unwrap();
}
