//! `kubectl apply -k`, and what comes of it: a second one changes nothing, and a drain respects the
//! budget.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{core::v1::Node, policy::v1::PodDisruptionBudget};
use kube::{
    Api, ResourceExt,
    api::{EvictParams, ListParams},
};
use pps_e2e::{
    cluster::Cluster,
    kubewarden::install_definitions,
    repository::repository_file,
    sidecar::NAMESPACE,
    wait::{Progress, wait_for},
};
use serde_json::Value;
use tokio::time::timeout;

use crate::support::TIMEOUT;

/// A cluster with Kubewarden's definitions.
async fn cluster() -> Cluster {
    let cluster = Cluster::builder()
        .without_crd()
        .nodes(3, 3)
        .start()
        .await
        .unwrap();
    install_definitions(&cluster.client()).await.unwrap();
    cluster
}

/// The versions of all objects that the kustomization has.
async fn versions(cluster: &Cluster, folder: &str) -> BTreeMap<String, String> {
    let objects = cluster
        .control_plane
        .kubectl(&["get", "-k", folder, "--output=json"])
        .await
        .unwrap();
    let objects: Value = serde_json::from_str(&objects).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = objects["items"].as_array().unwrap().iter();
    let version = |object: &Value| {
        let metadata = &object["metadata"];
        // Controllers write the status.
        let version = if metadata["generation"].is_null() {
            &metadata["resourceVersion"]
        } else {
            &metadata["generation"]
        };
        (
            format!("{} {}", text(&object["kind"]), text(&metadata["name"])),
            version.to_string(),
        )
    };
    items.map(version).collect()
}

/// As Argo CD and Flux do: kubectl's own kustomize renders, and the API server merges.
#[tokio::test]
async fn server_side_apply_changes_nothing_the_second_time() {
    let cluster = cluster().await;
    let folder = repository_file("deploy").display().to_string();
    let kubectl = async |arguments: &[&str]| cluster.control_plane.kubectl(arguments).await;
    let apply = [
        "apply",
        "--server-side",
        "--field-manager=gitops",
        "-k",
        &folder,
    ];
    let said = kubectl(&apply).await.unwrap();
    assert!(
        said.lines()
            .all(|line| line.ends_with(" serverside-applied")),
        "{said}"
    );
    assert!(
        said.contains("poddisruptionbudget.policy/pps-sidecar"),
        "{said}"
    );

    let before = versions(&cluster, &folder).await;
    assert!(before.len() > 10, "{before:?}");
    kubectl(&apply).await.unwrap();
    assert_eq!(versions(&cluster, &folder).await, before);
    let difference = kubectl(&[
        "diff",
        "--server-side",
        "--field-manager=gitops",
        "-k",
        &folder,
    ])
    .await;
    assert_eq!(
        difference.unwrap(),
        "",
        "the API server stores something else than what the manifests say"
    );
}

#[tokio::test]
async fn a_drain_evicts_one_sidecar_at_a_time() {
    let cluster = cluster().await;
    let folder = repository_file("deploy").display().to_string();
    cluster
        .control_plane
        .kubectl(&["apply", "--server-side", "-k", &folder])
        .await
        .unwrap();
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(cluster.client(), NAMESPACE);
    wait_for("the budget to allow one disruption", TIMEOUT, async || {
        let status = budgets.get("pps-sidecar").await?.status;
        let allowed = status
            .as_ref()
            .is_some_and(|status| status.disruptions_allowed == Some(1));
        Ok(Progress::when(allowed, (), format!("{status:?}")))
    })
    .await
    .unwrap();

    // No successor becomes Ready before the second one is asked for.
    for node in Api::<Node>::all(cluster.client())
        .list(&ListParams::default())
        .await
        .unwrap()
    {
        cluster.kubelet.stop_node(&node.name_any());
    }
    let pods = cluster.pods_api(NAMESPACE);
    let names: Vec<String> = pods
        .list(&ListParams::default())
        .await
        .unwrap()
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    pods.evict(&names[0], &EvictParams::default())
        .await
        .unwrap();
    // The client repeats a request that is answered with 429.
    let second = timeout(
        Duration::from_secs(5),
        pods.evict(&names[1], &EvictParams::default()),
    )
    .await;
    assert!(
        !matches!(second, Ok(Ok(_))),
        "the second sidecar was evicted as well"
    );
    let status = budgets.get("pps-sidecar").await.unwrap().status.unwrap();
    assert_eq!(status.disruptions_allowed, Some(0));
    assert_eq!(
        pods.get(&names[1])
            .await
            .unwrap()
            .metadata
            .deletion_timestamp,
        None
    );
    assert_ne!(
        pods.get(&names[0])
            .await
            .unwrap()
            .metadata
            .deletion_timestamp,
        None
    );
}
