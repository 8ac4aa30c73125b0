//! The versions whose documents are on the site: this one, and older ones in folders below it.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Result, bail, ensure};

use crate::build::Options;

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
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|char| char.is_ascii_alphanumeric() || "-.".contains(char))
}

/// The documents of one version.
pub(crate) struct Edition<'a> {
    pub(crate) name: &'a str,
    pub(crate) source: &'a Path,
    /// The folder with its pages.
    pub(crate) output: PathBuf,
    pub(crate) repository: &'a str,
    pub(crate) revision: &'a str,
    /// Only this version's playground is on the site.
    pub(crate) has_playground: bool,
    pub(crate) is_older: bool,
}

impl<'a> Edition<'a> {
    /// This version, and then the older ones.
    pub(crate) fn all(options: &'a Options) -> Result<Vec<Self>> {
        ensure!(
            is_name(&options.version_name),
            "--version-name is {:?}: use letters, digits, dots and hyphens",
            options.version_name
        );
        let mut editions = vec![Self {
            name: &options.version_name,
            source: &options.source,
            output: options.output.clone(),
            repository: &options.repository,
            revision: &options.revision,
            has_playground: options.playground.is_some(),
            is_older: false,
        }];
        for Older { tag, source } in &options.older {
            ensure!(
                editions.iter().all(|edition| edition.name != tag),
                "--older: {tag} is named twice"
            );
            editions.push(Self {
                name: tag,
                source,
                output: options.output.join(tag),
                repository: &options.repository,
                revision: tag,
                has_playground: false,
                is_older: true,
            });
        }
        Ok(editions)
    }

    /// The way from this version's pages to another version's start page, from the folder of this
    /// version.
    pub(crate) fn way_to(&self, index: usize, name: &str) -> String {
        let up = if self.is_older { "../" } else { "" };
        // The first one is the site itself.
        let folder = if index == 0 {
            String::new()
        } else {
            format!("{name}/")
        };
        format!("{up}{folder}index.html")
    }
}

#[cfg(test)]
mod tests {
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
