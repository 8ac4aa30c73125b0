//! How long a function takes, beside others.

use std::time::{Duration, Instant};

/// How long a turn of a contestant should take: much longer than reading the clock, much shorter than
/// what else goes on in the machine.
const TURN: Duration = Duration::from_millis(2);
const TURNS: usize = 100;

/// What was measured of one contestant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// One call: the median of all turns.
    pub(crate) each: Duration,
    /// How many times as long as the first contestant: the median of the ratios of all rounds. The
    /// two turns of a round are near each other in time, so that a slow minute slows both.
    pub(crate) ratio: f64,
}

/// Times functions against each other: in each round, each has a turn.
pub(crate) fn race<const N: usize>(contestants: [&mut dyn FnMut(); N]) -> [Timing; N] {
    let mut lanes = contestants.map(|run| (calls_in_a_turn(run), run));
    let mut rounds = Vec::with_capacity(TURNS);
    for _ in 0..TURNS {
        let mut round = [0.0; N];
        for ((calls, run), seconds) in lanes.iter_mut().zip(&mut round) {
            *seconds = turn(*calls, run) / f64::from(*calls);
        }
        rounds.push(round);
    }
    std::array::from_fn(|lane| Timing {
        each: Duration::from_secs_f64(median(rounds.iter().map(|round| round[lane]).collect())),
        ratio: median(rounds.iter().map(|round| round[lane] / round[0]).collect()),
    })
}

/// Times one function.
pub(crate) fn time(run: &mut dyn FnMut()) -> Duration {
    let [timing] = race([run]);
    timing.each
}

fn calls_in_a_turn(run: &mut dyn FnMut()) -> u32 {
    let mut calls = 1;
    while turn(calls, run) < TURN.as_secs_f64() && calls < 1 << 20 {
        calls *= 2;
    }
    calls
}

fn turn(calls: u32, run: &mut dyn FnMut()) -> f64 {
    let started = Instant::now();
    for _ in 0..calls {
        run();
    }
    started.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
