//! What the manifests of the repository come to, as kustomize and Helm make them.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{cluster::repository_file, manifests};

/// The Helm chart of this repository.
pub const CHART: &str = "charts/persistent-pod-state";

/// The objects of a kustomization, named by its folder from the root of the repository: `deploy`.
pub fn render_kustomize(folder: &str) -> Result<Vec<Value>> {
    let text = run("kustomize", &["build", &path(&repository_file(folder))?])?;
    manifests::parse(&text).with_context(|| format!("what kustomize makes of {folder}"))
}

/// The objects of the chart, as `helm template` makes them of a file with values.
pub fn render_chart(release: &str, namespace: &str, values: Option<&Path>) -> Result<Vec<Value>> {
    let chart = path(&repository_file(CHART))?;
    let mut arguments = vec!["template", release, &chart, "--namespace", namespace];
    let values = values.map(path).transpose()?;
    if let Some(values) = &values {
        arguments.extend(["--values", values]);
    }
    manifests::parse(&run("helm", &arguments)?).context("what Helm makes of the chart")
}

/// Runs `helm`; what it says is the answer, or the error.
pub fn helm(arguments: &[&str]) -> Result<String> {
    run("helm", arguments)
}

fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(folder()?.join(program))
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    let (answer, complaint) =
        (String::from_utf8(output.stdout)?, String::from_utf8_lossy(&output.stderr).into_owned());
    if !output.status.success() {
        bail!("{program} {}: {answer}{complaint}", arguments.join(" "));
    }
    Ok(answer)
}

/// Where the programs are: the folder that `PPS_MANIFEST_TOOLS_DIR` names, or the one that
/// `make manifest-tools` fills.
fn folder() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("PPS_MANIFEST_TOOLS_DIR") {
        return Ok(folder.into());
    }
    let script = repository_file("hack/manifest-tools.sh");
    let output =
        Command::new(&script).output().with_context(|| format!("cannot run {}", script.display()))?;
    if !output.status.success() {
        bail!("make manifest-tools fails: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim().into())
}

fn path(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    Ok(path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?.to_owned())
}
