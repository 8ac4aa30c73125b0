//! Temporary files and folders of a test.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::supervisor::unique;

/// A temporary file or folder. It is removed when this is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A path that does not exist yet. It ends with `name`.
    pub fn path_for(name: &str) -> Self {
        Self(env::temp_dir().join(format!("{}-{name}", unique("pps-e2e-scratch"))))
    }

    /// A file with that content.
    pub fn file(name: &str, content: impl AsRef<[u8]>) -> Result<Self> {
        let file = Self::path_for(name);
        fs::write(&file.0, content)
            .with_context(|| format!("cannot write {}", file.0.display()))?;
        Ok(file)
    }

    /// An empty folder.
    pub fn folder(name: &str) -> Result<Self> {
        let folder = Self::path_for(name);
        fs::create_dir(&folder.0).with_context(|| format!("cannot make {}", folder.0.display()))?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path as an argument of a program.
    pub fn argument(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = if self.0.is_dir() {
            fs::remove_dir_all(&self.0)
        } else {
            fs::remove_file(&self.0)
        };
    }
}
