//! The origin of an artifact: commit, time, and the annotations that name them.

use std::{env, path::Path, process::Command};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use oci_client::annotations as key;

use crate::artifact::Annotations;

const EPOCH: &str = "SOURCE_DATE_EPOCH";
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
pub(crate) const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
const LICENSE: &str = "Apache-2.0";
pub(crate) const VENDOR: &str = "The PersistentPodState authors";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Provenance {
    /// The commit, with the suffix `-dirty` if the checkout has changes.
    pub(crate) revision: String,
    pub(crate) created: Timestamp,
}

impl Provenance {
    /// Reads the git history of a checkout, unless `revision` and `SOURCE_DATE_EPOCH` are given.
    pub(crate) fn from_checkout(source: &Path, revision: Option<&str>) -> Result<Self> {
        if !source.join("Cargo.lock").is_file() {
            bail!(
                "{} is not a checkout: pass one with --source (it has no Cargo.lock)",
                source.display()
            );
        }
        let revision = match revision {
            Some(named) => named.to_owned(),
            None => read_revision(source).with_context(|| {
                format!(
                    "{} has no git history: pass the commit with --revision",
                    source.display()
                )
            })?,
        };
        let seconds = match env::var(EPOCH) {
            Ok(value) => value,
            Err(_) => git(source, &["log", "-1", "--format=%ct"]).with_context(|| {
                format!(
                    "{} has no git history: set {EPOCH} to the commit's time, in seconds since \
                     1970",
                    source.display()
                )
            })?,
        };
        Ok(Self {
            revision,
            created: parse_timestamp(&seconds)?,
        })
    }

    pub(crate) fn created(&self) -> String {
        self.created.to_string()
    }

    /// The annotations of a manifest, which are also the labels of an image.
    pub(crate) fn annotations(&self, title: &str, description: &str) -> Annotations {
        [
            (
                key::ORG_OPENCONTAINERS_IMAGE_CREATED,
                self.created().as_str(),
            ),
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

fn parse_timestamp(seconds: &str) -> Result<Timestamp> {
    let parsed = seconds
        .trim()
        .parse()
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok());
    parsed.with_context(|| {
        format!("{EPOCH} is {seconds:?}: set it to a number of seconds since 1970")
    })
}

/// The commit that is checked out, with the suffix `-dirty` if files have changed.
fn read_revision(source: &Path) -> Result<String> {
    let commit = git(source, &["rev-parse", "HEAD"])?;
    let changes = git(source, &["status", "--porcelain", "--untracked-files=no"])?;
    Ok(if changes.is_empty() {
        commit
    } else {
        commit + "-dirty"
    })
}

fn git(source: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(source)
        .args(args)
        .output()
        .context("cannot run git")?;
    if !output.status.success() {
        bail!(
            "git {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_only_seconds_since_1970() {
        assert_eq!(
            parse_timestamp("1700000000\n").unwrap().to_string(),
            "2023-11-14T22:13:20Z"
        );
        for wrong in ["", "yesterday", "2023-11-14", "99999999999999999"] {
            let error = parse_timestamp(wrong).unwrap_err().to_string();
            assert!(
                error.contains(&format!("SOURCE_DATE_EPOCH is {wrong:?}")),
                "{error}"
            );
        }
    }

    #[test]
    fn refuses_a_directory_without_a_lock_file() {
        let error = Provenance::from_checkout(Path::new("/proc"), None)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "/proc is not a checkout: pass one with --source (it has no Cargo.lock)"
        );
    }
}
