//! A PersistentPodState, if it can be read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, Resource};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::value::RawValue;

use super::PpsObject;

/// A PPS that was read, or one that cannot be: one that says what no version of this program knows must not
/// keep all others from being read. (kube's own guard makes a tree of each object and a copy of that first,
/// which costs several times what reading it does.)
#[derive(Clone, Debug)]
pub enum ReadObject {
    /// One that was.
    Whole(Box<PpsObject>),
    /// What is known of one that was not, and why.
    Malformed(Box<ObjectMeta>, String),
}

impl<'de> Deserialize<'de> for ReadObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct OnlyMetadata {
            metadata: ObjectMeta,
        }
        let text = Box::<RawValue>::deserialize(deserializer)?;
        match serde_json::from_str(text.get()) {
            Ok(object) => Ok(Self::Whole(object)),
            Err(error) => {
                let OnlyMetadata { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
                Ok(Self::Malformed(Box::new(metadata), error.to_string()))
            }
        }
    }
}

impl Resource for ReadObject {
    const API_VERSION: &'static str = <PpsObject as Resource>::API_VERSION;
    const GROUP: &'static str = <PpsObject as Resource>::GROUP;
    const KIND: &'static str = <PpsObject as Resource>::KIND;
    const VERSION: &'static str = <PpsObject as Resource>::VERSION;
    const URL_PATH_SEGMENT: &'static str = <PpsObject as Resource>::URL_PATH_SEGMENT;
    type Scope = <PpsObject as Resource>::Scope;
}

impl Metadata for ReadObject {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Whole(object) => &object.metadata,
            Self::Malformed(metadata, _) => metadata,
        }
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Whole(object) => &mut object.metadata,
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
    fn one_that_cannot_be_read_keeps_no_other_from_being_read() {
        let list = format!(
            r#"{{"kind": "List", "apiVersion": "v1", "metadata": {{"resourceVersion": "7"}}, "items": [{BAD}, {GOOD}]}}"#
        );
        let list: ObjectList<ReadObject> = serde_json::from_str(&list).unwrap();
        let [ReadObject::Malformed(metadata, error), ReadObject::Whole(object)] = &list.items[..] else {
            panic!("{list:?}")
        };
        assert_eq!(metadata.name.as_deref(), Some("bad"));
        assert!(error.contains("invalid type: integer `5`"), "{error}");
        assert_eq!(object.status.pod_states.len(), 1);
        assert_eq!(list.items[1].metadata().name.as_deref(), Some("good"));
    }

    #[test]
    fn it_is_read_from_a_watch() {
        for (text, good) in [(GOOD, true), (BAD, false)] {
            let event = format!(r#"{{"type": "MODIFIED", "object": {text}}}"#);
            let WatchEvent::Modified(object) =
                serde_json::from_str::<WatchEvent<ReadObject>>(&event).unwrap()
            else {
                panic!("{event}")
            };
            assert_eq!(matches!(object, ReadObject::Whole(_)), good);
        }
        assert!(serde_json::from_str::<ReadObject>(r#"{"metadata": 5}"#).is_err());
    }
}
