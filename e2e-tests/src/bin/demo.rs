//! The demo plays the same story twice, first without the product, then with it: other nodes become
//! better, all Pods of two StatefulSets are deleted, and a table shows where their successors run
//! and, on real nodes, whether they have their data. Then a Pod is Pending, and the plugin `kubectl
//! pps` lets it go.

#[path = "demo/tour.rs"]
mod tour;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, Color, Table};
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use pps_e2e::cluster::kubelet::IP_ANNOTATION;
use pps_e2e::cluster::{Cluster, PodInfo, StatefulSetSpec, real_nodes};
use pps_e2e::control_plane;
use pps_e2e::kubewarden::stand_in::{PolicyModule, WebhookOptions};
use pps_e2e::repository::policy_path;
use pps_e2e::sidecar::SidecarOptions;
use pps_e2e::wait::{Progress, wait_for};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use tour::Tour;

const HOSTNAME: &str = "kubernetes.io/hostname";
const REPLICAS: u32 = 3;
/// The port of a database.
const REDIS: u16 = 6379;
const PATIENCE: Duration = Duration::from_mins(1);
/// Has the annotations; the sidecar generates its PPS.
const DATABASE: &str = "db";
/// Has a PPS written by hand.
const QUEUE: &str = "queue";

/// Shows what PersistentPodState does, on a real Kubernetes control plane of its own.
///
/// Two StatefulSets with three Pods each run on nodes in three zones. Other nodes become better,
/// then all Pods are deleted at once: first without the product, then with it. As root, the nodes
/// are real, and each Pod is a Redis with its data in a folder of its node. Then a Pod waits for a
/// cordoned node, and kubectl pps moves it. Exits with 1 if a Pod with a PersistentPodState does
/// not return to its node, address and data, or does not move.
#[derive(Debug, Parser)]
#[command(name = "pps-demo", version)]
struct Args {
    /// Keep the cluster running afterwards, to look around with kubectl.
    #[arg(long)]
    keep: bool,
    /// Wait for so many seconds after each part, so that a viewer can read it.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=60))]
    pause: u64,
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
    let builder = Cluster::builder().deployed_rights();
    let (builder, what) = match real_nodes::missing() {
        None => (builder.real_nodes(3), "three real nodes"),
        Some(remedy) => {
            eprintln!(
                "  The nodes are simulated, and their Pods have no data. For real nodes, {remedy}."
            );
            (builder.nodes(6, 3), "six simulated nodes")
        }
    };
    let what = format!("start etcd, the API server, the scheduler, the controllers and {what}");
    let mut cluster = step(&what, Box::pin(builder.start())).await?;

    // Compiled during the first half of the story, which mostly waits.
    let module = tokio::task::spawn_blocking(|| PolicyModule::load_file(&policy_path()));
    println!(
        "\nWithout PersistentPodState: other nodes become better, then all six Pods are deleted.\n"
    );
    let without = play(&cluster, "without").await?;
    without.print();
    let pause = Duration::from_secs(args.pause);
    sleep(pause).await;

    step(
        "start the policy (Wasm, behind the admission webhook) and the sidecar",
        async {
            let module = module.await??.with_shipped_time_limit();
            cluster
                .start_webhook(module, WebhookOptions::default())
                .await?;
            cluster.start_sidecar(SidecarOptions::default()).await
        },
    )
    .await?;
    println!("\nWith PersistentPodState: the same again.\n");
    let with = play(&cluster, "with").await?;
    with.print();
    sleep(pause).await;

    let tour = Tour::new(&cluster, pause)?;
    println!(
        "\nA Pod of {DATABASE} must return to a cordoned node: the plugin says why it is Pending, \
         and moves it."
    );
    let has_moved = Box::pin(tour.play("with", DATABASE)).await?;

    println!(
        "\nwith PPS     {}\nwithout PPS  {}",
        with.summary(),
        without.summary()
    );
    if args.keep {
        let kubeconfig = cluster.control_plane.kubeconfig_for(control_plane::ADMIN)?;
        println!("\nThe cluster runs until Ctrl-C. Try:\n");
        println!("    export KUBECONFIG={}", kubeconfig.display());
        println!(
            "    export PATH=\"{}:$PATH\"   # kubectl-pps and kubectl",
            tour.folders()
        );
        println!("    kubectl pps status -n with");
        println!("    kubectl pps explain {DATABASE}-0 -n with");
        println!("    kubectl get pps -A");
        println!("    kubectl -n with get pods -o wide");
        println!("    kubectl -n with describe pps {QUEUE}");
        tokio::signal::ctrl_c().await?;
    }
    cluster.shutdown().await?;
    Ok(with.all_are_back() && has_moved)
}

/// A Pod before it was deleted, its successor, and on real nodes whether the data was there.
type Moved = (PodInfo, PodInfo, Option<bool>);

struct Journey {
    pods: Vec<Moved>,
}

impl Journey {
    fn count(&self, good: fn(&Moved) -> bool) -> usize {
        self.pods.iter().filter(|pod| good(pod)).count()
    }

    fn all_are_back(&self) -> bool {
        self.count(|(a, b, data)| a.node == b.node && a.ip == b.ip && *data != Some(false))
            == self.pods.len()
    }

    fn summary(&self) -> String {
        let all = self.pods.len();
        let [nodes, ips, data] = [
            self.count(|(a, b, _)| a.node == b.node),
            self.count(|(a, b, _)| a.ip == b.ip),
            self.count(|(.., data)| *data == Some(true)),
        ];
        let has_data = self.pods.iter().any(|(.., data)| data.is_some());
        let data = if has_data {
            format!(", {data}/{all} with their data")
        } else {
            String::new()
        };
        format!("{nodes}/{all} on their node, {ips}/{all} with their IP{data}")
    }

    fn print(&self) {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_header([
            "Pod",
            "Node before",
            "Node after",
            "IP before",
            "IP after",
            "Data",
        ]);
        for (before, after, data) in &self.pods {
            let compared = |before: &Option<String>, after: &Option<String>| {
                let color = if before == after {
                    Color::Green
                } else {
                    Color::Red
                };
                Cell::new(after.as_deref().unwrap_or("-")).fg(color)
            };
            let plain = |text: &Option<String>| Cell::new(text.as_deref().unwrap_or("-"));
            table.add_row([
                Cell::new(&before.name),
                plain(&before.node),
                compared(&before.node, &after.node),
                plain(&before.ip),
                compared(&before.ip, &after.ip),
                match data {
                    None => Cell::new("-"),
                    Some(true) => Cell::new("kept").fg(Color::Green),
                    Some(false) => Cell::new("lost").fg(Color::Red),
                },
            ]);
        }
        println!("{table}");
    }
}

/// Runs both StatefulSets, makes other nodes better, deletes all Pods and waits for their
/// successors.
async fn play(cluster: &Cluster, namespace: &str) -> Result<Journey> {
    cluster.namespace(namespace).await?;
    let is_real = cluster.real_nodes().is_ok();
    let nodes = cluster.nodes.api().list(&ListParams::default()).await?;
    let nodes: Vec<String> = nodes.iter().map(ResourceExt::name_any).collect();
    let (some, others) = nodes.split_at(nodes.len() / 2);
    avoid(cluster, &nodes, some).await?;
    let database =
        stateful_set(cluster, namespace, DATABASE).persistent(HOSTNAME, "", IP_ANNOTATION);
    let queue = stateful_set(cluster, namespace, QUEUE);
    let before = step("start two StatefulSets with three Pods each", async {
        apply(cluster, &hand_written(namespace)).await?;
        cluster.create_stateful_set(&database).await?;
        cluster.create_stateful_set(&queue).await?;
        all_ready(cluster, namespace, None).await
    })
    .await?;
    if is_real {
        step("write to the database in each Pod", write(before.values())).await?;
    }
    if cluster.sidecar.is_some() {
        step(
            "wait until the sidecar has recorded all Pods",
            recorded(cluster, namespace, &before),
        )
        .await?;
    }
    step(
        "let the scheduler avoid these nodes, and no others",
        avoid(cluster, &nodes, others),
    )
    .await?;
    let after = step(
        "delete all Pods and wait until their successors are Ready",
        async {
            for name in [DATABASE, QUEUE] {
                let names: Vec<&str> = before
                    .keys()
                    .filter(|pod| pod.starts_with(name))
                    .map(String::as_str)
                    .collect();
                cluster.delete_pods(namespace, name, &names).await?;
            }
            all_ready(cluster, namespace, Some(&before)).await
        },
    )
    .await?;
    let mut pods = Vec::new();
    for (name, before) in before {
        let after = after[&name].clone();
        let data = if is_real {
            Some(ask(&after, "GET value").await?.contains(&before.uid))
        } else {
            None
        };
        pods.push((before, after, data));
    }
    Ok(Journey { pods })
}

/// A StatefulSet, whose Pods on real nodes are databases.
fn stateful_set(cluster: &Cluster, namespace: &str, name: &str) -> StatefulSetSpec {
    let spec = StatefulSetSpec::new(namespace, name, REPLICAS);
    if cluster.real_nodes().is_err() {
        return spec;
    }
    let run = "mkdir -p /data/$HOSTNAME; exec redis-server --dir /data/$HOSTNAME --appendonly yes \
               --appendfsync always --protected-mode no";
    spec.template(&json!({"spec": {
        "containers": [{
            "name": "main", "image": real_nodes::DATABASE, "command": ["sh", "-c", run],
            "readinessProbe": {"tcpSocket": {"port": REDIS}, "periodSeconds": 1},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }],
        "volumes": [{"name": "data", "hostPath": {"path": format!("/var/lib/{namespace}"), "type": "DirectoryOrCreate"}}],
    }}))
}

/// What the database in a Pod answers to a command.
async fn ask(pod: &PodInfo, command: &str) -> Result<String> {
    let address = (pod.ip.as_deref().context("no address")?, REDIS);
    let answer = async {
        let mut stream = TcpStream::connect(address).await?;
        stream
            .write_all(format!("{command}\r\nQUIT\r\n").as_bytes())
            .await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        anyhow::Ok(answer)
    };
    tokio::time::timeout(PATIENCE, answer)
        .await
        .with_context(|| format!("{} is silent", pod.name))?
}

/// Each database stores the UID of its Pod.
async fn write(pods: impl Iterator<Item = &PodInfo>) -> Result<()> {
    for pod in pods {
        let answer = ask(pod, &format!("SET value {}", pod.uid)).await?;
        ensure!(answer.starts_with("+OK"), "{}: {answer}", pod.name);
    }
    Ok(())
}

/// Applies an object. Retries: a new namespace may lack its service account, and the policy may
/// exceed its time limit on an overloaded machine.
async fn apply(cluster: &Cluster, object: &serde_json::Value) -> Result<()> {
    wait_for("the API server to accept an object", PATIENCE, async || {
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
            .wait_for_pods(
                namespace,
                name,
                &format!("the Pods of {name} to be Ready"),
                PATIENCE,
                |pods| {
                    pods.len() == REPLICAS as usize
                        && pods.iter().all(|(name, pod)| {
                            let old = before.and_then(|before| before.get(name));
                            pod.ready && old.is_none_or(|old| old.uid != pod.uid)
                        })
                },
            )
            .await?;
        all.extend(pods);
    }
    Ok(all)
}

async fn recorded(
    cluster: &Cluster,
    namespace: &str,
    pods: &BTreeMap<String, PodInfo>,
) -> Result<()> {
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
        Ok(Progress::when(
            known == pods.len(),
            (),
            format!("{known} of {}", pods.len()),
        ))
    })
    .await
}

/// Lets the scheduler avoid some nodes, and no others.
async fn avoid(cluster: &Cluster, nodes: &[String], avoided: &[String]) -> Result<()> {
    for node in nodes {
        let taints = avoided
            .contains(node)
            .then(|| json!([{"key": "busy", "effect": "PreferNoSchedule"}]));
        let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
        cluster
            .nodes
            .api()
            .patch(node, &PatchParams::default(), &patch)
            .await?;
    }
    Ok(())
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
