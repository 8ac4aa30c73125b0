//! What is built, as the command line says it.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, bail, ensure};
use clap::Parser;

/// Builds the documents as a static site.
#[derive(Debug, Clone, Parser)]
#[command(version)]
pub struct Options {
    /// The repository
    #[arg(long, default_value = ".")]
    pub source: PathBuf,
    /// The folder to write; its content is replaced
    #[arg(long, default_value = "target/site")]
    pub output: PathBuf,
    /// The folder with the finished playground; without one, the site has no links to it
    #[arg(long)]
    pub playground: Option<PathBuf>,
    /// The repository on the Git host: links to files that the site does not have lead there
    #[arg(long, default_value = env!("CARGO_PKG_REPOSITORY"))]
    pub repository: String,
    /// The branch, tag or commit that these links name
    #[arg(long, default_value = "HEAD")]
    pub revision: String,
    /// What the pages call this version
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub version_name: String,
    /// An older version whose documents stay on the site, in a folder of that name. May be repeated
    #[arg(long, value_name = "TAG=FOLDER")]
    pub older: Vec<Older>,
}

/// An older version: its tag, which is also its folder on the site, and where its repository is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Older {
    pub tag: String,
    pub source: PathBuf,
}

impl FromStr for Older {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((tag, source)) = text.split_once('=') else {
            bail!("write TAG=FOLDER, such as v0.1.0=../v0.1.0");
        };
        // So no version takes the place of a page, and none leaves the site.
        let is_version = is_name(tag)
            && tag
                .strip_prefix('v')
                .is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()));
        ensure!(is_version, "{tag} is no tag of a version, such as v0.1.0");
        Ok(Self {
            tag: tag.to_owned(),
            source: source.into(),
        })
    }
}

/// Whether a name can stand in a page and in an address as it is.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|char| char.is_ascii_alphanumeric() || "-.".contains(char))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_version_has_a_folder_of_its_own() {
        let older: Older = "v0.1.0-rc.1=a/b=c".parse().unwrap();
        assert_eq!(
            (older.tag.as_str(), older.source.as_path()),
            ("v0.1.0-rc.1", Path::new("a/b=c"))
        );
        for text in [
            "v0.1.0",
            "docs=.",
            "v=.",
            "v1/../docs=.",
            "versions=.",
            "=.",
        ] {
            assert!(text.parse::<Older>().is_err(), "{text}");
        }
    }
}
