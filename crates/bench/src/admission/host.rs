//! What runs the policies: the real PolicyServer, or the stand-in in a process of its own.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use kube::Client;
use pps_e2e::control_plane::ControlPlane;
use pps_e2e::kubewarden::policy_server::{self, PolicyServer};
use pps_e2e::kubewarden::stand_in::{PolicyModule, Webhook};
use pps_e2e::kubewarden::{Policy, ReviewClient};
use pps_e2e::supervisor::Spec;
use pps_e2e::wait::{Progress, wait_for};
use procfs::process::Process;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const STAND_IN: &str = "stand-in";

/// Which host runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostKind {
    PolicyServer,
    StandIn,
}

impl HostKind {
    /// What it is called in tables.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::PolicyServer => "PolicyServer",
            Self::StandIn => "stand-in",
        }
    }
}

/// A running host.
pub(super) struct Host {
    pub(super) kind: HostKind,
    pub(super) client: ReviewClient,
    pub(super) process: Process,
    /// The file with what it logs.
    pub(super) log: PathBuf,
}

impl Host {
    /// Starts the PolicyServer that `POLICY_SERVER` names, or else the stand-in. It has the rights of that user.
    pub(super) async fn start(control_plane: &ControlPlane, user: &str, policies: &[Value]) -> Result<Self> {
        let kubeconfig = control_plane.kubeconfig_for(user)?;
        let Some(program) = policy_server::executable() else {
            return Self::start_stand_in(control_plane, kubeconfig, policies).await;
        };
        let policies: Vec<Policy> = policies.iter().cloned().map(Policy::new).collect();
        let server = PolicyServer::start(control_plane, program, &policies, &kubeconfig, None)?;
        server.wait_ready(Duration::from_mins(2)).await?;
        Ok(Self {
            kind: HostKind::PolicyServer,
            client: ReviewClient::new(server.url(), server.authority())?,
            process: Process::new(i32::try_from(server.pid()?)?)?,
            log: server.log_path(),
        })
    }

    async fn start_stand_in(
        control_plane: &ControlPlane,
        kubeconfig: PathBuf,
        policies: &[Value],
    ) -> Result<Self> {
        let supervisor = control_plane.supervisor();
        let [installed, address] =
            ["stand-in-policies.json", "stand-in-address.json"].map(|name| control_plane.folder().join(name));
        fs::write(&installed, serde_json::to_vec(policies)?)?;
        let mut args = vec!["serve-stand-in".to_owned()];
        for (flag, path) in
            [("--kubeconfig", &kubeconfig), ("--policies", &installed), ("--address", &address)]
        {
            args.extend([flag.to_owned(), path.display().to_string()]);
        }
        let program = std::env::current_exe()?;
        let status = supervisor.spawn(Spec { name: STAND_IN.to_owned(), program, args, env: Vec::new() })?;
        let address = wait_for("the stand-in to serve", Duration::from_mins(2), async || {
            let status = supervisor.status(STAND_IN)?;
            anyhow::ensure!(status.running, "the stand-in ended:\n{}", supervisor.log_tail(STAND_IN, 20));
            Ok(match fs::read(&address) {
                Ok(text) => Progress::Done(serde_json::from_slice::<Address>(&text)?),
                Err(error) => Progress::Waiting(error.to_string()),
            })
        })
        .await?;
        Ok(Self {
            kind: HostKind::StandIn,
            client: ReviewClient::new(&address.url, &address.authority)?,
            process: Process::new(i32::try_from(status.pid.context("the stand-in has no process")?)?)?,
            log: supervisor.log_path(STAND_IN),
        })
    }

    /// Drops what it has logged so far: a million requests would fill the disk.
    pub(super) fn truncate_log(&self) -> Result<()> {
        fs::OpenOptions::new().write(true).open(&self.log)?.set_len(0)?;
        Ok(())
    }
}

/// What the stand-in serves, and where it says its address.
#[derive(Clone, Debug, Args)]
pub(crate) struct StandInArgs {
    #[arg(long)]
    kubeconfig: PathBuf,
    /// `ClusterAdmissionPolicy` objects whose modules are files.
    #[arg(long)]
    policies: PathBuf,
    #[arg(long)]
    address: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Address {
    url: String,
    authority: String,
}

/// Serves until it is killed.
pub(crate) fn run(args: &StandInArgs) -> Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new()?;
    let client: Client = {
        let _context = runtime.enter();
        ControlPlane::client_of(&args.kubeconfig)?
    };
    let objects: Vec<Value> = serde_json::from_slice(&fs::read(&args.policies)?)?;
    let policies: Vec<Policy> = objects.into_iter().map(Policy::new).collect();
    let modules = policies.iter().map(load).collect::<Result<Vec<_>>>()?;
    let (first, module) = policies.first().zip(modules.first()).context("no policy")?;
    let webhook = Webhook::start_installed(runtime.handle(), client, module, vec![first.clone()])?;
    for (policy, module) in policies.iter().zip(&modules).skip(1) {
        webhook.serve_module(module, policy)?;
    }
    let address = Address { url: webhook.url().to_owned(), authority: webhook.authority().to_owned() };
    let unfinished = args.address.with_extension("unfinished");
    fs::write(&unfinished, serde_json::to_vec(&address)?)?;
    fs::rename(&unfinished, &args.address)?;
    loop {
        // It records each request, for tests.
        std::thread::sleep(Duration::from_millis(100));
        webhook.forget();
    }
}

fn load(policy: &Policy) -> Result<PolicyModule> {
    let path = policy.module()?.strip_prefix("file://").context("not a file")?;
    PolicyModule::load(&fs::read(path).with_context(|| path.to_owned())?).with_context(|| path.to_owned())
}
