//! Reproducible randomness.

use std::{env, sync::OnceLock, time::SystemTime};

use super::note;

const VARIABLE: &str = "PPS_E2E_SEED";

/// The seed of this run, once something has drawn from it.
static SEED: OnceLock<u64> = OnceLock::new();

/// A small random number generator (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    /// The generator of the scenario, or part of a scenario, with that name. All generators of a
    /// run derive from one seed: `PPS_E2E_SEED`, else the clock. The seed is printed when it is
    /// first used and again after a failure.
    pub(crate) fn of(name: &str) -> Self {
        // FNV-1a of the name, so that scenarios that run side by side draw different numbers.
        let name = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(seed() ^ name)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    /// One of these.
    pub(crate) fn one<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

/// How to repeat this run: ` (repeat with PPS_E2E_SEED=…)`, or nothing if it drew no random
/// numbers.
pub(crate) fn how_to_repeat() -> String {
    SEED.get()
        .map(|seed| format!(" (repeat with {VARIABLE}={seed})"))
        .unwrap_or_default()
}

fn seed() -> u64 {
    *SEED.get_or_init(|| {
        let clock = || {
            SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap()
        };
        let seed = match env::var(VARIABLE) {
            Ok(seed) => seed
                .parse()
                .unwrap_or_else(|_| panic!("{VARIABLE}={seed} is not a number")),
            Err(_) => clock().subsec_nanos().into(),
        };
        note(&format!("{VARIABLE}={seed}"));
        seed
    })
}
