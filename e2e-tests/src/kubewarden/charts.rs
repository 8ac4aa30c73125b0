//! Kubewarden as users have it: its own controller and PolicyServer, in images of their own, and
//! installed with its charts.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{definitions::NAMESPACE, policy_server, reconciler::api};
use crate::{
    cluster::Cluster,
    control_plane::ADMIN,
    manifests,
    programs::Group,
    registry::Registry,
    scratch::Scratch,
    wait::{Progress, wait_for},
};

/// How long one chart, or the PolicyServer `default`, may take until it runs.
const TIMEOUT: Duration = Duration::from_mins(4);

/// Where Kubewarden's own parts are.
#[derive(Clone, Debug)]
pub struct Parts {
    controller: PathBuf,
    policy_server: PathBuf,
    charts: PathBuf,
}

impl Parts {
    /// What to set before Kubewarden's own parts can be installed.
    pub const REMEDY: &str = "set KUBEWARDEN_CONTROLLER=… and POLICY_SERVER=… (Kubewarden's programs) \
                              and KUBEWARDEN_CHARTS=… (the folder of its charts) to run it";

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
    /// until its PolicyServer `default` runs. Without the audit scanner and the charts' hooks,
    /// whose images are of other projects. Returns the version.
    pub async fn install(&self, cluster: &Cluster, registry: &Registry) -> Result<String> {
        let values = |chart: &str| -> Result<Value> {
            let file = self.charts.join(chart).join("values.yaml");
            let values = manifests::read(&file)?.pop();
            values.with_context(|| format!("{} is empty", file.display()))
        };
        let controller = values("kubewarden-controller")?["image"].take();
        let server = values("kubewarden-defaults")?["policyServer"]["image"].take();
        push(&self.controller, "controller", &controller, registry).await?;
        push(&self.policy_server, "policy-server", &server, registry).await?;
        for chart in [
            "kubewarden-crds",
            "kubewarden-controller",
            "kubewarden-defaults",
        ] {
            self.install_chart(chart, cluster, registry).await?;
        }
        let servers = api(&cluster.client(), "PolicyServer");
        wait_for("the PolicyServer default", TIMEOUT, async || {
            let server = servers.get_opt("default").await?;
            Ok(Progress::when(server.is_some(), (), "none"))
        })
        .await?;
        let rollout = ["rollout", "status", "deployment/policy-server-default"];
        wait_for("policy-server-default to run", TIMEOUT, async || {
            let more = ["--namespace", NAMESPACE, "--timeout", "30s"];
            let seen = cluster
                .control_plane
                .kubectl(&[&rollout[..], &more].concat())
                .await?;
            Ok(Progress::Done(seen))
        })
        .await?;
        Ok(controller["tag"].as_str().unwrap_or_default().to_owned())
    }

    async fn install_chart(
        &self,
        chart: &str,
        cluster: &Cluster,
        registry: &Registry,
    ) -> Result<()> {
        let mut helm = Command::new(Group::Publish.program("helm")?);
        helm.args(["install", chart])
            .arg(self.charts.join(chart))
            .args(["--namespace", NAMESPACE, "--create-namespace"])
            .args(["--set", "auditScanner.enable=false"])
            .arg("--set-string")
            .arg(format!(
                "global.cattle.systemDefaultRegistry={}",
                registry.host()
            ))
            .args(["--no-hooks", "--wait", "--timeout", "4m"])
            .env("KUBECONFIG", cluster.control_plane.kubeconfig_for(ADMIN)?)
            .env("HOME", cluster.control_plane.folder());
        run(helm).await
    }
}

/// Pushes a program as the image that a chart names.
async fn push(program: &Path, name: &str, image: &Value, registry: &Registry) -> Result<()> {
    let text = |field: &str| {
        image[field]
            .as_str()
            .with_context(|| format!("no {field}: {image}"))
    };
    let reference = format!(
        "{}/{}:{}",
        registry.host(),
        text("repository")?,
        text("tag")?
    );
    let work = Scratch::folder("image")?;
    let root = work.path().join("root");
    fs::create_dir_all(&root)?;
    copy(program, &root.join(name))?;
    for library in libraries(program)? {
        let inside = root.join(library.strip_prefix("/")?);
        fs::create_dir_all(inside.parent().context("no folder")?)?;
        copy(&library, &inside)?;
    }
    // Where the program expects its libraries, on systems with one folder for both.
    let usr = root.join("usr");
    fs::create_dir_all(&usr)?;
    for folder in ["lib", "lib64"] {
        if root.join(folder).is_dir() && !usr.join(folder).exists() {
            symlink(format!("../{folder}"), usr.join(folder))?;
        }
    }
    fs::write(
        work.path().join("Dockerfile"),
        format!("FROM scratch\nCOPY root/ /\nUSER 65533:65533\nENTRYPOINT [\"/{name}\"]\n"),
    )?;
    let buildah = |arguments: &[&str]| {
        let mut command = Command::new("buildah");
        command
            .args(["--storage-driver", "vfs"])
            .arg("--root")
            .arg(work.path().join("storage"))
            .arg("--runroot")
            .arg(work.path().join("run"))
            .args(arguments)
            .env_remove("DOCKER_CONFIG")
            .env_remove("REGISTRY_AUTH_FILE");
        command
    };
    let context = work.argument();
    run(buildah(&[
        "build",
        "--quiet",
        "--isolation",
        "chroot",
        "--tag",
        "image",
        &context,
    ]))
    .await?;
    let target = format!("docker://{reference}");
    run(buildah(&[
        "push",
        "--quiet",
        "--tls-verify=false",
        "image",
        &target,
    ]))
    .await
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// The libraries of a program, none if it is static.
fn libraries(program: &Path) -> Result<BTreeSet<PathBuf>> {
    let output = Command::new("ldd")
        .arg(program)
        .output()
        .context("cannot run ldd")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(
        !printed.contains("not found"),
        "{}: {printed}",
        program.display()
    );
    // `libc.so.6 => /lib/…/libc.so.6 (0x…)`, or `/lib64/ld-linux-x86-64.so.2 (0x…)`.
    let words = printed.split_whitespace();
    Ok(words
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect())
}

async fn run(mut command: Command) -> Result<()> {
    let output = tokio::task::spawn_blocking(move || {
        let output = command.output();
        output
            .with_context(|| format!("cannot run {command:?}"))
            .map(|output| (command, output))
    });
    let (command, output) = output.await??;
    let printed = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {printed}");
    Ok(())
}
