//! Files of this repository.

use std::{
    env,
    path::{Path, PathBuf},
};

/// A file of the repository, by its path from the root.
pub fn repository_file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The compiled policy: `PPS_POLICY_WASM`, else `policy.wasm` at the root of the repository.
pub fn policy_path() -> PathBuf {
    env::var_os("PPS_POLICY_WASM").map_or_else(|| repository_file("policy.wasm"), PathBuf::from)
}
