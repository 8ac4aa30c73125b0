//! Events: publishes notices to users on the objects they concern. Decides nothing.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectMeta;
use pps_core::Reason;
use pps_core::limits::MAX_NOTE_LENGTH;
use pps_recorder::generate;
use tokio::sync::Semaphore;
use tracing::warn;

use super::{Failure, Writer};
use crate::telemetry::metrics::Metrics;
use pps_recorder::facts::Notice;

impl Writer {
    /// Publishes a notice, when it is its turn. One that fails is logged, counted and not tried
    /// again.
    pub(crate) async fn publish(
        self,
        notice: Notice,
        turns: Arc<Semaphore>,
        metrics: Arc<Metrics>,
    ) {
        let _turn = turns.acquire().await;
        let reason = notice.reason;
        if let Err(error) = self.create_event(&event(notice)).await
            && !matches!(error, Failure::NotLeading)
        {
            metrics.events_dropped.inc();
            warn!(%error, %reason, "cannot publish an Event");
        }
    }
}

fn event(notice: Notice) -> Event {
    let now = Timestamp::now();
    let Notice {
        subject,
        reason,
        mut message,
    } = notice;
    message.truncate(message.floor_char_boundary(MAX_NOTE_LENGTH));
    let (namespace, name) = (
        Some(subject.object.namespace.to_string()),
        &subject.object.name,
    );
    // The API server takes names of 253 characters.
    let start = name.get(..220).unwrap_or(name).trim_end_matches(['.', '-']);
    let instance = std::env::var("POD_NAME").unwrap_or_else(|_| generate::FIELD_MANAGER.into());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{start}.{:x}", now.as_nanosecond())),
            namespace: namespace.clone(),
            ..ObjectMeta::default()
        },
        type_: Some(
            if is_normal(reason) {
                "Normal"
            } else {
                "Warning"
            }
            .into(),
        ),
        reason: Some(reason.to_string()),
        note: Some(message),
        // Required, like the reason, which says what was done or has failed.
        action: Some(reason.to_string()),
        event_time: Some(MicroTime(now)),
        regarding: Some(ObjectReference {
            api_version: Some(subject.api_version),
            kind: Some(subject.kind),
            namespace,
            name: Some(name.to_string()),
            uid: Some(subject.uid),
            ..ObjectReference::default()
        }),
        reporting_controller: Some(generate::FIELD_MANAGER.into()),
        reporting_instance: Some(instance),
        ..Event::default()
    }
}

/// Whether an Event of this reason tells of no problem.
pub(crate) fn is_normal(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Generated | Reason::Deleted | Reason::StatesDropped | Reason::PodEvicted
    )
}

#[cfg(test)]
mod tests {
    use pps_recorder::facts::{NamespacedName, Subject};

    use super::*;

    #[test]
    fn an_event_is_valid_however_long_the_name_of_its_object_and_its_text_are() {
        for (name, start) in [
            ("w".to_owned(), "w.".to_owned()),
            ("w".repeat(253), "w".repeat(220) + "."),
            (
                "w".repeat(218) + "-.w" + &"w".repeat(30),
                "w".repeat(218) + ".",
            ),
        ] {
            let subject = Subject::new(
                "apps/v1",
                "StatefulSet",
                NamespacedName::new("n", &*name),
                "u",
            );
            let event = event(Notice {
                subject,
                reason: Reason::Generated,
                message: "é".repeat(513),
            });
            assert_eq!(event.note, Some("é".repeat(512)));
            let event_name = event.metadata.name.unwrap();
            assert!(
                event_name.starts_with(&start) && event_name.len() <= 253,
                "{event_name}"
            );
            assert_eq!(event.regarding.unwrap().name, Some(name));
        }
    }
}
