//! Kubewarden's command-line tool.

use std::{env, path::PathBuf};

/// The kwctl that `KWCTL` names, else the one on the PATH.
pub fn find_kwctl() -> Option<PathBuf> {
    if let Some(named) = env::var_os("KWCTL").filter(|named| !named.is_empty()) {
        return Some(named.into());
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join("kwctl"))
        .find(|path| path.is_file())
}
