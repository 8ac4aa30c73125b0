//! The product as users install it: pushed to a registry, installed from `deploy/`, pulled and run as the
//! manifests say.
//!
//! With `POLICY_SERVER=path` one more test serves the policy with Kubewarden's own PolicyServer.

mod deployment;

use pps_e2e::{
    cluster::Cluster,
    install::{Installation, SIDECAR},
    kubewarden::{self, policy_server},
    report,
    sidecar::NAMESPACE,
};

use crate::scenarios::{generated, permissions, rescheduling};
use crate::support;

/// The ServiceAccount of the PolicyServer that is installed.
const ACCOUNT: &str = "policy-server-persistent-pod-state";

/// A cluster with Kubewarden's definitions and namespace, but without the product.
async fn cluster() -> Cluster {
    let cluster =
        Cluster::builder().without_crd().nodes(6, 3).control_plane(|options| options.audit_log = true);
    let cluster = cluster.start().await.unwrap();
    kubewarden::install_definitions(&cluster.client(), cluster.control_plane.version()).await.unwrap();
    cluster
}

/// Installs a kustomization and serves the policy, with Kubewarden's own PolicyServer if `real` is set.
async fn install(cluster: &mut Cluster, kustomization: &str, account: &str, real: bool) -> Installation {
    let mut installation = Installation::publish(cluster).await.unwrap();
    installation.apply(cluster, kustomization).await.unwrap();
    installation.wait_available(cluster).await.unwrap();
    installation.serve_policy(cluster, account, real).await.unwrap();
    installation
}

/// The scenarios for which users install the product.
async fn main_scenarios(cluster: &Cluster) {
    support::run(scenarios![cluster;
        rescheduling::returns_a_deleted_pod_to_its_node_and_address,
        rescheduling::keeps_every_pod_on_its_node_during_a_rolling_update,
        rescheduling::keeps_a_pod_pending_rather_than_leave_its_required_zone,
        generated::generates_an_object_for_an_annotated_workload,
        generated::deletes_a_generated_object_with_its_workload,
    ])
    .await
    .unwrap();
}

fn assert_used_as_granted(cluster: &Cluster) {
    let user = format!("system:serviceaccount:{NAMESPACE}:{SIDECAR}");
    permissions::assert_used_as_granted_by(cluster, &user, &[]);
}

#[tokio::test]
async fn an_installation_from_deploy_works() {
    let mut cluster = cluster().await;
    let installation = install(&mut cluster, "deploy", ACCOUNT, false).await;
    deployment::both_replicas_match_the_deployment(&cluster, &installation).await;
    main_scenarios(&cluster).await;
    deployment::other_replica_takes_over_when_the_leaders_pod_is_deleted(&cluster, &installation).await;
    deployment::keeps_states_during_a_rollout(&cluster, &installation).await;
    assert_used_as_granted(&cluster);
    assert_eq!(installation.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_highly_available_installation_works() {
    let mut cluster = cluster().await;
    let overlay = "deploy/overlays/high-availability";
    let installation = install(&mut cluster, overlay, ACCOUNT, false).await;
    deployment::replicas_run_on_different_nodes_and_zones(&cluster, &installation).await;
    support::run(scenarios![&cluster; rescheduling::returns_a_deleted_pod_to_its_node_and_address])
        .await
        .unwrap();
    assert_used_as_granted(&cluster);
    assert_eq!(installation.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn an_installation_works_with_the_real_policy_server() {
    if policy_server::executable().is_none() {
        return report::skipped(
            "an_installation_works_with_the_real_policy_server",
            "set POLICY_SERVER=… (Kubewarden's executable) to run it",
        );
    }
    let mut cluster = cluster().await;
    let installation = install(&mut cluster, "deploy", ACCOUNT, true).await;
    assert!(installation.policy_server.is_some());
    main_scenarios(&cluster).await;
    assert_used_as_granted(&cluster);
    assert_eq!(installation.problems(), Vec::<String>::new());
}
