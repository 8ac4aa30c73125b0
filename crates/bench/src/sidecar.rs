//! The sidecar beside a real API server: what it writes, and what it takes.

mod events;
mod world;

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
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

use self::world::World;
use crate::meter::{cpu, memory};
use crate::report::{count, table};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(10);
/// How many events the cost of one is measured with.
const EVENTS: usize = 2_000;

/// All tables.
pub(crate) async fn measure(large: bool) -> Result<Vec<(&'static str, String)>> {
    let ready = table(
        &[
            "1,000 Pods of one StatefulSet",
            "writes",
            "bytes of patches",
            "bytes sent",
            "CPU",
            "last one recorded after",
        ],
        [becoming_ready(Some(50)).await?, becoming_ready(None).await?],
    );
    let sizes: &[usize] = if large { &[100, 1_000, 10_000] } else { &[100, 1_000] };
    let (mut starts, mut events) = (Vec::new(), Vec::new());
    for &workloads in sizes {
        let (start, event) = starting(workloads).await?;
        starts.push(start);
        events.push(event);
    }
    let start = table(
        &[
            "all Ready, none recorded",
            "all recorded after",
            "writes",
            "CPU",
            "API server's and etcd's CPU",
            "memory, highest",
            "memory, then",
        ],
        starts,
    );
    let event =
        table(&["recorded Pods", "CPU for 1,000 that do not matter", "CPU for 1,000 that do"], events);
    eprintln!("  events");
    Ok(vec![
        ("becoming ready", ready),
        ("starting", start),
        ("events", event),
        ("events in the sidecar", events::growth()?),
    ])
}

/// A control plane without controllers, so that nobody changes what the measurement makes.
struct Ground {
    control_plane: ControlPlane,
    proxy: Proxy,
}

impl Ground {
    async fn prepare(world: World) -> Result<Self> {
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
        manifests::ensure_namespace(&client, world.namespace).await?;
        world.seed(control_plane.etcd_url()).await?;
        let proxy = Proxy::start(control_plane.url()).await?;
        let ground = Self { control_plane, proxy };
        // The API server's own caches learn of everything first.
        let objects: Api<DynamicObject> = Api::all_with(client, &pps_resource());
        let listed = objects.list_metadata(&kube::api::ListParams::default()).await?.items.len();
        ensure!(listed == world.workloads, "{listed} objects");
        Ok(ground)
    }

    /// What answers the sidecar.
    fn servers(&self) -> Result<[Process; 2]> {
        let process = |name| {
            let pid = self.control_plane.supervisor().status(name)?.pid;
            let pid = pid.with_context(|| format!("{name} has no process"))?;
            anyhow::Ok(Process::new(i32::try_from(pid)?)?)
        };
        Ok([process(program::API_SERVER)?, process(program::ETCD)?])
    }

    fn start_sidecar(&self) -> Result<Running> {
        let kubeconfig = self.proxy.kubeconfig(&self.control_plane, SIDECAR)?;
        let port = free_port()?;
        let started = Instant::now();
        let child = Command::new(program_beside()?)
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
        let id = child.id().context("the sidecar has ended")?;
        let process = Process::new(i32::try_from(id)?)?;
        Ok(Running { child, process, port, started })
    }
}

fn program_beside() -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("pps-sidecar");
    ensure!(path.is_file(), "{} is not built", path.display());
    Ok(path)
}

/// A sidecar that is measured.
struct Running {
    child: Child,
    process: Process,
    port: u16,
    started: Instant,
}

impl Running {
    /// Waits until so many states were written, and says when that was seen.
    async fn recorded(&mut self, states: usize) -> Result<Instant> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("the sidecar ended with {status}");
            }
            let written =
                self.metric("persistentpodstate_status_patch_entries_total").await.unwrap_or_default();
            if written >= states as u64 {
                return Ok(Instant::now());
            }
            ensure!(Instant::now() < deadline, "{written} of {states} states were written");
            sleep(Duration::from_millis(10)).await;
        }
    }

    async fn ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.get("/readyz").await.is_none_or(|answer| !answer.starts_with("HTTP/1.1 200")) {
            ensure!(Instant::now() < deadline, "the sidecar does not become ready");
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    async fn metric(&self, name: &str) -> Option<u64> {
        let text = self.get("/metrics").await?;
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    }

    async fn writes(&self) -> u64 {
        self.metric(
            r#"persistentpodstate_writes_total{resource="persistentpodstates/status",result="success"}"#,
        )
        .await
        .unwrap_or_default()
    }

    async fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: sidecar\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        Some(answer)
    }

    /// Waits until it has nothing more to do.
    async fn settled(&self) -> Result<f64> {
        let mut before = cpu(&self.process)?;
        loop {
            sleep(Duration::from_secs(2)).await;
            let now = cpu(&self.process)?;
            // Its own clockwork.
            if now - before < 0.03 {
                return Ok(now);
            }
            before = now;
        }
    }
}

async fn becoming_ready(a_second: Option<u64>) -> Result<Vec<String>> {
    let name =
        a_second.map_or_else(|| "as fast as they can be".to_owned(), |rate| format!("{rate} a second"));
    eprintln!("  1,000 Pods become Ready: {name}");
    let world = World { namespace: "bench", workloads: 1, pods: 1_000, ready: false };
    let ground = Ground::prepare(world).await?;
    let mut sidecar = ground.start_sidecar()?;
    sidecar.ready().await?;
    let before = sidecar.settled().await?;
    let (sent, writes) = (ground.proxy.bytes().0, sidecar.writes().await);
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "True",
        "lastTransitionTime": "2026-01-07T09:11:00Z"}]}});
    let pods: Vec<usize> = (0..world.all_pods()).collect();
    let last = change_pods(&ground, world, &pods, a_second, &Target::Status(patch)).await?;
    let after = sidecar.recorded(world.all_pods()).await?.saturating_duration_since(last);
    let used = sidecar.settled().await? - before;
    Ok(vec![
        name,
        count(sidecar.writes().await - writes),
        count(sidecar.metric("persistentpodstate_status_patch_bytes_total").await.unwrap_or_default()),
        count(ground.proxy.bytes().0 - sent),
        format!("{used:.2} s"),
        format!("{:.2} s", after.as_secs_f64()),
    ])
}

async fn starting(workloads: usize) -> Result<(Vec<String>, Vec<String>)> {
    eprintln!("  {workloads} PPS × 10 Pods");
    let world = World { namespace: "bench", workloads, pods: 10, ready: true };
    let ground = Ground::prepare(world).await?;
    let servers = ground.servers()?;
    let before = servers.iter().map(cpu).sum::<Result<f64>>()?;
    let mut sidecar = ground.start_sidecar()?;
    let took = sidecar.recorded(world.all_pods()).await?.duration_since(sidecar.started);
    let served = servers.iter().map(cpu).sum::<Result<f64>>()? - before;
    let used = sidecar.settled().await?;
    let (now, highest) = memory(&sidecar.process)?;
    let name = format!("{} PPS × 10", count(workloads));
    let start = vec![
        name,
        format!("{:.1} s", took.as_secs_f64()),
        count(sidecar.writes().await),
        format!("{used:.2} s"),
        format!("{served:.1} s"),
        mebibytes(highest),
        mebibytes(now),
    ];

    // The same Pods for each size, so that their writes are alike: each of another object.
    let step = (world.all_pods() / EVENTS).max(1);
    let pods: Vec<usize> = (0..EVENTS).map(|event| event * step % world.all_pods()).collect();
    let mut row = vec![count(world.all_pods())];
    for key in ["example.com/heartbeat", "ovn.kubernetes.io/ip_address"] {
        let before = sidecar.settled().await?;
        let patch = json!({"metadata": {"annotations": {key: "10.99.0.1"}}});
        change_pods(&ground, world, &pods, Some(400), &Target::Object(patch)).await?;
        let used = sidecar.settled().await? - before;
        row.push(format!("{:.2} s", used * 1_000.0 / EVENTS as f64));
    }
    Ok((start, row))
}

/// What of a Pod is changed.
enum Target {
    Object(Value),
    Status(Value),
}

/// Patches Pods at a rate, or as fast as that goes; says when the last patch was answered.
async fn change_pods(
    ground: &Ground,
    world: World,
    pods: &[usize],
    a_second: Option<u64>,
    target: &Target,
) -> Result<Instant> {
    let api: Api<k8s_openapi::api::core::v1::Pod> =
        Api::namespaced(ground.control_plane.client(), world.namespace);
    let started = Instant::now();
    let patches = pods.iter().enumerate().map(|(turn, &index)| {
        let (api, name) = (api.clone(), world.pod_name(index));
        async move {
            if let Some(rate) = a_second {
                let due = Duration::from_secs_f64(turn as f64 / rate as f64);
                sleep(due.saturating_sub(started.elapsed())).await;
            }
            let params = PatchParams::default();
            match target {
                Target::Object(patch) => api.patch(&name, &params, &Patch::Merge(patch)).await?,
                Target::Status(patch) => api.patch_status(&name, &params, &Patch::Merge(patch)).await?,
            };
            anyhow::Ok(())
        }
    });
    stream::iter(patches).buffered(32).try_collect::<Vec<()>>().await?;
    Ok(Instant::now())
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
