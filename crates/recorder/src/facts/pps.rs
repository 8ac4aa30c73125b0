//! A PersistentPodState: as the API server shows it, its fact, and its status with the states in
//! either form.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_core::json::null_as_default;
use pps_core::packed::{Damaged, PackedClaim, check_version};
use pps_core::pps::{Condition, NodeDeletionPolicy, Packed};
use pps_core::{PersistentPodState, Reason, Spec};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::states::States;
use crate::generate::{FIELD_MANAGER, GENERATED_FIELDS, MANAGED_BY_LABEL};
use crate::recording::RECORDING;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PpsFact {
    pub uid: String,
    pub resource_version: String,
    pub generation: Option<i64>,
    pub created: String,
    pub terminating: bool,
    /// Whether the sidecar made it: the managed-by label says so, and the sidecar's field manager
    /// owns a part of the spec. A user's copy of such an object has only the label.
    pub generated: bool,
    /// The fields of the spec that the sidecar's field manager owns, of those that come from
    /// annotations.
    pub owned: Vec<&'static str>,
    /// Whether the sidecar's field manager owns the end of the required topology.
    pub owns_fallback: bool,
    pub owners: Vec<Owner>,
    pub spec: Spec,
    pub status: PpsStatus,
    /// Why the object cannot be read, if it cannot. It exists all the same. Its spec has the target
    /// if that can be read, and nothing else; its status is empty, whatever it has recorded. No
    /// decision may be made from them.
    pub unreadable: Option<String>,
}

impl PpsFact {
    pub fn forgets_nodes(&self) -> bool {
        self.spec.node_deletion() == NodeDeletionPolicy::Forget
    }

    pub fn is_hidden_by_definition(&self) -> bool {
        self.unreadable.is_some() && self.status.packed_claim != PackedClaim::No
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

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
    let PersistentPodState {
        metadata,
        mut spec,
        mut status,
    } = object;
    let is_labelled = metadata
        .labels
        .get(MANAGED_BY_LABEL)
        .is_some_and(|value| value == FIELD_MANAGER);
    // It owns a part of every status that it writes, also of objects that users made.
    let own = metadata
        .managed_fields
        .iter()
        .filter(|entry| entry.manager == FIELD_MANAGER);
    let own_specs: Vec<&Value> = own.filter_map(|entry| entry.fields.get("f:spec")).collect();
    let is_owned = |field: &&str| {
        own_specs
            .iter()
            .any(|spec| spec.get(format!("f:{field}")).is_some())
    };
    let generated = is_labelled && !own_specs.is_empty();
    let owned = GENERATED_FIELDS.into_iter().filter(is_owned).collect();
    let owns_fallback = own_specs
        .iter()
        .any(|spec| !spec["f:requiredPersistentTopology"]["f:fallbackAfterSeconds"].is_null());
    // States are dropped and changed as the policies of the spec say.
    let unknown = spec.unknown_field().map(|field| {
        format!(
            "{field} has a value that this version does not know: correct it, or upgrade \
             PersistentPodState"
        )
    });
    let damaged = status.unpack().err().map(|damaged| damaged.to_string());
    let unreadable = unknown.or(damaged);
    if unreadable.is_some() {
        spec = Spec {
            target_ref: spec.target_ref,
            ..Spec::default()
        };
        status = PpsStatus::default();
    } else {
        let statuses = metadata
            .managed_fields
            .iter()
            .filter_map(|entry| entry.fields.get("f:status"));
        status.packed_claim = PackedClaim::of(statuses);
    }
    PpsFact {
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        generation: metadata.generation,
        created: metadata.creation_timestamp,
        terminating: metadata.deletion_timestamp.is_some(),
        generated,
        owned,
        owns_fallback,
        owners: metadata.owner_references,
        spec,
        status,
        unreadable,
    }
}

/// An object with Kubernetes' own metadata type, which clients need.
#[cfg(feature = "k8s")]
pub type PpsObject =
    PersistentPodState<k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta, PpsStatus>;

#[cfg(feature = "k8s")]
pub fn object_fact(object: PpsObject) -> PpsFact {
    let PersistentPodState {
        metadata,
        spec,
        status,
    } = object;
    // Both types have the same fields in JSON.
    let metadata = serde_json::to_value(metadata)
        .and_then(serde_json::from_value)
        .unwrap_or_default();
    pps_fact(PersistentPodState {
        metadata,
        spec,
        status,
    })
}

/// The status of a PPS, with compactly stored states. See [`pps_core::pps::Status`] for the fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PpsStatus {
    /// The states of both forms together.
    #[serde(deserialize_with = "null_as_default")]
    pub pod_states: States,
    /// None once its states are among the others.
    pub(crate) packed: Option<Packed>,
    #[serde(skip)]
    pub form: Form,
    /// What the API server says of who has written the compact form. If one has and the API server
    /// does not show it, the definition may hide it.
    #[serde(skip)]
    pub packed_claim: PackedClaim,
    #[serde(flatten)]
    pub header: Header,
}

/// The part of a status that is not about single Pods.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Header {
    pub observed_generation: Option<i64>,
    #[serde(rename = "targetUID")]
    pub target_uid: Option<String>,
    pub recorded: Option<i32>,
    pub desired: Option<i32>,
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Form {
    #[default]
    Plain,
    /// The states are in `packed`. Another writer has put states of these Pods into `podStates` as
    /// well, and they take precedence there.
    Compact(BTreeSet<Arc<str>>),
    /// The object had the compact form, and the API server no longer shows `packed`: the definition
    /// prunes it, or a client that does not know it has erased it. Only the states of these Pods
    /// are in `podStates`, and all other states nowhere but in memory.
    Pruned(BTreeSet<Arc<str>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredForm {
    Plain,
    Compact,
}

impl StoredForm {
    pub fn of(form: &Form) -> Self {
        if form.is_compact() {
            Self::Compact
        } else {
            Self::Plain
        }
    }
}

impl Form {
    /// The Pods whose states are in `podStates` beside others that are not.
    pub fn overlaid(&self) -> Option<&BTreeSet<Arc<str>>> {
        match self {
            Self::Plain => None,
            Self::Compact(pods) | Self::Pruned(pods) => Some(pods),
        }
    }

    pub fn is_compact(&self) -> bool {
        matches!(self, Self::Compact(_))
    }
}

impl PpsStatus {
    /// Whether the condition of type Recording has this reason.
    pub fn reports(&self, reason: Reason) -> bool {
        self.header
            .conditions
            .iter()
            .any(|condition| condition.type_ == RECORDING && condition.reason == reason.as_str())
    }

    /// Adds the states of the compact form to the others.
    fn unpack(&mut self) -> Result<(), Damaged> {
        if let Some(packed) = self.packed.take() {
            check_version(Some(packed.version.into()))?;
            let states = States::read_buckets(&packed.buckets)?;
            self.form = Form::Compact(
                self.pod_states
                    .nodes()
                    .map(|(pod, _)| pod.clone())
                    .collect(),
            );
            self.pod_states.add_missing(&states);
        }
        Ok(())
    }

    /// Whether the definition may hide states that nobody here has seen.
    pub fn may_hide_states(&self) -> bool {
        let Header {
            observed_generation,
            recorded,
            conditions,
            ..
        } = &self.header;
        let shown = self.pod_states.len();
        let was_written = observed_generation.is_some() || !conditions.is_empty();
        self.form == Form::Plain
            && self
                .packed_claim
                .may_hide_states(shown, recorded.map(i64::from), was_written)
    }

    /// Takes over the states that were known before, if the API server hides them: the object had
    /// the compact form, no client has removed it, and it is not shown. Only where the definition
    /// `shows_packed` can a client be seen to remove it. A client that does not know the form
    /// removes it with everything else that it does not know.
    pub fn restore(&mut self, known: &Self, shows_packed: bool) {
        if self.form != Form::Plain {
            return;
        }
        let is_hidden = match (&known.form, self.packed_claim) {
            // They are nowhere else.
            (Form::Pruned(_), _) => true,
            (Form::Compact(_), claim) => {
                claim == PackedClaim::Yes || !shows_packed || self.lacks_own_fields()
            }
            (Form::Plain, PackedClaim::Yes) => known.packed_claim != PackedClaim::Yes,
            (Form::Plain, _) => false,
        };
        if !is_hidden {
            return;
        }
        let shown: BTreeSet<_> = self
            .pod_states
            .nodes()
            .map(|(pod, _)| pod.clone())
            .collect();
        if self.pod_states.add_missing(&known.pod_states) {
            // What another client has written since need not be the former workload's.
            if shown.is_empty() && self.header.target_uid.is_none() {
                self.header.target_uid.clone_from(&known.header.target_uid);
            }
            self.form = Form::Pruned(shown);
        }
    }

    /// Whether all fields are missing that only this product's clients write, as after a full
    /// update by another client.
    fn lacks_own_fields(&self) -> bool {
        let Header {
            target_uid,
            recorded,
            conditions,
            ..
        } = &self.header;
        target_uid.is_none()
            && recorded.is_none()
            && conditions
                .iter()
                .all(|condition| condition.type_ != RECORDING)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Whether states are dropped depends on these fields.
    #[test]
    fn an_object_whose_policy_is_unknown_counts_as_unreadable() {
        for (field, value) in [
            ("persistentPodStateRetentionPolicy", json!("Never")),
            ("nodeDeletionPolicy", json!(7)),
            ("recordingPolicy", json!({"once": true})),
        ] {
            let fact = read_pps(&json!({
                "metadata": {"name": "a", "uid": "u", "resourceVersion": "1"},
                "spec": {
                    "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "a"},
                    "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
                    field: value,
                },
                "status": {"podStates": {"a-0": {"nodeName": "n"}}},
            }))
            .unwrap();
            let why = fact.unreadable.unwrap();
            assert!(
                why.starts_with(&format!("spec.{field} has a value that this version")),
                "{why}"
            );
            assert_eq!(fact.spec.target_ref.name, "a");
            assert_eq!(fact.spec.required_persistent_topology, None);
        }
    }
}
