use serde_json::json;

use super::*;
use crate::annotations::{INJECTED_ANNOTATION, NEVER_INJECTED, Pattern};
use crate::pps::Spec;

fn object(changes: &Value) -> Value {
    let mut spec = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
        "requiredPersistentTopology": {"nodeTopologyKeys": ["topology.kubernetes.io/zone"]},
    });
    merge(&mut spec, changes);
    json!({"metadata": {"name": "web"}, "spec": spec})
}

fn merge(target: &mut Value, changes: &Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (field, change) in changes {
                merge(target.entry(field).or_insert(Value::Null), change);
            }
        }
        (target, changes) => *target = changes.clone(),
    }
}

/// The review of a created object.
fn create(object: &Value) -> Review {
    review(object, None, &AnnotationRules::default())
}

/// The violations of a created object, in one line each.
fn violations(changes: &Value) -> Vec<String> {
    let review = create(&object(changes));
    assert_eq!(review.workload.is_none(), review.violations.iter().any(|it| it.path.contains("targetRef")));
    review.violations.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn check(changes: &Value, expected: &[&str]) {
    let violations = violations(changes);
    assert_eq!(violations.len(), expected.len(), "{violations:#?}");
    for (violation, start) in violations.iter().zip(expected) {
        assert!(violation.starts_with(start), "{violation}");
    }
}

#[test]
fn accepts_all_spellings_of_a_valid_object() {
    check(&json!({}), &[]);
    check(
        &json!({
            "targetRef": {"apiVersion": "game.kruise.io/v1alpha1", "kind": "GameServerSet", "name": "eu.web"},
            "requiredPersistentTopology": {"nodeTopologyKeys": null, "keys": ["rack", "Example.io_x"]},
            "preferredPersistentTopology": [{"weight": 1, "preference": {"keys": ["kubernetes.io/hostname"]}}],
            "persistentPodAnnotations": ["a", {"key": "Example.IO/B", "valueFrom": "PodIPsCSV"}, {"key": "c", "valueFrom": null}],
            "persistentPodStateRetentionPolicy": "Retain",
            "nodeDeletionPolicy": null,
        }),
        &[r#"spec.requiredPersistentTopology.keys is ["rack","Example.io_x"]: it is another spelling"#],
    );
    check(&json!({"requiredPersistentTopology": null, "persistentPodAnnotations": ["a"]}), &[]);
}

#[test]
fn reports_all_violations_at_once() {
    check(
        &json!({
            "targetRef": {"apiVersion": "apps/v1/", "kind": "", "name": "Web"},
            "requiredPersistentTopology": {"nodeTopologyKeys": []},
            "preferredPersistentTopology": [
                {"weight": 100, "preference": {"nodeTopologyKeys": ["a"]}},
                {"weight": 0, "preference": {"nodeTopologyKeys": ["a", "-b", 7]}},
                3,
            ],
            "persistentPodAnnotations": ["", {"key": INJECTED_ANNOTATION}, null],
            "nodeDeletionPolicy": "keep",
        }),
        &[
            r#"spec.targetRef.apiVersion is "apps/v1/": "#,
            r#"spec.targetRef.kind is "": "#,
            r#"spec.targetRef.name is "Web": "#,
            "spec.requiredPersistentTopology.nodeTopologyKeys is []: ",
            "spec.preferredPersistentTopology[1].weight is 0: use a whole number from 1 to 100",
            r#"spec.preferredPersistentTopology[1].preference.nodeTopologyKeys[1] is "-b": "#,
            "spec.preferredPersistentTopology[1].preference.nodeTopologyKeys[2] is 7: ",
            "spec.preferredPersistentTopology[2].weight is missing: ",
            "spec.preferredPersistentTopology[2].preference.nodeTopologyKeys is missing: ",
            r#"spec.persistentPodAnnotations[0] is "": "#,
            r#"spec.persistentPodAnnotations[1].key is "kruise.io/injected-persistent-pod-state": "#,
            "spec.persistentPodAnnotations[2] is missing: ",
            r#"spec.nodeDeletionPolicy is "keep": use one of Keep, Forget, or remove it"#,
        ],
    );
}

#[test]
fn refuses_kinds_without_stable_names() {
    for (api_version, kind) in
        [("apps/v1", "Deployment"), ("batch/v1", "Job"), ("v1", "ReplicationController")]
    {
        let changes = json!({"targetRef": {"apiVersion": api_version, "kind": kind}});
        check(&changes, &[&format!("spec.targetRef.kind is {kind:?}: its Pods do not keep their names")]);
    }
}

#[test]
fn refuses_an_object_that_persists_nothing() {
    let nothing = "spec is without anything to persist: ";
    check(&json!({"requiredPersistentTopology": null}), &[nothing]);
    check(
        &json!({"requiredPersistentTopology": null, "preferredPersistentTopology": [], "persistentPodAnnotations": []}),
        &[nothing],
    );
}

#[test]
fn names_the_key_to_use_instead_of_one_that_is_never_injected() {
    for (never, instead) in NEVER_INJECTED {
        let refusals = violations(&json!({"persistentPodAnnotations": [never]}));
        assert_eq!(refusals.len(), 1);
        assert!(refusals[0].contains(instead.unwrap_or("remove it")), "{}", refusals[0]);
    }
}

#[test]
fn refuses_annotations_that_the_settings_deny() {
    let rules = AnnotationRules { allow: None, deny: Pattern::parse("example.io/*").into_iter().collect() };
    let changes = json!({"persistentPodAnnotations": ["a", {"key": "example.io/ip"}, "example.io/mac", ""]});
    let review = review(&object(&changes), None, &rules);
    let refusals: Vec<String> = review.violations.iter().map(ToString::to_string).collect();
    let remedy = "it is denied by \"example.io/*\" in the policy's settings.annotations.deny; remove it";
    assert_eq!(refusals.len(), 3, "{refusals:?}");
    assert_eq!(refusals[0], format!("spec.persistentPodAnnotations[1].key is \"example.io/ip\": {remedy}"));
    assert_eq!(refusals[1], format!("spec.persistentPodAnnotations[2] is \"example.io/mac\": {remedy}"));
}

#[test]
fn warns_of_a_deprecated_label() {
    let changes = json!({"requiredPersistentTopology": {"nodeTopologyKeys": ["failure-domain.beta.kubernetes.io/zone"]}});
    let review = create(&object(&changes));
    assert_eq!(review.violations, []);
    assert!(review.warnings[0].contains(r#"; use "topology.kubernetes.io/zone""#), "{}", review.warnings[0]);
}

#[test]
fn refuses_another_workload_but_not_another_version() {
    let of = |api_version: &str, kind: &str, name: &str| {
        object(&json!({"targetRef": {"apiVersion": api_version, "kind": kind, "name": name}}))
    };
    let paths = |after: &Value| -> Vec<String> {
        let before = of("apps/v1", "StatefulSet", "web");
        let review = review(after, Some(&before), &AnnotationRules::default());
        review.violations.iter().map(|violation| violation.path.clone()).collect()
    };
    assert_eq!(paths(&of("apps/v1beta2", "StatefulSet", "web")), [""; 0]);
    assert_eq!(paths(&of("apps.kruise.io/v1beta1", "StatefulSet", "web")), ["spec.targetRef.apiVersion"]);
    assert_eq!(paths(&of("apps/v1", "PetSet", "bew")), ["spec.targetRef.kind", "spec.targetRef.name"]);
}

#[test]
fn exempts_terminating_objects_and_unchanged_specs() {
    let wrong = object(&json!({"targetRef": {"kind": "Deployment"}}));
    let mut without_finalizers = wrong.clone();
    without_finalizers["metadata"]["finalizers"] = json!([]);
    assert!(is_exempt(&without_finalizers, Some(&wrong)));
    let mut terminating = object(&json!({"targetRef": {"kind": "Job"}}));
    terminating["metadata"]["deletionTimestamp"] = json!("2026-03-01T10:00:00Z");
    assert!(is_exempt(&terminating, Some(&wrong)) && is_exempt(&terminating, None));
    assert!(!is_exempt(&object(&json!({})), Some(&wrong)) && !is_exempt(&wrong, None));
}

#[test]
fn whatever_passes_can_be_read_as_a_spec() {
    for wrong in [json!(null), json!(7), json!("x"), json!([]), json!([[]]), json!({}), json!([{"key": {}}])]
    {
        assert!(!create(&wrong).violations.is_empty());
        assert!(!create(&json!({"spec": wrong})).violations.is_empty());
        for field in [
            "targetRef",
            "requiredPersistentTopology",
            "preferredPersistentTopology",
            "persistentPodAnnotations",
            "persistentPodStateRetentionPolicy",
            "nodeDeletionPolicy",
        ] {
            let mut object = object(&json!({}));
            object["spec"][field] = wrong.clone();
            let review = create(&object);
            let read = serde_json::from_value::<Spec>(object["spec"].clone());
            assert!(read.is_ok() || !review.violations.is_empty(), "{field} {wrong}: {read:?}");
        }
    }
}

#[test]
fn cuts_long_values() {
    let refusals = violations(&json!({"targetRef": {"name": "É".repeat(9000)}}));
    assert!(refusals[0].len() < 400, "{}", refusals[0].len());
}
