//! Runs `pps-publish`.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use tokio::process::Command;

use super::server::Registry;
use crate::{
    repository::{policy_path, repository_file},
    supervisor::beside_current_exe,
};

const EXECUTABLE: &str = "pps-publish";

/// A static sidecar: `PPS_STATIC_SIDECAR`, else what `hack/link-test-sidecar.sh` has linked.
pub fn static_sidecar_path() -> Result<PathBuf> {
    if let Some(path) = env::var_os("PPS_STATIC_SIDECAR").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    beside_current_exe("static/pps-sidecar")
        .context("there is no static sidecar: run make e2e-tests")
}

/// Pushes to one registry.
#[derive(Clone, Debug)]
pub struct Publisher {
    /// Docker's configuration, with the credentials.
    pub docker_config: PathBuf,
    /// How to connect to the registry: `--plain-http` or `--ca-file`.
    pub access: Vec<String>,
}

impl Publisher {
    /// A publisher with what it needs to connect to the registry and log in.
    pub fn to(registry: &Registry) -> Self {
        let access = match registry.ca() {
            Some(authority) => vec!["--ca-file".to_owned(), authority.display().to_string()],
            None => vec!["--plain-http".to_owned()],
        };
        Self {
            docker_config: registry.docker_config(),
            access,
        }
    }

    /// Pushes the policy and returns its immutable reference.
    pub async fn policy(&self, reference: &str) -> Result<String> {
        self.push(&["policy", "--module", path(&policy_path())?, reference])
            .await
    }

    /// Pushes the sidecar's image and returns its immutable reference.
    pub async fn image(&self, reference: &str) -> Result<String> {
        self.push(&[
            "image",
            "--binary",
            path(&static_sidecar_path()?)?,
            reference,
        ])
        .await
    }

    /// Pushes these executables as an image for several processors and returns its immutable
    /// reference.
    pub async fn images(&self, binaries: &[&Path], reference: &str) -> Result<String> {
        let mut args = vec!["image"];
        for binary in binaries {
            args.extend(["--binary", path(binary)?]);
        }
        args.push(reference);
        self.push(&args).await
    }

    /// Pushes a packed chart and returns its immutable reference.
    pub async fn chart(&self, package: &Path, reference: &str) -> Result<String> {
        self.push(&["chart", "--package", path(package)?, reference])
            .await
    }

    /// Pushes with these arguments and returns the line that is printed.
    pub async fn push(&self, args: &[&str]) -> Result<String> {
        let output = self.run(args).await?;
        let (said, complaint) = (text(&output.stdout), text(&output.stderr));
        if !output.status.success() {
            bail!("{complaint}");
        }
        let line = said.strip_suffix('\n').filter(|line| !line.contains('\n'));
        Ok(line
            .with_context(|| format!("not one line: {said:?}"))?
            .to_owned())
    }

    /// Runs `pps-publish` with these arguments, for this registry.
    pub async fn run(&self, args: &[&str]) -> Result<Output> {
        let access = self.access.iter().map(String::as_str);
        let args: Vec<&str> = args.iter().copied().chain(access).collect();
        run(&args, &[("DOCKER_CONFIG", &self.docker_config)]).await
    }
}

/// The executable.
pub fn executable() -> Result<PathBuf> {
    beside_current_exe(EXECUTABLE)
        .ok_or_else(|| anyhow!("{EXECUTABLE} is not built: cargo build -p {EXECUTABLE}"))
}

/// Runs `pps-publish` in the root of the repository.
pub async fn run(args: &[&str], env: &[(&str, &Path)]) -> Result<Output> {
    let output = Command::new(executable()?)
        .args(args)
        .current_dir(repository_file(""))
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    tokio::time::timeout(Duration::from_mins(3), output)
        .await
        .with_context(|| format!("{EXECUTABLE} {args:?} took more than three minutes"))?
        .with_context(|| format!("cannot run {EXECUTABLE}"))
}

fn path(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("not UTF-8: {}", path.display()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
