//! When a list or a watch that failed may be tried again. Each has its own wait: a list that fails for long
//! must not keep a watch closed, nor a watch that was closed end the wait that the API server asked for.

use std::time::Duration;

use tokio::time::Instant;

const FIRST_BACKOFF: Duration = Duration::from_millis(800);
/// The longest wait between two attempts, unless the API server asks for a longer one. A Pod that waits to be
/// recorded should not have to wait long after the API server is back.
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// After so long without a failure the next one counts as the first.
const FORGET_AFTER: Duration = Duration::from_mins(2);

pub(super) struct Retry {
    /// When the next attempt may begin.
    pub(super) from: Instant,
    failed_at: Instant,
    failures: u32,
}

impl Retry {
    pub(super) fn new(now: Instant) -> Self {
        Self { from: now, failed_at: now, failures: 0 }
    }

    /// Waits longer each time, and as long as the API server asks for.
    pub(super) fn back_off(&mut self, at_least: Duration) {
        if self.failed_at.elapsed() > FORGET_AFTER {
            self.reset();
        }
        let pause =
            FIRST_BACKOFF.saturating_mul(1 << self.failures.min(8)).min(LONGEST_BACKOFF).max(at_least);
        self.failures += 1;
        self.failed_at = Instant::now();
        self.from = self.failed_at + pause;
    }

    /// An attempt has succeeded.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}
