//! A process that looks up the states of many Pods, as a PolicyServer does when they all come at once.

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
use persistent_pod_state_policy::settings::Lookup;
use pps_core::pps::{API_VERSIONS, KIND, Metadata};
use pps_core::select::{self, Candidate};
use pps_core::{PodState, Spec, TargetReference, to_text};
use pps_e2e::kubewarden::stand_in::{HostCalls, KubernetesHost};
use procfs::process::Process;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::meter::{cpu, memory};

/// How a state is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// What the policy does: a read that no cache answers, by the workload's name.
    ByName,
    /// What it does if there is none of that name: then a list of who claims what, from the host's
    /// watch, and a read.
    Full,
    /// What it does not do: a list from the host's watch that holds all states.
    Cached,
}

/// What to look up.
#[derive(Clone, Debug, Args)]
pub(crate) struct Task {
    /// Who asks, and where.
    #[arg(long)]
    pub(crate) kubeconfig: PathBuf,
    #[arg(long)]
    pub(crate) namespace: String,
    #[arg(long)]
    pub(crate) way: Way,
    /// How many Pods.
    #[arg(long)]
    pub(crate) pods: usize,
    /// How many of them are of one workload.
    #[arg(long)]
    pub(crate) of_each: usize,
    /// When to give up.
    #[arg(long)]
    pub(crate) seconds: u64,
}

/// What became of it. Times in seconds, sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// How many look-ups came to an end.
    pub(crate) on_write_done: usize,
    /// How many of them found the right state.
    pub(crate) found: usize,
    /// What the first failure said.
    pub(crate) failure: Option<String>,
    pub(crate) first: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) whole: f64,
    /// Processor time of this process.
    pub(crate) cpu: f64,
    /// Resident memory before the first look-up and at its highest.
    pub(crate) memory_before: u64,
    pub(crate) memory_peak: u64,
}

/// The workload and the Pod of a number, if so many Pods are of one workload.
pub(crate) fn workload_and_pod(of_each: usize, index: usize) -> (String, String) {
    let workload = format!("web-{}", index / of_each);
    let pod = format!("{workload}-{}", index % of_each);
    (workload, pod)
}

/// Threads that look up: as many as PolicyServer has workers on a machine of two processors.
const WORKERS: usize = 2;

/// How long a look-up took, and whether it found the right state.
type End = (Duration, Result<bool, String>);

/// The process: prints its outcome.
pub(crate) fn run(task: &Task) -> Result<()> {
    let runtime = Runtime::new()?;
    let host = Arc::new(Bridge(runtime.block_on(connect(task))?));
    let me = Process::myself()?;
    let (memory_before, cpu_before) = (memory(&me)?.0, cpu(&me)?);
    let started = Instant::now();
    let next = Arc::new(AtomicUsize::new(0));
    let ends = Arc::<Mutex<Vec<End>>>::default();
    for _ in 0..WORKERS {
        let (task, host, next, ends) = (task.clone(), host.clone(), next.clone(), ends.clone());
        thread::spawn(move || {
            loop {
                let index = next.fetch_add(1, Relaxed);
                if index >= task.pods {
                    return;
                }
                let started = Instant::now();
                let end = look_up(&host, &task, index);
                ends.lock().unwrap_or_else(PoisonError::into_inner).push((started.elapsed(), end));
            }
        });
    }
    // A look-up may hang; this process does not.
    let deadline = Duration::from_secs(task.seconds);
    while ends.lock().unwrap_or_else(PoisonError::into_inner).len() < task.pods
        && started.elapsed() < deadline
    {
        thread::sleep(Duration::from_millis(1));
    }
    let whole = started.elapsed().as_secs_f64();
    let ends = ends.lock().unwrap_or_else(PoisonError::into_inner);
    let mut times: Vec<f64> = ends.iter().map(|(time, _)| time.as_secs_f64()).collect();
    let first = times.first().copied().unwrap_or_default();
    times.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
    let outcome = Outcome {
        on_write_done: ends.len(),
        found: ends.iter().filter(|(_, end)| *end == Ok(true)).count(),
        failure: ends.iter().find_map(|(_, end)| end.clone().err()),
        first,
        p50: at(50).copied().unwrap_or_default(),
        p99: at(99).copied().unwrap_or_default(),
        whole,
        cpu: cpu(&me)? - cpu_before,
        memory_before,
        memory_peak: memory(&me)?.1,
    };
    println!("{}", serde_json::to_string(&outcome)?);
    // Threads that hang are not waited for.
    std::process::exit(0)
}

async fn connect(task: &Task) -> Result<KubernetesHost> {
    // Whoever came first has set it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = Kubeconfig::read_from(&task.kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    Ok(KubernetesHost::new(tokio::runtime::Handle::current(), Client::try_from(config)?))
}

fn look_up(host: &Bridge, task: &Task, index: usize) -> Result<bool, String> {
    let (name, pod) = workload_and_pod(task.of_each, index);
    let workload =
        TargetReference { api_version: "apps/v1".to_owned(), kind: "StatefulSet".to_owned(), name };
    let cluster = Cluster::new(host, &task.namespace);
    let find = |lookup| -> Result<_, String> {
        let governing = cluster.find(&workload, &pod, lookup).map_err(|error| error.to_string())?;
        Ok(governing.and_then(|governing| governing.state))
    };
    let state = match task.way {
        Way::ByName => find(Lookup::ByName)?,
        Way::Full => find(Lookup::Full)?,
        Way::Cached => cached(host, &task.namespace, &workload, &pod)?,
    };
    // The right one, not just any.
    Ok(state.is_some_and(|state| state.annotations.get("pod") == Some(&pod)))
}

/// The other way, as short as it can be: it parses no more than it needs.
fn cached(
    host: &Bridge,
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
        "field_masks": ["spec", "status.podStates", "status.targetUID"],
    });
    let answer = host.call("kubernetes", "list_resources_by_namespace", &to_text(&request))?;
    let mut list: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
    let items = list["items"].as_array_mut().ok_or("no items")?;
    let claims: Vec<(Metadata, TargetReference)> = items
        .iter()
        .map(|item| (Metadata::read(item), TargetReference::read(&item["spec"]["targetRef"])))
        .collect();
    let candidates = claims.iter().map(|(metadata, target_ref)| Candidate { metadata, target_ref });
    let Some(choice) = select::choose(candidates, workload) else { return Ok(None) };
    let Some(chosen) = claims.iter().position(|(metadata, _)| metadata.name == choice.name) else {
        return Ok(None);
    };
    let object = items[chosen].take();
    Spec::deserialize(&object["spec"]).map_err(|error| error.to_string())?;
    Option::deserialize(&object["status"]["podStates"][pod]).map_err(|error| error.to_string())
}

/// The host, asked by native code.
struct Bridge(KubernetesHost);

impl Host for Bridge {
    fn call(&self, namespace: &str, operation: &str, payload: &str) -> Result<String, String> {
        let answer = HostCalls::call(&self.0, namespace, operation, payload.as_bytes())?;
        String::from_utf8(answer).map_err(|error| error.to_string())
    }
}
