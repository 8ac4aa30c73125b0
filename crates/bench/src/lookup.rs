//! The lookup against a real API server: gets by name compared with a list from the host's watch.

pub(crate) mod worker;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use futures::{StreamExt, TryStreamExt, stream};
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use pps_core::PodState;
use pps_e2e::cluster::proxy::Proxy;
use pps_e2e::cluster::{Cluster, POLICY_SERVER};
use pps_e2e::control_plane::{User, program};
use pps_e2e::scratch::Scratch;
use procfs::process::Process;
use serde::Deserialize;

use self::worker::{LookupMethod, LookupReport, workload_and_pod};
use crate::admission::form::{self, Form};
use crate::fixture::{alias, state};
use crate::meter::cpu;
use crate::report::table;

const PODS: usize = 1_000;
/// What the alternative design needs; the policy does not.
const LIST: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: list}
rules: [{apiGroups: [apps.kruise.io], resources: [persistentpodstates], verbs: [list, watch]}]
";
/// A user without any permission.
const UNPRIVILEGED: &str = "nobody";
/// Time limit of the failing lookups, in seconds: as long as an API server waits for a webhook by default.
const WEBHOOK_TIMEOUT: u64 = 10;

/// The PPS of a namespace, and how they are looked up.
#[derive(Clone, Copy)]
struct Scenario {
    title: &'static str,
    namespace: &'static str,
    /// How many PPS the Pods are spread over.
    objects: usize,
    /// Put before the workload's name to form the name of the PPS.
    prefix: &'static str,
    method: LookupMethod,
}

const fn scenario(
    title: &'static str,
    namespace: &'static str,
    objects: usize,
    method: LookupMethod,
) -> Scenario {
    let prefix = if matches!(method, LookupMethod::Alias) { "keep-" } else { "" };
    Scenario { title, namespace, objects, prefix, method }
}

const SCENARIOS: [Scenario; 9] = [
    scenario("1 PPS × 1,000", "one", 1, LookupMethod::ByName),
    scenario("1 PPS × 1,000", "one-other-name", 1, LookupMethod::Alias),
    scenario("1 PPS × 1,000", "one", 1, LookupMethod::Cached),
    scenario("10 PPS × 100", "ten", 10, LookupMethod::ByName),
    scenario("10 PPS × 100", "ten-other-name", 10, LookupMethod::Alias),
    scenario("10 PPS × 100", "ten", 10, LookupMethod::Cached),
    scenario("1,000 PPS × 1", "many", 1_000, LookupMethod::ByName),
    scenario("1,000 PPS × 1", "many-other-name", 1_000, LookupMethod::Alias),
    scenario("1,000 PPS × 1", "many", 1_000, LookupMethod::Cached),
];

fn method_title(method: LookupMethod) -> &'static str {
    match method {
        LookupMethod::ByName => "get by name",
        LookupMethod::Alias => "through its alias",
        LookupMethod::Cached => "list with states, from the cache",
    }
}

/// Two tables: with a healthy API server and permission, and without.
pub(crate) async fn measure() -> Result<(String, String)> {
    let builder = Cluster::builder().deployed_rights().user(User::new(UNPRIVILEGED));
    let cluster = Box::pin(builder.start()).await?;
    let role = Scratch::file("list.yaml", LIST)?;
    cluster.apply_rbac_from(role.path(), POLICY_SERVER, &[]).await?;
    for scenario in SCENARIOS {
        if scenario.method != LookupMethod::Cached {
            eprintln!("  {}: create the PPS of namespace {}", scenario.title, scenario.namespace);
            populate(&cluster, scenario).await?;
        }
    }
    let healthy = measure_healthy(&cluster).await?;
    let failing = measure_failing(&cluster).await?;
    cluster.shutdown().await?;
    Ok((healthy, failing))
}

async fn populate(cluster: &Cluster, scenario: Scenario) -> Result<()> {
    let Scenario { namespace, objects: number, prefix, .. } = scenario;
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
    let created = objects.iter().map(|(workload, pods)| create_pps(&api, namespace, prefix, workload, pods));
    stream::iter(created).buffer_unordered(16).try_collect::<Vec<()>>().await?;
    Ok(())
}

async fn create_pps(
    api: &Api<DynamicObject>,
    namespace: &str,
    prefix: &str,
    workload: &str,
    pods: &[(usize, String)],
) -> Result<()> {
    let name = format!("{prefix}{workload}");
    let states = pods.iter().map(|(index, pod)| {
        let mut state = state(*index);
        state["annotations"]["pod"] = pod.as_str().into();
        Ok((pod.clone(), PodState::deserialize(state)?))
    });
    let states = states.collect::<Result<BTreeMap<String, PodState>>>()?;
    form::create(api, &name, workload, &Form::of_new(states.len()).status(&states)).await?;
    if name != workload {
        let mut alias = alias(&name, workload);
        alias["metadata"]["namespace"] = namespace.into();
        api.create(&PostParams::default(), &serde_json::from_value(alias)?).await?;
    }
    Ok(())
}

async fn measure_healthy(cluster: &Cluster) -> Result<String> {
    let server = api_server(cluster)?;
    let mut rows = Vec::new();
    for scenario in SCENARIOS {
        let proxy = Proxy::start(cluster.control_plane.url()).await?;
        let before = cpu(&server)?;
        let report = run_lookups(cluster, &proxy, scenario, POLICY_SERVER, PODS, 300).await?;
        let after = cpu(&server)?;
        ensure!(report.found == PODS, "found {} of {PODS} states: {report:?}", report.found);
        let (_, received) = proxy.bytes();
        rows.push(vec![
            format!("{}: {}", scenario.title, method_title(scenario.method)),
            milliseconds(report.first),
            milliseconds(report.p50),
            milliseconds(report.p99),
            format!("{:.1} s", report.total),
            format!("{:.2} s", after - before),
            format!("{:.2} s", report.cpu),
            mebibytes(received),
            mebibytes(report.memory_peak.saturating_sub(report.memory_before)),
        ]);
    }
    let header = [
        "1,000 Pods at once",
        "first",
        "p50",
        "p99",
        "total",
        "API server CPU",
        "host CPU",
        "received from API server",
        "host memory growth",
    ];
    Ok(table(&header, rows))
}

async fn measure_failing(cluster: &Cluster) -> Result<String> {
    let mut rows = Vec::new();
    for scenario in SCENARIOS.into_iter().filter(|scenario| scenario.objects == 10) {
        let mut row = vec![method_title(scenario.method).to_owned()];
        for (user, delay) in [
            (UNPRIVILEGED, None),
            (POLICY_SERVER, Some(Duration::from_millis(500))),
            (POLICY_SERVER, Some(Duration::MAX)),
        ] {
            let proxy = Proxy::start(cluster.control_plane.url()).await?;
            if let Some(delay) = delay {
                proxy.slow_down(delay);
            }
            let report = run_lookups(cluster, &proxy, scenario, user, 20, WEBHOOK_TIMEOUT).await?;
            row.push(match (report.finished, report.failure) {
                (0, _) => format!("no response in {WEBHOOK_TIMEOUT} s"),
                (_, Some(failure)) => {
                    let kind = if failure.contains("forbidden") { "refused" } else { "failed" };
                    format!("{kind} after {}", milliseconds(report.first))
                }
                (_, None) => {
                    format!("found after {}, then {}", milliseconds(report.first), milliseconds(report.p50))
                }
            });
        }
        rows.push(row);
    }
    let header = ["method", "permission missing", "API server 0.5 s late", "API server silent"];
    Ok(table(&header, rows))
}

/// Runs the lookups in a process of its own, whose CPU time and memory it measures.
async fn run_lookups(
    cluster: &Cluster,
    proxy: &Proxy,
    scenario: Scenario,
    user: &str,
    pods: usize,
    seconds: u64,
) -> Result<LookupReport> {
    let kubeconfig = proxy.kubeconfig(&cluster.control_plane, user)?;
    let method = scenario.method.to_possible_value().context("the method has no name")?;
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    command.arg("run-lookups").arg("--kubeconfig").arg(kubeconfig);
    command.args(["--namespace", scenario.namespace, "--method", method.get_name()]);
    command.args(["--pods", &pods.to_string(), "--seconds", &seconds.to_string()]);
    command.args(["--pods-per-workload", &(PODS / scenario.objects).to_string()]);
    // The host's errors would carry backtraces, which take long to symbolise.
    command.env("RUST_BACKTRACE", "0");
    let output = command.kill_on_drop(true).stderr(std::process::Stdio::inherit()).output().await?;
    ensure!(output.status.success(), "the lookup process ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("the lookup process printed no report")
}

fn api_server(cluster: &Cluster) -> Result<Process> {
    let status = cluster.control_plane.supervisor().status(program::API_SERVER)?;
    let pid = status.pid.context("the API server is not running")?;
    Ok(Process::new(i32::try_from(pid)?)?)
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.1} ms", seconds * 1e3)
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
