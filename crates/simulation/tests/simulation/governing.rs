//! Which object governs, and which objects the sidecar makes.

use pps_core::TargetReference;
use pps_core::governing::second_name;
use pps_simulation::{EventKind, Severity, run};
use serde_json::{Value, json};

use crate::worlds::{
    HOSTNAME, ZONE, last, nodes, object, play, pod, pps, reason, required, scenario, stateful_set,
    texts, with,
};

fn named(name: &str, created: Option<&str>) -> Value {
    let mut object = pps("db", required(HOSTNAME));
    object["metadata"]["name"] = name.into();
    if let Some(created) = created {
        object["metadata"]["creationTimestamp"] = created.into();
    }
    object
}

fn world(objects: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut all = nodes(4);
    all.push(stateful_set("db", 2));
    all.extend(objects);
    all
}

fn alias() -> String {
    let target = TargetReference {
        api_version: "apps/v1".into(),
        kind: "StatefulSet".into(),
        name: "db".into(),
    };
    second_name(&target)
}

#[test]
fn the_policy_finds_an_object_of_another_name_by_the_alias_that_the_sidecar_makes() {
    let result = play(
        world([named("pinned", None)]),
        json!([{"do": "rollOut"}, {"do": "deletePod", "pod": "db-0"}]),
    );
    let alias = object(last(&result), &alias());
    assert_eq!(alias.target, "PersistentPodState/pinned");
    assert!(alias.states.is_empty() && alias.conditions.is_empty());
    assert_eq!(object(last(&result), "pinned").states.len(), 2);
    assert_eq!(pod(last(&result), "db-0").came_home, Some(true));
}

#[test]
fn the_oldest_object_governs_and_the_other_records_nothing() {
    let objects = [
        named("a", Some("2025-02-01T00:00:00Z")),
        named("b", Some("2025-01-01T00:00:00Z")),
    ];
    let result = run(&scenario(world(objects), json!([{"do": "rollOut"}])));
    assert_eq!(object(last(&result), "b").states.len(), 2);
    assert_eq!(reason(object(last(&result), "a")), "Superseded");
    assert!(object(last(&result), "a").states.is_empty());
}

#[test]
fn a_new_second_object_of_the_same_workload_is_refused() {
    let result = run(&scenario(
        world([named("db", None), named("other", None)]),
        json!([]),
    ));
    let problem = &result.problems[0];
    assert_eq!(
        (problem.severity, problem.field.as_deref()),
        (Severity::Error, Some("spec.targetRef"))
    );
    assert!(
        problem
            .message
            .contains("already the target of PersistentPodState db"),
        "{problem:?}"
    );
    assert_eq!(last(&result).world.pps.len(), 1);
}

#[test]
fn the_sidecar_generates_what_annotations_ask_for() {
    let annotations = |more: Value| {
        let mut all = json!({"kruise.io/auto-generate-persistent-pod-state": "true"});
        all.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        with(stateful_set("db", 2), "metadata.annotations", all)
    };
    let mut objects = nodes(4);
    objects.push(annotations(
        json!({"kruise.io/required-persistent-topology": HOSTNAME}),
    ));
    let changed = annotations(json!({"kruise.io/required-persistent-topology": ZONE}));
    let wrong = annotations(json!({"kruise.io/required-persistent-topology": "no key"}));
    let actions = json!([
        {"do": "rollOut"}, {"do": "deletePod", "pod": "db-0"}, {"do": "changeSpec", "object": wrong},
        {"do": "changeSpec", "object": changed}, {"do": "changeSpec", "object": stateful_set("db", 2)},
    ]);
    let result = play(objects, actions);
    let created = &texts(&result.steps[1], &[EventKind::Created])[1];
    assert_eq!(
        created,
        "PersistentPodState/db is made by the sidecar for StatefulSet/db"
    );
    assert_eq!(pod(&result.steps[2], "db-0").came_home, Some(true));
    let warning = &texts(&result.steps[3], &[EventKind::Warning])[0];
    assert!(warning.contains("\"no key\" is no label key"), "{warning}");
    assert_eq!(object(&result.steps[3], "db").states.len(), 2);
    let labels = &object(&result.steps[4], "db").states["db-0"].node_topology_labels;
    assert_eq!(labels.keys().collect::<Vec<_>>(), [ZONE]);
    assert!(last(&result).world.pps.is_empty());
}

#[test]
fn a_generated_object_is_deleted_with_its_workload() {
    let annotations = json!({
        "kruise.io/auto-generate-persistent-pod-state": "true", "kruise.io/required-persistent-topology": HOSTNAME,
    });
    let mut objects = nodes(4);
    objects.push(with(
        stateful_set("db", 2),
        "metadata.annotations",
        annotations,
    ));
    let result = play(
        objects,
        json!([{"do": "rollOut"}, {"do": "deleteWorkload", "workload": "db"}]),
    );
    assert!(last(&result).world.pps.is_empty());
    let text = "PersistentPodState/db is deleted with its owner and its recorded states";
    assert_eq!(
        texts(last(&result), &[EventKind::Deleted]).last().unwrap(),
        text
    );
}

#[test]
fn openkruise_stateful_sets_are_workloads_of_their_own_group() {
    let kruise = |object| with(object, "apiVersion", json!("apps.kruise.io/v1beta1"));
    let set = with(
        kruise(stateful_set("db", 2)),
        "spec.reserveOrdinals",
        json!([0]),
    );
    let mut objects = nodes(4);
    objects.push(set);
    let mut pinned = pps("db", required(HOSTNAME));
    pinned["spec"]["targetRef"]["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    objects.push(pinned);
    let result = play(
        objects,
        json!([{"do": "rollOut"}, {"do": "deletePod", "pod": "db-2"}]),
    );
    assert_eq!(
        object(last(&result), "db")
            .states
            .keys()
            .collect::<Vec<_>>(),
        ["db-1", "db-2"]
    );
    assert_eq!(pod(last(&result), "db-2").came_home, Some(true));
}
