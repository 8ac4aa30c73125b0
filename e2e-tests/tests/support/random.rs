//! What is random, and can be repeated.

use std::{env, sync::OnceLock, time::SystemTime};

use super::note;

/// A small random number generator (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    /// For the scenario, or the part of one, of that name. All of them come from one seed: from
    /// `PPS_E2E_SEED`, else from the clock. It is printed.
    pub(crate) fn of(name: &str) -> Self {
        // FNV-1a, so that scenarios that run side by side do not do the same.
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

fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let seed = env::var("PPS_E2E_SEED")
            .ok()
            .map_or_else(|| clock().subsec_nanos().into(), |seed| seed.parse().unwrap());
        note(&format!("PPS_E2E_SEED={seed}"));
        seed
    })
}
