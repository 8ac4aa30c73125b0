//! The product's Pods on simulated nodes run as processes of this machine: its program with the
//! arguments and the ServiceAccount of the Pod. Real nodes show that its image, security context
//! and probes fit.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{EnvVar, Pod, ServiceAccount},
};
use kube::{Api, Client, ResourceExt, api::PostParams};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    control_plane::free_port,
    http,
    supervisor::{Spec, Supervisor},
};

const LISTENS: &str = "--admin-address=";

/// Runs the Pods of one namespace.
pub struct Programs {
    /// The namespace.
    pub namespace: &'static str,
    /// What its Pods run.
    pub program: PathBuf,
    /// Runs the processes.
    pub supervisor: Arc<Supervisor>,
    /// Makes tokens.
    pub client: Client,
    /// A kubeconfig whose token is replaced.
    pub kubeconfig: Value,
    /// What went wrong, for error messages.
    pub problems: Mutex<Vec<String>>,
}

/// A process that was started.
pub(super) struct Running {
    spec: Spec,
    /// The address on which it listens, if it has a readiness probe.
    address: Option<String>,
    grace: Duration,
}

impl Programs {
    /// Adds to what went wrong.
    pub(super) fn complain(&self, problem: String) {
        self.lock().push(problem);
    }

    /// What went wrong so far.
    pub fn problems(&self) -> Vec<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the process.
    pub(super) async fn start(&self, pod: &Pod) -> Result<Running> {
        let spec = pod.spec.as_ref().context("a Pod without spec")?;
        let [container] = spec.containers.as_slice() else {
            bail!("only one container can run here")
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), self.namespace);
        let account = spec.service_account_name.as_deref().unwrap_or("default");
        let request = TokenRequestSpec {
            expiration_seconds: Some(3607),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest {
            spec: Some(request),
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await?;
        let mut kubeconfig = self.kubeconfig.clone();
        kubeconfig["users"][0]["user"]["token"] = json!(answer.status.context("no token")?.token);
        let file = self
            .supervisor
            .folder()
            .join(format!("{}.kubeconfig", pod.name_any()));
        fs::write(&file, kubeconfig.to_string())?;

        let address = format!("127.0.0.1:{}", free_port()?);
        let own = |word: &String| {
            if word.starts_with(LISTENS) {
                format!("{LISTENS}{address}")
            } else {
                word.clone()
            }
        };
        let mut args: Vec<String> = container.args.iter().flatten().map(own).collect();
        args.push(format!("--kubeconfig={}", file.display()));
        let env = container
            .env
            .iter()
            .flatten()
            .map(|one| Ok((one.name.clone(), value_of(one, pod)?)));
        let env = env.collect::<Result<_>>()?;
        let program = Spec {
            name: pod.name_any(),
            program: self.program.clone(),
            args,
            env,
        };
        self.supervisor.spawn(program.clone())?;
        let grace = spec
            .termination_grace_period_seconds
            .unwrap_or(30)
            .try_into()?;
        Ok(Running {
            spec: program,
            address: container.readiness_probe.is_some().then_some(address),
            grace: Duration::from_secs(grace),
        })
    }

    /// Whether it is Ready now. A process that has ended is started again.
    pub(super) async fn is_ready(&self, running: &Running) -> Result<bool> {
        let status = self.supervisor.status(&running.spec.name)?;
        if !status.running {
            let name = &running.spec.name;
            let said = self.supervisor.log_tail(name, 20);
            self.complain(format!(
                "{name} ended ({status:?}) and is started again; it said:\n{said}"
            ));
            self.supervisor.spawn(running.spec.clone())?;
            return Ok(false);
        }
        let Some(address) = &running.address else {
            return Ok(true);
        };
        Ok(http::get(address, "/readyz")
            .await
            .is_ok_and(|(code, _)| code == 200))
    }

    /// The exit code of a process that is not started again because of the Pod's `restartPolicy`.
    /// None if it still runs.
    pub(super) fn exit_code(&self, running: &Running, pod: &Pod) -> Result<Option<i32>> {
        let policy = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.restart_policy.as_deref());
        if policy != Some("Never") {
            return Ok(None);
        }
        let status = self.supervisor.status(&running.spec.name)?;
        Ok((!status.running).then(|| status.code.unwrap_or(137)))
    }

    /// Sends SIGTERM, and SIGKILL when the grace period is over.
    pub(super) async fn stop(&self, running: &Running) -> Result<()> {
        let name = &running.spec.name;
        if self.supervisor.status(name)?.running {
            self.supervisor.signal(name, Signal::SIGTERM)?;
        }
        if self
            .supervisor
            .wait_exit(name, running.grace)
            .await
            .is_err()
        {
            self.complain(format!("{name} did not end within its grace period"));
            self.supervisor.kill(name).await?;
        }
        Ok(())
    }
}

fn value_of(variable: &EnvVar, pod: &Pod) -> Result<String> {
    let Some(source) = &variable.value_from else {
        return Ok(variable.value.clone().unwrap_or_default());
    };
    match source
        .field_ref
        .as_ref()
        .map(|reference| reference.field_path.as_str())
    {
        Some("metadata.name") => Ok(pod.name_any()),
        Some("metadata.namespace") => Ok(pod.namespace().unwrap_or_default()),
        _ => bail!(
            "{}: this source is not known here: {source:?}",
            variable.name
        ),
    }
}
