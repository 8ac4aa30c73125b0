//! A PersistentPodState as the API server shows it, and its fact.

use std::collections::BTreeMap;

use pps_core::pps::null_as_default;
use pps_core::{PersistentPodState, Spec};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{Owner, PackedClaim, PpsFact, PpsStatus};
use crate::generate::{FIELD_MANAGER, GENERATED_FIELDS, MANAGED_BY_LABEL};

/// The metadata that a fact is made from.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PpsMetadata {
    pub uid: String,
    pub resource_version: String,
    pub generation: Option<i64>,
    #[serde(deserialize_with = "null_as_default")]
    pub creation_timestamp: String,
    pub deletion_timestamp: Option<IgnoredAny>,
    #[serde(deserialize_with = "null_as_default")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_default")]
    pub owner_references: Vec<Owner>,
    #[serde(deserialize_with = "null_as_default")]
    pub managed_fields: Vec<ManagedFields>,
}

/// The fields that one client has written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedFields {
    pub manager: String,
    #[serde(rename = "fieldsV1")]
    pub fields: Value,
}

/// The fact of an object in JSON.
pub fn read_pps(object: &Value) -> serde_json::Result<PpsFact> {
    PersistentPodState::<PpsMetadata, PpsStatus>::deserialize(object).map(pps_fact)
}

pub fn pps_fact(object: PersistentPodState<PpsMetadata, PpsStatus>) -> PpsFact {
    let PersistentPodState { metadata, mut spec, mut status } = object;
    let is_labelled = metadata.labels.get(MANAGED_BY_LABEL).is_some_and(|value| value == FIELD_MANAGER);
    // It owns a part of every status that it writes, also of objects that users made.
    let own = metadata.managed_fields.iter().filter(|entry| entry.manager == FIELD_MANAGER);
    let own_specs: Vec<&Value> = own.filter_map(|entry| entry.fields.get("f:spec")).collect();
    let is_owned = |field: &&str| own_specs.iter().any(|spec| spec.get(format!("f:{field}")).is_some());
    let generated = is_labelled && !own_specs.is_empty();
    let owned = GENERATED_FIELDS.into_iter().filter(is_owned).collect();
    let mut unreadable = None;
    if let Err(damaged) = status.unpack() {
        spec = Spec { target_ref: spec.target_ref, ..Spec::default() };
        status = PpsStatus::default();
        unreadable = Some(damaged.to_string());
    } else {
        status.packed_claim = packed_claim(&metadata.managed_fields);
    }
    PpsFact {
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        generation: metadata.generation,
        created: metadata.creation_timestamp,
        terminating: metadata.deletion_timestamp.is_some(),
        generated,
        owned,
        owners: metadata.owner_references,
        spec,
        status,
        unreadable,
    }
}

/// Whether some client has written the compact form, and none has removed it.
fn packed_claim(entries: &[ManagedFields]) -> PackedClaim {
    let statuses = entries.iter().filter_map(|entry| entry.fields.get("f:status"));
    statuses.fold(PackedClaim::Unknown, |claim, status| match claim {
        PackedClaim::Yes => PackedClaim::Yes,
        _ if status.get("f:packed").is_some() => PackedClaim::Yes,
        _ => PackedClaim::No,
    })
}

/// An object with Kubernetes' own metadata type, which clients need.
#[cfg(feature = "k8s")]
pub type PpsObject =
    PersistentPodState<k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta, PpsStatus>;

#[cfg(feature = "k8s")]
pub fn object_fact(object: PpsObject) -> PpsFact {
    let PersistentPodState { metadata, spec, status } = object;
    // Both types have the same fields in JSON.
    let metadata = serde_json::to_value(metadata).and_then(serde_json::from_value).unwrap_or_default();
    pps_fact(PersistentPodState { metadata, spec, status })
}
