//! `export`: PersistentPodStates with their recorded states, without what belongs to one cluster
//! only.

use std::collections::BTreeSet;

use pps_core::edit::{self, EditError};
use pps_core::pps::KIND;
use pps_recorder::facts::NamespacedName;
use pps_recorder::generate::{FIELD_MANAGER, MANAGED_BY_LABEL};
use serde_json::{Map, Value, json};

use crate::snapshot::Pps;

/// kubectl's copy of the object that was applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exported {
    /// PersistentPodStates, by namespace and name.
    pub objects: Vec<Value>,
    /// The number of recorded states in the objects.
    pub states: usize,
    pub left_out: Vec<LeftOut>,
}

/// An object whose states cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    pub object: NamespacedName,
    pub error: EditError,
}

/// The objects of these names; all if no names are given. Aliases are left out: the sidecar makes
/// them again.
pub fn chosen<'a>(objects: &'a [Pps], names: &[String]) -> Result<Vec<&'a Pps>, BTreeSet<String>> {
    let mut missing: BTreeSet<String> = names.iter().cloned().collect();
    for pps in objects {
        missing.remove(pps.name());
    }
    if !missing.is_empty() {
        return Err(missing);
    }
    Ok(objects
        .iter()
        .filter(|pps| !pps.is_alias())
        .filter(|pps| names.is_empty() || names.iter().any(|name| name == pps.name()))
        .collect())
}

/// The exported form of these objects. An object with unreadable states is left out: an import
/// would take it for one without states.
pub fn export(objects: &[Value]) -> Exported {
    let mut exported = Exported::default();
    for object in objects {
        match edit::plain_states(object) {
            Ok(states) => {
                exported.states += states.len();
                let mut copy = portable(object);
                copy["status"] = json!({"podStates": states});
                exported.objects.push(copy);
            }
            Err(error) => exported.left_out.push(LeftOut {
                object: name_of(object),
                error,
            }),
        }
    }
    exported
}

fn name_of(object: &Value) -> NamespacedName {
    let metadata = &object["metadata"];
    NamespacedName::new(
        metadata["namespace"].as_str().unwrap_or_default(),
        metadata["name"].as_str().unwrap_or_default(),
    )
}

/// An object without its status, and without owners, UIDs and managers: these belong to one
/// cluster.
pub(super) fn portable(object: &Value) -> Value {
    let from = &object["metadata"];
    let mut metadata = json!({"name": from["name"], "namespace": from["namespace"]});
    for field in ["labels", "annotations"] {
        let values: Map<String, Value> = from[field]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, value)| is_portable(key, value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if !values.is_empty() {
            metadata[field] = values.into();
        }
    }
    json!({"apiVersion": object["apiVersion"], "kind": KIND, "metadata": metadata, "spec": object["spec"]})
}

/// The sidecar neither changes nor deletes a copy of a generated object: the copy is the user's.
fn is_portable(key: &str, value: &Value) -> bool {
    let is_of_sidecar = key == MANAGED_BY_LABEL && value.as_str() == Some(FIELD_MANAGER);
    key != LAST_APPLIED && !is_of_sidecar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, status: &Value) -> Value {
        json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
            "metadata": {
                "name": name, "namespace": "prod", "uid": "u", "resourceVersion": "7", "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [], "finalizers": ["f"],
                "ownerReferences": [{"uid": "w"}],
                "labels": {"app.kubernetes.io/managed-by": "pps-sidecar", "team": "db"},
                "annotations": {(LAST_APPLIED): "{}", "note": "keep"},
            },
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name},
                     "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"], "fallbackAfterSeconds": 600}},
            "status": status,
        })
    }

    #[test]
    fn nothing_that_belongs_to_one_cluster_is_exported() {
        let packed = json!({"packed": {"version": 1, "buckets": {"ordinals-0": "2 db-* node-*\n0 7\n1 8\n"}},
               "targetUID": "w", "recorded": 2, "desired": 3, "conditions": [], "observedGeneration": 3});
        let exported = export(&[object("db", &packed)]);
        assert_eq!(
            exported.objects,
            [json!({
                "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
                "metadata": {"name": "db", "namespace": "prod", "labels": {"team": "db"}, "annotations": {"note": "keep"}},
                "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"},
                         "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"], "fallbackAfterSeconds": 600}},
                "status": {"podStates": {"db-0": {"nodeName": "node-7"}, "db-1": {"nodeName": "node-8"}}},
            })]
        );
        assert_eq!(exported.states, 2);
    }

    #[test]
    fn aliases_are_left_out_and_missing_names_are_reported() {
        let mut alias = object("db-1234", &Value::Null);
        alias["spec"]["targetRef"] = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "name": "db"});
        let objects = [
            alias,
            object("db", &Value::Null),
            object("web", &Value::Null),
        ];
        let objects = objects.map(|object| Pps::read(object).unwrap());
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            chosen(&objects, &names)
                .map(|found| found.iter().map(|pps| pps.name()).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]), Ok(vec!["db", "web"]));
        assert_eq!(names(&["db", "db-1234"]), Ok(vec!["db"]));
        assert_eq!(names(&["db", "gone"]), Err(["gone".to_owned()].into()));
    }

    #[test]
    fn an_object_whose_states_are_damaged_or_hidden_is_left_out() {
        let damaged = object(
            "bad",
            &json!({"packed": {"version": 1, "buckets": {"ordinals-0": "9 cut"}}}),
        );
        let mut hidden = object("hidden", &json!({"recorded": 2}));
        hidden["metadata"]["managedFields"] = json!([{"fieldsV1": {"f:status": {"f:packed": {}}}}]);
        let exported = export(&[damaged, hidden, object("db", &Value::Null)]);
        assert_eq!((exported.objects.len(), exported.states), (1, 0));
        let names: Vec<String> = exported
            .left_out
            .iter()
            .map(|one| one.object.to_string())
            .collect();
        assert_eq!(names, ["prod/bad", "prod/hidden"]);
    }
}
