//! The sidecar with a real API server: what it writes, and how much CPU time and memory it takes.

mod events;
pub(crate) mod layout;

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use pps_e2e::cluster::proxy::Proxy;
use pps_e2e::cluster::{SIDECAR, pps_resource};
use pps_e2e::control_plane::{self, ControlPlane, User, free_port, program};
use pps_e2e::manifests;
use pps_e2e::repository::repository_file;
use pps_e2e::supervisor::Supervisor;
use procfs::process::Process;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use self::layout::ClusterLayout;
use crate::meter::{cpu, memory};
use crate::report::{count, table};

/// Time limit of each wait.
const TIME_LIMIT: Duration = Duration::from_mins(10);
/// The number of events over which the cost of one is averaged.
const EVENTS: usize = 2_000;

/// All tables of the sidecar.
pub(crate) async fn measure(is_small: bool) -> Result<Vec<(&'static str, String)>> {
    let ready = table(
        &[
            "1,000 Pods of one StatefulSet",
            "writes",
            "bytes of patches",
            "bytes sent",
            "CPU",
            "last recorded after",
        ],
        [measure_becoming_ready(Some(50)).await?, measure_becoming_ready(None).await?],
    );
    let sizes: &[usize] = if is_small { &[100, 1_000] } else { &[100, 1_000, 10_000] };
    let (mut starts, mut events) = (Vec::new(), Vec::new());
    for &workloads in sizes {
        let (start, event) = measure_start(workloads).await?;
        starts.push(start);
        events.push(event);
    }
    let start = table(
        &[
            "all Ready, none recorded",
            "all recorded after",
            "writes",
            "CPU",
            "CPU of API server and etcd",
            "peak memory",
            "memory afterwards",
        ],
        starts,
    );
    let event = table(
        &["recorded Pods", "CPU for 1,000 irrelevant changes", "CPU for 1,000 recorded changes"],
        events,
    );
    eprintln!("  events");
    Ok(vec![
        ("becoming ready", ready),
        ("starting", start),
        ("events", event),
        ("events in the sidecar", events::measure_growth()?),
    ])
}

/// A control plane without controllers, so that nothing else changes the objects.
struct TestBed {
    control_plane: ControlPlane,
    proxy: Proxy,
}

impl TestBed {
    async fn prepare(layout: ClusterLayout) -> Result<Self> {
        let options = control_plane::Options {
            users: vec![User::new(SIDECAR)],
            api_server_flags: vec![
                "--max-requests-inflight=2000".to_owned(),
                "--max-mutating-requests-inflight=1000".to_owned(),
            ],
            ..control_plane::Options::default()
        };
        let supervisor = Arc::new(Supervisor::start()?);
        let control_plane = ControlPlane::start(supervisor, options).await?;
        for name in [program::CONTROLLER_MANAGER, program::SCHEDULER] {
            control_plane.stop(name).await?;
        }
        let client = control_plane.client();
        manifests::apply_file(&client, &repository_file("deploy/base/crd.yaml")).await?;
        manifests::apply_rbac_from(
            &client,
            &repository_file("deploy/base/rbac.yaml"),
            SIDECAR,
            &["pps-sidecar"],
        )
        .await?;
        manifests::ensure_namespace(&client, layout.namespace).await?;
        layout.seed(control_plane.etcd_url()).await?;
        let proxy = Proxy::start(control_plane.url()).await?;
        let test_bed = Self { control_plane, proxy };
        // Fill the API server's own caches first.
        let objects: Api<DynamicObject> = Api::all_with(client, &pps_resource());
        let listed = objects.list_metadata(&kube::api::ListParams::default()).await?.items.len();
        ensure!(listed == layout.workloads, "listed {listed} PPS, not {}", layout.workloads);
        Ok(test_bed)
    }

    /// The processes that serve the sidecar.
    fn servers(&self) -> Result<[Process; 2]> {
        let process = |name| {
            let pid = self.control_plane.supervisor().status(name)?.pid;
            let pid = pid.with_context(|| format!("{name} is not running"))?;
            anyhow::Ok(Process::new(i32::try_from(pid)?)?)
        };
        Ok([process(program::API_SERVER)?, process(program::ETCD)?])
    }

    fn start_sidecar(&self) -> Result<MeasuredSidecar> {
        let kubeconfig = self.proxy.kubeconfig(&self.control_plane, SIDECAR)?;
        let port = free_port()?;
        let started = Instant::now();
        let child = Command::new(sidecar_path()?)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args([
                "--admin-address",
                &format!("127.0.0.1:{port}"),
                "--log",
                "warn",
                "--leader-election=false",
            ])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let id = child.id().context("the sidecar exited at once")?;
        let process = Process::new(i32::try_from(id)?)?;
        Ok(MeasuredSidecar { child, process, port, started })
    }
}

pub(crate) fn sidecar_path() -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("pps-sidecar");
    ensure!(path.is_file(), "run `make bench`: {} is not built", path.display());
    Ok(path)
}

struct MeasuredSidecar {
    child: Child,
    process: Process,
    port: u16,
    started: Instant,
}

impl MeasuredSidecar {
    /// Waits until this many states are written. Returns when that was observed.
    async fn wait_until_recorded(&mut self, states: usize) -> Result<Instant> {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("the sidecar exited with {status}");
            }
            let written =
                self.metric("persistentpodstate_status_patch_entries_total").await.unwrap_or_default();
            if written >= states as u64 {
                return Ok(Instant::now());
            }
            ensure!(
                Instant::now() < deadline,
                "after {TIME_LIMIT:?}, {written} of {states} states are written"
            );
            sleep(Duration::from_millis(10)).await;
        }
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + TIME_LIMIT;
        while self.get("/readyz").await.is_none_or(|response| !response.starts_with("HTTP/1.1 200")) {
            ensure!(Instant::now() < deadline, "the sidecar is not ready after {TIME_LIMIT:?}");
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// The value of a metric without labels.
    async fn metric(&self, name: &str) -> Option<u64> {
        let text = self.get("/metrics").await?;
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    }

    /// The number of successful status writes.
    async fn status_writes(&self) -> Result<u64> {
        let text = self.get("/metrics").await.context("the sidecar serves no metrics")?;
        let series = text.lines().find(|line| {
            line.starts_with("persistentpodstate_writes_total{")
                && line.contains(r#"resource="persistentpodstates/status""#)
                && line.contains(r#"result="success""#)
        });
        let value = series.and_then(|line| line.rsplit(' ').next());
        value.map_or(Ok(0), |value| value.parse().with_context(|| format!("not a count: {value:?}")))
    }

    async fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: sidecar\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await.ok()?;
        Some(response)
    }

    /// Waits until the process is idle. Returns the CPU time so far.
    async fn wait_until_idle(&self) -> Result<f64> {
        let mut before = cpu(&self.process)?;
        loop {
            sleep(Duration::from_secs(2)).await;
            let now = cpu(&self.process)?;
            // Its timers run even when it is idle.
            if now - before < 0.03 {
                return Ok(now);
            }
            before = now;
        }
    }
}

async fn measure_becoming_ready(rate: Option<u64>) -> Result<Vec<String>> {
    let name = rate.map_or_else(|| "as fast as possible".to_owned(), |rate| format!("{rate} per second"));
    eprintln!("  1,000 Pods become Ready: {name}");
    let layout = ClusterLayout { namespace: "bench", workloads: 1, pods: 1_000, ready: false };
    let test_bed = TestBed::prepare(layout).await?;
    let mut sidecar = test_bed.start_sidecar()?;
    sidecar.wait_until_ready().await?;
    let before = sidecar.wait_until_idle().await?;
    let (sent, writes) = (test_bed.proxy.bytes().0, sidecar.status_writes().await?);
    let pods: Vec<usize> = (0..layout.all_pods()).collect();
    let client = test_bed.control_plane.client();
    let last = patch_pods(client, layout, &pods, rate, &PodPatch::become_ready()).await?;
    let after = sidecar.wait_until_recorded(layout.all_pods()).await?.saturating_duration_since(last);
    let used = sidecar.wait_until_idle().await? - before;
    Ok(vec![
        name,
        count(sidecar.status_writes().await? - writes),
        count(sidecar.metric("persistentpodstate_status_patch_bytes_total").await.unwrap_or_default()),
        count(test_bed.proxy.bytes().0 - sent),
        format!("{used:.2} s"),
        format!("{:.2} s", after.as_secs_f64()),
    ])
}

async fn measure_start(workloads: usize) -> Result<(Vec<String>, Vec<String>)> {
    eprintln!("  {workloads} PPS × 10 Pods");
    let layout = ClusterLayout { namespace: "bench", workloads, pods: 10, ready: true };
    let test_bed = TestBed::prepare(layout).await?;
    let servers = test_bed.servers()?;
    let before = servers.iter().map(cpu).sum::<Result<f64>>()?;
    let mut sidecar = test_bed.start_sidecar()?;
    let duration = sidecar.wait_until_recorded(layout.all_pods()).await?.duration_since(sidecar.started);
    let served = servers.iter().map(cpu).sum::<Result<f64>>()? - before;
    let used = sidecar.wait_until_idle().await?;
    let (now, peak) = memory(&sidecar.process)?;
    let name = format!("{} PPS × 10", count(workloads));
    let start = vec![
        name,
        format!("{:.1} s", duration.as_secs_f64()),
        count(sidecar.status_writes().await?),
        format!("{used:.2} s"),
        format!("{served:.1} s"),
        mebibytes(peak),
        mebibytes(now),
    ];

    // Spread the events over as many PPS as there are.
    let step = (layout.all_pods() / EVENTS).max(1);
    let pods: Vec<usize> = (0..EVENTS).map(|event| event * step % layout.all_pods()).collect();
    let mut row = vec![count(layout.all_pods())];
    for key in ["example.com/heartbeat", "ovn.kubernetes.io/ip_address"] {
        let before = sidecar.wait_until_idle().await?;
        let patch = json!({"metadata": {"annotations": {key: "10.99.0.1"}}});
        let client = test_bed.control_plane.client();
        patch_pods(client, layout, &pods, Some(400), &PodPatch::Object(patch)).await?;
        let used = sidecar.wait_until_idle().await? - before;
        row.push(format!("{:.2} s", used * 1_000.0 / EVENTS as f64));
    }
    Ok((start, row))
}

pub(crate) enum PodPatch {
    Object(Value),
    Status(Value),
}

impl PodPatch {
    pub(crate) fn become_ready() -> Self {
        Self::Status(json!({"status": {"conditions": [{"type": "Ready", "status": "True",
            "lastTransitionTime": "2026-01-07T09:11:00Z"}]}}))
    }
}

/// Patches Pods at a rate per second, or as fast as possible. Returns when the last patch was answered.
pub(crate) async fn patch_pods(
    client: Client,
    layout: ClusterLayout,
    pods: &[usize],
    rate: Option<u64>,
    patch: &PodPatch,
) -> Result<Instant> {
    let api: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(client, layout.namespace);
    let started = Instant::now();
    let patches = pods.iter().enumerate().map(|(turn, &index)| {
        let (api, name) = (api.clone(), layout.pod_name(index));
        async move {
            if let Some(rate) = rate {
                let due = Duration::from_secs_f64(turn as f64 / rate as f64);
                sleep(due.saturating_sub(started.elapsed())).await;
            }
            let params = PatchParams::default();
            match patch {
                PodPatch::Object(patch) => api.patch(&name, &params, &Patch::Merge(patch)).await?,
                PodPatch::Status(patch) => api.patch_status(&name, &params, &Patch::Merge(patch)).await?,
            };
            anyhow::Ok(())
        }
    });
    stream::iter(patches).buffered(32).try_collect::<Vec<()>>().await?;
    Ok(Instant::now())
}

pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
