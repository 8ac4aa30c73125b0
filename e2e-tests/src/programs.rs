//! The programs that tests run and cargo does not build. Scripts of the repository say where they
//! are, and make those that are missing.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError},
};

use anyhow::{Context, Result, ensure};

use crate::repository::repository_file;

/// Programs that are had together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl; for real nodes
    /// also kubelet and kube-proxy.
    Kubernetes,
    /// libfaketime, promtool and proxies of Debian, and below `node` what a node needs besides
    /// the kubelet.
    System,
    /// A registry.
    Tests,
    /// helm, kustomize and oras.
    Publish,
    /// cosign.
    Sign,
}

impl Group {
    fn script(self) -> Command {
        let programs = |group: &str| {
            let mut script = Command::new(repository_file("hack/programs.sh"));
            script.arg(group);
            script
        };
        match self {
            Self::Kubernetes => programs("kubernetes"),
            Self::Tests => programs("tests"),
            Self::Publish => programs("publish"),
            Self::Sign => programs("sign"),
            Self::System => Command::new(repository_file("hack/system-parts.sh")),
        }
    }

    /// The folder with these programs. The first time it asks the script, which may take minutes.
    pub fn folder(self) -> Result<PathBuf> {
        static KNOWN: Mutex<BTreeMap<Group, PathBuf>> = Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = known.get(&self) {
            return Ok(folder.clone());
        }
        let mut script = self.script();
        let output = script
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output();
        let output = output.with_context(|| format!("cannot run {script:?}"))?;
        ensure!(output.status.success(), "{script:?} has failed");
        let folder = PathBuf::from(String::from_utf8(output.stdout)?.trim());
        known.insert(self, folder.clone());
        Ok(folder)
    }

    /// The path of one of these programs.
    pub fn program(self, name: &str) -> Result<PathBuf> {
        let path = self.folder()?.join(name);
        ensure!(path.is_file(), "{} is missing", path.display());
        Ok(path)
    }
}

/// The version of Kubernetes that the tests run on, as `kube-apiserver --version` prints it:
/// `v1.37.2`.
pub fn kubernetes_version() -> Result<&'static str> {
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(version) = KNOWN.get() {
        return Ok(version);
    }
    let program = Group::Kubernetes.program("kube-apiserver")?;
    let output = Command::new(&program).arg("--version").output();
    let output = output.with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(
        output.status.success(),
        "{} --version fails",
        program.display()
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.trim().trim_start_matches("Kubernetes ").to_owned();
    Ok(KNOWN.get_or_init(|| version))
}
