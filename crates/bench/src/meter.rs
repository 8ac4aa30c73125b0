//! CPU time and memory of a process.

use std::time::Duration;

use anyhow::{Context, Result};
use nix::time::ClockId;
use nix::unistd::Pid;
use procfs::process::Process;

/// CPU time so far, in seconds, with the kernel's full precision: `/proc` counts in hundredths of a second.
pub(crate) fn cpu(process: &Process) -> Result<f64> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(process.pid()))?;
    Ok(Duration::from(clock.now()?).as_secs_f64())
}

/// Resident memory in bytes: now, and at its peak.
pub(crate) fn memory(process: &Process) -> Result<(u64, u64)> {
    let status = process.status()?;
    let kib = |value: Option<u64>| {
        value.map(|value| value * 1024).context("/proc has no memory figures for this process")
    };
    Ok((kib(status.vmrss)?, kib(status.vmhwm)?))
}
