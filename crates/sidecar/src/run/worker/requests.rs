//! The requests that are on their way: writes, the reads before them, and lookups of nodes.

use pps_recorder::timing::schedule::Candidates;
use tokio::task::{JoinError, JoinSet};

use crate::write::Outcome;

const MAX_IN_FLIGHT: usize = 16;

#[derive(Default)]
pub(crate) struct Requests {
    tasks: JoinSet<Ended>,
    retries: usize,
}

struct Ended {
    is_retry: bool,
    outcome: Outcome,
}

impl Requests {
    pub(super) fn begin(
        &mut self,
        is_retry: bool,
        request: impl Future<Output = Outcome> + Send + 'static,
    ) {
        self.retries += usize::from(is_retry);
        self.tasks.spawn(async move {
            let outcome = request.await;
            Ended { is_retry, outcome }
        });
    }

    /// Waits for the end of a request; `None` if none is in flight.
    pub(crate) async fn next_outcome(&mut self) -> Option<Result<Outcome, JoinError>> {
        let ended = self.tasks.join_next().await?;
        Some(ended.map(|Ended { is_retry, outcome }| {
            self.retries -= usize::from(is_retry);
            outcome
        }))
    }

    pub(super) fn count(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn has_room(&self) -> bool {
        self.tasks.len() < MAX_IN_FLIGHT
    }

    /// Retries may use half of the requests in flight. They may take long to fail again, and the
    /// other half stays free for healthy objects.
    pub(super) fn candidates(&self) -> Candidates {
        if self.retries < MAX_IN_FLIGHT / 2 {
            Candidates::All
        } else {
            Candidates::NotFailing
        }
    }
}
