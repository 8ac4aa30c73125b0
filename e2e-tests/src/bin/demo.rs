//! The demo plays the same story twice, first without the product, then with it: the cluster's load changes,
//! all Pods of two StatefulSets are deleted, and a table shows where their successors run. Then a Pod is
//! Pending, and the plugin `kubectl pps` lets it go.

#[path = "demo/tour.rs"]
mod tour;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, Color, Table};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use pps_e2e::cluster::kubelet::IP_ANNOTATION;
use pps_e2e::cluster::{Cluster, PodInfo, StatefulSetSpec};
use pps_e2e::control_plane;
use pps_e2e::kubewarden::stand_in::{PolicyModule, WebhookOptions};
use pps_e2e::repository::policy_path;
use pps_e2e::sidecar::SidecarOptions;
use pps_e2e::wait::{Progress, wait_for};
use serde_json::json;

use tour::Tour;

const HOSTNAME: &str = "kubernetes.io/hostname";
const REPLICAS: u32 = 6;
const NODES: usize = 6;
const ZONES: usize = 3;
const PATIENCE: Duration = Duration::from_mins(1);
const ATTEMPTS: u32 = 5;
/// Has the annotations; the sidecar generates its PPS.
const DATABASE: &str = "db";
/// Has a PPS written by hand.
const QUEUE: &str = "queue";

/// Shows what PersistentPodState does, on a real Kubernetes control plane of its own.
///
/// Two StatefulSets with six Pods each run on six nodes in three zones. Other nodes become busy, then all
/// Pods are deleted at once: first without the product, then with it. Then a Pod waits for a cordoned node,
/// and kubectl pps moves it. Exits with 1 if a Pod with a PersistentPodState does not return to its node, or
/// does not move.
#[derive(Debug, Parser)]
#[command(name = "pps-demo", version)]
struct Args {
    /// Keep the cluster running afterwards, to look around with kubectl.
    #[arg(long)]
    keep: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match Box::pin(run(&Args::parse())).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("the demo failed: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn run(args: &Args) -> Result<bool> {
    let builder = Cluster::builder().nodes(NODES, ZONES).deployed_rights();
    let mut cluster =
        step("start etcd, the API server, the scheduler and the controllers", Box::pin(builder.start()))
            .await?;

    println!("\nWithout PersistentPodState: the cluster's load changes, then all 12 Pods are deleted.\n");
    let without = play(&cluster, "without").await?;
    without.print();
    step("clean up", clean_up(&cluster, "without")).await?;

    step("start the policy (Wasm, behind the admission webhook) and the sidecar", async {
        let module = PolicyModule::load_file(&policy_path())?;
        // The host ends an evaluation after 2 s, as PolicyServer does. On an overloaded machine that may
        // happen.
        let mut attempts = 1;
        while let Err(error) = cluster.start_webhook(module.clone(), WebhookOptions::default()).await {
            if attempts == ATTEMPTS {
                return Err(error);
            }
            attempts += 1;
        }
        cluster.start_sidecar(SidecarOptions::default()).await
    })
    .await?;
    println!("\nWith PersistentPodState: the same again.\n");
    let with = play(&cluster, "with").await?;
    with.print();

    // No times: this host is built without optimisation and shares the machine with a whole cluster.
    let evaluations = cluster.webhook()?.evaluations();
    eprintln!("  the policy answered {evaluations} requests; docs/benchmarks.md says how long it takes");

    let tour = Tour::new(&cluster)?;
    println!(
        "\nA Pod of {DATABASE} must return to a cordoned node: the plugin says why it is Pending, and moves it."
    );
    let has_moved = Box::pin(tour.play("with", DATABASE)).await?;

    let [home_nodes, home_ips, pods] = with.counts();
    let [away_nodes, away_ips, _] = without.counts();
    println!(
        "\nwith PPS {home_nodes}/{pods} on their node, {home_ips}/{pods} with their IP; \
         without {away_nodes}/{pods}, {away_ips}/{pods}"
    );
    if args.keep {
        let kubeconfig = cluster.control_plane.kubeconfig_for(control_plane::ADMIN)?;
        println!("\nThe cluster runs until Ctrl-C. Try:\n");
        println!("    export KUBECONFIG={}", kubeconfig.display());
        println!("    export PATH=\"{}:$PATH\"   # kubectl-pps and kubectl", tour.folders());
        println!("    kubectl pps status -n with");
        println!("    kubectl pps explain {DATABASE}-0 -n with");
        println!("    kubectl get pps -A");
        println!("    kubectl -n with get pods -o wide");
        println!("    kubectl -n with describe pps {QUEUE}");
        tokio::signal::ctrl_c().await?;
    }
    cluster.shutdown().await?;
    Ok(home_nodes == pods && home_ips == pods && has_moved)
}

/// Each Pod before it was deleted, and its successor.
struct Journey {
    pods: Vec<(PodInfo, PodInfo)>,
}

impl Journey {
    /// The number of Pods on their node, of Pods with their address, and of all Pods.
    fn counts(&self) -> [usize; 3] {
        let count = |same: fn(&(PodInfo, PodInfo)) -> bool| self.pods.iter().filter(|pod| same(pod)).count();
        [count(|(a, b)| a.node == b.node), count(|(a, b)| a.ip == b.ip), self.pods.len()]
    }

    fn print(&self) {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_header(["Pod", "Node before", "Node after", "IP before", "IP after"]);
        for (before, after) in &self.pods {
            let compared = |before: &Option<String>, after: &Option<String>| {
                let color = if before == after { Color::Green } else { Color::Red };
                Cell::new(after.as_deref().unwrap_or("-")).fg(color)
            };
            let plain = |text: &Option<String>| Cell::new(text.as_deref().unwrap_or("-"));
            table.add_row([
                Cell::new(&before.name),
                plain(&before.node),
                compared(&before.node, &after.node),
                plain(&before.ip),
                compared(&before.ip, &after.ip),
            ]);
        }
        println!("{table}");
    }
}

/// Runs both StatefulSets, moves the load, deletes all Pods and waits for their successors.
async fn play(cluster: &Cluster, namespace: &str) -> Result<Journey> {
    cluster.namespace(namespace).await?;
    step("make half of the nodes busy", burden(cluster, namespace, 0..NODES / 2)).await?;
    let database =
        StatefulSetSpec::new(namespace, DATABASE, REPLICAS).persistent(HOSTNAME, "", IP_ANNOTATION);
    let queue = StatefulSetSpec::new(namespace, QUEUE, REPLICAS);
    let before = step("start two StatefulSets with six Pods each", async {
        apply(cluster, &hand_written(namespace)).await?;
        cluster.create_stateful_set(&database).await?;
        cluster.create_stateful_set(&queue).await?;
        all_ready(cluster, namespace, None).await
    })
    .await?;
    if cluster.sidecar.is_some() {
        step("wait until the sidecar has recorded all Pods", recorded(cluster, namespace, &before)).await?;
    }
    step("make the other half of the nodes busy instead", async {
        relieve(cluster, namespace).await?;
        burden(cluster, namespace, NODES / 2..NODES).await
    })
    .await?;
    let after = step("delete all Pods and wait until their successors are Ready", async {
        for name in [DATABASE, QUEUE] {
            let names: Vec<&str> =
                before.keys().filter(|pod| pod.starts_with(name)).map(String::as_str).collect();
            cluster.delete_pods(namespace, name, &names).await?;
        }
        all_ready(cluster, namespace, Some(&before)).await
    })
    .await?;
    let pods = before.into_iter().filter_map(|(name, before)| Some((before, after.get(&name)?.clone())));
    Ok(Journey { pods: pods.collect() })
}

/// Applies an object. Retries, because the policy may exceed its time limit on an overloaded machine.
async fn apply(cluster: &Cluster, object: &serde_json::Value) -> Result<()> {
    wait_for("the API server to accept the PersistentPodState", PATIENCE, async || {
        cluster.apply_objects(std::slice::from_ref(object)).await?;
        Ok(Progress::Done(()))
    })
    .await
}

/// The PPS that a user writes for a workload without annotations.
fn hand_written(namespace: &str) -> serde_json::Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "PersistentPodState",
        "metadata": {"name": QUEUE, "namespace": namespace},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": QUEUE},
            "requiredPersistentTopology": {"nodeTopologyKeys": [HOSTNAME]},
            "persistentPodAnnotations": [{"key": IP_ANNOTATION}],
        },
    })
}

/// Waits until all Pods are Ready and none of them is one of `before`.
async fn all_ready(
    cluster: &Cluster,
    namespace: &str,
    before: Option<&BTreeMap<String, PodInfo>>,
) -> Result<BTreeMap<String, PodInfo>> {
    let mut all = BTreeMap::new();
    for name in [DATABASE, QUEUE] {
        let pods = cluster
            .wait_for_pods(namespace, name, &format!("the Pods of {name} to be Ready"), PATIENCE, |pods| {
                pods.len() == REPLICAS as usize
                    && pods.iter().all(|(name, pod)| {
                        let old = before.and_then(|before| before.get(name));
                        pod.ready && old.is_none_or(|old| old.uid != pod.uid)
                    })
            })
            .await?;
        all.extend(pods);
    }
    Ok(all)
}

async fn recorded(cluster: &Cluster, namespace: &str, pods: &BTreeMap<String, PodInfo>) -> Result<()> {
    wait_for("all Pods to be recorded", PATIENCE, async || {
        let mut states = cluster.pod_states(namespace, DATABASE).await?;
        states.append(&mut cluster.pod_states(namespace, QUEUE).await?);
        let known = pods.values().filter(|pod| {
            let state = states.get(&pod.name);
            state.is_some_and(|state| {
                state["nodeName"].as_str() == pod.node.as_deref()
                    && state["annotations"][IP_ANNOTATION].as_str() == pod.ip.as_deref()
            })
        });
        let known = known.count();
        Ok(Progress::when(known == pods.len(), (), format!("{known} of {}", pods.len())))
    })
    .await
}

/// Puts a Pod that requests half of the node's resources on each of these nodes.
async fn burden(cluster: &Cluster, namespace: &str, nodes: std::ops::Range<usize>) -> Result<()> {
    let api: Api<Pod> = cluster.pods_api(namespace);
    for node in nodes {
        let pod = serde_json::from_value(json!({
            "metadata": {"name": format!("burden-{node}"), "labels": {"app": "burden"}},
            "spec": {
                "nodeName": format!("node-{node}"),
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "main", "image": "example.invalid/burden:1",
                    "resources": {"requests": {"cpu": "500", "memory": "500Gi"}},
                }],
            },
        }))?;
        api.create(&PostParams::default(), &pod).await?;
    }
    wait_for("the busy Pods to run", PATIENCE, async || {
        let pods = cluster.pods(namespace, "burden").await?;
        Ok(Progress::when(pods.values().all(|pod| pod.ready), (), format!("{} Pods", pods.len())))
    })
    .await
}

async fn relieve(cluster: &Cluster, namespace: &str) -> Result<()> {
    let api: Api<Pod> = cluster.pods_api(namespace);
    for name in cluster.pods(namespace, "burden").await?.keys() {
        api.delete(name, &DeleteParams::default().grace_period(0)).await?;
    }
    gone(cluster, namespace, "burden").await
}

async fn clean_up(cluster: &Cluster, namespace: &str) -> Result<()> {
    for name in [DATABASE, QUEUE] {
        cluster.delete_stateful_set(namespace, name, false).await?;
        gone(cluster, namespace, name).await?;
    }
    relieve(cluster, namespace).await
}

async fn gone(cluster: &Cluster, namespace: &str, name: &str) -> Result<()> {
    let what = format!("the Pods of {name} to be gone");
    cluster.wait_for_pods(namespace, name, &what, PATIENCE, BTreeMap::is_empty).await.map(drop)
}

/// Prints what is being done and how long it took.
async fn step<T>(what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    let start = Instant::now();
    eprint!("  … {what}");
    let result = work.await;
    match &result {
        Ok(_) => eprintln!(" ({:.1} s)", start.elapsed().as_secs_f64()),
        Err(_) => eprintln!(": failed"),
    }
    result.with_context(|| what.to_owned())
}
