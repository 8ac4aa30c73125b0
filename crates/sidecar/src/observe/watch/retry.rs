//! When a list or a watch that failed may be tried again. Each has its own wait: a list that fails for long must not keep a
//! watch closed, nor a watch that was closed end the wait that the API server asked for.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;
use tokio::time::Instant;

/// The longest wait between two attempts, unless the API server asks for a longer one. A Pod that waits to be recorded
/// should not have to wait long after the API server is back.
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

pub(super) struct Retry {
    /// When the next attempt may begin.
    pub(super) from: Instant,
    backoff: DefaultBackoff,
}

impl Retry {
    pub(super) fn new(now: Instant) -> Self {
        Self { from: now, backoff: DefaultBackoff::default() }
    }

    /// Waits longer each time, and as long as the API server asks for.
    pub(super) fn back_off(&mut self, at_least: Duration) {
        let pause = self.backoff.next().unwrap_or(LONGEST_BACKOFF).min(LONGEST_BACKOFF).max(at_least);
        self.from = Instant::now() + pause;
    }

    /// An attempt has succeeded.
    pub(super) fn reset(&mut self) {
        self.backoff.reset();
    }
}
