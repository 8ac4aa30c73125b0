//! A run that fails, is stopped or is killed.

use nix::sys::signal::Signal;
use pps_e2e::{cluster::Cluster, kubewarden::Controller, repository::repository_file};

use super::{
    kubewarden::only_the_definition_is_left,
    script::{NAME, Script},
};

/// Nobody serves the policies here, so each run waits until it is ended.
#[tokio::test]
async fn the_script_removes_what_it_has_made_when_it_is_ended() {
    let builder = Cluster::builder().without_crd().nodes(2, 1);
    let cluster = builder.start().await.unwrap();
    let _controller = Controller::install(&cluster).await.unwrap();
    let values = repository_file("e2e-tests/values/required.yaml");
    let script = || Script::of(&cluster).set("VALUES", values.to_str().unwrap());

    let failing = script().set("PATIENCE", "8");
    failing
        .fails_at("the chart is installed", "timed out waiting")
        .await;
    only_the_definition_is_left(&cluster).await;

    let mut run = script().start();
    run.has_printed("passed: the namespace pps-conformance-workloads")
        .await;
    run.signal(Signal::SIGTERM);
    let ended = run.end().await;
    assert_eq!(ended.code, Some(143), "{}", ended.printed);
    let last = ended.printed.lines().last();
    assert_eq!(last, Some("error: stopped by a signal"));
    only_the_definition_is_left(&cluster).await;

    let mut run = script().start();
    run.has_printed("passed: the namespace pps-conformance-workloads")
        .await;
    run.signal(Signal::SIGKILL);
    run.end().await;
    // As if it had been killed during the drain.
    let closed = "persistent-pod-state/closed-node=node-1";
    for step in [
        &["annotate", "namespace", NAME, closed][..],
        &["cordon", "node-1"],
    ] {
        cluster.control_plane.kubectl(step).await.unwrap();
    }
    script()
        .is_refused("make conformance ARGS=--clean-up")
        .await;
    let ended = Script::of(&cluster).argument("--clean-up").run().await;
    assert_eq!(ended.code, Some(0), "{}", ended.printed);
    only_the_definition_is_left(&cluster).await;
}
