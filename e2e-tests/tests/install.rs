//! The product as a user gets it: what was pushed to a registry is installed from `deploy/`, pulled and run as the
//! manifests say, and does what it is for.
//!
//! With `POLICY_SERVER=path` the policy is served by Kubewarden's own PolicyServer, too.

mod running;

use pps_e2e::{
    cluster::Cluster,
    install::{Installation, SIDECAR},
    kubewarden, policy_server,
    sidecar::NAMESPACE,
};

use crate::{
    scenarios::{coming_back, generated, rights},
    support,
};

/// A cluster with Kubewarden's definitions and namespace, and nothing of the product.
async fn cluster() -> Cluster {
    let cluster =
        Cluster::builder().without_crd().nodes(6, 3).control_plane(|options| options.audit_log = true);
    let cluster = cluster.start().await.unwrap();
    kubewarden::install_definitions(&cluster).await.unwrap();
    cluster
}

/// Installs that, and serves the policy, by Kubewarden's own PolicyServer if `real` is set.
async fn install(cluster: &mut Cluster, kustomization: &str, account: &str, real: bool) -> Installation {
    let mut installation = Installation::publish(cluster).await.unwrap();
    installation.apply(cluster, kustomization).await.unwrap();
    installation.wait_available(cluster).await.unwrap();
    installation.serve_policy(cluster, account, real).await.unwrap();
    installation
}

/// What a user installs it for.
async fn main_scenarios(cluster: &Cluster) {
    support::run(scenarios![cluster;
        coming_back::a_deleted_pod_returns_to_its_node_and_address,
        coming_back::a_rolling_update_leaves_every_pod_at_home,
        coming_back::a_required_zone_is_never_left,
        generated::an_annotated_workload_gets_an_object,
        generated::a_generated_object_goes_with_its_workload,
    ])
    .await
    .unwrap();
}

fn assert_used_as_granted(cluster: &Cluster) {
    let user = format!("system:serviceaccount:{NAMESPACE}:{SIDECAR}");
    rights::assert_used_as_granted_by(cluster, &user, &[]);
}

#[tokio::test]
async fn what_is_installed_works() {
    let mut cluster = cluster().await;
    let installation = install(&mut cluster, "deploy", "policy-server", false).await;
    running::both_replicas_are_as_the_deployment_says(&cluster, &installation).await;
    main_scenarios(&cluster).await;
    running::the_other_one_takes_over_when_the_leading_pod_is_deleted(&cluster, &installation).await;
    running::a_new_rollout_loses_nothing(&cluster, &installation).await;
    assert_used_as_granted(&cluster);
    assert_eq!(installation.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn highly_available_with_a_policy_server_of_its_own() {
    let mut cluster = cluster().await;
    let overlay = "deploy/overlays/high-availability";
    let account = "policy-server-persistent-pod-state";
    let installation = install(&mut cluster, overlay, account, false).await;
    running::no_node_has_two(&cluster, &installation).await;
    support::run(scenarios![&cluster; coming_back::a_deleted_pod_returns_to_its_node_and_address])
        .await
        .unwrap();
    assert_used_as_granted(&cluster);
    assert_eq!(installation.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_installed_works_with_the_policy_server() {
    if policy_server::executable().is_none() {
        support::note("skipped: POLICY_SERVER names no policy-server (Kubewarden's own)");
        return;
    }
    let mut cluster = cluster().await;
    let installation = install(&mut cluster, "deploy", "policy-server", true).await;
    assert!(installation.policy_server.is_some());
    main_scenarios(&cluster).await;
    assert_used_as_granted(&cluster);
    assert_eq!(installation.problems(), Vec::<String>::new());
}
