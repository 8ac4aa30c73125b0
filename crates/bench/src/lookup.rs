//! The look-up on a real API server: a read by name against a list from the host's watch.

pub(crate) mod worker;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use futures::{StreamExt, TryStreamExt, stream};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use pps_e2e::cluster::proxy::Proxy;
use pps_e2e::cluster::{Cluster, POLICY_SERVER};
use pps_e2e::control_plane::{User, program};
use procfs::process::Process;
use serde_json::{Value, json};

use self::worker::{Outcome, Way, workload_and_pod};
use crate::fixture::{object, state};
use crate::meter::cpu;
use crate::report::table;

const PODS: usize = 1_000;
/// Somebody who may read nothing.
const NOBODY: &str = "nobody";
/// How long the trials in trouble last: as long as an API server waits for a webhook by default.
const PATIENCE: u64 = 10;

/// How the Pods are spread over objects, and how the objects are named.
#[derive(Clone, Copy)]
struct Scene {
    about: &'static str,
    namespace: &'static str,
    /// How many objects the Pods are spread over.
    objects: usize,
    prefix: &'static str,
    way: Way,
}

const fn scene(about: &'static str, namespace: &'static str, objects: usize, way: Way) -> Scene {
    let prefix = if matches!(way, Way::Full) { "keep-" } else { "" };
    Scene { about, namespace, objects, prefix, way }
}

const SCENES: [Scene; 9] = [
    scene("1 PPS × 1,000", "one", 1, Way::ByName),
    scene("1 PPS × 1,000", "one-by-hand", 1, Way::Full),
    scene("1 PPS × 1,000", "one", 1, Way::Cached),
    scene("10 PPS × 100", "ten", 10, Way::ByName),
    scene("10 PPS × 100", "ten-by-hand", 10, Way::Full),
    scene("10 PPS × 100", "ten", 10, Way::Cached),
    scene("1,000 PPS × 1", "many", 1_000, Way::ByName),
    scene("1,000 PPS × 1", "many-by-hand", 1_000, Way::Full),
    scene("1,000 PPS × 1", "many", 1_000, Way::Cached),
];

fn title(way: Way) -> &'static str {
    match way {
        Way::ByName => "read by name",
        Way::Full => "list of claims, then read",
        Way::Cached => "list with states, from the cache",
    }
}

/// Two tables: all well, and in trouble.
pub(crate) async fn measure() -> Result<(String, String)> {
    let builder = Cluster::builder().deployed_rights().user(User::new(NOBODY));
    let cluster = Box::pin(builder.start()).await?;
    for scene in SCENES {
        if scene.way != Way::Cached {
            eprintln!("  {}: make the objects of namespace {}", scene.about, scene.namespace);
            populate(&cluster, scene).await?;
        }
    }
    let well = all_well(&cluster).await?;
    let trouble = in_trouble(&cluster).await?;
    cluster.shutdown().await?;
    Ok((well, trouble))
}

async fn populate(cluster: &Cluster, scene: Scene) -> Result<()> {
    let Scene { namespace, objects: number, prefix, .. } = scene;
    cluster.namespace(namespace).await?;
    let mut objects: Vec<(String, Vec<(usize, String)>)> = Vec::new();
    for index in 0..PODS {
        let (workload, pod) = workload_and_pod(PODS / number, index);
        match objects.last_mut() {
            Some((last, pods)) if *last == workload => pods.push((index, pod)),
            _ => objects.push((workload, vec![(index, pod)])),
        }
    }
    let api = cluster.pps_api(namespace);
    let made = objects.iter().map(|(workload, pods)| make(&api, namespace, prefix, workload, pods));
    stream::iter(made).buffer_unordered(16).try_collect::<Vec<()>>().await?;
    Ok(())
}

async fn make(
    api: &Api<DynamicObject>,
    namespace: &str,
    prefix: &str,
    workload: &str,
    pods: &[(usize, String)],
) -> Result<()> {
    let name = format!("{prefix}{workload}");
    let made = object(&name, workload, &[]);
    let made = json!({"apiVersion": made["apiVersion"], "kind": made["kind"],
        "metadata": {"name": name, "namespace": namespace}, "spec": made["spec"]});
    api.create(&PostParams::default(), &serde_json::from_value(made)?).await?;
    let states: serde_json::Map<String, Value> = pods
        .iter()
        .map(|(index, pod)| {
            let mut state = state(*index);
            state["annotations"]["pod"] = pod.as_str().into();
            (pod.clone(), state)
        })
        .collect();
    let status = json!({"status": {"podStates": states, "recorded": pods.len()}});
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

async fn all_well(cluster: &Cluster) -> Result<String> {
    let server = api_server(cluster)?;
    let mut rows = Vec::new();
    for scene in SCENES {
        let proxy = Proxy::start(cluster.control_plane.url()).await?;
        let before = cpu(&server)?;
        let outcome = trial(cluster, &proxy, scene, POLICY_SERVER, PODS, 300).await?;
        let after = cpu(&server)?;
        ensure!(outcome.found == PODS, "{} of {PODS} found: {outcome:?}", outcome.found);
        let (_, from_server) = proxy.bytes();
        rows.push(vec![
            format!("{}: {}", scene.about, title(scene.way)),
            milliseconds(outcome.first),
            milliseconds(outcome.p50),
            milliseconds(outcome.p99),
            format!("{:.1} s", outcome.whole),
            format!("{:.2} s", after - before),
            format!("{:.2} s", outcome.cpu),
            mebibytes(from_server),
            mebibytes(outcome.memory_peak.saturating_sub(outcome.memory_before)),
        ]);
    }
    let header = [
        "1,000 Pods at once",
        "first",
        "p50",
        "p99",
        "all",
        "API server's CPU",
        "host's CPU",
        "from API server",
        "host's memory grew by",
    ];
    Ok(table(&header, rows))
}

async fn in_trouble(cluster: &Cluster) -> Result<String> {
    let mut rows = Vec::new();
    for scene in SCENES.into_iter().filter(|scene| scene.objects == 10) {
        let mut row = vec![title(scene.way).to_owned()];
        for (user, delay) in [
            (NOBODY, None),
            (POLICY_SERVER, Some(Duration::from_millis(500))),
            (POLICY_SERVER, Some(Duration::MAX)),
        ] {
            let proxy = Proxy::start(cluster.control_plane.url()).await?;
            if let Some(delay) = delay {
                proxy.slow_down(delay);
            }
            let outcome = trial(cluster, &proxy, scene, user, 20, PATIENCE).await?;
            row.push(match (outcome.on_write_done, outcome.failure) {
                (0, _) => format!("no answer in {PATIENCE} s"),
                (_, Some(failure)) => {
                    let kind = if failure.contains("forbidden") { "refused" } else { "failed" };
                    format!("{kind} after {}", milliseconds(outcome.first))
                }
                (_, None) => {
                    format!("found after {}, then {}", milliseconds(outcome.first), milliseconds(outcome.p50))
                }
            });
        }
        rows.push(row);
    }
    let header = ["way", "permission missing", "API server 0.5 s late", "API server silent"];
    Ok(table(&header, rows))
}

async fn trial(
    cluster: &Cluster,
    proxy: &Proxy,
    scene: Scene,
    user: &str,
    pods: usize,
    seconds: u64,
) -> Result<Outcome> {
    let kubeconfig = proxy.kubeconfig(&cluster.control_plane, user)?;
    let way = scene.way.to_possible_value().context("a way has a name")?;
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    command.arg("look-up").arg("--kubeconfig").arg(kubeconfig);
    command.args(["--namespace", scene.namespace, "--way", way.get_name()]);
    command.args(["--pods", &pods.to_string(), "--seconds", &seconds.to_string()]);
    command.args(["--of-each", &(PODS / scene.objects).to_string()]);
    // An error of the host would carry a backtrace, and finding its names takes long.
    command.env("RUST_BACKTRACE", "0");
    let output = command.kill_on_drop(true).stderr(std::process::Stdio::inherit()).output().await?;
    ensure!(output.status.success(), "the host's process ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("not an outcome")
}

fn api_server(cluster: &Cluster) -> Result<Process> {
    let status = cluster.control_plane.supervisor().status(program::API_SERVER)?;
    let pid = status.pid.context("the API server has no process")?;
    Ok(Process::new(i32::try_from(pid)?)?)
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.1} ms", seconds * 1e3)
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
