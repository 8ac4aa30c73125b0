//! Which fields a watch keeps, and when it has to list again because there are more of them.

use std::future::pending;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::facts::interest::Keys;

/// Signals that keys were added to the interest, so that all objects have to be listed again.
pub(crate) type Relist = watch::Receiver<()>;

pub(super) enum FieldScope<'a> {
    /// Each object is kept with all fields that are ever needed.
    Fixed,
    /// Each object is kept with the values of these keys. New keys require a relist.
    Keys(&'a Keys, Relist),
}

impl FieldScope<'_> {
    /// A list that begins now has all keys added so far.
    pub(super) fn begin_list(&mut self) {
        if let Self::Keys(_, relist) = self {
            relist.mark_unchanged();
        }
    }

    /// The revision of the interest with which objects are read now.
    pub(super) fn revision(&self) -> u64 {
        match self {
            Self::Fixed => 0,
            Self::Keys(keys, _) => keys.revision(),
        }
    }

    /// Waits until keys are added, but at least until this time. Never returns if no key can be added.
    pub(super) async fn wait_for_new_keys(&mut self, not_before: Instant) {
        if let Self::Keys(_, relist) = self {
            sleep_until(not_before).await;
            if relist.changed().await.is_ok() {
                return;
            }
        }
        pending::<()>().await;
    }
}
