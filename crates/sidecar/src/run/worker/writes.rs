//! The writes in flight, and the schedules of the writes to come. The reads before a write, and
//! lookups of nodes, count as writes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinSet};

use crate::write::WriteResult;
use pps_recorder::decide::GeneratedPps;
use pps_recorder::decide::schedule::{Batch, Candidates};
use pps_recorder::facts::{NamespacedName, WorkloadKey};

const MAX_IN_FLIGHT: usize = 16;

#[derive(Default)]
pub(crate) struct Writes {
    pub(super) statuses: Batch<NamespacedName>,
    pub(super) generated: Batch<WorkloadKey>,
    pub(super) refused: HashMap<WorkloadKey, Refused>,
    pub(super) evictions: Batch<NamespacedName>,
    /// Each with whether it is a retry.
    in_flight: JoinSet<(bool, WriteResult)>,
    retries: usize,
}

/// A write of a generated object that the API server or a policy has refused. Another write, which
/// a change of the workload asks for, is made at once.
pub(super) struct Refused {
    pub(super) write: GeneratedPps,
    pub(super) retry_at: Instant,
    /// How often it was refused before.
    pub(super) times: u32,
}

impl Writes {
    pub(super) fn begin(
        &mut self,
        is_retry: bool,
        write: impl Future<Output = WriteResult> + Send + 'static,
    ) {
        self.retries += usize::from(is_retry);
        self.in_flight.spawn(async move { (is_retry, write.await) });
    }

    /// Waits for the end of a write; `None` if none is in flight.
    pub(crate) async fn next_result(&mut self) -> Option<Result<WriteResult, JoinError>> {
        let ended = self.in_flight.join_next().await?;
        Some(ended.map(|(is_retry, result)| {
            self.retries -= usize::from(is_retry);
            result
        }))
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub(super) fn has_room(&self) -> bool {
        self.in_flight.len() < MAX_IN_FLIGHT
    }

    /// Retries may use half of the writes in flight. They may take long to fail again, and the
    /// other half stays free for healthy objects.
    pub(super) fn candidates(&self) -> Candidates {
        if self.retries < MAX_IN_FLIGHT / 2 {
            Candidates::All
        } else {
            Candidates::NotFailing
        }
    }

    /// Forgets all that was decided: another process decided meanwhile.
    pub(super) fn clear(&mut self) {
        self.statuses.take_all();
        self.generated.take_all();
        self.evictions.take_all();
        self.refused.clear();
    }

    pub(super) fn sweep(&mut self, now: Instant) {
        self.statuses.sweep(now);
        self.generated.sweep(now);
        self.evictions.sweep(now);
    }

    /// How many objects wait for a write, and for how long the first of them has waited.
    pub(super) fn pending(&self, now: Instant) -> (usize, Duration) {
        let waiting = [
            self.statuses.waiting(),
            self.generated.waiting(),
            self.evictions.waiting(),
        ];
        let oldest = waiting.iter().filter_map(|(_, oldest)| *oldest).min();
        let age = oldest.map(|oldest| now.saturating_duration_since(oldest));
        (
            waiting.iter().map(|(count, _)| count).sum(),
            age.unwrap_or_default(),
        )
    }
}
