use std::collections::BTreeMap;

use pps_core::pps::PodState;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::demand::{Demand, Naming, ReplicasPath, Wanted};

fn listed(path: &str, object: &Value) -> Names {
    let path: NamesPath = path.parse().unwrap();
    path.read(&object["spec"], &object["status"])
}

/// The names that an object has at a path, or why they do not say which Pods it wants.
fn names(path: &str, object: &Value) -> Result<Vec<String>, String> {
    let names = listed(path, object);
    match names.doubt(None, [], &States::default()) {
        Some(doubt) => Err(doubt.to_string()),
        None => Ok(names
            .listed
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect()),
    }
}

#[test]
fn reads_the_names_of_strimzis_and_cloudnativepgs_objects() {
    let pods = json!({"spec": {"selector": {}, "pods": [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kafka-brokers-7"}, "spec": {"containers": []}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kafka-brokers-2"}, "spec": {"containers": []}},
    ]}});
    assert_eq!(
        names("spec.pods[*].metadata.name", &pods).unwrap(),
        ["kafka-brokers-2", "kafka-brokers-7"]
    );
    let cluster =
        json!({"spec": {"instances": 2}, "status": {"instanceNames": ["pg-1", "pg-3", "pg-1"]}});
    for path in ["status.instanceNames", "status.instanceNames[*]"] {
        assert_eq!(names(path, &cluster).unwrap(), ["pg-1", "pg-3"], "{path}");
    }
    let one = json!({"spec": {"podName": "only"}});
    assert_eq!(names("spec.podName", &one).unwrap(), ["only"]);
}

#[test]
fn names_of_the_wrong_type_or_none_say_nothing() {
    let path = "spec.pods[*].metadata.name";
    for none in [
        json!({}),
        json!({"spec": {}}),
        json!({"spec": {"pods": null}}),
        json!({"spec": {"pods": []}}),
        json!({"status": {"pods": [{"metadata": {"name": "w-0"}}]}}),
    ] {
        let doubt = names(path, &none).unwrap_err();
        assert!(
            doubt.contains("has no name of a Pod at spec.pods[*]"),
            "{doubt}"
        );
    }
    let named = json!({"metadata": {"name": "w-0"}});
    for wrong in [
        json!({"spec": 5}),
        json!({"spec": {"pods": 3}}),
        json!({"spec": {"pods": {"w-0": named}}}),
        json!({"spec": {"pods": [named, 5]}}),
        json!({"spec": {"pods": [named, null]}}),
        json!({"spec": {"pods": [named, {}]}}),
        json!({"spec": {"pods": [named, {"metadata": {"name": ""}}]}}),
        json!({"spec": {"pods": [named, {"metadata": {"name": 7}}]}}),
        json!({"spec": {"pods": [named, {"metadata": {"name": "x".repeat(254)}}]}}),
        json!({"spec": {"pods": [{"metadata": {"name": ["w-0", null]}}]}}),
    ] {
        let doubt = names(path, &wrong).unwrap_err();
        assert!(
            doubt.contains("something else than names"),
            "{wrong}: {doubt}"
        );
    }
}

#[test]
fn reads_ten_thousand_names_and_no_more() {
    let object = |count: usize| {
        let names: Vec<String> = (0..count).map(|number| format!("w-{number}")).collect();
        json!({"status": {"names": names}})
    };
    assert_eq!(
        listed("status.names", &object(MAX_NAMES)).count(),
        Some(10_000)
    );
    let doubt = names("status.names", &object(MAX_NAMES + 1)).unwrap_err();
    assert!(
        doubt.contains("more than 10000 names at status.names"),
        "{doubt}"
    );
}

#[test]
fn too_few_names_or_a_living_pod_without_one_cast_doubt() {
    let names = listed(
        "status.names",
        &json!({"status": {"names": ["w-1", "w-2"]}}),
    );
    let living =
        |pods: &[&str]| -> Vec<Arc<str>> { pods.iter().map(|pod| (*pod).into()).collect() };
    let doubt = |replicas, pods: &[&str]| {
        let doubt = names.doubt(replicas, &living(pods), &States::default());
        doubt.map(|doubt| doubt.to_string())
    };
    assert_eq!(doubt(None, &[]), None);
    assert_eq!(doubt(Some(2), &["w-2", "w-1"]), None);
    assert_eq!(doubt(Some(1), &["w-2"]), None, "a scale-down has begun");
    assert_eq!(
        doubt(Some(3), &["w-1"]).unwrap(),
        "the workload wants 3 Pods and has 2 names at status.names"
    );
    assert_eq!(
        doubt(None, &["w-1", "w-3"]).unwrap(),
        "Pod w-3 of the workload is not among the names at status.names"
    );
}

#[test]
fn names_of_neither_a_living_pod_nor_a_recorded_state_cast_doubt() {
    let names = listed("status.names", &json!({"status": {"names": ["a", "b"]}}));
    let recorded = |pods: &[&str]| {
        let states = pods
            .iter()
            .map(|pod| ((*pod).to_owned(), PodState::default()));
        States::from(states.collect::<BTreeMap<_, _>>())
    };
    let doubt = |pods: &[Arc<str>], states: &[&str]| {
        let doubt = names.doubt(None, pods, &recorded(states));
        doubt.map(|doubt| doubt.to_string())
    };
    assert_eq!(
        doubt(&[], &["w-a", "w-b"]).unwrap(),
        "no name at status.names is that of a Pod of the workload or of a recorded state; list \
         the names of its Pods, all of them"
    );
    assert_eq!(doubt(&[], &["w-a", "b"]), None);
    assert_eq!(doubt(&["a".into()], &["w-a"]), None, "renamed Pods live");
    assert_eq!(doubt(&[], &[]), None);
}

#[test]
fn wants_the_listed_names_alone_and_as_many_pods() {
    let naming = |path: &str| Naming::Listed {
        names: path.parse().unwrap(),
        replicas: ReplicasPath::new(".spec.instances"),
    };
    let read = |object: &Value, path: &str| {
        Demand::read_with_status(&object["spec"], &object["status"], &naming(path))
    };
    let object = json!({"spec": {"instances": 1}, "status": {"names": ["w-1", "w-5"]}});
    let demand = read(&object, "status.names");
    assert_eq!(demand.replicas(), Some(1));
    for (pod, expected) in [
        ("w-0", Wanted::No),
        ("w-1", Wanted::Yes),
        ("w-5", Wanted::Yes),
    ] {
        assert_eq!(demand.wants("w", pod, 1), expected, "{pod}");
    }
    let uncounted = json!({"status": {"names": ["w-1", "w-5"]}});
    assert_eq!(read(&uncounted, "status.names").replicas(), Some(2));
    let unread = read(&object, "status.other");
    assert_eq!(unread.wants("w", "w-9", 0), Wanted::Yes);
    assert!(naming("status.names").reads_status());
    assert!(!naming("spec.names").reads_status());
}

#[test]
fn refuses_a_path_of_another_syntax() {
    for path in ["spec.a", "status.a-b_c.d[*]", "spec.a[*][*].b", "spec.a[*]"] {
        let read: NamesPath = path.parse().unwrap();
        assert_eq!(read.to_string(), path);
    }
    for path in [
        "",
        "spec",
        "spec.",
        "specs.a",
        "spec[*]",
        ".spec.a",
        "{.spec.a}",
        "metadata.name",
        "spec.a[0]",
        "spec.a[*",
        "spec.a[*]b",
        "spec..a",
        "spec.a.",
        "spec.a b",
        "spec.a[?(@.b)]",
        "späc.a",
        &format!("spec.{}!", "x".repeat(200)),
    ] {
        let error = path.parse::<NamesPath>().unwrap_err();
        assert!(
            error.starts_with("namesPath: ") && error.ends_with(EXAMPLE),
            "{error}"
        );
        // The message of the ConfigMap's Event repeats so much.
        assert!(error.chars().count() <= 200, "{error}");
    }
    let long = format!("spec.{}", "ä".repeat(300));
    let error = long.parse::<NamesPath>().unwrap_err();
    assert_eq!(error, "namesPath: 305 characters; write at most 256");
    let fits = format!("spec.{}", "a".repeat(251));
    assert!(fits.parse::<NamesPath>().is_ok());
}

proptest! {
    #[test]
    fn reads_any_path_without_a_panic(path in "(spec|status)?([.]|[\\[*\\]a-cä.]){0,12}") {
        if let Ok(read) = path.parse::<NamesPath>() {
            prop_assert_eq!(read.to_string(), path);
        }
    }
}
