//! Writes the seeds of all targets into a folder: one folder per target, one file per seed.

use std::path::PathBuf;
use std::{env, fs};

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let folder = PathBuf::from(env::args_os().nth(1).context("usage: seeds FOLDER")?);
    for (target, name, bytes) in pps_invariants::seeds::seeds()? {
        let folder = folder.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}
