//! Events: publishes notices to users on the objects they concern. Decides nothing.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use pps_core::{Reason, generate};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::warn;

use crate::facts::Notice;
use crate::lead::Permit;
use crate::telemetry::metrics::Metrics;

/// How many Events may be on their way.
const MAX_IN_FLIGHT: usize = 16;
/// How many Events may wait or be on their way. More are dropped: the log has them.
const MAX_QUEUED: usize = 256;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(crate) struct Publisher {
    client: Client,
    reporter: Reporter,
    queued: Arc<Semaphore>,
    in_flight: Arc<Semaphore>,
    metrics: Arc<Metrics>,
    /// Checked immediately before each Event and at each step of it.
    pub(crate) permit: Permit,
}

impl Publisher {
    pub(crate) fn new(client: Client, permit: Permit, metrics: Arc<Metrics>) -> Self {
        let instance = std::env::var("POD_NAME").ok();
        let reporter = Reporter { controller: generate::FIELD_MANAGER.into(), instance };
        let (queued, in_flight) = (Semaphore::new(MAX_QUEUED), Semaphore::new(MAX_IN_FLIGHT));
        Self { client, reporter, queued: Arc::new(queued), in_flight: Arc::new(in_flight), metrics, permit }
    }

    /// Publishes a notice. One that fails is logged, counted and not tried again.
    pub(crate) async fn publish(self, notice: Notice) {
        let Ok(_queued) = self.queued.try_acquire() else {
            return self.metrics.count_dropped_event();
        };
        let _in_flight = self.in_flight.acquire().await;
        let reference = ObjectReference {
            api_version: Some(notice.subject.api_version),
            kind: Some(notice.subject.kind),
            namespace: Some(notice.subject.object.namespace.to_string()),
            name: Some(notice.subject.object.name.to_string()),
            uid: Some(notice.subject.uid),
            ..ObjectReference::default()
        };
        let event = Event {
            type_: if is_normal(notice.reason) { EventType::Normal } else { EventType::Warning },
            reason: notice.reason.to_string(),
            note: Some(notice.message),
            action: action_of(notice.reason).into(),
            secondary: None,
        };
        // A recorder would count an Event as a repetition of an earlier one with the same reason, and keep the earlier
        // message. Each notice is published once, so a new recorder is used for each.
        let recorder = Recorder::new(self.client, self.reporter);
        let publish = timeout(REQUEST_TIMEOUT, recorder.publish(&event, &reference));
        let error = match self.permit.run_while_valid(publish).await {
            None | Some(Ok(Ok(()))) => return,
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(_)) => format!("no answer from the API server for {} s", REQUEST_TIMEOUT.as_secs()),
        };
        self.metrics.count_dropped_event();
        warn!(error, reason = %notice.reason, "cannot publish an Event");
    }
}

/// Whether an Event of this reason tells of no problem.
pub(crate) fn is_normal(reason: Reason) -> bool {
    matches!(reason, Reason::Generated | Reason::Deleted | Reason::StatesDropped | Reason::PodEvicted)
}

/// What the sidecar was doing.
fn action_of(reason: Reason) -> &'static str {
    match reason {
        Reason::MalformedWhitelist | Reason::WorkloadKindUnsupported | Reason::WorkloadKindForbidden => {
            "Watch"
        }
        Reason::NearCapacity
        | Reason::CapacityExceeded
        | Reason::ConflictingRecorder
        | Reason::UnreadableObject
        | Reason::WriteConflicts => "Record",
        Reason::StatesForgotten | Reason::StatesDropped | Reason::PodEvicted | Reason::PodNotEvicted => {
            "Forget"
        }
        _ => "Generate",
    }
}
