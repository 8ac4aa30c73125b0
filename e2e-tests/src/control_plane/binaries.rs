//! The programs of a control plane: where they are, and which version.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use anyhow::{Context, Result, anyhow, bail};

/// A folder with etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl,
/// docker-registry and promtool.
#[derive(Clone, Debug)]
pub struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    /// The folder that `PPS_CONTROL_PLANE_DIR` names, or the one that `make control-plane` fills.
    pub fn find() -> Result<Self> {
        let binaries = Self { folder: folder()? };
        for name in [
            "etcd",
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kubectl",
        ] {
            binaries.path(name)?;
        }
        Ok(binaries)
    }

    /// One program of that folder, without checking for the others.
    pub fn find_one(name: &str) -> Result<PathBuf> {
        Self { folder: folder()? }.path(name)
    }

    /// One of the programs.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        if path.is_file() {
            return Ok(path);
        }
        Err(anyhow!(
            "{} is missing: run `make control-plane`, or set PPS_CONTROL_PLANE_DIR to a folder \
             that has it",
            path.display()
        ))
    }

    /// The version that `kube-apiserver --version` prints, which is asked once.
    pub fn kubernetes_version(&self) -> Result<Version> {
        static KNOWN: OnceLock<Version> = OnceLock::new();
        if let Some(version) = KNOWN.get() {
            return Ok(*version);
        }
        let program = self.path("kube-apiserver")?;
        let output = Command::new(&program).arg("--version").output();
        let output = output.with_context(|| format!("cannot run {}", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = Version::parse(&text)
            .with_context(|| format!("{} --version says {:?}", program.display(), text.trim()))?;
        Ok(*KNOWN.get_or_init(|| version))
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

fn folder() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("PPS_CONTROL_PLANE_DIR") {
        return Ok(folder.into());
    }
    let ours = "persistent-pod-state";
    let cache = if let Some(folder) = env::var_os("PPS_CACHE_DIR") {
        PathBuf::from(folder)
    } else if let Some(folder) = env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Path::new(&folder).join(ours)
    } else if let Some(home) = env::var_os("HOME") {
        Path::new(&home).join(".cache").join(ours)
    } else {
        bail!("none of PPS_CONTROL_PLANE_DIR, PPS_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
    };
    Ok(cache.join("control-plane-v1.20.2"))
}

/// A Kubernetes version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The 1 of 1.20.
    pub major: u32,
    /// The 20 of 1.20.
    pub minor: u32,
}

impl Version {
    /// Version `1.minor`.
    pub const fn minor(minor: u32) -> Self {
        Self { major: 1, minor }
    }

    /// Parses the version in a text such as `Kubernetes v1.20.2`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut numbers = text
            .split_whitespace()
            .find_map(|word| word.strip_prefix('v'))
            .context("no version")?
            .split('.')
            .map(|part| {
                part.chars()
                    .take_while(char::is_ascii_digit)
                    .collect::<String>()
                    .parse::<u32>()
            });
        let mut next = || numbers.next().context("no version")?.context("no version");
        Ok(Self {
            major: next()?,
            minor: next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_version_that_the_binary_prints() {
        assert_eq!(
            Version::parse("Kubernetes v1.20.2\n").unwrap(),
            Version::minor(20)
        );
        assert_eq!(
            Version::parse("Kubernetes v1.34.0-rc.1+dirty").unwrap(),
            Version::minor(34)
        );
        assert!(Version::parse("no such thing").is_err());
        assert!(Version::minor(9) < Version::minor(20));
    }
}
