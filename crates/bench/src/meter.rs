//! CPU time and memory of processes, and functions timed against each other.

use std::time::Duration;

use anyhow::{Context, Result};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use procfs::process::Process;

/// CPU time so far, in seconds, with the kernel's full precision: `/proc` counts in hundredths of a
/// second.
pub(crate) fn cpu(process: &Process) -> Result<f64> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(process.pid()))?;
    Ok(Duration::from(clock.now()?).as_secs_f64())
}

/// Resident memory in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

pub(crate) fn memory(process: &Process) -> Result<Memory> {
    let status = process.status()?;
    Ok(Memory {
        now: bytes(status.vmrss)?,
        peak: bytes(status.vmhwm)?,
    })
}

fn bytes(kib: Option<u64>) -> Result<u64> {
    kib.map(|kib| kib * 1024)
        .context("/proc has no memory figures for this process")
}

/// The length of one turn: much longer than reading the clock, much shorter than the machine's
/// fluctuations in load.
const TURN: Duration = Duration::from_millis(2);
const TURNS: usize = 100;

/// The timing of one function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// The time of one call: the median of all turns.
    pub(crate) each: Duration,
    /// The time relative to the first function: the median of the ratios of all rounds. The turns
    /// of a round are close in time, so a slow minute slows both.
    pub(crate) ratio: f64,
}

/// A function, and how often a turn calls it.
struct Lane<'a> {
    calls: u32,
    run: &'a mut dyn FnMut(),
}

/// Times functions in rounds, in which each has one turn.
pub(crate) fn compare<const N: usize>(functions: [&mut dyn FnMut(); N]) -> [Timing; N] {
    let mut lanes = functions.map(|run| Lane {
        calls: calls_per_turn(run),
        run,
    });
    let mut rounds = Vec::with_capacity(TURNS);
    for _ in 0..TURNS {
        let mut round = [0.0; N];
        for (lane, seconds) in lanes.iter_mut().zip(&mut round) {
            *seconds = time_turn(lane.calls, lane.run) / f64::from(lane.calls);
        }
        rounds.push(round);
    }
    std::array::from_fn(|lane| {
        let times: Vec<f64> = rounds.iter().map(|round| round[lane]).collect();
        let ratios: Vec<f64> = rounds.iter().map(|round| round[lane] / round[0]).collect();
        Timing {
            each: Duration::from_secs_f64(median(&times)),
            ratio: median(&ratios),
        }
    })
}

fn calls_per_turn(run: &mut dyn FnMut()) -> u32 {
    let mut calls = 1;
    while time_turn(calls, run) < TURN.as_secs_f64() && calls < 1 << 20 {
        calls *= 2;
    }
    calls
}

/// CPU time of this thread, so that a turn in which others had the processor counts as little as
/// any.
fn time_turn(calls: u32, run: &mut dyn FnMut()) -> f64 {
    let started = thread_cpu_time();
    for _ in 0..calls {
        run();
    }
    thread_cpu_time().saturating_sub(started).as_secs_f64()
}

fn thread_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map(Duration::from)
        .unwrap_or_default()
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}
