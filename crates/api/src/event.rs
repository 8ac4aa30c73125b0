//! An Event about an object. kube's Recorder would repeat the note of an earlier Event, needs the
//! right to patch, truncates nothing, and writes without asking whether this process still may.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::core::ObjectMeta;
use pps_core::limits::MAX_NOTE_LENGTH;
use serde_json::json;

use crate::write::Write;

/// How much of an object's name begins the name of its Event: the API server takes 253 bytes.
const MAX_NAME_START: usize = 220;

/// An Event in a namespace.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// The object, with its namespace and name.
    pub regarding: ObjectReference,
    /// Whether it tells of a problem.
    pub severity: Severity,
    /// `PodMoved`
    pub reason: &'a str,
    /// `Move`
    pub action: &'a str,
    /// What happened. The end of a text longer than [`MAX_NOTE_LENGTH`] bytes is cut off.
    pub note: &'a str,
    /// The program: `pps-sidecar`.
    pub controller: &'a str,
    /// The process: the name of its Pod.
    pub instance: &'a str,
}

/// Whether an Event tells of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It tells of none.
    Normal,
    /// It tells of one, which may need somebody to act.
    Warning,
}

impl Event<'_> {
    /// The write that publishes this Event as of now.
    pub fn publish(self) -> Write {
        let namespace = self.regarding.namespace.clone().unwrap_or_default();
        let path = v1::Event::url_path(&(), Some(&namespace));
        Write::create(path, json!(self.object(Timestamp::now())))
    }

    fn object(self, now: Timestamp) -> v1::Event {
        let name = self.regarding.name.as_deref().unwrap_or_default();
        let start = &name[..name.floor_char_boundary(MAX_NAME_START)];
        let start = start.trim_end_matches(['.', '-']);
        let note = &self.note[..self.note.floor_char_boundary(MAX_NOTE_LENGTH)];
        let severity = match self.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        v1::Event {
            metadata: ObjectMeta {
                name: Some(format!("{start}.{:x}", now.as_nanosecond())),
                namespace: self.regarding.namespace.clone(),
                ..ObjectMeta::default()
            },
            type_: Some(severity.into()),
            reason: Some(self.reason.into()),
            note: Some(note.into()),
            action: Some(self.action.into()),
            event_time: Some(MicroTime(now)),
            regarding: Some(self.regarding),
            reporting_controller: Some(self.controller.into()),
            reporting_instance: Some(self.instance.into()),
            ..v1::Event::default()
        }
    }
}

#[cfg(test)]
mod tests {
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
            let event = Event {
                regarding: ObjectReference {
                    namespace: Some("n".into()),
                    name: Some(name.clone()),
                    ..ObjectReference::default()
                },
                severity: Severity::Warning,
                reason: "NearCapacity",
                action: "Record",
                note: &"é".repeat(513),
                controller: "pps-sidecar",
                instance: "pps-sidecar-0",
            };
            let event = event.object(Timestamp::now());
            assert_eq!(event.note, Some("é".repeat(512)));
            let event_name = event.metadata.name.unwrap();
            assert!(
                event_name.starts_with(&start) && event_name.len() <= 253,
                "{event_name}"
            );
            assert_eq!(event.type_.as_deref(), Some("Warning"));
            assert_eq!(event.regarding.unwrap().name, Some(name));
        }
    }
}
