//! The product as users install it: pushed to a registry, installed from `deploy/`, pulled and run
//! as the manifests say.
//!
//! With `POLICY_SERVER=path` Kubewarden's own PolicyServer serves the policy here.

pub(crate) mod deployment;

use std::process::Command;

use pps_e2e::{
    cluster::{Cluster, real_nodes},
    install::{Installation, SIDECAR},
    kubewarden::{self, policy_server},
    manifests::{self, render::CHART},
    programs::Group,
    report,
    repository::repository_file,
    sidecar::NAMESPACE,
};

use crate::{behaviour::permissions, chart::release::Release};

/// The ServiceAccount of the PolicyServer that is installed.
pub(crate) const ACCOUNT: &str = "policy-server-persistent-pod-state";

/// A cluster of real nodes with Kubewarden's definitions and namespace, but without the product.
pub(crate) async fn cluster() -> Cluster {
    let cluster = Cluster::builder()
        .without_crd()
        .real_nodes(3)
        .control_plane(|options| options.audit_log = true);
    let cluster = cluster.start().await.unwrap();
    kubewarden::install_definitions(&cluster.client())
        .await
        .unwrap();
    cluster
}

/// Installs `deploy/` and serves the policy, with Kubewarden's own PolicyServer if `real` is set.
pub(crate) async fn install(cluster: &mut Cluster, real: bool) -> Installation {
    let mut installation = Installation::publish(cluster).await.unwrap();
    installation.apply(cluster, "deploy").await.unwrap();
    installation.wait_available(cluster).await.unwrap();
    installation
        .serve_policy(cluster, ACCOUNT, real)
        .await
        .unwrap();
    installation
}

/// Runs `ctr images` on a node.
pub(crate) fn images(cluster: &Cluster, node: &str, args: &[&str]) -> String {
    let first = cluster
        .control_plane
        .supervisor()
        .status(node)
        .unwrap()
        .pid
        .unwrap();
    let socket = format!("/proc/{first}/root/run/containerd/containerd.sock");
    let mut ctr = Command::new(Group::System.program("node/usr/bin/ctr").unwrap());
    let ctr = ctr
        .args(["--address", &socket, "--namespace", "k8s.io", "images"])
        .args(args);
    let output = ctr.output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The user as which the sidecar calls the API server.
pub(crate) fn user() -> String {
    format!("system:serviceaccount:{NAMESPACE}:{SIDECAR}")
}

pub(crate) fn assert_used_as_granted(cluster: &Cluster) {
    permissions::assert_used_as_granted_by(cluster, &user(), &[]);
}

/// The chart with its values for production. With `POLICY_SERVER`, Kubewarden's own PolicyServer
/// serves the policy.
#[tokio::test]
async fn an_installation_for_production_keeps_states_and_spreads_its_pods() {
    const TEST: &str = "an_installation_for_production_keeps_states_and_spreads_its_pods";
    if !real_nodes::available(TEST) {
        return;
    }
    if policy_server::executable().is_none() {
        report::note("set POLICY_SERVER=… (Kubewarden's executable) to serve the policy with it");
    }
    let mut cluster = cluster().await;
    let monitoring = [
        ("ServiceMonitor", "servicemonitors"),
        ("PrometheusRule", "prometheusrules"),
    ]
    .map(|(kind, plural)| {
        kubewarden::permissive_definition("monitoring.coreos.com", "v1", kind, plural, "Namespaced")
    });
    cluster.apply_objects(&monitoring).await.unwrap();
    let mut installation = Installation::publish(&cluster).await.unwrap();
    let file = repository_file(&format!("{CHART}/production.yaml"));
    let mut values = manifests::read(&file).unwrap().remove(0);
    json_patch::merge(&mut values, &installation.chart_values());
    let release = Release::new(&cluster);
    release.run("install", values);
    installation.wait_available(&cluster).await.unwrap();
    installation
        .serve_policy(&mut cluster, ACCOUNT, true)
        .await
        .unwrap();
    deployment::both_replicas_match_the_deployment(&cluster, &installation).await;
    deployment::keeps_states_during_a_rollout(&cluster, &installation).await;
    deployment::replicas_run_on_different_nodes_and_zones(&cluster, &installation).await;
    assert_used_as_granted(&cluster);
}
