//! Workloads, PersistentPodStates, custom resource definitions and the ConfigMap with the whitelist
//! on the wire, and their facts.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::Resource;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetOrdinals};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pps_core::Spec;
use pps_core::pps::{GROUP, TargetReference, VERSION};
use pps_recorder::demand::{Demand, Naming};
use pps_recorder::facts::{
    ConfigFact, NamespacedName, PpsFact, PpsObject, PpsStatus, WorkloadFact, object_fact,
};
use pps_recorder::whitelist::KEY;
use pps_recorder::{generate, kinds};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::encoding::Encoded;
use super::malformed::Malformed;
use super::object::{Item, METADATA, Slim, Unused, item, key_of, name_of};
use super::protobuf::{Kind, Schema};

const STATEFUL_SET: Schema = &[
    (1, "metadata", Kind::Message(METADATA)),
    (
        2,
        "spec",
        Kind::Message(&[
            (1, "replicas", Kind::Number),
            (11, "ordinals", Kind::Message(&[(1, "start", Kind::Number)])),
        ]),
    ),
];

/// Reads a StatefulSet. One that cannot be read does not say how many Pods it wants, so that no
/// state is dropped.
pub fn read_stateful_set(
    object: Encoded<'_>,
) -> Result<Item<NamespacedName, WorkloadFact>, Malformed> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Spec {
        replicas: Option<i32>,
        ordinals: Option<StatefulSetOrdinals>,
    }
    let number = |number: Option<i32>, default: u64| {
        number.map_or(default, |number| u64::try_from(number).unwrap_or(0))
    };
    item::<Slim, Option<Spec>, Unused, _, _>(object, STATEFUL_SET, key_of, |metadata, parts| {
        let demand = parts.map(|(spec, _)| {
            let Spec { replicas, ordinals } = spec.unwrap_or_default();
            let start = ordinals.and_then(|ordinals| ordinals.start);
            Demand::numbered(number(start, 0), number(replicas, 1))
        });
        Some(workload(&metadata, StatefulSet::API_VERSION, demand))
    })
}

/// Reads a workload of a custom kind, like a StatefulSet. One cannot be read if its spec is nested
/// deeper than the parser follows.
pub fn read_custom_workload(
    object: Encoded<'_>,
    api_version: &str,
    naming: &Naming,
) -> Result<Item<NamespacedName, WorkloadFact>, Malformed> {
    item::<Slim, Option<Value>, Unused, _, _>(object, &[], key_of, |metadata, parts| {
        let demand = parts.map(|(spec, _)| Demand::read(&spec.unwrap_or_default(), naming));
        Some(workload(&metadata, api_version, demand))
    })
}

fn workload(metadata: &ObjectMeta, api_version: &str, demand: Option<Demand>) -> WorkloadFact {
    WorkloadFact {
        api_version: api_version.into(),
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        terminating: metadata.deletion_timestamp.is_some(),
        demand: demand.unwrap_or_default(),
        // Only those that request a generated PPS.
        annotations: generate::WORKLOAD_ANNOTATIONS
            .iter()
            .filter_map(|key| metadata.annotations.as_ref()?.get_key_value(*key))
            .map(|(key, value)| (key.clone(), generate::kept_value(value).to_owned()))
            .collect(),
    }
}

/// Reads a PPS. One that does not fit this version's schema becomes a fact that says so.
pub fn read_pps(object: Encoded<'_>) -> Result<Item<NamespacedName, Box<PpsFact>>, Malformed> {
    let value = || object.read::<Value>(&[]).unwrap_or_default();
    let fact = |metadata, parts: Option<(Spec, Option<PpsStatus>)>| {
        let (spec, status) = parts.unwrap_or_else(|| {
            let target_ref =
                TargetReference::deserialize(&value()["spec"]["targetRef"]).unwrap_or_default();
            (
                Spec {
                    target_ref,
                    ..Spec::default()
                },
                None,
            )
        });
        let status = status.unwrap_or_default();
        Some(Box::new(object_fact(PpsObject {
            metadata,
            spec,
            status,
        })))
    };
    let mut item = item::<ObjectMeta, _, _, _, _>(object, &[], key_of, fact)?;
    let Some(fact) = &mut item.fact else {
        return Ok(item);
    };
    if let Some(error) = &mut item.unreadable {
        *error = format!("{}: {error}", malformed_part(&value()));
        fact.unreadable = Some(error.clone());
        fact.status = PpsStatus::default();
    } else {
        item.unreadable.clone_from(&fact.unreadable);
    }
    Ok(item)
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

#[derive(Default, Deserialize)]
#[serde(default)]
struct DefinitionSpec {
    group: String,
    names: Value,
    scope: String,
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Version {
    name: String,
    served: bool,
    storage: bool,
    subresources: Value,
    /// Unread: schemas are large.
    schema: Option<Box<RawValue>>,
}

/// Reads a definition. One that cannot be read defines nothing.
pub fn read_definition(
    object: Encoded<'_>,
) -> Result<Item<Arc<str>, kinds::Definition>, Malformed> {
    item::<Slim, Option<DefinitionSpec>, Option<Value>, _, _>(
        object,
        &[],
        name_of,
        |metadata, parts| {
            let (spec, status) = parts.unwrap_or_default();
            Some(definition(
                &metadata,
                spec.unwrap_or_default(),
                &status.unwrap_or_default(),
            ))
        },
    )
}

fn definition(metadata: &ObjectMeta, spec: DefinitionSpec, status: &Value) -> kinds::Definition {
    let keeps_packed = keeps_packed(&spec);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let version = |version: Version| kinds::Version {
        name: version.name,
        replicas: version.subresources["scale"]["specReplicasPath"]
            .as_str()
            .map(str::to_owned),
    };
    let mut versions = spec.versions;
    versions.retain(|version| version.served);
    versions.sort_by_key(|version| !version.storage);
    kinds::Definition {
        group: spec.group,
        kind: text(&spec.names["kind"]),
        plural: text(&spec.names["plural"]),
        namespaced: spec.scope == "Namespaced",
        established: conditions.any(|one| one["type"] == "Established" && one["status"] == "True"),
        terminating: metadata.deletion_timestamp.is_some(),
        versions: versions.into_iter().map(version).collect(),
        generation: metadata.generation.unwrap_or_default(),
        keeps_packed,
    }
}

/// Whether the version of this product of its own objects keeps `status.packed`.
fn keeps_packed(spec: &DefinitionSpec) -> bool {
    let is_own =
        |version: &&Version| spec.group == GROUP && version.served && version.name == VERSION;
    let schema = spec
        .versions
        .iter()
        .find(is_own)
        .and_then(|version| version.schema.as_ref());
    let schema: Value = schema
        .and_then(|schema| serde_json::from_str(schema.get()).ok())
        .unwrap_or_default();
    let root = &schema["openAPIV3Schema"];
    let status = &root["properties"]["status"];
    let keeps_all = |part: &Value| part["x-kubernetes-preserve-unknown-fields"] == true;
    keeps_all(root) || keeps_all(status) || !status["properties"]["packed"].is_null()
}

/// Reads the ConfigMap. The list of one that cannot be read counts as malformed, so that the last
/// valid one stays in force.
pub fn read_config(object: Encoded<'_>) -> Result<Item<NamespacedName, ConfigFact>, Malformed> {
    #[derive(Deserialize)]
    struct ConfigMap {
        data: Option<BTreeMap<String, String>>,
    }
    let (whitelist, unreadable) = match object.read::<ConfigMap>(&[]) {
        Ok(config) => (config.data.and_then(|mut data| data.remove(KEY)), None),
        Err(Malformed(error)) => (Some("the ConfigMap cannot be read".into()), Some(error)),
    };
    let item = item::<Slim, Unused, Unused, _, _>(object, &[], key_of, |metadata, _| {
        Some(ConfigFact {
            uid: metadata.uid.unwrap_or_default(),
            whitelist,
        })
    })?;
    Ok(Item { unreadable, ..item })
}

#[cfg(test)]
mod tests {
    use pps_core::packed::PackedClaim;
    use pps_recorder::demand::ReplicasPath;
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn replicas_default_to_one_and_ordinals_to_zero() {
        let demand = |spec: Value| {
            let text = json!({"metadata": {"name": "w"}, "spec": spec}).to_string();
            read_stateful_set(Encoded::Json(&text))
                .unwrap()
                .fact
                .unwrap()
                .demand
        };
        assert_eq!(demand(json!({})), Demand::numbered(0, 1));
        let spec = json!({"replicas": 3, "ordinals": {"start": 5}});
        assert_eq!(demand(spec), Demand::numbered(5, 3));
    }

    #[test]
    fn reads_the_replicas_of_a_custom_workload_at_the_path_of_its_kind() {
        let workload = json!({
            "metadata": {"name": "w", "uid": "u", "managedFields": [{"manager": "m"}],
                "annotations": {"other": "x", "kruise.io/auto-generate-persistent-pod-state": "true"}},
            "spec": {"shape": {"size": 3}},
            "status": {"replicas": 3},
        });
        let naming = Naming::Custom(ReplicasPath::new(".spec.shape.size"));
        let read = |workload: Value| {
            let text = workload.to_string();
            read_custom_workload(Encoded::Json(&text), "a.io/v1", &naming).unwrap()
        };
        let fact = read(workload).fact.unwrap();
        assert_eq!(
            (&*fact.uid, fact.demand.replicas(), fact.annotations.len()),
            ("u", Some(3), 1)
        );
        let huge = json!({"metadata": {"name": "w",
            "annotations": {"kruise.io/required-persistent-topology": "k,".repeat(100_000)}}});
        let kept = read(huge).fact.unwrap().annotations;
        assert_eq!(
            kept["kruise.io/required-persistent-topology"],
            "(longer than 64 KiB)"
        );
        assert_eq!(read(json!({"metadata": {"name": "w"}})).unreadable, None);
    }

    #[test]
    fn only_the_spec_of_a_custom_workload_must_not_be_nested_too_deeply() {
        let deep = format!("{}1{}", r#"{"a":["#.repeat(1000), "]}".repeat(1000));
        let read = |spec: &str| {
            let text =
                format!(r#"{{"metadata": {{"name": "w"}}, "status": {deep}, "spec": {spec}}}"#);
            read_custom_workload(Encoded::Json(&text), "a.io/v1", &Naming::StatefulSet).unwrap()
        };
        assert_eq!(
            read(r#"{"replicas": 3}"#).fact.unwrap().demand.replicas(),
            Some(3)
        );
        let unreadable = read(&deep);
        assert!(unreadable.unreadable.is_some());
        assert_eq!(
            unreadable.fact.unwrap().demand,
            Demand::default(),
            "it wants every Pod"
        );
    }

    #[test]
    fn an_unreadable_workload_wants_every_pod() {
        for spec in ["5", r#"{"replicas": "three"}"#] {
            let text = format!(
                r#"{{"metadata": {{"name": "w", "namespace": "n", "uid": "u"}}, "spec": {spec}}}"#
            );
            let item = read_stateful_set(Encoded::Json(&text)).unwrap();
            let fact = item.fact.unwrap();
            assert!(item.unreadable.is_some());
            assert_eq!((&*fact.uid, fact.demand.replicas()), ("u", None));
            assert_eq!(
                fact.demand.wants("w", "w-9", 0),
                pps_recorder::demand::Wanted::Yes
            );
        }
    }

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
        let item = read_pps(Encoded::Json(&object.to_string())).unwrap();
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
            let item = read_pps(Encoded::Json(
                &json!({"metadata": metadata, "spec": spec, "status": status}).to_string(),
            ))
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
        assert!(read_pps(Encoded::Json(r#"{"metadata": 5}"#)).is_err());
        assert!(
            read_pps(Encoded::Json(
                r#"{"metadata": {"namespace": "n"}, "spec": {}}"#
            ))
            .is_err()
        );
    }

    #[test]
    fn reads_both_forms_of_states_and_pod_states_take_precedence() {
        let read = |status: serde_json::Value| {
            let metadata = json!({"name": "p", "namespace": "n", "managedFields": [
                {"manager": "m", "fieldsV1": {"f:status": {"f:packed": {}}}}]});
            let spec =
                json!({"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"}});
            read_pps(Encoded::Json(
                &json!({"metadata": metadata, "spec": spec, "status": status}).to_string(),
            ))
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

    #[test]
    fn keeps_the_names_served_versions_and_state_of_a_definition() {
        let definition = json!({
            "metadata": {"name": "databases.a.io", "generation": 4, "annotations": {"x": "y"}},
            "spec": {
                "group": "a.io", "names": {"kind": "Database", "plural": "databases"}, "scope": "Namespaced",
                "versions": [
                    {"name": "v1beta1", "served": true, "storage": false},
                    {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {}},
                        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}}},
                    {"name": "v1alpha1", "served": false, "storage": false},
                ],
            },
            "status": {"conditions": [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]},
        });
        let version = |name: &str, replicas: Option<&str>| kinds::Version {
            name: name.into(),
            replicas: replicas.map(Into::into),
        };
        let expected = kinds::Definition {
            group: "a.io".into(),
            kind: "Database".into(),
            plural: "databases".into(),
            namespaced: true,
            established: true,
            terminating: false,
            versions: vec![version("v1", Some(".spec.size")), version("v1beta1", None)],
            generation: 4,
            keeps_packed: false,
        };
        let item = read_definition(Encoded::Json(&definition.to_string())).unwrap();
        assert_eq!((&*item.key, item.fact), ("databases.a.io", Some(expected)));
        let read = |object: Value| {
            read_definition(Encoded::Json(&object.to_string()))
                .unwrap()
                .fact
                .unwrap()
        };
        let new = json!({"metadata": {"name": "a"}, "spec": {"versions": [{"subresources": null}]}, "status": null});
        assert!(!read(new).established);
        let deleted = json!({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {}});
        assert!(read(deleted).terminating);
    }

    #[test]
    fn finds_the_compact_form_in_the_schema() {
        let keeps = |versions: Value| {
            let spec = json!({"group": "apps.kruise.io", "versions": versions});
            keeps_packed(&serde_json::from_str(&spec.to_string()).unwrap())
        };
        let version = |schema: Value| json!([{"name": "v1alpha1", "served": true, "schema": {"openAPIV3Schema": schema}}]);
        let packed = json!({"type": "object", "properties": {"status": {"properties": {"packed": {"type": "object"}}}}});
        assert!(keeps(version(packed.clone())));
        assert!(keeps(version(
            json!({"x-kubernetes-preserve-unknown-fields": true})
        )));
        assert!(keeps(version(
            json!({"properties": {"status": {"x-kubernetes-preserve-unknown-fields": true, "properties": {}}}})
        )));
        assert!(!keeps(version(
            json!({"properties": {"status": {"properties": {"podStates": {}}}}})
        )));
        assert!(!keeps(version(
            json!({"properties": {"spec": {"properties": {"packed": {}}}}})
        )));
        for (name, served) in [("v1beta1", true), ("v1alpha1", false)] {
            assert!(!keeps(
                json!([{"name": name, "served": served, "schema": {"openAPIV3Schema": packed}}])
            ));
        }
        assert!(!keeps(
            json!([{"name": "v1alpha1", "served": true, "schema": null}])
        ));
    }

    #[test]
    fn keeps_only_the_list_of_kinds() {
        let config = |data: Value| {
            let text = json!({"metadata": {"name": "c", "uid": "u"}, "data": data}).to_string();
            read_config(Encoded::Json(&text))
                .unwrap()
                .fact
                .unwrap()
                .whitelist
        };
        assert_eq!(
            config(json!({KEY: "[]", "other": "x"})).as_deref(),
            Some("[]")
        );
        assert_eq!((config(json!(null)), config(json!({}))), (None, None));
    }
}
