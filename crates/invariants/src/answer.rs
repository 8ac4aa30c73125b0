//! The host's answers to one fixed request.
//!
//! The first byte selects the settings and the Pod's name. The answers follow in the order of the
//! calls, with [`SEPARATOR`] between them. An answer that begins with [`ERROR`] is the text of an
//! error.

use std::cell::RefCell;

use persistent_pod_state_policy::answer as admit;
use pps_admission::Host;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::injected::Recorded;
use crate::packed::{hides_states, state_of};

/// Separates two answers.
pub const SEPARATOR: u8 = 0x1e;
/// Begins the text of an error.
pub const ERROR: u8 = b'!';
// Bits of the first byte.
const ACCEPT: u8 = 2;
const DOTTED: u8 = 4;
const DENYING: u8 = 8;

/// One call, with its answer.
type Call = (String, String, Result<String, String>);

struct Script<'a> {
    answers: RefCell<Vec<&'a [u8]>>,
    calls: RefCell<Vec<Call>>,
}

impl Host for Script<'_> {
    fn call(&self, namespace: &str, operation: &str, payload: &str) -> Result<String, String> {
        if namespace == "tracing" {
            return Ok(String::new());
        }
        let request: Value = serde_json::from_str(payload).unwrap();
        let answer = match self
            .answers
            .borrow_mut()
            .pop()
            .and_then(<[u8]>::split_first)
        {
            Some((&ERROR, text)) => Err(String::from_utf8_lossy(text).into_owned()),
            // The policy reads answers as UTF-8.
            Some((first, rest)) => {
                String::from_utf8([&[*first], rest].concat()).map_err(|error| error.to_string())
            }
            None => Ok(String::new()),
        };
        let name = request["name"].as_str().unwrap_or_default().to_owned();
        self.calls
            .borrow_mut()
            .push((operation.to_owned(), name, answer.clone()));
        answer
    }
}

/// What an answer means.
#[derive(Debug, PartialEq)]
enum Meaning {
    /// No object has that name.
    NotFound,
    /// The cluster does not know the kind.
    NoSuchKind,
    /// It cannot be understood.
    Garbage,
    /// It is the object that governs the workload.
    Governs(Box<Value>),
    /// Only the policy's own types could tell.
    Unclear,
}

/// The policy refuses an answer that it cannot understand, or warns about it. It injects nothing
/// that the host did not send.
pub fn check(data: &[u8]) {
    let Some((&flags, data)) = data.split_first() else {
        return;
    };
    let has = |flag: u8| flags & flag != 0;
    let pod_name = if has(DOTTED) { "web.0" } else { "web-0" };
    let payload = json!({
        "settings": {
            "onLookupFailure": if has(ACCEPT) { "accept" } else { "reject" },
            "annotations": if has(DENYING) { json!({"deny": ["i*"]}) } else { Value::Null },
        },
        "request": {
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "operation": "CREATE",
            "namespace": "shop",
            "object": pod(pod_name),
        },
    });
    let mut answers: Vec<&[u8]> = data.split(|byte| *byte == SEPARATOR).collect();
    answers.reverse();
    let host = Script {
        answers: RefCell::new(answers),
        calls: RefCell::default(),
    };
    let response = admit(payload.to_string().as_bytes(), &host);
    let calls = host.calls.into_inner();
    let story = format!("{calls:?}\n{response:?}");

    let meanings: Vec<Meaning> = calls
        .iter()
        .map(|(_, name, answer)| meaning(name, answer))
        .collect();
    // The lookup starts again if v1alpha1 is not served.
    let started_again = usize::from(meanings[0] == Meaning::NoSuchKind);
    let names: Vec<&String> = calls[started_again..]
        .iter()
        .map(|(_, name, _)| name)
        .collect();
    // It asks for the whole status of an object that may hide states.
    let asked_again = names.len() > 1 && names[names.len() - 1] == names[names.len() - 2];
    let most = 3 + started_again + usize::from(asked_again);
    assert!((1..=most).contains(&calls.len()), "{calls:?}");
    assert!(
        calls
            .iter()
            .all(|(operation, ..)| operation == "get_resource"),
        "{calls:?}"
    );
    let last = meanings.last().unwrap();
    let is_silent = response.accepted && response.warnings.is_none();
    if !response.accepted {
        assert!(!has(ACCEPT) && response.code == Some(503), "{story}");
        assert!(
            response
                .message
                .as_ref()
                .is_some_and(|message| !message.is_empty()),
            "{story}"
        );
        assert_ne!(*last, Meaning::NotFound, "{story}");
    }
    if meanings.contains(&Meaning::Garbage) {
        assert_eq!(*last, Meaning::Garbage, "the policy went on after {story}");
        assert!(!is_silent && response.mutated_object.is_none(), "{story}");
    }
    let before = pod(pod_name);
    if asked_again {
        assert!(response.mutated_object.is_none(), "{story}");
        return;
    }
    match last {
        // With a warning, the policy may have accepted the Pod because it could not read the
        // object.
        Meaning::Governs(object) if response.accepted && (is_silent || !has(ACCEPT)) => {
            let after = &response
                .mutated_object
                .clone()
                .unwrap_or_else(|| before.clone());
            let state = state_of(&object["status"], pod_name);
            assert!(state.is_some(), "damaged: {story}");
            let has_none = state.as_ref().is_some_and(Value::is_null);
            assert!(!has_none || !hides_states(object), "hidden: {story}");
            let name = object["metadata"]["name"].as_str().unwrap();
            let is_denied = |key: &str| has(DENYING) && key.starts_with('i');
            Recorded::read(name, &object["spec"], &state.unwrap_or_default())
                .without(is_denied)
                .judge(&before, after);
        }
        Meaning::Governs(_) | Meaning::Unclear => {}
        _ => assert!(response.mutated_object.is_none(), "{story}"),
    }
}

fn meaning(name: &str, answer: &Result<String, String>) -> Meaning {
    let text = match answer {
        Ok(text) => text,
        Err(text) => return meaning_of_error(name, text),
    };
    let is_json = serde_json::from_str::<&RawValue>(text).is_ok();
    if !is_json || !text.trim_start().starts_with('{') {
        return Meaning::Garbage;
    }
    let Ok(object) = serde_json::from_str::<Value>(text) else {
        return Meaning::Unclear;
    };
    if object["metadata"]["name"] != name {
        return Meaning::Garbage;
    }
    let target = &object["spec"]["targetRef"];
    if has_list_for_object(&object) {
        return Meaning::Unclear;
    }
    let is_ours = target["apiVersion"]
        .as_str()
        .is_some_and(|version| version.starts_with("apps/"))
        && target["kind"] == "StatefulSet"
        && target["name"] == "web";
    let is_terminating = !object["metadata"]["deletionTimestamp"].is_null();
    if is_ours && !is_terminating {
        Meaning::Governs(object.into())
    } else {
        Meaning::Unclear
    }
}

fn meaning_of_error(name: &str, text: &str) -> Meaning {
    let words = text
        .split_once("Callback evaluation failure: ")
        .map_or(text, |(_, words)| words);
    let words = words.split("Stack backtrace:").next().unwrap_or_default();
    let kind = "apps.kruise.io/v1alpha1";
    let answer = words.strip_prefix(&format!(
        "error finding resource {kind} / PersistentPodState: "
    ));
    let answer = answer.unwrap_or(words).strip_prefix("ApiError: ");
    if words.starts_with(&format!(
        "Cannot find {kind}/PersistentPodState named '{name}'"
    )) {
        Meaning::NotFound
    } else if words.trim_end() == format!("Cannot find resource {kind}/PersistentPodState")
        || answer.is_some_and(|answer| {
            answer
                .trim_start_matches('"')
                .starts_with("404 page not found")
        })
    {
        Meaning::NoSuchKind
    } else {
        Meaning::Garbage
    }
}

/// Whether there is a list in place of an object: serde reads it by position.
fn has_list_for_object(object: &Value) -> bool {
    let spec = &object["spec"];
    let places = [
        &object["metadata"],
        spec,
        &spec["targetRef"],
        &spec["requiredPersistentTopology"],
        &object["status"],
        &object["status"]["packed"],
    ];
    let terms = crate::injected::list(&spec["preferredPersistentTopology"]).iter();
    let states = object["status"]["podStates"]
        .as_object()
        .into_iter()
        .flat_map(|states| states.values());
    places
        .into_iter()
        .chain(terms.clone())
        .chain(terms.map(|term| &term["preference"]))
        .chain(states)
        .any(Value::is_array)
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {
            "name": name,
            "annotations": {"own": "1"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "1", "controller": true},
            ],
        },
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["c"]}]},
                    {},
                ]},
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}},
                ],
            }},
            "containers": [{"name": "web", "image": "web:1"}],
        },
    })
}
