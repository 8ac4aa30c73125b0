//! Reads one object at a time, so that one that cannot be read affects no other. What cannot be
//! read is reported without its content, which may be secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;
use pps_api::describe_json;
use pps_recorder::facts::NamespacedName;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::malformed::Malformed;

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

/// A part of an object that is not read.
pub(super) type Unused = Option<IgnoredAny>;

/// The metadata that most kinds need. Above all this skips the managed fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
    pub(super) generation: Option<i64>,
    /// Parsed only where it is used.
    pub(super) creation_timestamp: Option<String>,
    /// Whether an object is being deleted is read, but not since when: the API server also has
    /// times that this program cannot show.
    deletion_timestamp: Option<IgnoredAny>,
    pub(super) labels: Option<BTreeMap<String, String>>,
    pub(super) annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

/// What identifies an object, and whether it is being deleted: the fields of [`Metadata`] that are
/// read even if others are malformed.
const IDENTITY: [&str; 5] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "deletionTimestamp",
];

impl Metadata {
    pub(super) fn key(&self) -> NamespacedName {
        NamespacedName::new(self.namespace.as_deref().unwrap_or_default(), self.name())
    }

    pub(super) fn name(&self) -> Arc<str> {
        self.name.as_deref().unwrap_or_default().into()
    }

    pub(super) fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        Some(self.annotations.as_ref()?.get(key)?.as_str())
    }

    pub(super) fn controller(&self) -> Option<&OwnerReference> {
        let mut owners = self.owner_references.iter().flatten();
        owners.find(|owner| owner.controller == Some(true))
    }
}

impl From<Metadata> for ObjectMeta {
    fn from(metadata: Metadata) -> Self {
        Self {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            generation: metadata.generation,
            deletion_timestamp: metadata
                .deletion_timestamp
                .map(|_| Time(Timestamp::UNIX_EPOCH)),
            labels: metadata.labels,
            annotations: metadata.annotations,
            owner_references: metadata.owner_references,
            ..Self::default()
        }
    }
}

/// The key of an object; an error if it has no name.
pub(super) fn key_of(metadata: &ObjectMeta) -> Result<NamespacedName, Malformed> {
    let name = metadata.name.as_deref().unwrap_or_default();
    expect_name(name)?;
    Ok(NamespacedName::new(
        metadata.namespace.as_deref().unwrap_or_default(),
        name,
    ))
}

fn expect_name(name: &str) -> Result<(), Malformed> {
    if name.is_empty() {
        return Err(Malformed("metadata: the object has no name".into()));
    }
    Ok(())
}

/// The parts of an object's spec and of its status that are read.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts<S, T> {
    pub(super) spec: S,
    pub(super) status: T,
}

/// What could be read of an object that has a name.
pub(super) struct Parsed<S, T> {
    metadata: Metadata,
    /// The rest of the object, or why it cannot be read.
    parts: Result<Parts<S, T>, String>,
}

impl<S: DeserializeOwned, T: DeserializeOwned> Parsed<S, T> {
    /// Reads as much of an object as possible.
    pub(super) fn read(object: &str) -> Result<Self, Malformed> {
        #[derive(Deserialize)]
        struct Object<S, T> {
            metadata: Metadata,
            spec: S,
            status: T,
        }
        let parsed = match serde_json::from_str::<Object<S, T>>(object) {
            Ok(object) => Self {
                metadata: object.metadata,
                parts: Ok(Parts {
                    spec: object.spec,
                    status: object.status,
                }),
            },
            Err(error) => Self {
                metadata: read_metadata(raw_metadata(object)?)
                    .map_err(|error| in_metadata(&error))?,
                parts: Err(describe_json(&error)),
            },
        };
        expect_name(&parsed.metadata.name())?;
        Ok(parsed)
    }

    /// The item with this key. `fact` gets the parts of an object that can be read.
    pub(super) fn into_item<K, F>(
        self,
        key: impl FnOnce(&Metadata) -> K,
        fact: impl FnOnce(Metadata, Option<Parts<S, T>>) -> Option<F>,
    ) -> Item<K, F> {
        let (parts, unreadable) = match self.parts {
            Ok(parts) => (Some(parts), None),
            Err(error) => (None, Some(error)),
        };
        Item {
            key: key(&self.metadata),
            resource_version: self.metadata.resource_version.clone().unwrap_or_default(),
            fact: fact(self.metadata, parts),
            unreadable,
        }
    }
}

/// Reads as much as possible of the metadata of an object, whatever follows it, with the managed
/// fields.
pub(super) fn object_metadata(object: &str) -> Result<ObjectMeta, Malformed> {
    let metadata = raw_metadata(object)?;
    serde_json::from_str(metadata)
        .or_else(|_| read_metadata(metadata).map(ObjectMeta::from))
        .map_err(|error| in_metadata(&error))
}

fn in_metadata(error: &serde_json::Error) -> Malformed {
    Malformed(format!("metadata: {}", describe_json(error)))
}

/// The text of an object's metadata.
fn raw_metadata(object: &str) -> Result<&str, Malformed> {
    #[derive(Deserialize)]
    struct OnlyMetadata<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    let object: OnlyMetadata<'_> =
        serde_json::from_str(object).map_err(|error| in_metadata(&error))?;
    Ok(object.metadata.get())
}

/// Reads metadata. If a field is malformed, only what identifies the object.
fn read_metadata(metadata: &str) -> serde_json::Result<Metadata> {
    serde_json::from_str(metadata).or_else(|_| {
        let mut fields: BTreeMap<String, &RawValue> = serde_json::from_str(metadata)?;
        fields.retain(|name, _| IDENTITY.contains(&name.as_str()));
        serde_json::from_str(&serde_json::to_string(&fields)?)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_the_metadata_that_is_used() {
        let metadata = json!({"name": "w-0", "generateName": "w-", "namespace": "n", "uid": "uid",
        "resourceVersion": "7", "generation": 3, "deletionTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"zone": "a"}, "annotations": {"ip": "10.0.0.7"},
        "managedFields": ["are not looked into"],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o"},
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "uid": "u", "controller": true},
        ]});
        let metadata = read_metadata(&metadata.to_string()).unwrap();
        assert_eq!(metadata.key(), NamespacedName::new("n", "w-0"));
        assert!(metadata.is_terminating());
        assert_eq!(metadata.annotation("ip"), Some("10.0.0.7"));
        assert_eq!(metadata.controller().unwrap().uid, "u");
    }

    #[test]
    fn an_unreadable_object_keeps_what_identifies_it() {
        let read_metadata = |object: serde_json::Value| object_metadata(&object.to_string());
        let metadata = json!({"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"});
        let kept = read_metadata(json!({"metadata": metadata, "spec": "x"})).unwrap();
        assert_eq!(
            (kept.name.as_deref(), kept.resource_version.as_deref()),
            (Some("a"), Some("7"))
        );
        let mut odd = metadata.clone();
        odd["labels"] = 5.into();
        odd["deletionTimestamp"] = "yesterday".into();
        let kept = read_metadata(json!({"metadata": odd})).unwrap();
        assert_eq!(
            (kept.uid.as_deref(), kept.deletion_timestamp.is_some()),
            (Some("u"), true)
        );
        for malformed in [
            json!({"metadata": 5}),
            json!({"metadata": {"name": 5}}),
            json!({}),
            json!([]),
        ] {
            assert!(read_metadata(malformed.clone()).is_err(), "{malformed}");
        }
    }
}
