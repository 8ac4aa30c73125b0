//! What programs read: each answer says what it is. These commands need no cluster.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::process::{Command, Output};

use serde_json::Value;

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-pps"));
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = run(args);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn the_version_needs_no_cluster() {
    let version = env!("CARGO_PKG_VERSION");
    let output = run(&["version", "--kubeconfig", "/nonexistent"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("Client Version: v{version}\n"));
    assert!(output.status.success());
    let answer = json(&["version", "-o", "json"]);
    assert_eq!(answer["apiVersion"], "kubectl-pps/v1");
    assert_eq!(answer["kind"], "Version");
    assert_eq!(answer["clientVersion"]["gitVersion"], format!("v{version}"));
}
