//! Which fields a watch keeps, and when it has to list again because there are more of them or other ones.

use std::future::pending;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::facts::interest::Keys;

/// After a definition has changed, each API server takes a moment until it serves objects accordingly.
const DEFINITION_DELAY: Duration = Duration::from_secs(5);

/// Signals that all objects have to be listed again.
pub(crate) type Relist = watch::Receiver<()>;

pub(super) enum FieldScope<'a> {
    /// Each object is kept with all fields that are ever needed.
    Fixed,
    /// Each object is kept with the values of these keys. New keys require a relist.
    Keys(&'a Keys, Relist),
    /// Each object is kept as its definition says. Once another one is in force, a relist is required.
    OnRequest {
        /// The revision that lists have to have.
        requests: watch::Receiver<u64>,
        /// When the definition is in force that was asked for last, and its revision.
        due: Option<(Instant, u64)>,
        /// The revision of lists that begin now.
        revision: u64,
    },
}

impl FieldScope<'_> {
    /// A list that begins now has all keys added so far.
    pub(super) fn begin_list(&mut self) {
        if let Self::Keys(_, relist) = self {
            relist.mark_unchanged();
        }
    }

    /// The revision of the interest, or of the definition, with which objects are read now.
    pub(super) fn revision(&self) -> u64 {
        match self {
            Self::Fixed => 0,
            Self::OnRequest { revision, .. } => *revision,
            Self::Keys(keys, _) => keys.revision(),
        }
    }

    /// Waits until a relist is required, but at least until this time, and says why. Never returns if none can be.
    pub(super) async fn wait_for_relist(&mut self, not_before: Instant) -> &'static str {
        match self {
            Self::Fixed => {}
            Self::Keys(_, relist) => {
                sleep_until(not_before).await;
                if relist.changed().await.is_ok() {
                    return "a PersistentPodState names new keys";
                }
            }
            Self::OnRequest { requests, due, revision } => {
                if due.is_some() || requests.changed().await.is_ok() {
                    // Kept, so that the request is not lost if something else happens first.
                    let (time, requested) = *due.get_or_insert_with(|| {
                        (Instant::now() + DEFINITION_DELAY, *requests.borrow_and_update())
                    });
                    sleep_until(time.max(not_before)).await;
                    (*due, *revision) = (None, requested);
                    return "the definition of PersistentPodState has changed";
                }
            }
        }
        pending().await
    }
}
