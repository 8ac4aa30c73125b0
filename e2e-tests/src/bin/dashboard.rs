//! Makes a picture of the dashboard with real data.
//!
//! A real Prometheus collects the metrics of a real API server and of two real sidecars during a short story. Then each
//! query of the dashboard is run on it. A page (`dashboard/page.html`) draws the panels with the answers, and a browser
//! makes the picture. Fails if a panel has no data.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use pps_e2e::cluster::nodes::NodeSpec;
use pps_e2e::cluster::{Cluster, POLICY_SERVER, StatefulSetSpec};
use pps_e2e::prometheus::Prometheus;
use pps_e2e::repository::repository_file;
use pps_e2e::scratch::Scratch;
use pps_e2e::sidecar::{Sidecar, SidecarOptions};
use pps_e2e::wait::{Progress, wait_for};
use serde_json::{Value, json};

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const NAMESPACE: &str = "shop";
const DATABASE: &str = "db";
const QUEUE: &str = "queue";
const REPLICAS: u32 = 5;
const ZONES: usize = 3;
const NODES: usize = 6;
const PATIENCE: Duration = Duration::from_mins(2);
/// How long each chapter lasts at least. The sidecar updates its gauges every ten seconds.
const CHAPTER: Duration = Duration::from_secs(12);
const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);
/// What Grafana would put in place of `$__rate_interval`: four times the interval, but longer, since little happens here.
const RATE_INTERVAL: &str = "10s";
const WIDTH: u64 = 1400;
/// The height of the page's header and of one unit of the dashboard's grid, as in `dashboard/page.html`.
const HEADER: u64 = 68;
const UNIT: u64 = 30;
/// No server listens there.
const NOWHERE: &str = "https://127.0.0.1:1/validate";

/// Makes a picture of the dashboard of deploy/components/monitoring with real data.
#[derive(Debug, Parser)]
#[command(name = "pps-dashboard")]
struct Args {
    /// The browser.
    #[arg(long, default_value = "chromium")]
    browser: PathBuf,
    /// The picture, a PNG file.
    picture: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    match Box::pin(run(&Args::parse())).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("no picture of the dashboard: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<()> {
    let file = repository_file("deploy/components/monitoring/dashboard.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
    let cluster = Cluster::builder().nodes(NODES, ZONES).product();
    let cluster = Box::pin(cluster.start()).await?;
    let standby = SidecarOptions { name: "standby".to_owned(), ..SidecarOptions::default() };
    let standby = cluster.run_sidecar(standby)?;
    standby.wait_ready(PATIENCE).await?;
    let sidecars: [(&str, &Sidecar); 2] =
        [("pps-sidecar-0", cluster.sidecar()?), ("pps-sidecar-1", &standby)];
    let targets = sidecars.map(|(name, sidecar)| (name.to_owned(), sidecar.admin_address()));
    let prometheus = Prometheus::start(&cluster.control_plane, &targets, SCRAPE_INTERVAL).await?;

    let mut story = Story { cluster: &cluster, marks: Vec::new() };
    let start = Timestamp::now().as_second() - 2;
    Box::pin(story.play()).await?;
    let end = Timestamp::now().as_second();
    let data = Data { prometheus, start, end }.collect(&dashboard).await?;
    draw(args, &dashboard, &data, &story.marks)?;
    cluster.shutdown().await
}

/// What happens in the cluster.
struct Story<'a> {
    cluster: &'a Cluster,
    /// When each chapter began, in Unix seconds, and what happens in it.
    marks: Vec<(i64, &'static str)>,
}

impl Story<'_> {
    async fn play(&mut self) -> Result<()> {
        let cluster = self.cluster;
        tokio::time::sleep(Duration::from_secs(5)).await;
        self.begin("two StatefulSets start");
        cluster.namespace(NAMESPACE).await?;
        let database = StatefulSetSpec::new(NAMESPACE, DATABASE, REPLICAS).persistent(HOSTNAME, "", "");
        let queue = StatefulSetSpec::new(NAMESPACE, QUEUE, REPLICAS).persistent(ZONE, HOSTNAME, "");
        for workload in [&database, &queue] {
            cluster.create_stateful_set(workload).await?;
        }
        self.all_are_recorded().await?;
        tokio::time::sleep(CHAPTER).await;

        self.begin("all Pods are deleted");
        for name in [DATABASE, QUEUE] {
            let pods = cluster.pods(NAMESPACE, name).await?;
            let pods: Vec<&str> = pods.keys().map(String::as_str).collect();
            cluster.recreate_pods(NAMESPACE, name, &pods, PATIENCE).await?;
        }
        tokio::time::sleep(CHAPTER).await;

        self.begin("the policy may not look up");
        let binding = format!("pps-policy-{POLICY_SERVER}");
        cluster.control_plane.kubectl(&["delete", "clusterrolebinding", &binding]).await?;
        // What was looked up before is cached for some seconds.
        tokio::time::sleep(Duration::from_secs(6)).await;
        cluster.delete_pods(NAMESPACE, QUEUE, &["queue-0", "queue-1"]).await?;
        tokio::time::sleep(CHAPTER).await;
        let roles = repository_file("deploy/base/rbac.yaml");
        cluster.apply_rbac_from(&roles, POLICY_SERVER, &["pps-policy"]).await?;
        self.all_are_recorded().await?;

        self.begin("the PolicyServer is down");
        self.redirect_webhooks("Fail").await?;
        cluster.delete_pods(NAMESPACE, QUEUE, &["queue-2"]).await?;
        tokio::time::sleep(CHAPTER).await;

        self.begin("failurePolicy: Ignore");
        self.redirect_webhooks("Ignore").await?;
        // The Pod's former node takes no Pods, so it starts elsewhere.
        let node =
            cluster.pods(NAMESPACE, DATABASE).await?["db-0"].node.clone().context("db-0 has no node")?;
        cluster.nodes.cordon(&node).await?;
        cluster.recreate_pods(NAMESPACE, DATABASE, &["db-0"], PATIENCE).await?;
        cluster.nodes.uncordon(&node).await?;
        self.all_are_recorded().await?;
        tokio::time::sleep(CHAPTER).await;

        self.begin("the PolicyServer is back");
        let version = cluster.control_plane.version();
        wait_for("the API server to ask the policy again", PATIENCE, async || {
            cluster.webhook()?.register(&cluster.client(), version).await?;
            Ok(Progress::Done(()))
        })
        .await?;
        tokio::time::sleep(CHAPTER).await;

        self.begin("a node is lost");
        let node =
            cluster.pods(NAMESPACE, DATABASE).await?["db-1"].node.clone().context("db-1 has no node")?;
        cluster.nodes.delete(&node).await?;
        for name in [DATABASE, QUEUE] {
            let pods = cluster.pods(NAMESPACE, name).await?;
            let on_node = pods.iter().filter(|(_, pod)| pod.node.as_deref() == Some(&node));
            let pods: Vec<&str> = on_node.map(|(name, _)| name.as_str()).collect();
            cluster.delete_pods(NAMESPACE, name, &pods).await?;
        }
        tokio::time::sleep(CHAPTER * 2).await;

        self.begin("the node is back");
        let index: usize = node.trim_start_matches("node-").parse()?;
        cluster.nodes.create(NodeSpec::new(&node).zone(format!("zone-{}", index % ZONES))).await?;
        self.all_are_recorded().await?;
        tokio::time::sleep(CHAPTER + Duration::from_secs(3)).await;
        Ok(())
    }

    fn begin(&mut self, chapter: &'static str) {
        eprintln!("  … {chapter}");
        self.marks.push((Timestamp::now().as_second(), chapter));
    }

    /// Waits until all Pods are Ready and recorded where they are.
    async fn all_are_recorded(&self) -> Result<()> {
        let replicas = REPLICAS as usize;
        for name in [DATABASE, QUEUE] {
            let pods = self.cluster.wait_ready(NAMESPACE, name, replicas, PATIENCE).await?;
            wait_for(&format!("the Pods of {name} to be recorded"), PATIENCE, async || {
                let states = self.cluster.pod_states(NAMESPACE, name).await?;
                let is_recorded = pods.iter().filter(|(pod, info)| {
                    states.get(*pod).and_then(|state| state["nodeName"].as_str()) == info.node.as_deref()
                });
                let recorded = is_recorded.count();
                Ok(Progress::when(recorded == replicas, (), recorded))
            })
            .await?;
        }
        Ok(())
    }

    /// Has the API server call a server that does not answer.
    async fn redirect_webhooks(&self, failure_policy: &str) -> Result<()> {
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.cluster.client());
        for mut configuration in api.list(&ListParams::default()).await? {
            for webhook in configuration.webhooks.iter_mut().flatten() {
                webhook.client_config.url = Some(NOWHERE.to_owned());
                webhook.failure_policy = Some(failure_policy.to_owned());
            }
            configuration.metadata.managed_fields = None;
            api.replace(&configuration.name_any(), &PostParams::default(), &configuration).await?;
        }
        // The API server takes up the change within a second.
        tokio::time::sleep(Duration::from_secs(2)).await;
        Ok(())
    }
}

/// The data of the story.
struct Data {
    prometheus: Prometheus,
    start: i64,
    end: i64,
}

impl Data {
    /// The answers to the queries of each panel. Fails if a panel has none.
    async fn collect(&self, dashboard: &Value) -> Result<Value> {
        let mut results = json!({});
        let mut empty = Vec::new();
        for panel in dashboard["panels"].as_array().into_iter().flatten() {
            let mut answers = Vec::new();
            for target in panel["targets"].as_array().into_iter().flatten() {
                let expression = target["expr"].as_str().context("a target without an expression")?;
                let expression = expression.replace("$__rate_interval", RATE_INTERVAL);
                answers.push(
                    self.prometheus.query_range(&expression, self.start, self.end, SCRAPE_INTERVAL).await?,
                );
            }
            let has_data = answers.iter().flatten().any(|series| {
                series["values"].as_array().is_some_and(|values| values.iter().any(|value| value[1] != "NaN"))
            });
            if panel["type"] != "row" && !has_data {
                empty.push(panel["title"].as_str().unwrap_or_default());
            }
            results[panel["id"].to_string()] = json!(answers);
        }
        ensure!(empty.is_empty(), "these panels have no data: {}", empty.join(", "));
        Ok(
            json!({"results": results, "start": self.start, "end": self.end, "cell": SCRAPE_INTERVAL.as_secs()}),
        )
    }
}

/// Draws the panels in a browser.
fn draw(args: &Args, dashboard: &Value, data: &Value, marks: &[(i64, &str)]) -> Result<()> {
    let mut data = data.clone();
    data["dashboard"] = dashboard.clone();
    data["marks"] = json!(marks);
    // "</script>" in a string would end the element that holds the data.
    let data = data.to_string().replace('<', "\\u003c");
    let folder = Scratch::folder("dashboard")?;
    let page = folder.path().join("page.html");
    fs::write(&page, include_str!("dashboard/page.html").replace("@DATA@", &data))?;
    let bottom = |panel: &Value| {
        let place = |field: &str| panel["gridPos"][field].as_u64().unwrap_or_default();
        place("y") + place("h")
    };
    let rows = dashboard["panels"].as_array().into_iter().flatten().map(bottom).max().unwrap_or_default();
    let picture = std::path::absolute(&args.picture)?;
    take_screenshot(args, folder.path(), &page, (WIDTH, HEADER + rows * UNIT), &picture)?;
    let bytes = fs::metadata(&picture).context("the browser made no picture")?.len();
    println!("{}: {} KB", args.picture.display(), bytes / 1000);
    Ok(())
}

fn take_screenshot(
    args: &Args,
    folder: &Path,
    page: &Path,
    (width, height): (u64, u64),
    picture: &Path,
) -> Result<()> {
    let mut browser = Command::new(&args.browser);
    // As root, Chromium runs only without its sandbox. It loads nothing but this page.
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
    browser.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    browser.args(["--hide-scrollbars", "--force-device-scale-factor=1"]);
    browser.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    browser.arg(format!("--window-size={width},{height}"));
    browser.arg(format!("--screenshot={}", picture.display()));
    browser.arg(format!("file://{}", page.display()));
    let output = browser.output().with_context(|| format!("cannot run {}", args.browser.display()))?;
    if !output.status.success() {
        bail!("the browser fails: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
