//! The two recorders as processes: OpenKruise's unmodified manager, and our sidecar.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pps_e2e::cluster::SIDECAR;
use pps_e2e::cluster::proxy::Proxy;
use pps_e2e::control_plane::{ControlPlane, free_port};
use pps_e2e::http;
use procfs::process::Process;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::meter::cpu;
use crate::sidecar::sidecar_path;

/// The user of OpenKruise's manager.
pub(super) const MANAGER_USER: &str = "kruise-manager";
const READY_LIMIT: Duration = Duration::from_mins(3);
/// A busy machine may never be as idle as the measurement would like.
const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// What records, and how it is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Product {
    /// With 30 requests a second, its default.
    OpenKruise,
    /// With 2,000 requests a second.
    OpenKruiseLifted,
    Ours,
}

impl Product {
    pub(super) const ALL: [Self; 3] = [Self::OpenKruise, Self::OpenKruiseLifted, Self::Ours];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::OpenKruise => "OpenKruise",
            Self::OpenKruiseLifted => "OpenKruise, limit lifted",
            Self::Ours => "here",
        }
    }

    pub(super) fn is_ours(self) -> bool {
        self == Self::Ours
    }
}

/// A running recorder, whose requests go through a proxy that counts bytes.
pub(super) struct Recorder {
    child: Child,
    pub(super) process: Process,
    pub(super) proxy: Proxy,
    pub(super) started: Instant,
    /// Where `/readyz` is served.
    health: String,
    log: PathBuf,
    /// Of OpenKruise's webhook server.
    pub(super) webhook_port: u16,
    pub(super) certificates: PathBuf,
}

impl Recorder {
    pub(super) async fn start(
        control_plane: &ControlPlane,
        manager: &Path,
        product: Product,
        turn: usize,
    ) -> Result<Self> {
        let proxy = Proxy::start(control_plane.url()).await?;
        let (port, webhook_port) = (free_port()?, free_port()?);
        let health = format!("127.0.0.1:{port}");
        let name = format!("recorder-{turn}");
        let (log, certificates) =
            (control_plane.folder().join(format!("{name}.log")), control_plane.folder().join(&name));
        let mut command = if product.is_ours() {
            let mut command = Command::new(sidecar_path()?);
            command.arg("--kubeconfig").arg(proxy.kubeconfig(control_plane, SIDECAR)?);
            command.args(["--admin-address", &health, "--log", "warn", "--leader-election=false"]);
            command
        } else {
            let mut command = Command::new(manager);
            command.arg("--kubeconfig").arg(proxy.kubeconfig(control_plane, MANAGER_USER)?);
            command.arg(format!("--health-probe-addr={health}"));
            command.arg(format!("--metrics-addr=127.0.0.1:{}", free_port()?));
            command.args(["--enable-leader-election=false", "--enable-pprof=false"]);
            // There is no daemon on these nodes: without it the manager makes no objects for each of them.
            command.arg("--feature-gates=KruiseDaemon=false");
            if product == Product::OpenKruiseLifted {
                command.arg("--rest-config-qps=2000");
            }
            command.env("WEBHOOK_HOST", "127.0.0.1").env("WEBHOOK_PORT", webhook_port.to_string());
            command.env("WEBHOOK_CERT_DIR", &certificates);
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
        Ok(Self { child, process, proxy, started, health, log, webhook_port, certificates })
    }

    pub(super) async fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            self.check()?;
            if let Ok((200, _)) = http::get(&self.health, "/readyz").await {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "not ready after {READY_LIMIT:?}; its last lines:\n{}",
                self.log_tail()
            );
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Fails if the process has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the recorder exited with {status}; its last lines:\n{}", self.log_tail());
        }
        Ok(())
    }

    /// Waits until the process is idle.
    pub(super) async fn settle(&self) -> Result<()> {
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

    pub(super) fn log_tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// Ends the process.
    pub(super) async fn stop(mut self) -> Result<()> {
        self.child.kill().await?;
        Ok(())
    }
}
