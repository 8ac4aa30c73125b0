//! What `export` writes: PersistentPodStates with their recorded states, without what belongs to this cluster only.

use pps_core::edit;
use pps_core::generate::{FIELD_MANAGER, MANAGED_BY_LABEL};
use pps_core::pps::KIND;
use serde_json::{Map, Value, json};

use crate::args::Form;
use crate::snapshot::Pps;

/// What kubectl remembers of an object that was applied: another copy of it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Exported {
    /// A List of PersistentPodStates, by namespace and name.
    pub list: Value,
    /// How many objects it has.
    pub objects: usize,
    /// How many recorded states they have.
    pub states: usize,
    /// Objects that cannot be exported, and why.
    pub unreadable: Vec<String>,
    /// Names that were asked for and are not there.
    pub missing: Vec<String>,
}

/// Takes these objects; all if no names are given. Aliases are left out: the sidecar makes them again.
pub fn export(objects: &[Pps], names: &[String], form: Form) -> Exported {
    let mut items = Vec::new();
    let mut exported = Exported {
        list: Value::Null,
        objects: 0,
        states: 0,
        unreadable: Vec::new(),
        missing: names
            .iter()
            .filter(|name| !objects.iter().any(|pps| pps.name() == *name))
            .cloned()
            .collect(),
    };
    let is_wanted =
        |pps: &&Pps| !pps.is_alias() && (names.is_empty() || names.iter().any(|one| one == pps.name()));
    for pps in objects.iter().filter(is_wanted) {
        match edit::plain_states(pps.object()) {
            Ok(states) => {
                exported.states += states.len();
                items.push(item(pps.object(), states, form));
            }
            Err(error) => {
                exported.unreadable.push(format!("{}/{}: {error}", pps.namespace(), pps.name()));
            }
        }
    }
    exported.missing.sort();
    exported.missing.dedup();
    exported.objects = items.len();
    exported.list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    exported
}

/// One object. `ownerReferences`, UIDs, conditions and counts are this cluster's.
fn item(object: &Value, states: Map<String, Value>, form: Form) -> Value {
    let from = &object["metadata"];
    let mut metadata = Map::new();
    for field in ["name", "namespace"] {
        metadata.insert(field.into(), from[field].clone());
    }
    // A copy of a generated object is the user's: the sidecar neither changes nor deletes it.
    let labels = without(&from["labels"], |key, value| key == MANAGED_BY_LABEL && value == FIELD_MANAGER);
    let annotations = without(&from["annotations"], |key, _| key == LAST_APPLIED);
    for (field, values) in [("labels", labels), ("annotations", annotations)] {
        if !values.is_empty() {
            metadata.insert(field.into(), values.into());
        }
    }
    let mut status = Map::new();
    match form {
        Form::Plain => {
            status.insert("podStates".into(), states.into());
        }
        Form::Stored => {
            for field in ["podStates", "packed"] {
                let stored = &object["status"][field];
                if !stored.is_null() {
                    status.insert(field.into(), stored.clone());
                }
            }
        }
    }
    json!({
        "apiVersion": object["apiVersion"],
        "kind": KIND,
        "metadata": metadata,
        "spec": object["spec"],
        "status": status,
    })
}

fn without(values: &Value, is_dropped: impl Fn(&str, &Value) -> bool) -> Map<String, Value> {
    let values = values.as_object().into_iter().flatten();
    values
        .filter(|(key, value)| !is_dropped(key, value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
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

    fn packed() -> Value {
        json!({"packed": {"version": 1, "buckets": {"ordinals-0": "2 db-* node-*\n0 7\n1 8\n"}},
               "targetUID": "w", "recorded": 2, "desired": 3, "conditions": [], "observedGeneration": 3})
    }

    #[test]
    fn nothing_that_belongs_to_one_cluster_is_exported() {
        let exported = export(&[object("db", &packed())], &[], Form::Plain);
        assert_eq!(
            exported.list["items"][0],
            json!({
                "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
                "metadata": {"name": "db", "namespace": "prod", "labels": {"team": "db"}, "annotations": {"note": "keep"}},
                "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"},
                         "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]}},
                "status": {"podStates": {"db-0": {"nodeName": "node-7"}, "db-1": {"nodeName": "node-8"}}},
            })
        );
        assert_eq!((exported.objects, exported.states), (1, 2));
    }

    #[test]
    fn the_stored_form_stays_as_it_is() {
        let exported = export(&[object("db", &packed())], &[], Form::Stored);
        assert_eq!(exported.list["items"][0]["status"], json!({"packed": packed()["packed"]}));
    }

    #[test]
    fn aliases_are_left_out_and_damage_and_missing_names_are_reported() {
        let mut alias = object("db-1234", &Value::Null).object().clone();
        alias["spec"]["targetRef"] =
            json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "name": "db"});
        let damaged = object("bad", &json!({"packed": {"version": 1, "buckets": {"ordinals-0": "9 cut"}}}));
        let objects =
            [Pps::read(alias).unwrap(), damaged, object("db", &Value::Null), object("web", &Value::Null)];
        let exported = export(&objects, &["bad".into(), "db".into(), "gone".into()], Form::Plain);
        assert_eq!(exported.list["items"].as_array().unwrap().len(), 1);
        assert_eq!(exported.missing, ["gone"]);
        assert!(exported.unreadable[0].starts_with("prod/bad: "), "{:?}", exported.unreadable);
    }
}
