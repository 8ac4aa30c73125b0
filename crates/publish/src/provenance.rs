//! Where it comes from: what is said of both the policy and the image.

use std::{env, path::Path, process::Command};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use oci_client::annotations as key;

use crate::artifact::Annotations;

const EPOCH: &str = "SOURCE_DATE_EPOCH";
/// Of the workspace: the one place where the version is.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
const LICENSE: &str = "Apache-2.0";
const VENDOR: &str = "The PersistentPodState authors";

/// The commit, and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Provenance {
    /// The commit; `-dirty` follows where the checkout has changes.
    pub(crate) revision: String,
    /// When it was made, which is when the commit was.
    pub(crate) created: Timestamp,
}

impl Provenance {
    /// From the checkout's git history, as far as the revision and `SOURCE_DATE_EPOCH` do not say it.
    pub(crate) fn of(source: &Path, revision: Option<&str>) -> Result<Self> {
        if !source.join("Cargo.lock").is_file() {
            bail!(
                "{} is no checkout: it has no Cargo.lock; name the one to use with --source",
                source.display()
            );
        }
        let revision = match revision {
            Some(named) => named.to_owned(),
            None => commit(source).with_context(|| {
                format!("{} has no git history: name the commit with --revision", source.display())
            })?,
        };
        let seconds = match env::var(EPOCH) {
            Ok(value) => value,
            Err(_) => git(source, &["log", "-1", "--format=%ct"]).with_context(|| {
                format!("{} has no git history: set {EPOCH} to a time in seconds", source.display())
            })?,
        };
        Ok(Self { revision, created: timestamp(&seconds)? })
    }

    /// As RFC 3339 wants it.
    pub(crate) fn created(&self) -> String {
        self.created.to_string()
    }

    /// Annotations of a manifest, and labels of an image.
    pub(crate) fn annotations(&self, title: &str, description: &str) -> Annotations {
        [
            (key::ORG_OPENCONTAINERS_IMAGE_CREATED, self.created().as_str()),
            (key::ORG_OPENCONTAINERS_IMAGE_DESCRIPTION, description),
            (key::ORG_OPENCONTAINERS_IMAGE_LICENSES, LICENSE),
            (key::ORG_OPENCONTAINERS_IMAGE_REVISION, &self.revision),
            (key::ORG_OPENCONTAINERS_IMAGE_SOURCE, REPOSITORY),
            (key::ORG_OPENCONTAINERS_IMAGE_TITLE, title),
            (key::ORG_OPENCONTAINERS_IMAGE_URL, REPOSITORY),
            (key::ORG_OPENCONTAINERS_IMAGE_VENDOR, VENDOR),
            (key::ORG_OPENCONTAINERS_IMAGE_VERSION, VERSION),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
    }
}

fn timestamp(seconds: &str) -> Result<Timestamp> {
    let parsed = seconds.trim().parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    parsed.with_context(|| format!("{EPOCH} is {seconds:?}, which is no time in seconds since 1970"))
}

/// The commit that is checked out, and whether that is all.
fn commit(source: &Path) -> Result<String> {
    let commit = git(source, &["rev-parse", "HEAD"])?;
    let changes = git(source, &["status", "--porcelain", "--untracked-files=no"])?;
    Ok(if changes.is_empty() { commit } else { commit + "-dirty" })
}

fn git(source: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new("git").arg("-C").arg(source).args(args).output().context("cannot run git")?;
    if !output.status.success() {
        bail!("git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_seconds_since_1970() {
        assert_eq!(timestamp("1700000000\n").unwrap().to_string(), "2023-11-14T22:13:20Z");
        for wrong in ["", "yesterday", "2023-11-14", "99999999999999999"] {
            let error = timestamp(wrong).unwrap_err().to_string();
            assert!(error.contains(&format!("SOURCE_DATE_EPOCH is {wrong:?}")), "{error}");
        }
    }

    #[test]
    fn a_folder_without_a_lock_file_is_no_checkout() {
        let error = Provenance::of(Path::new("/proc"), None).unwrap_err().to_string();
        assert_eq!(error, "/proc is no checkout: it has no Cargo.lock; name the one to use with --source");
    }
}
