//! Runs the sidecar as a process.

use std::env;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::{
    control_plane::{ControlPlane, free_port},
    http,
    supervisor::{ProcessStatus, Spec, Supervisor, beside_current_exe},
    wait::{Progress, wait_for},
};
use anyhow::{Result, anyhow, bail};
use nix::sys::signal::Signal;
use pps_core::INJECTION_LABEL;

const EXECUTABLE: &str = "pps-sidecar";
const EXECUTABLE_ENV: &str = "PPS_SIDECAR";
/// The product's namespace, which also has the sidecar's Lease.
pub const NAMESPACE: &str = "persistent-pod-state";

/// How to run a sidecar.
#[derive(Clone, Debug)]
pub struct SidecarOptions {
    /// The user of its kubeconfig.
    pub user: String,
    /// Another kubeconfig instead, for example one that points to a proxy.
    pub kubeconfig: Option<PathBuf>,
    /// Its unique name among the processes of the cluster.
    pub name: String,
    /// Another executable instead of the one that `PPS_SIDECAR` names or cargo has built.
    pub program: Option<PathBuf>,
    /// Arguments besides `--kubeconfig` and `--admin-address`.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: Vec<(String, String)>,
}

impl Default for SidecarOptions {
    fn default() -> Self {
        Self {
            user: "pps-sidecar".to_owned(),
            kubeconfig: None,
            name: EXECUTABLE.to_owned(),
            program: None,
            args: Vec::new(),
            env: vec![(
                "RUST_LOG".to_owned(),
                "debug,hyper=info,h2=info,rustls=info,tower=info".to_owned(),
            )],
        }
    }
}

/// A sidecar process. It may have ended.
pub struct Sidecar {
    supervisor: Arc<Supervisor>,
    spec: Spec,
    port: u16,
}

impl Sidecar {
    /// Starts it; it may not be ready yet.
    pub fn start(control_plane: &ControlPlane, options: SidecarOptions) -> Result<Self> {
        let port = free_port()?;
        let kubeconfig = options
            .kubeconfig
            .map_or_else(|| control_plane.kubeconfig_for(&options.user), Ok)?;
        let mut args = vec![
            "--kubeconfig".to_owned(),
            kubeconfig.display().to_string(),
            "--admin-address".to_owned(),
            format!("127.0.0.1:{port}"),
        ];
        args.extend(options.args);
        let program = options.program.map_or_else(find_executable, Ok)?;
        // A Pod of the Deployment has these.
        let mut env = vec![("POD_NAMESPACE".to_owned(), NAMESPACE.to_owned())];
        env.push(("POD_NAME".to_owned(), options.name.clone()));
        // Most tests are not about the scope, and some make their namespaces themselves.
        let selector = format!("{INJECTION_LABEL}!=disabled");
        env.push(("PPS_NAMESPACE_SELECTOR".to_owned(), selector));
        env.extend(options.env);
        let spec = Spec {
            name: options.name,
            program,
            args,
            env,
        };
        let supervisor = control_plane.supervisor().clone();
        supervisor.spawn(spec.clone())?;
        Ok(Self {
            supervisor,
            spec,
            port,
        })
    }

    /// Waits until `/readyz` succeeds.
    pub async fn wait_ready(&self, timeout: Duration) -> Result<()> {
        let name = &self.spec.name;
        let died = OnceLock::new();
        let ready = wait_for(&format!("{name} to be ready"), timeout, async || {
            let status = self.status()?;
            if !status.running {
                let _ = died.set(status);
                return Ok(Progress::Done(()));
            }
            let (code, body) = self.get("/readyz").await?;
            Ok(Progress::when(code == 200, (), format!("{code} {body}")))
        })
        .await;
        if let Some(status) = died.into_inner() {
            bail!(
                "{name} ended ({status:?}):\n{}",
                self.supervisor.log_tail(name, 20)
            );
        }
        ready.map_err(|error| {
            error.context(format!(
                "its last lines:\n{}",
                self.supervisor.log_tail(name, 20)
            ))
        })
    }

    /// Waits until it leads, that is, until it alone writes.
    pub async fn wait_leading(&self, timeout: Duration) -> Result<()> {
        let name = &self.spec.name;
        let leading = wait_for(&format!("{name} to lead"), timeout, async || {
            Ok(Progress::when(self.leads().await?, (), "standby"))
        })
        .await;
        leading.map_err(|error| {
            error.context(format!(
                "its last lines:\n{}",
                self.supervisor.log_tail(name, 20)
            ))
        })
    }

    /// Whether it leads.
    pub async fn leads(&self) -> Result<bool> {
        Ok(self.metric("persistentpodstate_leader").await? == Some(1.0))
    }

    /// Starts it again after it has ended, with the same arguments.
    pub fn start_again(&self) -> Result<ProcessStatus> {
        self.supervisor.spawn(self.spec.clone())
    }

    /// Sends SIGKILL and waits until it has ended.
    pub async fn kill(&self) -> Result<ProcessStatus> {
        self.supervisor.kill(&self.spec.name).await
    }

    /// Sends SIGTERM and waits until it has ended. The status has the exit code.
    pub async fn terminate(&self, timeout: Duration) -> Result<ProcessStatus> {
        let name = &self.spec.name;
        let before = self.supervisor.signal(name, Signal::SIGTERM)?;
        self.supervisor
            .wait_exit(name, timeout)
            .await
            .map_err(|error| {
                let state = before.pid.map_or_else(String::new, state_of_process);
                error.context(format!(
                    "{state}its last lines:\n{}",
                    self.supervisor.log_tail(name, 40)
                ))
            })
    }

    /// Freezes it (SIGSTOP).
    pub fn pause(&self) -> Result<ProcessStatus> {
        self.supervisor.signal(&self.spec.name, Signal::SIGSTOP)
    }

    /// Lets it continue (SIGCONT).
    pub fn resume(&self) -> Result<ProcessStatus> {
        self.supervisor.signal(&self.spec.name, Signal::SIGCONT)
    }

    /// Its status.
    pub fn status(&self) -> Result<ProcessStatus> {
        self.supervisor.status(&self.spec.name)
    }

    /// Its log so far, across restarts.
    pub fn log(&self) -> String {
        self.supervisor.log(&self.spec.name)
    }

    /// The address of `/healthz`, `/readyz` and `/metrics`.
    pub fn admin_address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The text of `/metrics`.
    pub async fn metrics(&self) -> Result<String> {
        Ok(self.get("/metrics").await?.1)
    }

    /// The value of one metric: the line that starts with `name_and_labels`, such as
    /// `persistentpodstate_writes_total{resource="pods",result="success"}`.
    pub async fn metric(&self, name_and_labels: &str) -> Result<Option<f64>> {
        Ok(http::metric(&self.metrics().await?, name_and_labels))
    }

    /// Sends a GET to the admin address. Returns status code and body.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        http::get(&self.admin_address(), path).await
    }
}

/// Finds the executable: from the environment, else beside this one.
fn find_executable() -> Result<PathBuf> {
    if let Some(path) = env::var_os(EXECUTABLE_ENV) {
        return Ok(path.into());
    }
    beside_current_exe(EXECUTABLE).ok_or_else(|| {
        anyhow!("{EXECUTABLE} is not built: cargo build -p {EXECUTABLE} (or set {EXECUTABLE_ENV})")
    })
}

/// What the kernel says of a process that does not do what it should: whether it was stopped,
/// waits, or runs.
fn state_of_process(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let told = ["State:", "Threads:", "voluntary_ctxt_switches:"];
    status
        .lines()
        .filter(|line| told.iter().any(|name| line.starts_with(name)))
        .fold(String::new(), |mut text, line| {
            text.push_str(line);
            text.push('\n');
            text
        })
}
