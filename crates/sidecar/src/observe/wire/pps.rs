//! PersistentPodStates on the wire, readable or not, and their facts.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use k8s_openapi::{Metadata, Resource};
use pps_core::{PersistentPodState, generate};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::facts::{OwnedFields, Owner, PpsFact, PpsStatus};

/// A PPS with its full metadata.
pub type PpsObject = PersistentPodState<ObjectMeta, PpsStatus>;

pub fn object_fact(object: PpsObject) -> PpsFact {
    let metadata = object.metadata;
    let owners = metadata.owner_references.unwrap_or_default().into_iter().map(|owner| Owner {
        api_version: owner.api_version,
        kind: owner.kind,
        name: owner.name,
        uid: owner.uid,
        controller: owner.controller,
        block_owner_deletion: owner.block_owner_deletion,
    });
    let is_labelled = metadata.labels.is_some_and(|labels| {
        labels.get(generate::MANAGED_BY_LABEL).is_some_and(|value| value == generate::FIELD_MANAGER)
    });
    let owned = owned_fields(metadata.managed_fields.as_deref().unwrap_or_default());
    PpsFact {
        uid: metadata.uid.unwrap_or_default(),
        resource_version: metadata.resource_version.unwrap_or_default(),
        generation: metadata.generation,
        created: metadata.creation_timestamp.map(|time| time.0.to_string()).unwrap_or_default(),
        terminating: metadata.deletion_timestamp.is_some(),
        generated: is_labelled && owned.is_some(),
        owned: owned.unwrap_or_default(),
        owners: owners.collect(),
        spec: object.spec,
        status: object.status,
    }
}

/// The fields of the spec that the sidecar owns; none if it owns no part of the spec. It owns a part of every status that
/// it writes, also of objects that users made.
fn owned_fields(entries: &[ManagedFieldsEntry]) -> Option<OwnedFields> {
    let own = entries.iter().filter(|entry| entry.manager.as_deref() == Some(generate::FIELD_MANAGER));
    own.filter_map(|entry| entry.fields_v1.as_ref()?.0.get("f:spec")).fold(None, |owned, spec: &Value| {
        let owned = owned.unwrap_or_default();
        let has = |field: &str| spec.get(field).is_some();
        Some(OwnedFields {
            required_topology: owned.required_topology || has("f:requiredPersistentTopology"),
            preferred_topology: owned.preferred_topology || has("f:preferredPersistentTopology"),
            annotations: owned.annotations || has("f:persistentPodAnnotations"),
        })
    })
}

/// A PPS that was read, or one that does not fit this version's schema. A single malformed object must not fail the
/// whole list. (kube has a guard for that, which first builds a tree and a copy of each object and so costs several
/// times as much.)
#[derive(Clone, Debug)]
pub(crate) enum ReadPps {
    Valid(Box<PpsObject>),
    /// Its metadata, and why the rest cannot be read.
    Malformed(Box<ObjectMeta>, String),
}

impl<'de> Deserialize<'de> for ReadPps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct OnlyMetadata {
            metadata: ObjectMeta,
        }
        let text = Box::<RawValue>::deserialize(deserializer)?;
        match serde_json::from_str(text.get()) {
            Ok(object) => Ok(Self::Valid(object)),
            Err(error) => {
                let OnlyMetadata { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
                Ok(Self::Malformed(Box::new(metadata), error.to_string()))
            }
        }
    }
}

impl Resource for ReadPps {
    const API_VERSION: &'static str = <PpsObject as Resource>::API_VERSION;
    const GROUP: &'static str = <PpsObject as Resource>::GROUP;
    const KIND: &'static str = <PpsObject as Resource>::KIND;
    const VERSION: &'static str = <PpsObject as Resource>::VERSION;
    const URL_PATH_SEGMENT: &'static str = <PpsObject as Resource>::URL_PATH_SEGMENT;
    type Scope = <PpsObject as Resource>::Scope;
}

impl Metadata for ReadPps {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Valid(object) => &object.metadata,
            Self::Malformed(metadata, _) => metadata,
        }
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Valid(object) => &mut object.metadata,
            Self::Malformed(metadata, _) => metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ObjectList, WatchEvent};

    use super::*;

    const GOOD: &str = r#"{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"name": "good", "namespace": "n"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"}},
        "status": {"podStates": {"w-0": {"nodeName": "node-1"}}}}"#;
    const BAD: &str = r#"{"kind": "PersistentPodState", "metadata": {"name": "bad", "namespace": "n"},
        "spec": {"targetRef": 5}}"#;

    #[test]
    fn a_copy_of_a_generated_object_is_not_generated() {
        let entry = |manager: &str, fields: Value| serde_json::json!({"manager": manager, "operation": "Update", "fieldsV1": fields});
        let read = |entries: &[Value]| {
            let mut object: Value = serde_json::from_str(GOOD).unwrap();
            object["metadata"]["labels"] =
                serde_json::json!({generate::MANAGED_BY_LABEL: generate::FIELD_MANAGER});
            object["metadata"]["managedFields"] = entries.into();
            object_fact(serde_json::from_value(object).unwrap())
        };
        let spec = serde_json::json!({"f:spec": {"f:targetRef": {}, "f:requiredPersistentTopology": {}}});
        let status = serde_json::json!({"f:status": {"f:podStates": {}}});
        assert!(!read(&[]).generated);
        assert!(!read(&[entry("kubectl", spec.clone()), entry("pps-sidecar", status.clone())]).generated);
        // Old API servers keep one entry for a manager, whether it writes the status or the rest.
        let mut both = spec;
        both["f:status"] = status["f:status"].clone();
        let own = read(&[entry("pps-sidecar", both)]);
        assert!(own.generated);
        assert_eq!(own.owned, OwnedFields { required_topology: true, ..OwnedFields::default() });
    }

    #[test]
    fn reads_the_valid_objects_of_a_list_with_a_malformed_one() {
        let list = format!(
            r#"{{"kind": "List", "apiVersion": "v1", "metadata": {{"resourceVersion": "7"}}, "items": [{BAD}, {GOOD}]}}"#
        );
        let list: ObjectList<ReadPps> = serde_json::from_str(&list).unwrap();
        let [ReadPps::Malformed(metadata, error), ReadPps::Valid(object)] = &list.items[..] else {
            panic!("{list:?}")
        };
        assert_eq!(metadata.name.as_deref(), Some("bad"));
        assert!(error.contains("invalid type: integer `5`"), "{error}");
        assert_eq!(object.status.pod_states.len(), 1);
        assert_eq!(list.items[1].metadata().name.as_deref(), Some("good"));
    }

    #[test]
    fn reads_valid_and_malformed_objects_from_a_watch() {
        for (text, good) in [(GOOD, true), (BAD, false)] {
            let event = format!(r#"{{"type": "MODIFIED", "object": {text}}}"#);
            let WatchEvent::Modified(object) = serde_json::from_str::<WatchEvent<ReadPps>>(&event).unwrap()
            else {
                panic!("{event}")
            };
            assert_eq!(matches!(object, ReadPps::Valid(_)), good);
        }
        assert!(serde_json::from_str::<ReadPps>(r#"{"metadata": 5}"#).is_err());
    }
}
