//! StatefulSets and workloads of custom kinds, and their facts.

use k8s_openapi::Resource;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetOrdinals};
use pps_recorder::demand::{Demand, Naming};
use pps_recorder::facts::{Generation, NamespacedName, WorkloadFact};
use pps_recorder::generate;
use serde::Deserialize;
use serde_json::Value;

use super::item::{Item, Metadata, Parsed, Unused};
use super::malformed::Malformed;

/// Reads a StatefulSet. One that cannot be read does not say how many Pods it wants, so that no
/// state is dropped.
pub fn read_stateful_set(object: &str) -> Result<Item<NamespacedName, WorkloadFact>, Malformed> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Spec {
        replicas: Option<i32>,
        ordinals: Option<StatefulSetOrdinals>,
    }
    let parsed = Parsed::<Option<Spec>, Unused>::read(object)?;
    Ok(parsed.into_item(Metadata::key, |metadata, parts| {
        let demand = parts.map(|parts| {
            let Spec { replicas, ordinals } = parts.spec.unwrap_or_default();
            let start = ordinals.and_then(|ordinals| ordinals.start);
            Demand::numbered(at_least_zero(start, 0), at_least_zero(replicas, 1))
        });
        Some(workload(&metadata, StatefulSet::API_VERSION, demand))
    }))
}

/// A number as Kubernetes reads it: a negative one counts as 0.
fn at_least_zero(number: Option<i32>, default: u64) -> u64 {
    number.map_or(default, |number| u64::try_from(number).unwrap_or(0))
}

/// Reads a workload of a custom kind, like a StatefulSet. One cannot be read if its spec, or its
/// status where the names of its Pods are in it, is nested deeper than the parser follows.
pub fn read_custom_workload(
    object: &str,
    api_version: &str,
    naming: &Naming,
) -> Result<Item<NamespacedName, WorkloadFact>, Malformed> {
    if !naming.reads_status() {
        let parsed = Parsed::<Option<Value>, Unused>::read(object)?;
        return Ok(parsed.into_item(Metadata::key, |metadata, parts| {
            let demand = parts.map(|parts| Demand::read(&parts.spec.unwrap_or_default(), naming));
            Some(custom_workload(&metadata, api_version, demand))
        }));
    }
    let parsed = Parsed::<Option<Value>, Option<Value>>::read(object)?;
    Ok(parsed.into_item(Metadata::key, |metadata, parts| {
        let demand = parts.map(|parts| {
            let status = parts.status.unwrap_or_default();
            Demand::read_with_status(&parts.spec.unwrap_or_default(), &status, naming)
        });
        Some(custom_workload(&metadata, api_version, demand))
    }))
}

fn custom_workload(metadata: &Metadata, api_version: &str, demand: Option<Demand>) -> WorkloadFact {
    WorkloadFact {
        generation: Generation(metadata.generation),
        ..workload(metadata, api_version, demand)
    }
}

fn workload(metadata: &Metadata, api_version: &str, demand: Option<Demand>) -> WorkloadFact {
    WorkloadFact {
        api_version: api_version.into(),
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        terminating: metadata.is_terminating(),
        demand: demand.unwrap_or_default(),
        // Only those that request a generated PPS.
        annotations: generate::WORKLOAD_ANNOTATIONS
            .iter()
            .filter_map(|key| metadata.annotations.as_ref()?.get_key_value(*key))
            .map(|(key, value)| (key.clone(), generate::kept_value(value).to_owned()))
            .collect(),
        generation: Generation(None),
    }
}

#[cfg(test)]
mod tests {
    use pps_recorder::demand::ReplicasPath;
    use serde_json::json;

    use super::*;

    #[test]
    fn replicas_default_to_one_and_ordinals_to_zero() {
        let demand = |spec: Value| {
            let text = json!({"metadata": {"name": "w"}, "spec": spec}).to_string();
            read_stateful_set(&text).unwrap().fact.unwrap().demand
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
            read_custom_workload(&text, "a.io/v1", &naming).unwrap()
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
    fn reads_names_from_the_spec_or_the_status() {
        let read = |path: &str, object: &Value| {
            let naming = Naming::Listed {
                names: path.parse().unwrap(),
                replicas: ReplicasPath::default(),
            };
            let item = read_custom_workload(&object.to_string(), "a.io/v1", &naming).unwrap();
            assert_eq!(item.unreadable, None);
            item.fact.unwrap().demand
        };
        let object = json!({"metadata": {"name": "w"}, "spec": {"pods": [{"metadata": {"name": "w-7"}}]},
            "status": {"instanceNames": ["w-1", "w-3"]}});
        let demand = read("spec.pods[*].metadata.name", &object);
        assert_eq!(demand.replicas(), Some(1));
        assert_eq!(read("status.instanceNames", &object).replicas(), Some(2));
        let created = json!({"metadata": {"name": "w"}, "spec": {}});
        assert_eq!(read("status.instanceNames", &created).replicas(), None);
    }

    #[test]
    fn only_the_spec_of_a_custom_workload_must_not_be_nested_too_deeply() {
        let deep = format!("{}1{}", r#"{"a":["#.repeat(1000), "]}".repeat(1000));
        let read = |spec: &str| {
            let text =
                format!(r#"{{"metadata": {{"name": "w"}}, "status": {deep}, "spec": {spec}}}"#);
            read_custom_workload(&text, "a.io/v1", &Naming::StatefulSet).unwrap()
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
            let item = read_stateful_set(&text).unwrap();
            let fact = item.fact.unwrap();
            assert!(item.unreadable.is_some());
            assert_eq!((&*fact.uid, fact.demand.replicas()), ("u", None));
            assert_eq!(
                fact.demand.wants("w", "w-9", 0),
                pps_recorder::demand::Wanted::Yes
            );
        }
    }
}
