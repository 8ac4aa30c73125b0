//! `export`: PersistentPodStates with their recorded states, without what belongs to one cluster only.

use pps_core::edit::{self, EditError};
use pps_core::pps::KIND;
use pps_recorder::generate::{FIELD_MANAGER, MANAGED_BY_LABEL};
use serde_json::{Map, Value, json};

use crate::snapshot::Pps;

/// What kubectl remembers of an object that was applied: another copy of it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Exported {
    /// PersistentPodStates, by namespace and name.
    pub objects: Vec<Value>,
    /// How many recorded states they have.
    pub states: usize,
    /// Objects that cannot be exported.
    pub unreadable: Vec<Unreadable>,
    /// Names that were asked for and do not exist.
    pub missing: Vec<String>,
}

/// An object that cannot be exported.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Unreadable {
    pub namespace: String,
    pub name: String,
    pub error: EditError,
}

/// Takes these objects; all if no names are given. Aliases are left out: the sidecar makes them again.
pub fn export(objects: &[Pps], names: &[String]) -> Exported {
    let mut missing: Vec<String> =
        names.iter().filter(|name| !objects.iter().any(|pps| pps.name() == *name)).cloned().collect();
    missing.sort();
    missing.dedup();
    let mut exported = Exported { objects: Vec::new(), states: 0, unreadable: Vec::new(), missing };
    let is_wanted =
        |pps: &&Pps| !pps.is_alias() && (names.is_empty() || names.iter().any(|one| one == pps.name()));
    for pps in objects.iter().filter(is_wanted) {
        match edit::plain_states(pps.object()) {
            Ok(states) => {
                exported.states += states.len();
                let mut object = portable(pps.object());
                object["status"] = json!({"podStates": states});
                exported.objects.push(object);
            }
            Err(error) => {
                let (namespace, name) = (pps.namespace().to_owned(), pps.name().to_owned());
                exported.unreadable.push(Unreadable { namespace, name, error });
            }
        }
    }
    exported
}

/// An object without its status, and without owners, UIDs and managers: these are one cluster's.
pub(super) fn portable(object: &Value) -> Value {
    let from = &object["metadata"];
    let mut metadata = json!({"name": from["name"], "namespace": from["namespace"]});
    // The sidecar neither changes nor deletes a copy of a generated object: the copy is the user's.
    let is_own = |key: &str, value: &Value| {
        key == LAST_APPLIED || key == MANAGED_BY_LABEL && value.as_str() == Some(FIELD_MANAGER)
    };
    for field in ["labels", "annotations"] {
        let values = from[field].as_object().into_iter().flatten().filter(|(key, value)| !is_own(key, value));
        let values: Map<String, Value> = values.map(|(key, value)| (key.clone(), value.clone())).collect();
        if !values.is_empty() {
            metadata[field] = values.into();
        }
    }
    json!({"apiVersion": object["apiVersion"], "kind": KIND, "metadata": metadata, "spec": object["spec"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, status: &Value) -> Pps {
        Pps::read(json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
            "metadata": {
                "name": name, "namespace": "prod", "uid": "u", "resourceVersion": "7", "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [], "finalizers": ["f"],
                "ownerReferences": [{"uid": "w"}],
                "labels": {"app.kubernetes.io/managed-by": "pps-sidecar", "team": "db"},
                "annotations": {(LAST_APPLIED): "{}", "note": "keep"},
            },
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name},
                     "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]}},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn nothing_that_belongs_to_one_cluster_is_exported() {
        let packed = json!({"packed": {"version": 1, "buckets": {"ordinals-0": "2 db-* node-*\n0 7\n1 8\n"}},
               "targetUID": "w", "recorded": 2, "desired": 3, "conditions": [], "observedGeneration": 3});
        let exported = export(&[object("db", &packed)], &[]);
        assert_eq!(
            exported.objects,
            [json!({
                "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
                "metadata": {"name": "db", "namespace": "prod", "labels": {"team": "db"}, "annotations": {"note": "keep"}},
                "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"},
                         "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]}},
                "status": {"podStates": {"db-0": {"nodeName": "node-7"}, "db-1": {"nodeName": "node-8"}}},
            })]
        );
        assert_eq!(exported.states, 2);
    }

    #[test]
    fn aliases_are_left_out_and_damage_and_missing_names_are_reported() {
        let mut alias = object("db-1234", &Value::Null).object().clone();
        alias["spec"]["targetRef"] =
            json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "name": "db"});
        let damaged = object("bad", &json!({"packed": {"version": 1, "buckets": {"ordinals-0": "9 cut"}}}));
        let objects =
            [Pps::read(alias).unwrap(), damaged, object("db", &Value::Null), object("web", &Value::Null)];
        let exported = export(&objects, &["bad".into(), "db".into(), "gone".into()]);
        assert_eq!((exported.objects.len(), exported.missing), (1, vec!["gone".to_owned()]));
        assert!(matches!(exported.unreadable[0].error, EditError::Damaged(_)), "{:?}", exported.unreadable);
    }
}
