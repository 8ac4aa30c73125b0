//! Events: publishes notices to users on the objects they concern. Decides nothing.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use pps_core::{Reason, generate};
use tracing::warn;

use crate::facts::Notice;
use crate::lead::Permit;

#[derive(Clone)]
pub(crate) struct Publisher {
    client: Client,
    reporter: Reporter,
    /// Checked immediately before each Event and at each step of it.
    pub(crate) permit: Permit,
}

impl Publisher {
    pub(crate) fn new(client: Client, permit: Permit) -> Self {
        let instance = std::env::var("POD_NAME").ok();
        Self { client, reporter: Reporter { controller: generate::FIELD_MANAGER.into(), instance }, permit }
    }

    /// Publishes a notice. A failure is only logged.
    pub(crate) async fn publish(self, notice: Notice) {
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
        if let Some(Err(error)) = self.permit.run_while_valid(recorder.publish(&event, &reference)).await {
            warn!(%error, reason = %notice.reason, "cannot publish an Event");
        }
    }
}

fn is_normal(reason: Reason) -> bool {
    matches!(reason, Reason::Generated | Reason::Deleted | Reason::PodEvicted)
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
        Reason::StatesForgotten | Reason::PodEvicted => "Forget",
        _ => "Generate",
    }
}
