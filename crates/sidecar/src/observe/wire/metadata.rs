//! What all wire types share: slim metadata and keys.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;
use pps_core::generate;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use crate::facts::NamespacedName;

/// Reads null like a missing field, as the API server does.
pub(super) fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads only the metadata used here. Above all this skips the managed fields.
pub(super) fn slim_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Slim {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        generation: Option<i64>,
        deletion_timestamp: Option<IgnoredAny>,
        annotations: Option<BTreeMap<String, String>>,
        owner_references: Option<Vec<OwnerReference>>,
    }
    let slim = Slim::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: slim.name,
        namespace: slim.namespace,
        uid: slim.uid,
        resource_version: slim.resource_version,
        generation: slim.generation,
        deletion_timestamp: slim.deletion_timestamp.map(|_| some_time()),
        annotations: slim.annotations,
        owner_references: slim.owner_references,
        ..ObjectMeta::default()
    })
}

/// Reads only what is used of the metadata of an object whose labels matter.
pub(super) fn labelled_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Labelled {
        name: Option<String>,
        resource_version: Option<String>,
        labels: Option<BTreeMap<String, String>>,
    }
    let Labelled { name, resource_version, labels } = Labelled::deserialize(deserializer)?;
    Ok(ObjectMeta { name, resource_version, labels, ..ObjectMeta::default() })
}

/// Stands for the time of a deletion. That an object is being deleted is read, but not since when: the API server also
/// has times that this program cannot show.
pub(super) fn some_time() -> Time {
    Time(Timestamp::UNIX_EPOCH)
}

/// Namespace and name of a namespaced object.
pub fn key_of(metadata: &ObjectMeta) -> NamespacedName {
    NamespacedName::new(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}

/// The annotations of a workload that request a generated PPS.
pub(super) fn request_annotations(metadata: &ObjectMeta) -> BTreeMap<String, String> {
    generate::WORKLOAD_ANNOTATIONS
        .iter()
        .filter_map(|key| metadata.annotations.as_ref()?.get_key_value(*key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}
