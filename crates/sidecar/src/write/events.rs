//! Kubernetes Events: what a user must know, on the object that it is about.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use pps_core::{Reason, generate};
use tracing::warn;

use crate::facts::Notice;
use crate::lead::Permit;

/// Publishes notices.
#[derive(Clone)]
pub struct Publisher {
    client: Client,
    reporter: Reporter,
    /// Checked immediately before each Event.
    pub permit: Permit,
}

impl Publisher {
    /// A publisher that uses this client.
    pub fn new(client: Client, permit: Permit) -> Self {
        let instance = std::env::var("POD_NAME").ok();
        Self { client, reporter: Reporter { controller: generate::FIELD_MANAGER.into(), instance }, permit }
    }

    /// Publishes a notice. A failure is logged: no work waits for it.
    pub async fn publish(self, notice: Notice) {
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
        // A recorder counts an Event as a repetition of an earlier one with that reason, and keeps the earlier
        // one's words. Here nothing is told twice, and other words are news.
        let recorder = Recorder::new(self.client, self.reporter);
        if let Some(Err(error)) = self.permit.during(recorder.publish(&event, &reference)).await {
            warn!(%error, reason = %notice.reason, "an Event could not be published");
        }
    }
}

fn is_normal(reason: Reason) -> bool {
    matches!(reason, Reason::Generated | Reason::Deleted | Reason::PodEvicted)
}

/// What this program was doing.
fn action_of(reason: Reason) -> &'static str {
    match reason {
        Reason::MalformedWhitelist | Reason::WorkloadKindUnsupported | Reason::WorkloadKindForbidden => {
            "Watch"
        }
        Reason::NearCapacity | Reason::CapacityExceeded | Reason::ConflictingRecorder => "Record",
        Reason::StatesForgotten | Reason::PodEvicted => "Forget",
        _ => "Generate",
    }
}
