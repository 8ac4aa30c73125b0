//! A process that looks up the states of many Pods at once, as a PolicyServer does when they are all created.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, ValueEnum};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use persistent_pod_state_policy::Host;
use persistent_pod_state_policy::cluster::Cluster;
use pps_core::packed::recorded_state;
use pps_core::pps::{API_VERSIONS, KIND};
use pps_core::{PodState, Spec, TargetReference, to_text};
use pps_e2e::kubewarden::stand_in::{HostCalls, KubernetesHost};
use procfs::process::Process;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::meter::{cpu, memory};

/// How a state is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LookupMethod {
    /// The policy's way: an uncached get by the workload's name.
    ByName,
    /// The policy's way if the PPS has another name: an alias leads to it, with three gets.
    Alias,
    /// The alternative design: a list with all states from the host's watch.
    Cached,
}

/// What to look up.
#[derive(Clone, Debug, Args)]
pub(crate) struct LookupArgs {
    #[arg(long)]
    pub(crate) kubeconfig: PathBuf,
    #[arg(long)]
    pub(crate) namespace: String,
    #[arg(long)]
    pub(crate) method: LookupMethod,
    #[arg(long)]
    pub(crate) pods: usize,
    #[arg(long)]
    pub(crate) pods_per_workload: usize,
    /// When to give up.
    #[arg(long)]
    pub(crate) seconds: u64,
}

/// The results. Times in seconds, sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LookupReport {
    /// How many lookups have finished.
    pub(crate) finished: usize,
    /// How many of them found the right state.
    pub(crate) found: usize,
    /// The first error message.
    pub(crate) failure: Option<String>,
    pub(crate) first: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) total: f64,
    /// CPU time of this process.
    pub(crate) cpu: f64,
    /// Resident memory before the first lookup, and at its peak.
    pub(crate) memory_before: u64,
    pub(crate) memory_peak: u64,
}

/// The names of the workload and the Pod with this number.
pub(crate) fn workload_and_pod(pods_per_workload: usize, index: usize) -> (String, String) {
    let workload = format!("web-{}", index / pods_per_workload);
    let pod = format!("{workload}-{}", index % pods_per_workload);
    (workload, pod)
}

/// Number of threads: a PolicyServer on a machine with two cores has as many workers.
const WORKERS: usize = 2;

/// How long a lookup took, and whether it found the right state.
type LookupResult = (Duration, Result<bool, String>);

/// Runs all lookups and prints the report as JSON.
pub(crate) fn run(args: &LookupArgs) -> Result<()> {
    let runtime = Runtime::new()?;
    let host = Arc::new(NativeHost(runtime.block_on(connect(args))?));
    let process = Process::myself()?;
    let (memory_before, cpu_before) = (memory(&process)?.0, cpu(&process)?);
    let started = Instant::now();
    let next = Arc::new(AtomicUsize::new(0));
    let results = Arc::<Mutex<Vec<LookupResult>>>::default();
    for _ in 0..WORKERS {
        let (args, host, next, results) = (args.clone(), host.clone(), next.clone(), results.clone());
        thread::spawn(move || {
            loop {
                let index = next.fetch_add(1, Relaxed);
                if index >= args.pods {
                    return;
                }
                let started = Instant::now();
                let result = look_up(&host, &args, index);
                let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                results.push((started.elapsed(), result));
            }
        });
    }
    // A lookup may hang; do not wait for it beyond the time limit.
    let limit = Duration::from_secs(args.seconds);
    while results.lock().unwrap_or_else(PoisonError::into_inner).len() < args.pods
        && started.elapsed() < limit
    {
        thread::sleep(Duration::from_millis(1));
    }
    let total = started.elapsed().as_secs_f64();
    let results = results.lock().unwrap_or_else(PoisonError::into_inner);
    let mut times: Vec<f64> = results.iter().map(|(time, _)| time.as_secs_f64()).collect();
    let first = times.first().copied().unwrap_or_default();
    times.sort_unstable_by(f64::total_cmp);
    let percentile =
        |percent: usize| times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
    let report = LookupReport {
        finished: results.len(),
        found: results.iter().filter(|(_, result)| *result == Ok(true)).count(),
        failure: results.iter().find_map(|(_, result)| result.clone().err()),
        first,
        p50: percentile(50).copied().unwrap_or_default(),
        p99: percentile(99).copied().unwrap_or_default(),
        total,
        cpu: cpu(&process)? - cpu_before,
        memory_before,
        memory_peak: memory(&process)?.1,
    };
    println!("{}", serde_json::to_string(&report)?);
    // Do not wait for threads that hang.
    std::process::exit(0)
}

async fn connect(args: &LookupArgs) -> Result<KubernetesHost> {
    // An error means that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = Kubeconfig::read_from(&args.kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    Ok(KubernetesHost::new(tokio::runtime::Handle::current(), Client::try_from(config)?))
}

fn look_up(host: &NativeHost, args: &LookupArgs, index: usize) -> Result<bool, String> {
    let (name, pod) = workload_and_pod(args.pods_per_workload, index);
    let workload =
        TargetReference { api_version: "apps/v1".to_owned(), kind: "StatefulSet".to_owned(), name };
    let cluster = Cluster::new(host, &args.namespace);
    let state = match args.method {
        LookupMethod::ByName | LookupMethod::Alias => {
            let governing = cluster.find(&workload, &pod).map_err(|error| error.to_string())?;
            governing.and_then(|governing| governing.state)
        }
        LookupMethod::Cached => find_in_cache(host, &args.namespace, &workload, &pod)?,
    };
    // Check that it is this Pod's state.
    Ok(state.is_some_and(|state| state.annotations.get("pod") == Some(&pod)))
}

/// The alternative design in its cheapest form: it parses no more than it needs.
fn find_in_cache(
    host: &NativeHost,
    namespace: &str,
    workload: &TargetReference,
    pod: &str,
) -> Result<Option<PodState>, String> {
    let request = json!({
        "api_version": API_VERSIONS[0],
        "kind": KIND,
        "namespace": namespace,
        "label_selector": null,
        "field_selector": null,
        "field_masks": ["spec", "status.podStates", "status.packed", "status.targetUID"],
    });
    let response = host.call("kubernetes", "list_resources_by_namespace", &to_text(&request))?;
    let mut list: Value = serde_json::from_str(&response).map_err(|error| error.to_string())?;
    let items = list["items"].as_array_mut().ok_or("the list has no items")?;
    let targets_it =
        |item: &&mut Value| TargetReference::read(&item["spec"]["targetRef"]).is_same_workload(workload);
    let Some(object) = items.iter_mut().find(targets_it).map(Value::take) else { return Ok(None) };
    Spec::deserialize(&object["spec"]).map_err(|error| error.to_string())?;
    recorded_state(&object["status"], pod).map_err(|error| error.to_string())
}

/// Passes the calls of natively compiled policy code to the host.
struct NativeHost(KubernetesHost);

impl Host for NativeHost {
    fn call(&self, namespace: &str, operation: &str, payload: &str) -> Result<String, String> {
        let response = HostCalls::call(&self.0, namespace, operation, payload.as_bytes())?;
        String::from_utf8(response).map_err(|error| error.to_string())
    }
}
