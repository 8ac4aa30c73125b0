//! Kubewarden as users have it: its own controller and PolicyServer, installed with its charts.

use std::{env, ffi::OsString, path::PathBuf, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use super::{definitions::NAMESPACE, policy_server, reconciler::api};
use crate::{
    cluster::Cluster,
    control_plane::ADMIN,
    manifests,
    programs::Group,
    registry::{Registry, program::Program},
    wait::{Progress, wait_for},
};

/// How long the PolicyServer `default` may take until it runs.
const TIMEOUT: Duration = Duration::from_mins(4);
/// In the order of their installation.
const CHARTS: [&str; 3] = [
    "kubewarden-crds",
    "kubewarden-controller",
    "kubewarden-defaults",
];

/// Where Kubewarden's own parts are.
#[derive(Clone, Debug)]
pub struct Parts {
    controller: PathBuf,
    policy_server: PathBuf,
    charts: PathBuf,
}

impl Parts {
    /// What to do before Kubewarden's own parts can be installed.
    pub const REMEDY: &str = "set KUBEWARDEN_CONTROLLER=… and POLICY_SERVER=… (Kubewarden's \
                              programs) and KUBEWARDEN_CHARTS=… (the folder of its charts) to run \
                              it";

    /// The parts that the variables name, if they name all.
    pub fn named() -> Option<Self> {
        let named = |variable| env::var_os(variable).filter(|path: &OsString| !path.is_empty());
        Some(Self {
            controller: named("KUBEWARDEN_CONTROLLER")?.into(),
            policy_server: policy_server::executable()?,
            charts: named("KUBEWARDEN_CHARTS")?.into(),
        })
    }

    /// Installs Kubewarden from a registry without TLS that the nodes of the cluster use, and waits
    /// until its PolicyServer `default` runs. Returns Kubewarden's version.
    pub async fn install(&self, cluster: &Cluster, registry: &Registry) -> Result<String> {
        let controller = self.values("kubewarden-controller")?["image"].take();
        let server = self.values("kubewarden-defaults")?["policyServer"]["image"].take();
        let authorities = cluster.control_plane.folder().join("ca.crt");
        for (path, name, image) in [
            (&self.controller, "controller", &controller),
            (&self.policy_server, "policy-server", &server),
        ] {
            let program = Program {
                path,
                name,
                authorities: &authorities,
            };
            let [repository, tag] = ["repository", "tag"].map(|field| text(&image[field]));
            program.push(&format!("{}/{repository}:{tag}", registry.host()))?;
        }
        for chart in CHARTS {
            self.install_chart(chart, cluster, registry).await?;
        }
        wait_until_served(cluster).await?;
        Ok(text(&controller["tag"]))
    }

    fn values(&self, chart: &str) -> Result<Value> {
        let file = self.charts.join(chart).join("values.yaml");
        let values = manifests::read(&file)?.pop();
        values.with_context(|| format!("{} is empty", file.display()))
    }

    /// Without the audit scanner and hooks, whose images are of other projects.
    async fn install_chart(
        &self,
        chart: &str,
        cluster: &Cluster,
        registry: &Registry,
    ) -> Result<()> {
        let registry = format!("global.cattle.systemDefaultRegistry={}", registry.host());
        let mut helm = Command::new(Group::Publish.program("helm")?);
        helm.args(["install", chart])
            .arg(self.charts.join(chart))
            .args(["--namespace", NAMESPACE, "--create-namespace"])
            .args(["--set-string", &registry])
            .args(["--set", "auditScanner.enable=false", "--no-hooks"])
            .args(["--wait", "--timeout", "4m"])
            .env("KUBECONFIG", cluster.control_plane.kubeconfig_for(ADMIN)?)
            .env("HOME", cluster.control_plane.folder());
        let output = helm.output().await.context("cannot run helm")?;
        ensure!(
            output.status.success(),
            "{chart}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Waits until the PolicyServer `default` runs.
async fn wait_until_served(cluster: &Cluster) -> Result<()> {
    let servers = api(&cluster.client(), "PolicyServer");
    wait_for("the PolicyServer default", TIMEOUT, async || {
        let server = servers.get_opt("default").await?;
        Ok(Progress::when(server.is_some(), (), "none"))
    })
    .await?;
    wait_for("policy-server-default to run", TIMEOUT, async || {
        let deployment = "deployment/policy-server-default";
        let rollout = ["rollout", "status", deployment, "--namespace", NAMESPACE];
        let wait = [&rollout[..], &["--timeout", "30s"]].concat();
        cluster.control_plane.kubectl(&wait).await?;
        Ok(Progress::Done(()))
    })
    .await
}
