//! PersistentPodStates on the wire, readable or not, and their facts.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, Resource};
use pps_core::pps::TargetReference;
use pps_core::{OwnerReference, PersistentPodState, Spec, generate};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::value::RawValue;

use crate::facts::{PpsFact, PpsStatus};

/// A PPS with its full metadata.
pub type PpsObject = PersistentPodState<ObjectMeta, PpsStatus>;

pub fn object_fact(object: PpsObject) -> PpsFact {
    fact(object.metadata, object.spec, object.status)
}

fn fact(metadata: ObjectMeta, spec: Spec, status: PpsStatus) -> PpsFact {
    let owners = metadata.owner_references.unwrap_or_default().into_iter().map(|owner| OwnerReference {
        api_version: owner.api_version,
        kind: owner.kind,
        name: owner.name,
        uid: owner.uid,
        controller: owner.controller,
    });
    PpsFact {
        uid: metadata.uid.unwrap_or_default(),
        resource_version: metadata.resource_version.unwrap_or_default(),
        generation: metadata.generation,
        created: metadata.creation_timestamp.map(|time| time.0.to_string()).unwrap_or_default(),
        terminating: metadata.deletion_timestamp.is_some(),
        generated: metadata.labels.is_some_and(|labels| {
            labels.get(generate::MANAGED_BY_LABEL).is_some_and(|value| value == generate::FIELD_MANAGER)
        }),
        owners: owners.collect(),
        spec,
        status,
        unreadable: None,
    }
}

/// A PPS that was read, or one that does not fit this version's schema. A single malformed object must not fail the
/// whole list. (kube has a guard for that, which first builds a tree and a copy of each object and so costs several
/// times as much.)
#[derive(Clone, Debug)]
pub(crate) enum ReadPps {
    Readable(Box<PpsObject>),
    Unreadable(Box<UnreadablePps>),
}

/// What is known of a PPS that cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct UnreadablePps {
    metadata: ObjectMeta,
    /// The workload that it names; empty if not even this can be read.
    target: TargetReference,
    error: String,
}

/// The fact of a PPS, readable or not.
pub(crate) fn pps_fact(object: ReadPps) -> PpsFact {
    match object {
        ReadPps::Readable(object) => object_fact(*object),
        ReadPps::Unreadable(object) => {
            let UnreadablePps { metadata, target, error } = *object;
            let spec = Spec { target_ref: target, ..Spec::default() };
            PpsFact { unreadable: Some(error), ..fact(metadata, spec, PpsStatus::default()) }
        }
    }
}

impl<'de> Deserialize<'de> for ReadPps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct OnlyMetadata {
            metadata: ObjectMeta,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct OnlyTarget {
            target_ref: TargetReference,
        }
        #[derive(Deserialize)]
        struct OnlySpec {
            spec: OnlyTarget,
        }
        let text = Box::<RawValue>::deserialize(deserializer)?;
        match serde_json::from_str(text.get()) {
            Ok(object) => Ok(Self::Readable(object)),
            Err(error) => {
                let OnlyMetadata { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
                let target = serde_json::from_str::<OnlySpec>(text.get())
                    .map(|object| object.spec.target_ref)
                    .unwrap_or_default();
                Ok(Self::Unreadable(Box::new(UnreadablePps { metadata, target, error: error.to_string() })))
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
            Self::Readable(object) => &object.metadata,
            Self::Unreadable(object) => &object.metadata,
        }
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Readable(object) => &mut object.metadata,
            Self::Unreadable(object) => &mut object.metadata,
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
    fn reads_the_valid_objects_of_a_list_with_a_malformed_one() {
        let list = format!(
            r#"{{"kind": "List", "apiVersion": "v1", "metadata": {{"resourceVersion": "7"}}, "items": [{BAD}, {GOOD}]}}"#
        );
        let list: ObjectList<ReadPps> = serde_json::from_str(&list).unwrap();
        let [ReadPps::Unreadable(bad), ReadPps::Readable(object)] = &list.items[..] else {
            panic!("{list:?}")
        };
        assert_eq!(bad.metadata.name.as_deref(), Some("bad"));
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
            assert_eq!(pps_fact(object).unreadable.is_none(), good);
        }
        assert!(serde_json::from_str::<ReadPps>(r#"{"metadata": 5}"#).is_err());
    }

    #[test]
    fn an_unreadable_object_keeps_its_identity_and_its_target() {
        let object = r#"{"metadata": {"name": "bad", "namespace": "n", "uid": "u", "resourceVersion": "7"},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"}},
            "status": {"podStates": 5}}"#;
        let fact = pps_fact(serde_json::from_str(object).unwrap());
        assert!(fact.unreadable.is_some());
        assert_eq!((&*fact.uid, &*fact.resource_version, &*fact.spec.target_ref.name), ("u", "7", "w"));
        assert!(fact.status.pod_states.is_empty());
        let fact = pps_fact(serde_json::from_str(BAD).unwrap());
        assert!(fact.unreadable.is_some() && fact.spec.target_ref.name.is_empty());
    }
}
