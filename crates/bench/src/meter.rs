//! CPU time and memory of a process.

use anyhow::{Context, Result};
use procfs::process::Process;

/// CPU time so far, in seconds.
pub(crate) fn cpu(process: &Process) -> Result<f64> {
    let stat = process.stat()?;
    Ok((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
}

/// Resident memory in bytes: now, and at its peak.
pub(crate) fn memory(process: &Process) -> Result<(u64, u64)> {
    let status = process.status()?;
    let kib = |value: Option<u64>| {
        value.map(|value| value * 1024).context("/proc has no memory figures for this process")
    };
    Ok((kib(status.vmrss)?, kib(status.vmhwm)?))
}
