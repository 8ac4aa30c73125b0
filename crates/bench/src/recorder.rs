//! The two recorders as processes: OpenKruise's unmodified manager, and our sidecar.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kube::api::ApiResource;
use pps_e2e::cluster::SIDECAR;
use pps_e2e::cluster::proxy::Proxy;
use pps_e2e::control_plane::{ControlPlane, free_port};
use pps_e2e::http;
use pps_e2e::wait::{Progress, wait_for};
use procfs::process::Process;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::meter::cpu;
use crate::openkruise::{self, OpenKruise};

/// A busy machine may never be as idle as the measurement would like.
const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// What records, and how it is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    /// With 30 requests a second, its default.
    OpenKruise,
    /// With 2,000 requests a second.
    OpenKruiseLifted,
    Ours,
}

impl Product {
    pub(crate) const ALL: [Self; 3] = [Self::OpenKruise, Self::OpenKruiseLifted, Self::Ours];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::OpenKruise => "OpenKruise",
            Self::OpenKruiseLifted => "OpenKruise, limit lifted",
            Self::Ours => "here",
        }
    }

    /// The PPS resource in the version that the product stores.
    pub(crate) fn resource(self) -> ApiResource {
        let version = if self == Self::Ours {
            "v1alpha1"
        } else {
            "v1beta1"
        };
        ApiResource {
            group: "apps.kruise.io".to_owned(),
            version: version.to_owned(),
            api_version: format!("apps.kruise.io/{version}"),
            kind: "PersistentPodState".to_owned(),
            plural: "persistentpodstates".to_owned(),
        }
    }

    /// The name of the field with topology keys in that version.
    pub(crate) fn keys_field(self) -> &'static str {
        if self == Self::Ours {
            "nodeTopologyKeys"
        } else {
            "keys"
        }
    }
}

/// A running recorder, whose requests go through a proxy that counts bytes.
pub(crate) struct Recorder {
    child: Child,
    pub(crate) process: Process,
    pub(crate) proxy: Proxy,
    pub(crate) started: Instant,
    /// Where `/readyz` is served.
    health: String,
    log: PathBuf,
    /// Of OpenKruise's webhook server.
    pub(crate) webhook_port: u16,
    pub(crate) certificates: PathBuf,
}

impl Recorder {
    /// Starts the sidecar, or OpenKruise's manager.
    pub(crate) async fn start(
        control_plane: &ControlPlane,
        openkruise: Option<&OpenKruise>,
        product: Product,
        turn: usize,
    ) -> Result<Self> {
        let proxy = Proxy::start(control_plane.url()).await?;
        let health = format!("127.0.0.1:{}", free_port()?);
        let webhook_port = free_port()?;
        let folder = control_plane.folder();
        let log = folder.join(format!("recorder-{turn}.log"));
        let certificates = folder.join(format!("recorder-{turn}"));
        let mut command = if product == Product::Ours {
            sidecar(&proxy.kubeconfig(control_plane, SIDECAR)?, &health)?
        } else {
            let manager = &openkruise.context("OpenKruise is not configured")?.manager;
            let mut command = Command::new(manager);
            command
                .arg("--kubeconfig")
                .arg(proxy.kubeconfig(control_plane, openkruise::USER)?)
                .arg(format!("--health-probe-addr={health}"))
                .arg(format!("--metrics-addr=127.0.0.1:{}", free_port()?))
                .args(["--enable-leader-election=false", "--enable-pprof=false"])
                // There is no daemon on these nodes: without it the manager makes no objects for
                // each of them.
                .arg("--feature-gates=KruiseDaemon=false")
                .env("WEBHOOK_HOST", "127.0.0.1")
                .env("WEBHOOK_PORT", webhook_port.to_string())
                .env("WEBHOOK_CERT_DIR", &certificates);
            if product == Product::OpenKruiseLifted {
                command.arg("--rest-config-qps=2000");
            }
            command
        };
        let output = File::create(&log)?;
        let started = Instant::now();
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", product.title()))?;
        let id = child.id().context("the recorder exited at once")?;
        let process = Process::new(i32::try_from(id)?)?;
        Ok(Self {
            child,
            process,
            proxy,
            started,
            health,
            log,
            webhook_port,
            certificates,
        })
    }

    /// Waits until it is ready. Returns when that was seen.
    pub(crate) async fn wait_until_ready(&mut self) -> Result<Instant> {
        let ready = wait_for(
            "the recorder to be ready",
            Duration::from_mins(3),
            async || {
                let (code, _) = http::get(&self.health, "/readyz").await?;
                Ok(Progress::when(code == 200, Instant::now(), code))
            },
        );
        match ready.await {
            Ok(at) => Ok(at),
            Err(error) => self.fail(&format!("{error:#}")),
        }
    }

    /// Fails with the last lines of its log.
    pub(crate) fn fail<T>(&mut self, reason: &str) -> Result<T> {
        let ended = self.child.try_wait()?;
        let log = String::from_utf8_lossy(&std::fs::read(&self.log)?).into_owned();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(15)..].join("\n");
        bail!("{reason}; the recorder's exit status: {ended:?}; its last lines:\n{tail}")
    }

    /// Waits until the process is idle.
    pub(crate) async fn settle(&self) -> Result<()> {
        let started = Instant::now();
        let mut before = cpu(&self.process)?;
        while started.elapsed() < IDLE_LIMIT {
            sleep(Duration::from_secs(2)).await;
            let now = cpu(&self.process)?;
            // Timers run even when it is idle.
            if now - before < 0.04 {
                break;
            }
            before = now;
        }
        Ok(())
    }

    /// Ends the process.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.child.kill().await?;
        Ok(())
    }
}

fn sidecar(kubeconfig: &Path, health: &str) -> Result<Command> {
    let program = std::env::current_exe()?.with_file_name("pps-sidecar");
    ensure!(
        program.is_file(),
        "run `make bench`: {} is not built",
        program.display()
    );
    let mut command = Command::new(program);
    command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["--admin-address", health, "--log", "warn"])
        .arg("--leader-election=false");
    Ok(command)
}
