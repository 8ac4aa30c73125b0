//! Reads one object at a time, so that one that cannot be read affects no other. What cannot be
//! read is reported without its content, which may be secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;
use pps_recorder::facts::NamespacedName;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::encoding::Encoded;
use super::malformed::Malformed;
use super::protobuf::{Fields, Kind, Schema};

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

pub(super) const METADATA: Schema = &[
    (1, "name", Kind::Text),
    (3, "namespace", Kind::Text),
    (5, "uid", Kind::Text),
    (6, "resourceVersion", Kind::Text),
    (7, "generation", Kind::Number),
    (9, "deletionTimestamp", Kind::Time),
    (11, "labels", Kind::Map),
    (12, "annotations", Kind::Map),
    (13, "ownerReferences", Kind::List(&Kind::Message(OWNER))),
];
const OWNER: Schema = &[
    (1, "kind", Kind::Text),
    (3, "name", Kind::Text),
    (4, "uid", Kind::Text),
    (5, "apiVersion", Kind::Text),
    (6, "controller", Kind::Flag),
];
/// What identifies an object. Whether it is being deleted counts even if its time cannot be read.
const IDENTITY: Schema = &[
    (1, "name", Kind::Text),
    (3, "namespace", Kind::Text),
    (5, "uid", Kind::Text),
    (6, "resourceVersion", Kind::Text),
    (9, "deletionTimestamp", Kind::Size(&[])),
];

/// Any object. `S` and `T` are the parts of its spec and of its status that are read, and `M` those
/// of its metadata.
#[derive(Deserialize)]
struct Object<M, S, T> {
    metadata: M,
    spec: S,
    status: T,
}

/// A part of an object that is not read.
pub(super) type Unused = Option<IgnoredAny>;

/// The metadata that most kinds need. Above all this skips the managed fields.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Slim {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    deletion_timestamp: Option<IgnoredAny>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

impl From<Slim> for ObjectMeta {
    fn from(slim: Slim) -> Self {
        Self {
            name: slim.name,
            namespace: slim.namespace,
            uid: slim.uid,
            resource_version: slim.resource_version,
            generation: slim.generation,
            // Whether an object is being deleted is read, but not since when: the API server also
            // has times that this program cannot show.
            deletion_timestamp: slim.deletion_timestamp.map(|_| Time(Timestamp::UNIX_EPOCH)),
            labels: slim.labels,
            annotations: slim.annotations,
            owner_references: slim.owner_references,
            ..Self::default()
        }
    }
}

pub fn key_of(metadata: &ObjectMeta) -> NamespacedName {
    NamespacedName::new(
        metadata.namespace.as_deref().unwrap_or_default(),
        name_of(metadata),
    )
}

pub(super) fn name_of(metadata: &ObjectMeta) -> Arc<str> {
    metadata.name.as_deref().unwrap_or_default().into()
}

/// Reads as much of an object as possible. `fact` gets the spec and the status of one that can be
/// read.
pub(super) fn item<M, S, T, K, F>(
    object: Encoded<'_>,
    schema: Schema,
    key: impl FnOnce(&ObjectMeta) -> K,
    fact: impl FnOnce(ObjectMeta, Option<(S, T)>) -> Option<F>,
) -> Result<Item<K, F>, Malformed>
where
    M: DeserializeOwned + Into<ObjectMeta>,
    S: DeserializeOwned,
    T: DeserializeOwned,
{
    let (metadata, rest, unreadable) = match object.read::<Object<M, S, T>>(schema) {
        Ok(Object {
            metadata,
            spec,
            status,
        }) => (metadata.into(), Some((spec, status)), None),
        Err(Malformed(error)) => {
            let in_metadata = |Malformed(error)| Malformed(format!("metadata: {error}"));
            (
                read_metadata(object).map_err(in_metadata)?,
                None,
                Some(error),
            )
        }
    };
    if metadata.name.as_deref().is_none_or(str::is_empty) {
        return Err(Malformed("metadata: the object has no name".into()));
    }
    let resource_version = metadata.resource_version.clone().unwrap_or_default();
    Ok(Item {
        key: key(&metadata),
        resource_version,
        fact: fact(metadata, rest),
        unreadable,
    })
}

/// Reads as much as possible of the metadata of an object, whatever follows it.
fn read_metadata(object: Encoded<'_>) -> Result<ObjectMeta, Malformed> {
    #[derive(Deserialize)]
    struct OnlyMetadata<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    let metadata = match object {
        Encoded::Json(_) => Encoded::Json(object.read::<OnlyMetadata<'_>>(&[])?.metadata.get()),
        // It is the first field of every object.
        Encoded::Protobuf(message) => match Fields(message).next().transpose()? {
            Some((1, value)) => Encoded::Protobuf(value.bytes()?),
            _ => return Err(Malformed("the object has none".into())),
        },
    };
    metadata
        .read(METADATA)
        .or_else(|_| metadata.read::<Slim>(METADATA).map(Into::into))
        .or_else(|_| read_identity(metadata).map(Into::into))
}

/// Reads what identifies an object whose other metadata is malformed.
fn read_identity(metadata: Encoded<'_>) -> Result<Slim, Malformed> {
    let Encoded::Json(_) = metadata else {
        return metadata.read(IDENTITY);
    };
    let mut fields: BTreeMap<String, &RawValue> = metadata.read(&[])?;
    fields.retain(|name, _| IDENTITY.iter().any(|(_, known, _)| known == name));
    Encoded::Json(&serde_json::to_string(&fields).unwrap_or_default()).read(&[])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::protobuf::tests::{message, number};
    use super::*;

    #[test]
    fn reads_the_metadata_that_is_used() {
        let owner = [
            message(&[(1, b"StatefulSet"), (3, b"w"), (4, b"u"), (5, b"apps/v1")]),
            number(6, 1),
        ];
        let mut bytes = message(&[
            (1, b"w-0"),
            (2, b"w-"),
            (3, b"n"),
            (4, b""),
            (5, b"uid"),
            (6, b"7"),
            (8, &[]),
            (9, &number(1, 5)),
            (11, &message(&[(1, b"zone"), (2, b"a")])),
            (12, &message(&[(1, b"ip"), (2, b"10.0.0.7")])),
            (13, &owner.concat()),
            (17, b"managed fields are not looked into"),
        ]);
        bytes.extend(number(7, 3));
        let metadata: ObjectMeta = Encoded::Protobuf(&bytes)
            .read::<Slim>(METADATA)
            .unwrap()
            .into();
        let json = json!({"name": "w-0", "generateName": "w-", "namespace": "n", "uid": "uid", "resourceVersion": "7",
            "generation": 3, "deletionTimestamp": "2026-01-01T00:00:00Z", "labels": {"zone": "a"},
            "annotations": {"ip": "10.0.0.7"}, "managedFields": [],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "uid": "u", "controller": true}]});
        let expected: ObjectMeta = Encoded::Json(&json.to_string())
            .read::<Slim>(METADATA)
            .unwrap()
            .into();
        assert_eq!(metadata, expected);
        assert!(metadata.deletion_timestamp.is_some() && metadata.managed_fields.is_none());
        assert_eq!(metadata.owner_references.unwrap()[0].controller, Some(true));
    }

    #[test]
    fn an_unreadable_object_keeps_what_identifies_it() {
        let read_metadata =
            |object: serde_json::Value| read_metadata(Encoded::Json(&object.to_string()));
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

    #[test]
    fn an_object_with_damaged_metadata_in_protobuf_keeps_what_identifies_it() {
        let metadata = message(&[
            (1, b"w-0"),
            (3, b"n"),
            (5, b"u"),
            (6, b"7"),
            (9, b"\xff"),
            (12, b"\xff"),
            (13, b"\x0b"),
        ]);
        let object = [message(&[(1, &metadata)]), vec![0xff]].concat();
        let kept = read_metadata(Encoded::Protobuf(&object)).unwrap();
        assert_eq!(
            (kept.name.as_deref(), kept.namespace.as_deref()),
            (Some("w-0"), Some("n"))
        );
        assert_eq!(
            (kept.uid.as_deref(), kept.resource_version.as_deref()),
            (Some("u"), Some("7"))
        );
        assert!(kept.deletion_timestamp.is_some());
        for lost in [
            message(&[(1, &metadata[..metadata.len() - 1])]),
            message(&[(2, b"")]),
            Vec::new(),
        ] {
            assert!(read_metadata(Encoded::Protobuf(&lost)).is_err(), "{lost:?}");
        }
    }
}
