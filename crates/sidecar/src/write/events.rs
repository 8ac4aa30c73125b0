//! Events: publishes notices to users on the objects they concern. Decides nothing.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use pps_api::{Write, event::publish};
use pps_core::Reason;
use pps_recorder::generate;
use serde::de::IgnoredAny;
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
        if let Err(error) = self.send::<IgnoredAny>(event(notice)).await
            && !matches!(error, Failure::NotLeading)
        {
            metrics.events_dropped.inc();
            warn!(%error, %reason, "cannot publish an Event");
        }
    }
}

fn event(notice: Notice) -> Write {
    let Notice {
        subject,
        reason,
        message,
    } = notice;
    let severity = if is_normal(reason) {
        "Normal"
    } else {
        "Warning"
    };
    let instance = std::env::var("POD_NAME").unwrap_or_else(|_| generate::FIELD_MANAGER.into());
    publish(Event {
        type_: Some(severity.into()),
        reason: Some(reason.to_string()),
        // Required, like the reason, which says what was done or has failed.
        action: Some(reason.to_string()),
        note: Some(message),
        reporting_controller: Some(generate::FIELD_MANAGER.into()),
        reporting_instance: Some(instance),
        regarding: Some(ObjectReference {
            api_version: Some(subject.api_version),
            kind: Some(subject.kind),
            namespace: Some(subject.object.namespace.to_string()),
            name: Some(subject.object.name.to_string()),
            uid: Some(subject.uid),
            ..ObjectReference::default()
        }),
        ..Event::default()
    })
}

/// Whether an Event of this reason tells of no problem.
pub(crate) fn is_normal(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Generated | Reason::Deleted | Reason::StatesDropped | Reason::PodEvicted
    )
}
