//! Workloads on the wire, StatefulSets and those of custom kinds, and their facts.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::Resource;
use k8s_openapi::api::apps::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pps_recorder::demand::{Demand, Naming};
use pps_recorder::facts::{NamespacedName, WorkloadFact};
use pps_recorder::generate;
use pps_recorder::workload::Ordinals;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::encoding::Encoded;
use super::object::{Item, METADATA, Malformed, item, key_of, slim_metadata};
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

/// Reads a StatefulSet. One that cannot be read does not say how many Pods it wants, so that no state is
/// dropped.
pub fn read_stateful_set(object: Encoded<'_>) -> Result<Item<NamespacedName, WorkloadFact>, Malformed> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct StatefulSet {
        #[serde(deserialize_with = "slim_metadata")]
        metadata: ObjectMeta,
        spec: Spec,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Spec {
        replicas: Option<i32>,
        ordinals: Option<SpecOrdinals>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct SpecOrdinals {
        start: Option<i32>,
    }
    let number = |number: Option<i32>, default: u64| {
        number.map_or(default, |number| u64::try_from(number).unwrap_or(0))
    };
    let api_version = v1::StatefulSet::API_VERSION;
    let whole = |workload: StatefulSet| {
        let start = workload.spec.ordinals.and_then(|ordinals| ordinals.start);
        let ordinals = Ordinals::new(number(start, 0), number(workload.spec.replicas, 1), []);
        Some(fact(&workload.metadata, api_version, Demand::of_ordinals(ordinals)))
    };
    let rest = |metadata: &ObjectMeta| Some(fact(metadata, api_version, Demand::default()));
    item(object, STATEFUL_SET, |workload: &StatefulSet| &workload.metadata, key_of, whole, rest)
}

/// Reads a workload of a custom kind, like a StatefulSet.
pub fn read_custom_workload(
    object: Encoded<'_>,
    api_version: &str,
    naming: &Naming,
) -> Result<Item<NamespacedName, WorkloadFact>, Malformed> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct CustomWorkload {
        #[serde(deserialize_with = "slim_metadata")]
        metadata: ObjectMeta,
        /// Unread: it may be nested deeper than a parser follows.
        spec: Option<Box<RawValue>>,
    }
    let whole = |workload: CustomWorkload| {
        let spec = workload.spec.map(|spec| demand_fields(&spec, naming)).unwrap_or_default();
        Some(fact(&workload.metadata, api_version, Demand::read(&spec, naming)))
    };
    let rest = |metadata: &ObjectMeta| Some(fact(metadata, api_version, Demand::default()));
    item(object, &[], |workload: &CustomWorkload| &workload.metadata, key_of, whole, rest)
}

/// The fields of a `spec` that the demand is read from. Nothing else of it is parsed.
fn demand_fields(spec: &RawValue, naming: &Naming) -> Value {
    let path: Vec<&str> = match naming {
        Naming::StatefulSet => vec!["replicas"],
        Naming::Custom(path) => path.fields().collect(),
    };
    let ordinals = match field(spec, "ordinals") {
        Some(ordinals) if is_nested(ordinals) => json!({"start": scalar(field(ordinals, "start"))}),
        other => scalar(other),
    };
    let reserved = match field(spec, "reserveOrdinals") {
        Some(list) if list.get().starts_with('[') => {
            let items = serde_json::from_str::<Vec<&RawValue>>(list.get()).unwrap_or_default();
            items.into_iter().map(|item| scalar(Some(item))).collect()
        }
        other => scalar(other),
    };
    let replicas = path.iter().try_fold(spec, |value, name| field(value, name));
    let mut fields = json!({"ordinals": ordinals, "reserveOrdinals": reserved});
    let mut place = &mut fields;
    for name in path {
        // The path goes through a field that was read above, and ends there.
        if !place.is_null() && !place.is_object() {
            return fields;
        }
        place = &mut place[name];
    }
    if place.is_null() {
        *place = scalar(replicas);
    }
    fields
}

fn is_nested(value: &RawValue) -> bool {
    value.get().starts_with(['{', '['])
}

/// The value of a number or a string; null for anything else.
fn scalar(value: Option<&RawValue>) -> Value {
    let value = value.filter(|value| !is_nested(value));
    value.and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
}

/// The value of a field of a JSON object; nothing if it is no object or has no such field.
fn field<'a>(object: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    struct Field<'n>(&'n str);

    impl<'de> DeserializeSeed<'de> for Field<'_> {
        type Value = Option<&'de RawValue>;

        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
            deserializer.deserialize_map(self)
        }
    }

    impl<'de> Visitor<'de> for Field<'_> {
        type Value = Option<&'de RawValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
                if *name == *self.0 {
                    found = Some(fields.next_value()?);
                } else {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }

    Field(name).deserialize(&mut serde_json::Deserializer::from_str(object.get())).ok().flatten()
}

fn fact(metadata: &ObjectMeta, api_version: &str, demand: Demand) -> WorkloadFact {
    WorkloadFact {
        api_version: api_version.into(),
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        terminating: metadata.deletion_timestamp.is_some(),
        demand,
        // Only those that request a generated PPS.
        annotations: generate::WORKLOAD_ANNOTATIONS
            .iter()
            .filter_map(|key| metadata.annotations.as_ref()?.get_key_value(*key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
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
            read_stateful_set(Encoded::Json(&text)).unwrap().fact.unwrap().demand
        };
        assert_eq!(demand(json!({})), Demand::of_ordinals(Ordinals::new(0, 1, [])));
        let spec = json!({"replicas": 3, "ordinals": {"start": 5}});
        assert_eq!(demand(spec), Demand::of_ordinals(Ordinals::new(5, 3, [])));
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
        assert_eq!((&*fact.uid, fact.demand.replicas(), fact.annotations.len()), ("u", Some(3), 1));
        assert_eq!(read(json!({"metadata": {"name": "w"}})).unreadable, None);
    }

    #[test]
    fn reads_a_custom_workload_that_is_nested_deeper_than_the_parser_follows() {
        let deep = format!("{}1{}", r#"{"a":["#.repeat(1000), "]}".repeat(1000));
        let text = format!(
            r#"{{"metadata": {{"name": "w", "namespace": "n", "uid": "u"}}, "status": {deep},
                "spec": {{"deep": {deep}, "shape": {{"deep": {deep}, "size": 3}}, "ordinals": {{"start": 2, "x": {deep}}},
                    "reserveOrdinals": [3, "5-6", {deep}]}}}}"#
        );
        let naming = Naming::Custom(ReplicasPath::new(".spec.shape.size"));
        let item = read_custom_workload(Encoded::Json(&text), "a.io/v1", &naming).unwrap();
        assert_eq!(item.unreadable, None);
        assert_eq!(item.fact.unwrap().demand, {
            let spec = json!({"shape": {"size": 3}, "ordinals": {"start": 2}, "reserveOrdinals": [3, "5-6"]});
            Demand::read(&spec, &naming)
        });
    }

    #[test]
    fn reads_the_same_demand_from_a_spec_as_core() {
        let paths = [
            "",
            ".spec.replicas",
            ".spec.a.b",
            ".spec.ordinals.start",
            ".spec.reserveOrdinals",
            ".spec.ordinals",
            ".spec..",
            ".spec.a.b.c",
        ];
        let specs = [
            json!(null),
            json!(5),
            json!([1]),
            json!({"replicas": 3}),
            json!({"replicas": "3", "a": {"b": 7}}),
            json!({"replicas": -1, "a": 5}),
            json!({"replicas": 1.5, "a": {"b": {"c": 4}}}),
            json!({"ordinals": 5, "reserveOrdinals": {"x": 1}, "replicas": 2}),
            json!({"ordinals": {"start": 4}, "reserveOrdinals": [1, "2-3", "x", null, -1, [2], {"a": 1}], "replicas": 2}),
            json!({"": {"": 6}}),
        ];
        for spec in specs {
            let namings = paths.map(|path| Naming::Custom(ReplicasPath::new(path)));
            for naming in namings.iter().chain([&Naming::StatefulSet]) {
                let text = json!({"metadata": {"name": "w"}, "spec": spec}).to_string();
                let item = read_custom_workload(Encoded::Json(&text), "a.io/v1", naming).unwrap();
                assert_eq!(item.fact.unwrap().demand, Demand::read(&spec, naming), "{spec} {naming:?}");
            }
        }
    }

    #[test]
    fn an_unreadable_workload_wants_every_pod() {
        for spec in ["5", r#"{"replicas": "three"}"#] {
            let text =
                format!(r#"{{"metadata": {{"name": "w", "namespace": "n", "uid": "u"}}, "spec": {spec}}}"#);
            let item = read_stateful_set(Encoded::Json(&text)).unwrap();
            let fact = item.fact.unwrap();
            assert!(item.unreadable.is_some());
            assert_eq!((&*fact.uid, fact.demand.replicas()), ("u", None));
            assert_eq!(fact.demand.wants("w", "w-9", 0), pps_recorder::demand::Wanted::Yes);
        }
    }
}
