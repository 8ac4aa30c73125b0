//! PersistentPodStates, and their facts.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pps_api::describe_json;
use pps_core::Spec;
use pps_core::pps::TargetReference;
use pps_recorder::facts::{NamespacedName, PpsFact, PpsObject, PpsStatus, object_fact};
use serde::Deserialize;
use serde_json::Value;

use super::item::{Item, key_of, object_metadata};
use super::malformed::Malformed;

/// Reads a PPS. One that does not fit this version's schema becomes a fact that says so.
pub fn read_pps(object: &str) -> Result<Item<NamespacedName, Box<PpsFact>>, Malformed> {
    let (pps, error) = match serde_json::from_str::<PpsObject>(object) {
        Ok(pps) => (pps, None),
        Err(error) => {
            let value = serde_json::from_str::<Value>(object).unwrap_or_default();
            let error = format!("{}: {}", malformed_part(&value), describe_json(&error));
            (only_target(object_metadata(object)?, &value), Some(error))
        }
    };
    let key = key_of(&pps.metadata)?;
    let resource_version = pps.metadata.resource_version.clone().unwrap_or_default();
    let mut fact = object_fact(pps);
    if error.is_some() {
        fact.unreadable = error;
        fact.status = PpsStatus::default();
    }
    Ok(Item {
        key,
        resource_version,
        unreadable: fact.unreadable.clone(),
        fact: Some(Box::new(fact)),
    })
}

/// What is kept of an object that cannot be read: which one it is, and its workload.
fn only_target(metadata: ObjectMeta, object: &Value) -> PpsObject {
    let target_ref = TargetReference::deserialize(&object["spec"]["targetRef"]).unwrap_or_default();
    PpsObject {
        metadata,
        spec: Spec {
            target_ref,
            ..Spec::default()
        },
        status: PpsStatus::default(),
    }
}

/// Which part of an unreadable object is at fault.
fn malformed_part(object: &Value) -> &'static str {
    if Spec::deserialize(&object["spec"]).is_err() {
        "spec"
    } else if Option::<PpsStatus>::deserialize(&object["status"]).is_err() {
        "status"
    } else {
        "metadata"
    }
}

#[cfg(test)]
mod tests {
    use pps_core::packed::PackedClaim;
    use pps_recorder::generate;
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn a_copy_of_a_generated_object_is_not_generated() {
        let entry = |manager: &str, fields: Value| json!({"manager": manager, "operation": "Update", "fieldsV1": fields});
        let read = |entries: &[Value]| {
            let mut object = json!({"metadata": {"name": "good", "namespace": "n"}, "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"}}});
            object["metadata"]["labels"] =
                json!({generate::MANAGED_BY_LABEL: generate::FIELD_MANAGER});
            object["metadata"]["managedFields"] = entries.into();
            object_fact(from_value(object).unwrap())
        };
        let spec = json!({"f:spec": {"f:targetRef": {}, "f:requiredPersistentTopology": {}}});
        let status = json!({"f:status": {"f:podStates": {}}});
        assert!(!read(&[]).generated);
        assert!(
            !read(&[
                entry("kubectl", spec.clone()),
                entry("pps-sidecar", status.clone())
            ])
            .generated
        );
        // Old API servers keep one entry for a manager, whether it writes the status or the rest.
        let mut both = spec;
        both["f:status"] = status["f:status"].clone();
        let own = read(&[entry("pps-sidecar", both)]);
        assert!(own.generated);
        assert_eq!(own.owned, ["requiredPersistentTopology"]);
    }

    #[test]
    fn reads_a_listed_object_like_any_other() {
        let object = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
            "metadata": {"name": "good", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
                "labels": {generate::MANAGED_BY_LABEL: generate::FIELD_MANAGER},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "uid": "w", "controller": true}],
                "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}]},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"}},
            "status": {"podStates": {"w-0": {"nodeName": "node-1"}}},
        });
        let item = read_pps(&object.to_string()).unwrap();
        assert_eq!(
            (item.key.to_string(), &*item.resource_version),
            ("n/good".into(), "7")
        );
        assert_eq!(
            (item.fact.map(|fact| *fact), item.unreadable),
            (Some(object_fact(from_value(object).unwrap())), None)
        );
    }

    #[test]
    fn an_unreadable_object_keeps_its_identity_and_its_target() {
        let object = |spec: serde_json::Value, status: serde_json::Value| {
            let metadata =
                json!({"name": "bad", "namespace": "n", "uid": "u", "resourceVersion": "7"});
            let item = read_pps(
                &json!({"metadata": metadata, "spec": spec, "status": status}).to_string(),
            )
            .unwrap();
            assert_eq!(
                (item.key.to_string(), &*item.resource_version),
                ("n/bad".into(), "7")
            );
            let fact = item.fact.unwrap();
            assert_eq!((&*fact.uid, &fact.unreadable), ("u", &item.unreadable));
            assert!(fact.status.pod_states.is_empty());
            (item.unreadable.unwrap(), fact.spec.target_ref.name)
        };
        let target = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"});
        let (error, target_name) = object(
            json!({"targetRef": target}),
            json!({"podStates": "hunter2"}),
        );
        assert!(
            error.starts_with("status: expected a map") && target_name == "w",
            "{error}"
        );
        let (error, target_name) = object(
            json!({"targetRef": target, "persistentPodAnnotations": [{}]}),
            json!({}),
        );
        assert!(
            error.starts_with("spec: missing field `key`") && target_name == "w",
            "{error}"
        );
        let (error, target_name) = object(json!({"targetRef": "hunter2"}), json!({}));
        assert!(
            error.starts_with("spec: expected struct TargetReference") && target_name.is_empty(),
            "{error}"
        );
        assert!(read_pps(r#"{"metadata": 5}"#).is_err());
        assert!(read_pps(r#"{"metadata": {"namespace": "n"}, "spec": {}}"#).is_err());
    }

    #[test]
    fn reads_both_forms_of_states_and_pod_states_take_precedence() {
        let read = |status: serde_json::Value| {
            let metadata = json!({"name": "p", "namespace": "n", "managedFields": [
                {"manager": "m", "fieldsV1": {"f:status": {"f:packed": {}}}}]});
            let spec =
                json!({"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"}});
            read_pps(&json!({"metadata": metadata, "spec": spec, "status": status}).to_string())
                .unwrap()
        };
        let item = read(json!({
            "podStates": {"w-1": {"nodeName": "b"}},
            "packed": {"version": 1, "buckets": {"ordinals-0": "2 w-* a\n0 %\n1 %\n", "hash-29": "1 queue-x7k2p c\n% %\n"}},
        }));
        let status = item.fact.unwrap().status;
        let node = |pod: &str| status.pod_states.get(pod).unwrap().node_name;
        assert_eq!(
            [node("w-0"), node("w-1"), node("queue-x7k2p")],
            ["a", "b", "c"]
        );
        assert_eq!(
            status.form,
            pps_recorder::facts::Form::Compact(["w-1".into()].into())
        );
        assert_eq!(status.packed_claim, PackedClaim::Yes);
        for (packed, message) in [
            (
                json!({"version": 2, "buckets": {}}),
                "status.packed.version is 2",
            ),
            (
                json!({"version": 1, "buckets": {"hunter2": ""}}),
                "status.packed.buckets is damaged",
            ),
            (
                json!({"version": 1, "buckets": {"ordinals-0": "hunter2"}}),
                "status.packed.buckets.ordinals-0 is damaged",
            ),
            (
                json!({"version": 1, "buckets": {"ordinals-0": ["hunter2"]}}),
                "status: expected a string",
            ),
            (json!("hunter2"), "status: expected struct Packed"),
        ] {
            let item = read(json!({"podStates": {"w-1": {}}, "packed": packed}));
            let (error, fact) = (item.unreadable.unwrap(), item.fact.unwrap());
            assert!(
                error.starts_with(message) && !error.contains("hunter2"),
                "{error}"
            );
            assert_eq!(
                (fact.unreadable, fact.status),
                (Some(error), PpsStatus::default())
            );
            assert_eq!(fact.spec.target_ref.name, "w");
        }
    }
}
