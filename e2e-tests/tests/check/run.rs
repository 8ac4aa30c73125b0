//! Runs `pps-sidecar check`, as a user or a Job does.

use std::{
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use pps_e2e::registry::publish::static_sidecar_path;
use serde::Deserialize;
use tokio::process::Command;

/// What the check found.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct CheckReport {
    /// The exit code of the program.
    #[serde(skip)]
    pub(crate) exit_code: i32,
    /// The findings.
    pub(crate) findings: Vec<CheckFinding>,
}

/// A finding, as the JSON output has it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct CheckFinding {
    /// ok, info, unknown, warning or error.
    pub(crate) severity: String,
    /// The code.
    pub(crate) code: String,
    /// The object that it is about.
    pub(crate) subject: String,
    /// What was seen.
    pub(crate) seen: String,
    /// What to do.
    pub(crate) advice: String,
}

impl CheckReport {
    /// The findings with this code.
    pub(crate) fn of(&self, code: &str) -> Vec<&CheckFinding> {
        self.findings
            .iter()
            .filter(|finding| finding.code == code)
            .collect()
    }

    /// Whether there is a finding with this code and severity.
    pub(crate) fn has(&self, code: &str, severity: &str) -> bool {
        self.of(code)
            .iter()
            .any(|finding| finding.severity == severity)
    }

    /// The codes of all findings of this severity.
    pub(crate) fn codes(&self, severity: &str) -> Vec<&str> {
        let found = self
            .findings
            .iter()
            .filter(|finding| finding.severity == severity);
        found.map(|finding| finding.code.as_str()).collect()
    }
}

/// Runs the check of the static sidecar with these arguments, as if in the cluster.
pub(crate) async fn run_check(kubeconfig: &Path, args: &[&str]) -> Result<CheckReport> {
    let args: Vec<&str> = args.iter().copied().chain(["--output=json"]).collect();
    let output = run_check_with(kubeconfig, &args).await?;
    let text = String::from_utf8_lossy(&output.stdout);
    let report: CheckReport = serde_json::from_str(&text)
        .with_context(|| format!("{text} {}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(CheckReport {
        exit_code: output.status.code().unwrap_or(-1),
        ..report
    })
}

/// Runs the check with these arguments. Returns what it wrote.
pub(crate) async fn run_check_with(kubeconfig: &Path, args: &[&str]) -> Result<Output> {
    let output = Command::new(static_sidecar_path()?)
        .arg("check")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(args)
        .env_clear()
        // A Pod has this: the check then takes a registry that it cannot reach for one that the
        // PolicyServer cannot reach.
        .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    // The check itself ends after two minutes, and says what it could not read.
    let output = tokio::time::timeout(Duration::from_mins(3), output);
    output
        .await
        .context("the check took more than three minutes")?
        .context("cannot run the check")
}
