//! Kubewarden's PolicyServer. `POLICY_SERVER` names the executable.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use kube::Client;
use serde_json::{Map, Value, json};

use super::policy::Policy;
use crate::{
    control_plane::{ControlPlane, ServerCertificate, free_port},
    http,
    supervisor::{Spec, Supervisor},
    wait::{Progress, wait_for},
};

const NAME: &str = "policy-server";

/// The executable that `POLICY_SERVER` names.
pub fn executable() -> Option<PathBuf> {
    env::var_os("POLICY_SERVER")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

/// A running PolicyServer.
pub struct PolicyServer {
    supervisor: Arc<Supervisor>,
    url: String,
    authority: String,
    readiness: String,
}

impl PolicyServer {
    /// Starts it as Kubewarden's controller does, with `policies.yml`, `sources.yml` and TLS.
    /// `insecure` is a registry that speaks plain HTTP.
    pub fn start(
        control_plane: &ControlPlane,
        program: PathBuf,
        policies: &[Policy],
        kubeconfig: &Path,
        insecure: Option<&str>,
    ) -> Result<Self> {
        let folder = control_plane.folder().join(NAME);
        fs::create_dir_all(&folder)?;
        let certificate = ServerCertificate::generate(NAME)?;
        let file = |name: &str, content: &str| -> Result<String> {
            let path = folder.join(name);
            fs::write(&path, content)?;
            Ok(path.display().to_string())
        };
        let (port, readiness) = (free_port()?, free_port()?);
        let sources = json!({"insecure_sources": insecure.into_iter().collect::<Vec<_>>()});
        let entries: Map<String, Value> = policies.iter().flat_map(Policy::policies).collect();
        let downloads = folder.join("downloads");
        fs::create_dir_all(&downloads)?;
        let args = [
            ("--addr", "127.0.0.1".to_owned()),
            ("--port", port.to_string()),
            ("--readiness-probe-port", readiness.to_string()),
            ("--cert-file", file("tls.crt", &certificate.certificate)?),
            ("--key-file", file("tls.key", &certificate.key)?),
            (
                "--policies",
                file("policies.yml", &Value::from(entries).to_string())?,
            ),
            ("--sources-path", file("sources.yml", &sources.to_string())?),
            ("--policies-download-dir", downloads.display().to_string()),
            (
                "--sigstore-cache-dir",
                folder.join("sigstore").display().to_string(),
            ),
        ];
        let args = args
            .into_iter()
            .flat_map(|(flag, value)| [flag.to_owned(), value])
            .collect();
        let env = vec![("KUBECONFIG".to_owned(), kubeconfig.display().to_string())];
        let supervisor = control_plane.supervisor().clone();
        supervisor.spawn(Spec {
            name: NAME.to_owned(),
            program,
            args,
            env,
        })?;
        Ok(Self {
            supervisor,
            url: format!("https://127.0.0.1:{port}"),
            authority: certificate.authority,
            readiness: format!("127.0.0.1:{readiness}"),
        })
    }

    /// Waits until it has pulled and compiled the policies.
    pub async fn wait_ready(&self, timeout: Duration) -> Result<()> {
        let ready = wait_for("the PolicyServer to be ready", timeout, async || {
            let status = self.supervisor.status(NAME)?;
            if !status.running {
                return Ok(Progress::Done(Some(status)));
            }
            let (code, _) = http::get(&self.readiness, "/readiness").await?;
            Ok(Progress::when(code == 200, None, code))
        })
        .await
        .with_context(|| self.supervisor.log_tail(NAME, 20))?;
        if let Some(status) = ready {
            bail!(
                "the PolicyServer ended ({status:?}):\n{}",
                self.supervisor.log_tail(NAME, 20)
            );
        }
        Ok(())
    }

    /// Registers one of its policies with the API server.
    pub async fn register(&self, policy: &Policy, admin: &Client) -> Result<()> {
        policy.register(admin, &self.url, &self.authority).await
    }

    /// Its address, without a path.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The authority that signed its certificate.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The id of its process.
    pub fn pid(&self) -> Result<u32> {
        self.supervisor
            .status(NAME)?
            .pid
            .context("the PolicyServer is not running")
    }

    /// The file with what it logs.
    pub fn log_path(&self) -> PathBuf {
        self.supervisor.log_path(NAME)
    }

    /// What it logged.
    pub fn log(&self) -> String {
        self.supervisor.log(NAME)
    }
}
