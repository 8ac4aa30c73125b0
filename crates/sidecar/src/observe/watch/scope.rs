//! The revision of the fields that a watch keeps, and when it has to list again because there are more or
//! other fields.

use std::future::pending;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Asks for new lists, each time with the revision that they must have.
pub(crate) type Relist = watch::Receiver<u64>;

pub(super) struct Scope {
    requests: Relist,
    reason: &'static str,
    /// How long after a request the new fields are in force.
    delay: Duration,
    /// When the fields are in force that were asked for last, and their revision.
    due: Option<(Instant, u64)>,
    /// The revision of lists that begin now.
    pub(super) revision: u64,
}

impl Scope {
    /// Each object is kept with all fields that are ever needed.
    pub(super) fn fixed() -> Self {
        Self::new(watch::Sender::new(0).subscribe(), "", Duration::ZERO)
    }

    /// A new list is needed this long after a request.
    pub(super) fn new(requests: Relist, reason: &'static str, delay: Duration) -> Self {
        Self { requests, reason, delay, due: None, revision: 0 }
    }

    /// A list begins now. It has all fields that need no delay.
    pub(super) fn begin_list(&mut self) {
        if self.delay.is_zero() {
            (self.due, self.revision) = (None, *self.requests.borrow_and_update());
        }
    }

    /// Waits until a new list is needed, but at least until this time, and says why. Never returns if none
    /// can be.
    pub(super) async fn wait_for_relist(&mut self, not_before: Instant) -> &'static str {
        if self.due.is_none() && self.requests.changed().await.is_err() {
            return pending().await;
        }
        // Kept, so that the request is not lost if something else happens first.
        let request = || (Instant::now() + self.delay, *self.requests.borrow_and_update());
        let (time, revision) = *self.due.get_or_insert_with(request);
        sleep_until(time.max(not_before)).await;
        (self.due, self.revision) = (None, revision);
        self.reason
    }
}
