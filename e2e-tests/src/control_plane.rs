//! A real etcd, API server, controller manager and scheduler, listening on loopback.

mod credentials;
mod flags;
mod options;
mod ports;

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{Namespace, ServiceAccount},
};
use kube::{
    Api, Client, Config,
    api::{ObjectMeta, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use nix::sys::signal::Signal;
use tokio::sync::Semaphore;

use credentials::Credentials;
pub use credentials::{ADMIN, ServerCertificate, User};
use flags::Flags;
pub use options::{Options, program};
pub use ports::free_port;

use crate::{
    programs::Group,
    supervisor::{Spec, Supervisor},
    wait::{Progress, wait_for},
};

/// A start keeps a processor busy for seconds; more of them at once would time out on a small
/// machine.
static STARTING: Semaphore = Semaphore::const_new(2);

/// A running control plane.
pub struct ControlPlane {
    supervisor: Arc<Supervisor>,
    credentials: Credentials,
    url: String,
    etcd_url: String,
    specs: Vec<Spec>,
    admin: Client,
}

impl ControlPlane {
    /// Starts everything and waits until the API server is ready.
    ///
    /// A program that ends meanwhile, because its port was taken or because the machine is so busy
    /// that it gave up, is started again, as a kubelet would do.
    pub async fn start(supervisor: Arc<Supervisor>, options: Options) -> Result<Self> {
        // This fails if a provider is installed already. All callers install ring.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let credentials = Credentials::write(supervisor.folder(), &options.users, options.address)?;
        let _turn = STARTING.acquire().await?;
        let deadline = Instant::now() + options.timeout;
        let mut attempt = 1;
        loop {
            let flags = Flags {
                folder: supervisor.folder(),
                etcd_port: free_port()?,
                api_port: free_port()?,
                options: &options,
            };
            let url = format!("https://{}:{}", options.address, flags.api_port);
            credentials.write_kubeconfig(&url, ADMIN, credentials.token(ADMIN)?)?;
            let specs = flags.specs()?;
            match bring_up(&supervisor, &specs, &flags, &credentials, (&url, deadline)).await {
                Ok(admin) => {
                    let etcd_url = format!("http://127.0.0.1:{}", flags.etcd_port);
                    return Ok(Self {
                        supervisor,
                        credentials,
                        url,
                        etcd_url,
                        specs,
                        admin,
                    });
                }
                Err(error) if attempt < 3 && Instant::now() < deadline => {
                    tracing::warn!("starting again: {error:#}");
                    attempt += 1;
                    tear_down(&supervisor, &specs).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The administrator's client. It belongs to the runtime that started the control plane.
    pub fn client(&self) -> Client {
        self.admin.clone()
    }

    /// A client of the named user, for the current runtime.
    pub fn client_for(&self, user: &str) -> Result<Client> {
        client(&self.credentials, &self.url, self.credentials.token(user)?)
    }

    /// The bearer token of the named user.
    pub fn token_of(&self, user: &str) -> Result<&str> {
        self.credentials.token(user)
    }

    /// A client with that bearer token.
    pub fn client_with_token(&self, token: &str) -> Result<Client> {
        client(&self.credentials, &self.url, token)
    }

    /// A client with what a kubeconfig file says, for the current runtime.
    pub fn client_of(kubeconfig: &Path) -> Result<Client> {
        client_from(Kubeconfig::read_from(kubeconfig)?)
    }

    /// A client of a service account, see [`service_account_token`](Self::service_account_token).
    pub async fn client_for_service_account(&self, namespace: &str, name: &str) -> Result<Client> {
        self.client_with_token(&self.service_account_token(namespace, name).await?)
    }

    /// The token of a service account, from the `TokenRequest` API. Makes the account unless it
    /// exists.
    pub async fn service_account_token(&self, namespace: &str, name: &str) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        if accounts.get_opt(name).await?.is_none() {
            let metadata = ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            };
            let account = ServiceAccount {
                metadata,
                ..ServiceAccount::default()
            };
            accounts.create(&PostParams::default(), &account).await?;
        }
        let spec = TokenRequestSpec {
            expiration_seconds: Some(3600),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest {
            spec: Some(spec),
            ..TokenRequest::default()
        };
        let response = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await?;
        response
            .status
            .and_then(|status| status.token)
            .context("the response has no token")
    }

    /// Writes a kubeconfig file with that bearer token. `name` is part of the file name.
    pub fn kubeconfig_with_token(&self, name: &str, token: &str) -> Result<PathBuf> {
        self.credentials.write_kubeconfig(&self.url, name, token)
    }

    /// The path of a kubeconfig file of the named user.
    pub fn kubeconfig_for(&self, user: &str) -> Result<PathBuf> {
        self.credentials
            .write_kubeconfig(&self.url, user, self.credentials.token(user)?)
    }

    /// Runs kubectl as the administrator. Returns its output, or an error with what it wrote to
    /// stderr.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_as(ADMIN, args).await
    }

    /// Runs kubectl as the named user.
    pub async fn kubectl_as(&self, user: &str, args: &[&str]) -> Result<String> {
        let output = tokio::process::Command::new(Group::Kubernetes.program("kubectl")?)
            .arg("--kubeconfig")
            .arg(self.kubeconfig_for(user)?)
            .args(args)
            // Keeps the discovery cache in the folder of this cluster.
            .env("HOME", self.folder())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(Duration::from_mins(1), output)
            .await
            .with_context(|| format!("kubectl {args:?} took more than a minute"))??;
        if !output.status.success() {
            bail!(
                "kubectl {}: {}",
                args.join(" "),
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Kills one of the programs (see [`program`]) and waits until it has ended.
    pub async fn stop(&self, program: &str) -> Result<()> {
        self.supervisor.kill(program).await.map(drop)
    }

    /// Starts a stopped program again, on the same ports. Waits until the API server is ready.
    pub async fn start_again(&self, program: &str) -> Result<()> {
        let spec = self.specs.iter().find(|spec| spec.name == program);
        self.supervisor.spawn(
            spec.with_context(|| format!("no program {program}"))?
                .clone(),
        )?;
        if program == program::API_SERVER {
            wait_until_ready(&self.supervisor, &self.admin, Options::default().timeout).await?;
        }
        Ok(())
    }

    /// Stops and starts a program.
    pub async fn restart(&self, program: &str) -> Result<()> {
        self.stop(program).await?;
        self.start_again(program).await
    }

    /// Freezes a program (`SIGSTOP`).
    pub fn pause(&self, program: &str) -> Result<()> {
        self.supervisor.signal(program, Signal::SIGSTOP).map(drop)
    }

    /// Lets a frozen program continue (`SIGCONT`).
    pub fn resume(&self, program: &str) -> Result<()> {
        self.supervisor.signal(program, Signal::SIGCONT).map(drop)
    }

    /// The API server's address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// etcd's address.
    pub fn etcd_url(&self) -> &str {
        &self.etcd_url
    }

    /// The certificate authority of the API server, as PEM.
    pub fn authority(&self) -> &str {
        self.credentials.authority()
    }

    /// The folder of the cluster.
    pub fn folder(&self) -> &Path {
        self.supervisor.folder()
    }

    /// The supervisor of the programs.
    pub fn supervisor(&self) -> &Arc<Supervisor> {
        &self.supervisor
    }

    /// The audit log, one JSON event per line. Empty unless [`Options::audit_log`] is set.
    pub fn audit_log(&self) -> String {
        fs::read_to_string(self.folder().join(flags::AUDIT_LOG)).unwrap_or_default()
    }
}

async fn bring_up(
    supervisor: &Supervisor,
    specs: &[Spec],
    flags: &Flags<'_>,
    credentials: &Credentials,
    (url, deadline): (&str, Instant),
) -> Result<Client> {
    let left = || deadline.saturating_duration_since(Instant::now());
    let mut rest = Vec::new();
    for spec in specs {
        match spec.name.as_str() {
            program::ETCD => {
                supervisor.spawn(spec.clone())?;
                let address = (Ipv4Addr::LOCALHOST, flags.etcd_port).into();
                wait_for_port(supervisor, program::ETCD, address, left()).await?;
            }
            program::API_SERVER => {
                supervisor.spawn(spec.clone())?;
            }
            _ if !flags.options.controllers => {}
            _ => rest.push(spec.clone()),
        }
    }
    let admin = client(credentials, url, credentials.token(ADMIN)?)?;
    // The API server listens long before it answers: start the other two meanwhile.
    let address = (flags.options.address, flags.api_port).into();
    wait_for_port(supervisor, program::API_SERVER, address, left()).await?;
    for spec in &rest {
        supervisor.spawn(spec.clone())?;
    }
    let spawned = Instant::now();
    wait_until_ready(supervisor, &admin, left()).await?;
    for spec in rest {
        // They exit after ten seconds without an API server. On a busy machine it may take longer
        // to start.
        if spawned.elapsed() > Duration::from_secs(7) {
            supervisor.kill(&spec.name).await?;
        }
        if !supervisor.status(&spec.name)?.running {
            supervisor.spawn(spec)?;
        }
    }
    Ok(admin)
}

fn client(credentials: &Credentials, url: &str, token: &str) -> Result<Client> {
    client_from(serde_json::from_value(credentials.kubeconfig(url, token))?)
}

fn client_from(kubeconfig: Kubeconfig) -> Result<Client> {
    let options = KubeConfigOptions::default();
    let mut config =
        futures::executor::block_on(Config::from_custom_kubeconfig(kubeconfig, &options))?;
    config.connect_timeout = Some(Duration::from_secs(5));
    Ok(Client::try_from(config)?)
}

/// Fails if the program has ended, with the end of its log.
fn check_alive(supervisor: &Supervisor, program: &str) -> Result<()> {
    let status = supervisor.status(program)?;
    if status.running {
        return Ok(());
    }
    bail!(
        "{program} ended ({status:?}); its last lines:\n{}",
        supervisor.log_tail(program, 15)
    )
}

async fn wait_for_port(
    supervisor: &Supervisor,
    program: &str,
    address: SocketAddr,
    timeout: Duration,
) -> Result<()> {
    let started = Instant::now();
    while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
        check_alive(supervisor, program)?;
        if started.elapsed() > timeout {
            bail!(
                "{program} does not listen after {timeout:?}:\n{}",
                supervisor.log_tail(program, 15)
            );
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Waits until `/readyz` succeeds and the namespace `default` exists.
async fn wait_until_ready(
    supervisor: &Supervisor,
    admin: &Client,
    timeout: Duration,
) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    let died = OnceLock::new();
    let ready = wait_for("the API server to be ready", timeout, async || {
        if let Err(error) = check_alive(supervisor, program::API_SERVER) {
            let _ = died.set(error);
            return Ok(Progress::Done(()));
        }
        let request = axum::http::Request::get("/readyz").body(Vec::new())?;
        let answer = admin.request_text(request).await?;
        let default = namespaces.get_opt("default").await?;
        Ok(Progress::when(
            default.is_some(),
            (),
            format!("readyz: {answer}, no namespace default yet"),
        ))
    })
    .await;
    match (died.into_inner(), ready) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => Err(error.context(format!(
            "its last lines:\n{}",
            supervisor.log_tail(program::API_SERVER, 15)
        ))),
        (None, Ok(())) => Ok(()),
    }
}

async fn tear_down(supervisor: &Supervisor, specs: &[Spec]) -> Result<()> {
    for spec in specs {
        if supervisor
            .status(&spec.name)
            .is_ok_and(|status| status.running)
        {
            supervisor.kill(&spec.name).await?;
        }
        let log = supervisor.log_path(&spec.name);
        if log.exists() {
            fs::rename(&log, log.with_extension("log.1"))?;
        }
    }
    let data = supervisor.folder().join(flags::ETCD_DATA);
    if data.exists() {
        fs::remove_dir_all(data)?;
    }
    Ok(())
}
