//! What a user types when a Pod is Pending. Each command is shown and really run, with its output
//! on the screen.

use std::ffi::OsString;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pps_e2e::cluster::Cluster;
use pps_e2e::control_plane::ADMIN;
use pps_e2e::plugin;
use pps_e2e::programs::Group;
use pps_e2e::wait::{Progress, wait_for};
use tokio::process::Command;

use crate::{PATIENCE, all_ready, recorded, step};

/// A user of the cluster who has kubectl and the plugin on the `PATH`.
pub(super) struct Tour<'a> {
    cluster: &'a Cluster,
    kubectl: PathBuf,
    folders: Vec<PathBuf>,
    path: OsString,
    pause: Duration,
}

impl<'a> Tour<'a> {
    /// `pause`: how long each output stays before the next command.
    pub(super) fn new(cluster: &'a Cluster, pause: Duration) -> Result<Self> {
        let folders = vec![plugin::folder()?, Group::Kubernetes.folder()?];
        let path = plugin::search_path(&folders)?;
        Ok(Self {
            cluster,
            kubectl: Group::Kubernetes.program("kubectl")?,
            folders,
            path,
            pause,
        })
    }

    /// What the user has put before the rest of the `PATH`.
    pub(super) fn folders(&self) -> String {
        let folders: Vec<String> = self
            .folders
            .iter()
            .map(|folder| folder.display().to_string())
            .collect();
        folders.join(":")
    }

    /// Makes the first Pod of a workload wait for its node, asks why, and moves it. Returns whether
    /// it has moved.
    pub(super) async fn play(&self, namespace: &str, workload: &str) -> Result<bool> {
        let pod = format!("{workload}-0");
        let before = self
            .cluster
            .pods(namespace, workload)
            .await?
            .remove(&pod)
            .context("no Pod")?;
        let home = before.node.as_deref().context("the Pod has no node")?;
        let in_namespace = format!("-n {namespace}");

        self.enter(&format!("kubectl pps status {in_namespace}"))
            .await?;
        self.enter(&format!("kubectl cordon {home}")).await?;
        self.enter(&format!("kubectl delete pod {pod} {in_namespace}"))
            .await?;
        step(
            "wait until the scheduler has found no node",
            self.is_pending(namespace, &pod, &before.uid),
        )
        .await?;
        self.enter(&format!("kubectl pps explain {pod} {in_namespace}"))
            .await?;
        let code = self
            .enter(&format!(
                "kubectl pps move {pod} --anywhere --yes {in_namespace}"
            ))
            .await?;

        let mut has_moved = false;
        if code == 0 {
            let pods = step("wait until the Pod is recorded where it is now", async {
                let pods = all_ready(self.cluster, namespace, None).await?;
                recorded(self.cluster, namespace, &pods).await?;
                Ok(pods)
            })
            .await?;
            has_moved = pods
                .get(&pod)
                .is_some_and(|now| now.node.as_deref() != Some(home));
        }
        self.enter(&format!("kubectl pps status {workload} {in_namespace}"))
            .await?;
        self.enter(&format!("kubectl uncordon {home}")).await?;
        if !has_moved {
            eprintln!("  {pod} has not moved");
        }
        Ok(has_moved)
    }

    /// Shows a command, runs it, and returns its exit code: 0, or 1 if it found something that is
    /// not well.
    async fn enter(&self, command: &str) -> Result<i32> {
        println!("\n$ {command}");
        stdout().flush()?;
        let status = Command::new(&self.kubectl)
            .args(command.split_whitespace().skip(1))
            .env("PATH", &self.path)
            .env(
                "KUBECONFIG",
                self.cluster.control_plane.kubeconfig_for(ADMIN)?,
            )
            // Keeps the discovery cache in the folder of this cluster.
            .env("HOME", self.cluster.control_plane.folder())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .status();
        let status = tokio::time::timeout(PATIENCE, status).await;
        tokio::time::sleep(self.pause).await;
        match status
            .with_context(|| format!("{command} does not end"))??
            .code()
        {
            Some(code @ (0 | 1)) => Ok(code),
            _ => bail!("{command} cannot be run"),
        }
    }

    /// Waits until the scheduler has found no node for the successor of a Pod.
    async fn is_pending(&self, namespace: &str, pod: &str, former: &str) -> Result<()> {
        let pods = self.cluster.pods_api(namespace);
        wait_for(&format!("{pod} to be Pending"), PATIENCE, async || {
            let now = pods
                .get_opt(pod)
                .await?
                .filter(|now| now.metadata.uid.as_deref() != Some(former));
            let status = now.and_then(|now| now.status).unwrap_or_default();
            let mut conditions = status.conditions.iter().flatten();
            let is_pending = conditions.any(|one| one.reason.as_deref() == Some("Unschedulable"));
            Ok(Progress::when(
                is_pending,
                (),
                format!("{:?}", status.phase),
            ))
        })
        .await
    }
}
