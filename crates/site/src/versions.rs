//! The versions whose documents are on the site: this one, and older ones in folders below it.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::options::{Older, Options, is_name};

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
