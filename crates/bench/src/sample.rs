//! Times functions against each other.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The length of one turn: much longer than reading the clock, much shorter than the machine's fluctuations
/// in load.
const TURN: Duration = Duration::from_millis(2);
const TURNS: usize = 100;

/// The timing of one function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// The time of one call: the median of all turns.
    pub(crate) each: Duration,
    /// The time relative to the first function: the median of the ratios of all rounds. The turns of a round
    /// are close in time, so a slow minute slows both.
    pub(crate) ratio: f64,
}

/// Times functions in rounds, in which each has one turn.
pub(crate) fn compare<const N: usize>(functions: [&mut dyn FnMut(); N]) -> [Timing; N] {
    let mut lanes = functions.map(|run| (calls_per_turn(run), run));
    let mut rounds = Vec::with_capacity(TURNS);
    for _ in 0..TURNS {
        let mut round = [0.0; N];
        for ((calls, run), seconds) in lanes.iter_mut().zip(&mut round) {
            *seconds = time_turn(*calls, run) / f64::from(*calls);
        }
        rounds.push(round);
    }
    std::array::from_fn(|lane| Timing {
        each: Duration::from_secs_f64(median(rounds.iter().map(|round| round[lane]).collect())),
        ratio: median(rounds.iter().map(|round| round[lane] / round[0]).collect()),
    })
}

fn calls_per_turn(run: &mut dyn FnMut()) -> u32 {
    let mut calls = 1;
    while time_turn(calls, run) < TURN.as_secs_f64() && calls < 1 << 20 {
        calls *= 2;
    }
    calls
}

/// CPU time of this thread, so that a turn in which others had the processor counts as little as any.
fn time_turn(calls: u32, run: &mut dyn FnMut()) -> f64 {
    let started = cpu_time();
    for _ in 0..calls {
        run();
    }
    cpu_time().saturating_sub(started).as_secs_f64()
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.map(Duration::from).unwrap_or_default()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
