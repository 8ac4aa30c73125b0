//! Reads one object at a time, so that one that cannot be read affects no other. What cannot be read is reported
//! without its content, which may be secret.

use std::error::Error;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;

use super::metadata::{slim_metadata, some_time};

/// An object as a list or a watch event contains it.
#[derive(Clone, Debug, PartialEq)]
pub struct Item<K, F> {
    pub key: K,
    pub resource_version: String,
    /// Nothing if the object is of no interest.
    pub fact: Option<F>,
    /// Why the object cannot be read, if it cannot. Its fact says only that it exists.
    pub unreadable: Option<String>,
}

/// Why not even the name of an object can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Malformed {}

/// What could be read of an object.
pub(super) enum Read<O> {
    Whole(O),
    /// Its metadata, and why the rest cannot be read.
    Metadata(Box<ObjectMeta>, String),
}

/// Reads as much of an object as possible.
pub(super) fn read<O: DeserializeOwned>(text: &str) -> Result<Read<O>, Malformed> {
    #[derive(Deserialize)]
    struct OnlyMetadata {
        metadata: ObjectMeta,
    }
    #[derive(Deserialize)]
    struct OnlySlimMetadata {
        #[serde(deserialize_with = "slim_metadata")]
        metadata: ObjectMeta,
    }
    let error = match serde_json::from_str(text) {
        Ok(object) => return Ok(Read::Whole(object)),
        Err(error) => describe(&error),
    };
    let metadata = serde_json::from_str(text).map(|OnlyMetadata { metadata }| metadata);
    let metadata =
        metadata.or_else(|_| serde_json::from_str(text).map(|OnlySlimMetadata { metadata }| metadata));
    let metadata = metadata.or_else(|_| read_identity(text))?;
    Ok(Read::Metadata(Box::new(metadata), error))
}

/// Reads what identifies an object whose other metadata is malformed.
fn read_identity(text: &str) -> Result<ObjectMeta, Malformed> {
    #[derive(Deserialize)]
    struct Identified {
        metadata: Identity,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Identity {
        name: String,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        deletion_timestamp: Option<IgnoredAny>,
    }
    let Identified { metadata } =
        serde_json::from_str(text).map_err(|error| Malformed(format!("metadata: {}", describe(&error))))?;
    Ok(ObjectMeta {
        name: Some(metadata.name),
        namespace: metadata.namespace,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        deletion_timestamp: metadata.deletion_timestamp.map(|_| some_time()),
        ..ObjectMeta::default()
    })
}

/// Turns an object into an item. `whole` and `rest` make facts from an object, and from the metadata of an unreadable
/// one.
pub(super) fn item<O, K, F>(
    text: &str,
    metadata: impl Fn(&O) -> &ObjectMeta,
    key: impl Fn(&ObjectMeta) -> K,
    whole: impl FnOnce(O) -> Option<F>,
    rest: impl FnOnce(&ObjectMeta) -> Option<F>,
) -> Result<Item<K, F>, Malformed>
where
    O: DeserializeOwned,
{
    item_of(read(text)?, metadata, key, whole, rest)
}

/// Turns what could be read of an object into an item.
pub(super) fn item_of<O, K, F>(
    object: Read<O>,
    metadata: impl Fn(&O) -> &ObjectMeta,
    key: impl Fn(&ObjectMeta) -> K,
    whole: impl FnOnce(O) -> Option<F>,
    rest: impl FnOnce(&ObjectMeta) -> Option<F>,
) -> Result<Item<K, F>, Malformed> {
    let identify = |metadata: &ObjectMeta| {
        if metadata.name.as_deref().is_none_or(str::is_empty) {
            return Err(Malformed("metadata: the object has no name".into()));
        }
        Ok((key(metadata), metadata.resource_version.clone().unwrap_or_default()))
    };
    match object {
        Read::Whole(object) => {
            let (key, resource_version) = identify(metadata(&object))?;
            Ok(Item { key, resource_version, fact: whole(object), unreadable: None })
        }
        Read::Metadata(metadata, error) => {
            let (key, resource_version) = identify(&metadata)?;
            Ok(Item { key, resource_version, fact: rest(&metadata), unreadable: Some(error) })
        }
    }
}

/// Describes an error without the values that it complains about.
pub(crate) fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let names_a_value = ["invalid type: ", "invalid value: ", "invalid length ", "unknown variant "];
    let names_only_fields = ["missing field ", "duplicate field "];
    // What was expected comes last.
    let expected =
        text.rfind("expected ").filter(|_| names_a_value.iter().any(|start| text.starts_with(start)));
    match (expected, error.classify()) {
        (Some(start), _) => text[start..].to_owned(),
        (None, Category::Syntax | Category::Eof) => text,
        (None, _) if names_only_fields.iter().any(|start| text.starts_with(start)) => text,
        (None, _) => format!("invalid value at line {} column {}", error.line(), error.column()),
    }
}

#[cfg(test)]
mod tests {
    use pps_core::Spec;
    use serde_json::{from_str, json};

    use super::*;

    #[test]
    fn an_error_says_what_was_expected_and_not_what_was_there() {
        for (text, expected) in [
            (r#"{"targetRef": "hunter2, expected hunter2"}"#, "expected struct TargetReference"),
            (r#"{"targetRef": {"apiVersion": "hunter2"}}"#, "missing field `kind`"),
            (
                r#"{"targetRef": {"apiVersion": "v", "kind": "k", "name": "n"}, "nodeDeletionPolicy": "hunter2"}"#,
                "expected `Keep` or `Forget`",
            ),
            (r#"{"targetRef": hunter2}"#, "expected value"),
        ] {
            let error = describe(&from_str::<Spec>(text).unwrap_err());
            assert!(error.starts_with(expected) && !error.contains("hunter2"), "{error}");
        }
        let custom: serde_json::Error = serde::de::Error::custom("cannot use hunter2, expected better");
        assert_eq!(describe(&custom), "invalid value at line 0 column 0");
    }

    #[test]
    fn an_unreadable_object_keeps_what_identifies_it() {
        #[derive(Debug, Deserialize)]
        struct Object {
            #[allow(dead_code, reason = "only whether it can be read matters")]
            spec: u8,
        }
        let read_metadata = |object: serde_json::Value| match read::<Object>(&object.to_string()) {
            Ok(Read::Metadata(metadata, _)) => Ok(metadata),
            Ok(Read::Whole(object)) => panic!("{object:?}"),
            Err(error) => Err(error),
        };
        let metadata = json!({"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"});
        let kept = read_metadata(json!({"metadata": metadata, "spec": "x"})).unwrap();
        assert_eq!((kept.name.as_deref(), kept.resource_version.as_deref()), (Some("a"), Some("7")));
        let mut odd = metadata.clone();
        odd["labels"] = 5.into();
        odd["deletionTimestamp"] = "yesterday".into();
        let kept = read_metadata(json!({"metadata": odd})).unwrap();
        assert_eq!((kept.uid.as_deref(), kept.deletion_timestamp.is_some()), (Some("u"), true));
        for malformed in [json!({"metadata": 5}), json!({"metadata": {"name": 5}}), json!({}), json!([])] {
            assert!(read_metadata(malformed.clone()).is_err(), "{malformed}");
        }
    }
}
