//! `make conformance`: what it does to a cluster, and what it refuses.
//!
//! `KUBEWARDEN_CONTROLLER`, `POLICY_SERVER` and `KUBEWARDEN_CHARTS` name Kubewarden's own parts:
//! with them, one more test runs it beside an installation of Kubewarden's charts.

mod interrupted;
mod kubewarden;
mod refusals;
mod script;

use std::time::Instant;

use nix::sys::signal::Signal;
use pps_e2e::{
    cluster::{Cluster, real_nodes},
    install::Installation,
    kubewarden::charts::Parts,
    programs::kubernetes_version,
    report,
};

use self::{
    kubewarden::{StandIn, only_the_definition_is_left},
    script::Script,
};

/// The node that is drained.
const NODE: &str = "real-2";

#[tokio::test]
async fn the_script_passes_and_removes_what_it_has_made() {
    if !real_nodes::available("the_script_passes_and_removes_what_it_has_made") {
        return;
    }
    let cluster = cluster().await;
    let installation = Installation::publish(&cluster).await.unwrap();
    let kubewarden = StandIn::install(&cluster, &installation).await;
    let script = script(&cluster, &installation);
    kubewarden.act_while(passes(&cluster, &script)).await;
}

#[tokio::test]
async fn the_script_passes_beside_kubewardens_own_parts() {
    const TEST: &str = "the_script_passes_beside_kubewardens_own_parts";
    let Some(parts) = Parts::named() else {
        return report::skipped(TEST, Parts::REMEDY);
    };
    if !real_nodes::available(TEST) {
        return;
    }
    let cluster = cluster().await;
    let installation = Installation::publish(&cluster).await.unwrap();
    let version = parts
        .install(&cluster, &installation.registry)
        .await
        .unwrap();
    let kubernetes = kubernetes_version().unwrap();
    report::note(&format!(
        "Kubewarden {version} runs on Kubernetes {kubernetes}"
    ));
    let script = script(&cluster, &installation);
    passes(&cluster, &script).await;
    a_killed_run_can_be_cleaned_up(&cluster, &script).await;
    a_stopped_run_cleans_up(&cluster, &script).await;
    an_image_that_cannot_be_pulled_is_named(&cluster, &installation).await;
}

async fn cluster() -> Cluster {
    let builder = Cluster::builder().without_crd().real_nodes(3);
    builder.start().await.unwrap()
}

fn script(cluster: &Cluster, installation: &Installation) -> Script {
    Script::of(cluster)
        .with_registry(installation.registry.host())
        .set("NODE", NODE)
}

async fn passes(cluster: &Cluster, script: &Script) {
    let started = Instant::now();
    let ended = script.run().await;
    report::note(&format!("the script took {:.1?}", started.elapsed()));
    assert_eq!(ended.code, Some(0), "{}", ended.printed);
    assert!(
        ended.printed.contains("passed: everything in"),
        "{}",
        ended.printed
    );
    only_the_definition_is_left(cluster).await;
}

/// Killed while the node is closed, so that nothing could be removed.
async fn a_killed_run_can_be_cleaned_up(cluster: &Cluster, script: &Script) {
    let mut run = script.start();
    run.has_printed("is drained; the Pod waits for it").await;
    run.signal(Signal::SIGKILL);
    run.end().await;
    script.is_refused("make conformance ARGS=--clean-up").await;
    let ended = Script::of(cluster).argument("--clean-up").run().await;
    assert_eq!(ended.code, Some(0), "{}", ended.printed);
    only_the_definition_is_left(cluster).await;
}

/// Stopped while the node is closed.
async fn a_stopped_run_cleans_up(cluster: &Cluster, script: &Script) {
    let mut run = script.start();
    run.has_printed("is drained; the Pod waits for it").await;
    run.signal(Signal::SIGTERM);
    let ended = run.end().await;
    assert_eq!(ended.code, Some(143), "{}", ended.printed);
    only_the_definition_is_left(cluster).await;
}

/// Of the workload, and of the PolicyServer.
async fn an_image_that_cannot_be_pulled_is_named(cluster: &Cluster, installation: &Installation) {
    const ABSENT: &str = "registry.invalid/pause:1";
    let script = script(cluster, installation)
        .set("IMAGE", ABSENT)
        .set("PATIENCE", "30");
    script
        .fails_at("the quick start's three Pods run", ABSENT)
        .await;
    only_the_definition_is_left(cluster).await;
}
