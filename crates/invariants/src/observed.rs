//! What the sidecar's watches deliver: each kind of object, and the bytes of a watch.
//!
//! The bytes take the way that they take in the sidecar: the same functions read them, and the index or the discovery
//! takes what was read. The checks read the same JSON on their own, as a [`Value`].

mod kinds;
mod objects;
mod seeds;
mod stream;
mod world;

use std::time::{Duration, Instant};

use pps_sidecar::observe::wire::{Item, Malformed};
use serde_json::Value;

pub use self::kinds::{check_definition, check_whitelist};
pub use self::objects::{check_node, check_object, check_pod, check_workload};
pub(crate) use self::seeds::seeds;
pub use self::stream::check_watch;

/// How long it may take to read one input of a fuzzer, which is small. A machine that does more at the same time is
/// slower, but not as slow as what is not linear.
const LONGEST: Duration = Duration::from_secs(2);

/// Every word that an error may have.
const VOCABULARY: &str = "invalid value at line column metadata: spec: status: the object has no name missing field duplicate field \
    recursion limit exceeded EOF while parsing a string an object a list a value expected ident expected value key must be a string \
    control character (\\u0000-\\u001F) found while parsing a string invalid escape lone leading surrogate in hex escape \
    invalid number number out of range trailing characters trailing comma invalid unicode code point unexpected end of hex escape \
    floating point number \
    PodIPsJSON PodIPsCSV WhenScaled WhenDeleted TargetReference NodeTopologyTerm PreferredTopologyTerm PodAnnotation \
    targetRef apiVersion preference nodeTopologyKeys";

/// Text as JSON; nothing if it is none, or if an object has a field twice. Readers may differ in what they make of that.
fn canonical(text: &str) -> Option<(Value, String)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let text = value.to_string();
    Some((value, text))
}

/// Runs a reader, and checks what holds for all of them: it is fast, it reads what has a name and nothing else, and its
/// errors hold nothing of the object.
fn read<K, F>(
    text: &str,
    reader: impl Fn(&str) -> Result<Item<K, F>, Malformed>,
) -> Option<(Value, Item<K, F>)>
where
    K: PartialEq + std::fmt::Debug,
    F: PartialEq + std::fmt::Debug,
{
    let start = Instant::now();
    let first = reader(text);
    assert!(start.elapsed() < LONGEST, "{:?} for {} bytes", start.elapsed(), text.len());
    let error = match &first {
        Ok(item) => item.unreadable.clone(),
        Err(malformed) => Some(malformed.to_string()),
    };
    let (object, text) = canonical(text)?;
    if let Some(error) = error {
        assert_reveals_nothing(&error, &object);
    }
    let metadata = &object["metadata"];
    let is_text = |field: &str| metadata[field].is_null() || metadata[field].is_string();
    let has_name = metadata["name"].as_str().is_some_and(|name| !name.is_empty())
        && ["namespace", "uid", "resourceVersion"].into_iter().all(is_text);
    match reader(&text) {
        Ok(item) => {
            assert!(has_name, "{text}");
            let version = metadata["resourceVersion"].as_str().unwrap_or_default();
            assert_eq!(item.resource_version, version, "{text}");
            Some((object, item))
        }
        Err(error) => {
            assert!(!has_name, "{error}: {text}");
            None
        }
    }
}

/// A string of the object that is long enough to be a secret is in no error, unless errors have these words themselves.
fn assert_reveals_nothing(error: &str, object: &Value) {
    match object {
        Value::String(text) if text.len() >= 8 => {
            let words =
                |text: &str| text.trim_matches(|letter: char| !letter.is_ascii_alphabetic()).to_owned();
            let is_known =
                VOCABULARY.contains(&words(text)) || text.contains("expected") || text.contains("line");
            assert!(is_known || !error.contains(text.as_str()), "{error}");
        }
        Value::Array(items) => items.iter().for_each(|item| assert_reveals_nothing(error, item)),
        Value::Object(fields) => fields.values().for_each(|field| assert_reveals_nothing(error, field)),
        _ => {}
    }
}

/// Namespace and name of an object.
fn name_of(object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}
