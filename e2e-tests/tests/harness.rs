//! Tests of the harness itself.

mod cleanup;
mod guest;
mod kubelet;
mod sidecar;
mod start;
mod wasm;
mod webhook;

use pps_e2e::{cluster::Cluster, control_plane::User};

use crate::support;

#[tokio::test]
async fn a_cluster_is_as_its_builder_says() {
    let cluster = Cluster::builder()
        .without_crd()
        .nodes(3, 2)
        .user(User::new("nobody"))
        .control_plane(|options| options.audit_log = true)
        .sidecar(sidecar::fake());
    let mut cluster = cluster.start().await.unwrap();
    support::run(scenarios![&cluster;
        start::nodes_and_permissions_are_as_described,
        sidecar::the_sidecar_is_killed_frozen_and_restarted,
        kubelet::assigns_the_requested_address_only_if_it_is_free,
        kubelet::holds_pods_and_fails_nodes,
    ])
    .await
    .unwrap();
    // From here on a policy decides about each Pod.
    webhook::policy_reads_the_cluster_with_its_own_permissions(&mut cluster).await;
    cluster.shutdown().await.unwrap();
}
