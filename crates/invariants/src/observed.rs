//! What the sidecar's watches deliver: each kind of object, and the bytes of a watch.
//!
//! The bytes take the way that they take in the sidecar: the same functions read them, and the
//! index or the discovery takes what was read. The checks read the same JSON on their own, as a
//! [`Value`].

mod kinds;
mod objects;
mod seeds;
mod stream;
mod world;

use std::time::{Duration, Instant};

use pps_sidecar::observe::objects::{Item, Malformed};
use serde_json::{Map, Value};

pub use self::kinds::{check_definition, check_whitelist};
pub use self::objects::{check_node, check_object, check_pod, check_workload};
pub(crate) use self::seeds::seeds;
pub use self::stream::check_watch;

/// How long it may take to read one input of a fuzzer, which is small. A machine that does more at
/// the same time is slower, but not as slow as what is not linear.
const LONGEST: Duration = Duration::from_secs(10);

/// A secret that no input has by itself.
const SECRET: &str = "canary-5be1";

/// Text as JSON; nothing if it is none, if an object has a field twice, or if it or its metadata is
/// a list. Readers may differ in what they make of that.
fn canonical(text: &str) -> Option<(Value, String)> {
    let value: Value = serde_json::from_str(text).ok()?;
    if value.is_array() || value["metadata"].is_array() {
        return None;
    }
    let text = value.to_string();
    Some((value, text))
}

/// Runs a reader, and checks what holds for all of them: it is fast, it reads what has a name and
/// nothing else, and its errors hold nothing of the object.
fn read<K, F>(
    text: &str,
    reader: impl Fn(&str) -> Result<Item<K, F>, Malformed>,
) -> Option<(Value, Item<K, F>)>
where
    K: PartialEq + std::fmt::Debug,
    F: PartialEq + std::fmt::Debug,
{
    let start = Instant::now();
    let _ = reader(text);
    assert!(
        start.elapsed() < LONGEST,
        "{:?} for {} bytes",
        start.elapsed(),
        text.len()
    );
    let (object, text) = canonical(text)?;
    let error = match reader(&with_secrets(&object).to_string()) {
        Ok(item) => item.unreadable,
        Err(malformed) => Some(malformed.to_string()),
    };
    let is_secret = !text.contains(SECRET);
    assert!(
        error
            .as_ref()
            .is_none_or(|error| !is_secret || !error.contains(SECRET)),
        "{error:?}"
    );
    let metadata = &object["metadata"];
    let is_text = |field: &str| metadata[field].is_null() || metadata[field].is_string();
    let has_name = metadata["name"]
        .as_str()
        .is_some_and(|name| !name.is_empty())
        && ["namespace", "uid", "resourceVersion"]
            .into_iter()
            .all(is_text);
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

/// The same object with a secret in each of its strings.
fn with_secrets(object: &Value) -> Value {
    match object {
        Value::String(text) => format!("{text}{SECRET}").into(),
        Value::Array(items) => items.iter().map(with_secrets).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, field)| (key.clone(), with_secrets(field)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// Namespace and name of an object.
fn name_of(object: &Value) -> (String, String) {
    let text = |field: &str| {
        object["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    (text("namespace"), text("name"))
}
