//! The term that the worker has taken over from the election. Only a leader publishes notices.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use kube::Client;
use tokio::sync::Semaphore;
use tracing::info;

use crate::lead::{HANDOVER_WINDOW, Leadership, Permit};
use crate::telemetry::metrics::Metrics;
use crate::write::Writer;
use crate::write::events::is_normal;
use pps_recorder::facts::Notice;
use pps_recorder::timing::event_budget::EventBudget;

/// How many notices a standby keeps. More of them at once would not help anybody.
const MAX_STANDBY_NOTICES: usize = 100;

/// How many Events are sent at once.
const MAX_EVENTS_IN_FLIGHT: usize = 16;
/// How many Events may be on their way. The others are dropped: the API server answers too slowly.
const MAX_EVENTS: usize = 256;

pub(super) struct CurrentTerm {
    /// Writes with the permission to write what is decided now.
    pub(super) writer: Writer,
    /// The only namespace in which Events are published; all if there is none.
    pub(super) namespace: Option<String>,
    budget: EventBudget,
    events: Arc<Semaphore>,
    metrics: Arc<Metrics>,
    /// Notices that came up while another process led. That process publishes them, unless it fails
    /// at that moment.
    standby_notices: VecDeque<StandbyNotice>,
}

struct StandbyNotice {
    since: Instant,
    notice: Notice,
}

impl CurrentTerm {
    pub(super) fn new(leadership: Leadership, client: Client, metrics: Arc<Metrics>) -> Self {
        let writer = Writer::new(client, Permit::new(leadership));
        let events = Arc::new(Semaphore::new(MAX_EVENTS_IN_FLIGHT));
        let budget = EventBudget::default();
        let standby_notices = VecDeque::new();
        Self {
            writer,
            namespace: None,
            budget,
            events,
            metrics,
            standby_notices,
        }
    }

    pub(super) fn is_leader(&self) -> bool {
        self.writer.permit.is_valid()
    }

    pub(super) fn publish(&mut self, notice: Notice) {
        if !self.is_leader() {
            if self.standby_notices.len() == MAX_STANDBY_NOTICES {
                self.standby_notices.pop_front();
            }
            return self.standby_notices.push_back(StandbyNotice {
                since: Instant::now(),
                notice,
            });
        }
        info!(about = %notice.subject, reason = %notice.reason, "{}", notice.message);
        // A sidecar of another namespace would publish the same of an object that they share.
        if self
            .namespace
            .as_deref()
            .is_some_and(|own| *notice.subject.object.namespace != *own)
        {
            return;
        }
        // Each Event that is on its way holds the semaphore.
        let has_room = Arc::strong_count(&self.events) <= MAX_EVENTS;
        if has_room
            && self
                .budget
                .spend(&notice.subject, !is_normal(notice.reason), Instant::now())
        {
            tokio::spawn(self.writer.clone().publish(
                notice,
                self.events.clone(),
                self.metrics.clone(),
            ));
        } else {
            self.metrics.events_dropped.inc();
        }
    }

    /// Publishes the notices that the former leader may not have published, and drops older ones.
    pub(super) fn publish_standby_notices(&mut self) {
        for StandbyNotice { since, notice } in std::mem::take(&mut self.standby_notices) {
            if since.elapsed() < HANDOVER_WINDOW {
                self.publish(notice);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use pps_core::Reason;
    use pps_recorder::facts::{NamespacedName, Subject};
    use tower::service_fn;

    use super::*;

    #[tokio::test]
    async fn events_beyond_those_that_wait_are_dropped() {
        let service = service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, kube::Error>>()
        });
        let leadership = Leadership::fixed(true);
        let mut term = CurrentTerm::new(leadership, Client::new(service, "n"), Arc::default());
        term.writer.permit.renew();
        let subject = Subject::new("v1", "ConfigMap", NamespacedName::new("n", "c"), "uid-c");
        let notice = Notice {
            subject,
            reason: Reason::WriteRefused,
            message: String::new(),
        };
        let _waiting = vec![term.events.clone(); MAX_EVENTS - 1];
        for dropped in [0, 1] {
            term.publish(notice.clone());
            assert_eq!(term.metrics.events_dropped.get(), dropped);
        }
        term.namespace = Some("other".into());
        term.publish(notice);
        assert_eq!(
            term.metrics.events_dropped.get(),
            1,
            "no Event is published in another namespace"
        );
    }
}
