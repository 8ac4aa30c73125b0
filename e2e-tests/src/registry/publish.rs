//! Runs `hack/publish.sh`, as `make publish` does, and `hack/sign.sh`.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::Write,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use tokio::process::Command;

use super::{foreign::NATIVE, server::Registry};
use crate::{
    programs::Group,
    repository::{policy_path, repository_file},
    scratch::Scratch,
    supervisor::beside_current_exe,
};

/// Longer than a push and the build of a small image take on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(5);

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
    /// More variables for the script.
    pub variables: Vec<(&'static str, OsString)>,
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
            variables: Vec::new(),
        }
    }

    /// The same with a variable of the script.
    #[must_use]
    pub fn with(mut self, variable: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((variable, value.as_ref().to_owned()));
        self
    }

    /// The same with these executables, for this machine's processor and for the other one.
    #[must_use]
    pub fn with_sidecars(self, native: &Path, foreign: &Path) -> Self {
        self.with("PPS_STATIC_SIDECAR", native)
            .with("PPS_FOREIGN_SIDECAR", foreign)
    }

    /// Pushes the policy below `HOST/PATH` and returns its immutable reference.
    pub async fn policy(&self, registry: &str) -> Result<String> {
        self.push_one("policy", registry).await
    }

    /// Pushes the sidecar's image for this machine's processor.
    pub async fn image(&self, registry: &str) -> Result<String> {
        let publisher = self.clone().with("ARCH", NATIVE);
        publisher.push_one("image", registry).await
    }

    /// Pushes the sidecar's image for both processors.
    pub async fn images(&self, registry: &str) -> Result<String> {
        self.push_one("image", registry).await
    }

    /// Pushes the chart.
    pub async fn chart(&self, registry: &str) -> Result<String> {
        self.push_one("chart", registry).await
    }

    async fn push_one(&self, part: &str, registry: &str) -> Result<String> {
        let mut printed = self.clone().with("PARTS", part).push(registry).await?;
        let reference = printed.pop().context("nothing was printed")?;
        ensure!(printed.is_empty(), "not one line: {printed:?}");
        Ok(reference)
    }

    /// Pushes everything and returns the references that the script prints: of the policy, the
    /// image and the chart.
    pub async fn push(&self, registry: &str) -> Result<Vec<String>> {
        let output = self.run("hack/publish.sh", &[registry]).await?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr));
        }
        let printed = String::from_utf8(output.stdout)?;
        Ok(printed.lines().map(str::to_owned).collect())
    }

    /// Runs a script of the repository that uses this registry.
    pub async fn run(&self, script: &str, args: &[&str]) -> Result<Output> {
        let mut command = Command::new(repository_file(script).canonicalize()?);
        command
            .env("PPS_POLICY_WASM", policy_path().canonicalize()?)
            .env("DOCKER_CONFIG", &self.docker_config)
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        // Tests without a sidecar push none.
        if let Ok(sidecar) = static_sidecar_path()
            && !self
                .variables
                .iter()
                .any(|(name, _)| *name == "PPS_STATIC_SIDECAR")
        {
            command.env("PPS_STATIC_SIDECAR", sidecar);
        }
        let output = command
            .args(args)
            .args(&self.access)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        tokio::time::timeout(TIMEOUT, output)
            .await
            .with_context(|| format!("{script} {args:?} took more than {TIMEOUT:?}"))?
            .with_context(|| format!("cannot run {script}"))
    }
}

/// A key pair that nobody keeps, in a folder with `cosign.key` and `cosign.pub`.
pub fn throw_away_key() -> Result<Scratch> {
    let folder = Scratch::folder("keys")?;
    let output = cosign(&["generate-key-pair"])?
        .current_dir(folder.path())
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(folder)
}

/// cosign with these arguments, and the empty password of the throw-away key.
pub fn cosign(args: &[&str]) -> Result<std::process::Command> {
    let mut command = std::process::Command::new(Group::Sign.program("cosign")?);
    command.args(args).env("COSIGN_PASSWORD", "");
    Ok(command)
}

/// Signs references and the files of a folder with `hack/sign.sh`, which also verifies them.
pub fn sign(registry: &Registry, dist: &Path, references: &[String], keys: &Path) -> Result<()> {
    let mut script = std::process::Command::new(repository_file("hack/sign.sh").canonicalize()?);
    script
        .arg(dist)
        .arg("--key")
        .arg(keys.join("cosign.key"))
        .env("COSIGN_PASSWORD", "")
        .env("DOCKER_CONFIG", registry.docker_config());
    if let Some(authority) = registry.ca() {
        script.env("SSL_CERT_FILE", authority);
    }
    let mut child = script
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("no standard input")?;
    input.write_all(references.join("\n").as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
