//! Reads the objects of the files.

use std::collections::BTreeMap;

use pps_core::pps::{GROUP, KIND, group_of};
use pps_core::shorten;
use pps_manifest::text::MAX_BYTES;
use pps_manifest::yaml::{self, Document, Positions};
use serde_json::Value;

use super::Source;
use super::answers::{Answers, Problem};
use super::item::{Item, Origin, Subject};

/// How deep a list may be in a list.
const MAX_LISTS: usize = 4;

/// All objects that are tried, in the order of the files.
pub(super) fn read(sources: &[Source], namespace: &str, answers: &mut Answers) -> Vec<Item> {
    let mut reader = Reader { namespace, answers, items: Vec::new(), others: BTreeMap::new() };
    for source in sources {
        match yaml::parse_up_to(&source.text, MAX_BYTES) {
            Ok(documents) => {
                for Document { value, positions } in documents {
                    reader.add(&source.name, value, &positions, "", MAX_LISTS);
                }
            }
            Err(error) => {
                reader.answers.is_unreadable = true;
                reader.answers.problems.push(Problem::error(&source.name, &error.into()));
            }
        }
    }
    let Reader { items, others, .. } = reader;
    if !others.is_empty() {
        let kinds: Vec<String> = others.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        answers.notes.push(format!(
            "left out: {}; only Pods, StatefulSets and PersistentPodStates are tried",
            kinds.join(", ")
        ));
    }
    items
}

struct Reader<'a> {
    namespace: &'a str,
    answers: &'a mut Answers,
    items: Vec<Item>,
    /// Objects of other kinds, and how many.
    others: BTreeMap<String, usize>,
}

impl Reader<'_> {
    /// Adds an object, or the items of a list.
    fn add(&mut self, file: &str, mut value: Value, positions: &Positions, prefix: &str, depth: usize) {
        let origin =
            Origin { file: file.to_owned(), positions: positions.clone(), prefix: prefix.to_owned() };
        if is_request(&value) {
            let namespace = request_of(&value)["namespace"].as_str().unwrap_or_default().to_owned();
            self.items.push(Item { subject: Subject::Request, object: value, namespace, origin });
            return;
        }
        let kind = value["kind"].as_str().unwrap_or_default().to_owned();
        let api_version = value["apiVersion"].as_str().unwrap_or_default().to_owned();
        if kind.ends_with("List")
            && depth > 0
            && let Some(items) = value.get_mut("items").and_then(Value::as_array_mut)
        {
            for (index, item) in std::mem::take(items).into_iter().enumerate() {
                self.add(file, item, positions, &format!("{prefix}items[{index}]."), depth - 1);
            }
            return;
        }
        let subject = match (group_of(&api_version), kind.as_str()) {
            ("", "Pod") => Subject::Pod,
            ("apps" | GROUP, "StatefulSet") => Subject::StatefulSet,
            (GROUP, KIND) => Subject::Pps,
            ("", "") => {
                let message = "this is no Kubernetes object: it needs apiVersion, kind and metadata";
                return self.answers.problems.push(origin.problem("", message, true));
            }
            _ => return *self.others.entry(shorten(&kind)).or_default() += 1,
        };
        let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else {
            let message = format!("{kind} has no metadata: give it a name");
            return self.answers.problems.push(origin.problem("metadata", &message, true));
        };
        let own = metadata.get("namespace").and_then(Value::as_str).filter(|own| !own.is_empty());
        let namespace = own.unwrap_or(self.namespace).to_owned();
        metadata.insert("namespace".into(), namespace.clone().into());
        self.items.push(Item { subject, object: value, namespace, origin });
    }
}

/// Whether this is an `AdmissionReview`, the request in it, or what PolicyServer gives to a policy.
fn is_request(value: &Value) -> bool {
    let request = request_of(value);
    request["operation"].is_string() && request["kind"].is_object()
}

/// The request of an `AdmissionReview`, or the request itself.
pub(super) fn request_of(value: &Value) -> &Value {
    if value["request"].is_object() { &value["request"] } else { value }
}
