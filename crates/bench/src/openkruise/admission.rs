//! The admission of a Pod whose state is recorded: OpenKruise's webhook server, with its informer in the process, and our
//! policy, which asks the API server.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use pps_e2e::cluster::POLICY_SERVER;
use pps_e2e::control_plane::ControlPlane;
use pps_e2e::kubewarden::policy_server::{self, PolicyServer};
use pps_e2e::kubewarden::stand_in::{PolicyModule, Webhook};
use pps_e2e::kubewarden::{Policy, ReviewClient};
use pps_e2e::manifests;
use pps_e2e::repository::{policy_path, repository_file};
use procfs::process::Process;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::bed::{Bed, CANARY};
use super::comparison::{Comparison, Unit, median};
use super::recorder::{Product, Recorder};
use crate::fixture::Case;
use crate::meter::cpu;
use crate::report::count;
use crate::sidecar::layout::ClusterLayout;

/// How many Pods one PPS has recorded.
const SIZES: [ClusterLayout; 4] = [
    of_size("size-10", 10),
    of_size("size-100", 100),
    of_size("size-1000", 1_000),
    of_size("size-10000", 10_000),
];
const CALLS: usize = 200;
/// How long a recorder may take until all sizes are complete, counted from its first record. What is not complete then
/// counts as impossible.
const LIMIT: Duration = Duration::from_mins(1);

const fn of_size(namespace: &'static str, pods: usize) -> ClusterLayout {
    ClusterLayout { namespace, workloads: 1, pods, ready: true }
}

/// What answers admission reviews.
struct Host {
    client: ReviewClient,
    path: String,
    /// The process whose CPU time is measured; none if it is this one.
    process: Option<Process>,
    /// End with the turn.
    _stand_in: Option<Webhook>,
    policy_server: Option<PolicyServer>,
}

/// Has the product's own recorder record each size, and its own webhook admit Pods.
pub(super) async fn measure(bed: &mut Bed, product: Product, comparison: &mut Comparison) -> Result<()> {
    let records = bed.prepare(product, &SIZES).await?;
    let mut recorder = bed.start_recorder(product).await?;
    recorder.wait_until_ready().await?;
    ensure!(
        records.wait(CANARY.namespace, 1, Duration::from_mins(1)).await?.is_some(),
        "nothing is recorded; the recorder's last lines:\n{}",
        recorder.log_tail()
    );
    let deadline = Instant::now() + LIMIT;
    let mut sizes = Vec::new();
    for layout in SIZES {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
        let prefix = format!("{}/", layout.namespace);
        if records.wait(&prefix, layout.pods, left).await?.is_some() {
            sizes.push(layout);
        } else {
            let seen = records.seen().states(&prefix);
            eprintln!("    {}: {seen} of {} Pods are recorded after {LIMIT:?}", product.title(), layout.pods);
        }
    }
    recorder.settle().await?;
    let host = if product.is_ours() { our_host(bed).await? } else { their_host(&recorder)? };
    // What was recorded is still being freed, which would count for the first size.
    bed.settle().await?;
    for layout in sizes {
        measure_size(bed, &host, layout, product, comparison).await?;
    }
    if host.policy_server.is_some() {
        bed.control_plane.stop("policy-server").await?;
    }
    recorder.stop().await
}

async fn measure_size(
    bed: &Bed,
    host: &Host,
    layout: ClusterLayout,
    product: Product,
    comparison: &mut Comparison,
) -> Result<()> {
    let request = |call: usize| review_request(layout, call * 7 % layout.pods);
    // The first calls fill caches.
    for call in 0..5 {
        let (request, node) = request(call);
        let response = host.client.ask_at(&host.path, &request).await?;
        check(&response, &node)?;
    }
    let used = |bed: &Bed| -> Result<[f64; 2]> {
        Ok([host.process.as_ref().map_or(Ok(0.0), cpu)?, bed.api_server_cpu()?])
    };
    let before = used(bed)?;
    let mut times = Vec::with_capacity(CALLS);
    for call in 0..CALLS {
        let (request, _) = request(call);
        let started = Instant::now();
        let response = host.client.ask_at(&host.path, &request).await?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        ensure!(response["patch"].is_string(), "no patch in the answer: {response}");
    }
    let after = used(bed)?;
    times.sort_unstable_by(f64::total_cmp);
    let each = |index: usize| (after[index] - before[index]) * 1e3 / CALLS as f64;
    let size = count(layout.pods);
    let mut add = |what: &str, value| {
        comparison.add(&format!("{size} recorded: {what}"), Unit::Milliseconds, product, value);
    };
    add("p50", median(&times));
    add("p99", times[CALLS * 99 / 100]);
    if host.process.is_some() {
        add("CPU of the webhook server", each(0));
    }
    add("CPU of the API server", each(1));
    Ok(())
}

/// The creation of a Pod by its controller, and the node of its recorded state.
fn review_request(layout: ClusterLayout, pod: usize) -> (Value, String) {
    let (_, stored) = layout.pod(pod);
    let mut request = Case::default().request();
    let name = layout.pod_name(pod);
    request["name"] = name.as_str().into();
    request["namespace"] = layout.namespace.into();
    let object = &mut request["object"];
    object["metadata"]["name"] = name.as_str().into();
    object["metadata"]["namespace"] = layout.namespace.into();
    object["metadata"]["ownerReferences"] = stored["metadata"]["ownerReferences"].clone();
    let node = stored["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    (request, node)
}

/// Fails unless the answer sends the Pod to its node.
fn check(response: &Value, node: &str) -> Result<()> {
    ensure!(response["allowed"] == true, "the Pod is refused: {response}");
    let patch = response["patch"].as_str().with_context(|| format!("no patch in the answer: {response}"))?;
    let patch = String::from_utf8(BASE64_STANDARD.decode(patch)?)?;
    ensure!(patch.contains(&format!("\"{node}\"")), "the patch does not name {node}: {patch}");
    Ok(())
}

fn their_host(recorder: &Recorder) -> Result<Host> {
    let authority = std::fs::read_to_string(recorder.certificates.join("ca-cert.pem"))?;
    Ok(Host {
        client: ReviewClient::new(&format!("https://127.0.0.1:{}", recorder.webhook_port), &authority)?,
        path: "/mutate-pod".to_owned(),
        process: Some(Process::new(recorder.process.pid())?),
        _stand_in: None,
        policy_server: None,
    })
}

/// Kubewarden's `PolicyServer` if `POLICY_SERVER` names it, else its stand-in in this process.
async fn our_host(bed: &Bed) -> Result<Host> {
    let mut object =
        manifests::read(&repository_file("deploy/base/cluster-admission-policy.yaml"))?.remove(0);
    let module = policy_path().canonicalize()?;
    object["spec"]["module"] = json!(format!("file://{}", module.display()));
    let policy = Policy::new(object);
    let path = format!("/validate/{}", policy.id());
    let kubeconfig = bed.control_plane.kubeconfig_for(POLICY_SERVER)?;
    if let Some(program) = policy_server::executable() {
        let server = PolicyServer::start(&bed.control_plane, program, &[policy], &kubeconfig, None)?;
        server.wait_ready(Duration::from_mins(1)).await?;
        let pid = bed.control_plane.supervisor().status("policy-server")?.pid;
        let pid = pid.context("the PolicyServer is not running")?;
        return Ok(Host {
            client: ReviewClient::new(server.url(), server.authority())?,
            path,
            process: Some(Process::new(i32::try_from(pid)?)?),
            _stand_in: None,
            policy_server: Some(server),
        });
    }
    let module = PolicyModule::load_file(&module)?;
    let client = ControlPlane::client_of(&kubeconfig)?;
    let webhook = Webhook::start_installed(&Handle::current(), client, &module, vec![policy])?;
    Ok(Host {
        client: ReviewClient::new(webhook.url(), webhook.authority())?,
        path,
        process: None,
        _stand_in: Some(webhook),
        policy_server: None,
    })
}
