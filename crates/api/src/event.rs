//! An Event about an object. kube's Recorder would repeat the note of an earlier Event, needs the
//! right to patch, truncates nothing, and writes without asking whether this process still may.

use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use pps_core::limits::MAX_NOTE_LENGTH;
use serde_json::json;

use crate::write::Write;

/// How much of an object's name begins the name of its Event: the API server takes 253 bytes.
const MAX_NAME_START: usize = 220;

/// The write that publishes an Event, in the namespace of the object that it regards. The caller
/// says who reports what about which object; name and time are made here, and the end of a note
/// longer than [`MAX_NOTE_LENGTH`] bytes is cut off.
pub fn publish(mut event: Event) -> Write {
    complete(&mut event, Timestamp::now());
    let namespace = event.metadata.namespace.as_deref();
    Write::create(Event::url_path(&(), namespace), &json!(event))
}

fn complete(event: &mut Event, now: Timestamp) {
    if let Some(note) = &mut event.note {
        note.truncate(note.floor_char_boundary(MAX_NOTE_LENGTH));
    }
    let regarding = event.regarding.get_or_insert_default();
    let name = regarding.name.as_deref().unwrap_or_default();
    let start = &name[..name.floor_char_boundary(MAX_NAME_START)];
    let start = start.trim_end_matches(['.', '-']);
    event.metadata.name = Some(format!("{start}.{:x}", now.as_nanosecond()));
    event.metadata.namespace.clone_from(&regarding.namespace);
    event.event_time = Some(MicroTime(now));
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;

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
            let mut event = Event {
                note: Some("é".repeat(513)),
                regarding: Some(ObjectReference {
                    namespace: Some("n".into()),
                    name: Some(name.clone()),
                    ..ObjectReference::default()
                }),
                ..Event::default()
            };
            complete(&mut event, Timestamp::now());
            assert_eq!(event.note, Some("é".repeat(512)));
            let event_name = event.metadata.name.unwrap();
            assert!(
                event_name.starts_with(&start) && event_name.len() <= 253,
                "{event_name}"
            );
            assert_eq!(event.metadata.namespace.as_deref(), Some("n"));
            assert_eq!(event.regarding.unwrap().name, Some(name));
        }
    }
}
