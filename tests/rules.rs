//! The rules of the definition (`x-kubernetes-validations`), evaluated as the API server does: they
//! refuse nothing that the policy accepts, and what both check gets the same answer.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use cel::extractors::This;
use cel::{Context, Program, Value as CelValue, to_value};
use pps_admission::validate::{is_exempt, review};
use pps_core::AnnotationRules;
use serde_json::{Value, json};

fn schema() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/base/crd.yaml");
    let definition: Value = yaml_serde::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Evaluates an expression. `find` is an extension of Kubernetes; this one knows the one pattern
/// that is used.
fn evaluate(expression: &str, value: &Value, old: Option<&Value>) -> CelValue {
    #[allow(
        clippy::needless_pass_by_value,
        reason = "the crate passes arguments by value"
    )]
    fn find(This(text): This<Arc<String>>, pattern: Arc<String>) -> Arc<String> {
        assert_eq!(*pattern, "^[^/]*/");
        text.split_once('/')
            .map_or_else(Arc::default, |(group, _)| Arc::new(format!("{group}/")))
    }
    let mut context = Context::default();
    context.add_function("find", find).unwrap();
    context.add_variable_from_value("self", to_value(value).unwrap());
    if let Some(old) = old {
        context.add_variable_from_value("oldSelf", to_value(old).unwrap());
    }
    Program::compile(expression)
        .unwrap()
        .execute(&context)
        .unwrap_or_else(|error| panic!("{expression}: {error}"))
}

/// Gets the path of a value, its schema, the value, and the value before an update.
type Visit<'a> = dyn FnMut(&str, &Value, &Value, Option<&Value>) + 'a;

/// Calls `visit` for each value below an object, with its path, its schema and the value before an
/// update. The items of an atomic list have no value before.
fn descend(path: &str, schema: &Value, value: &Value, old: Option<&Value>, visit: &mut Visit<'_>) {
    visit(path, schema, value, old);
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        // The API server drops a null.
        if let Some(value) = value.get(name).filter(|value| !value.is_null()) {
            let old = old
                .and_then(|old| old.get(name))
                .filter(|old| !old.is_null());
            descend(&format!("{path}.{name}"), below, value, old, visit);
        }
    }
    if schema["type"] == "array" {
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            descend(
                &format!("{path}[{index}]"),
                &schema["items"],
                item,
                None,
                visit,
            );
        }
    }
}

/// Whether the rest of the schema takes an object: only then the API server evaluates rules.
fn has_its_shape(schema: &Value, object: &Value) -> bool {
    let mut fits = true;
    descend("", schema, object, None, &mut |_, schema, value, _| {
        let required = schema["required"].as_array().into_iter().flatten();
        fits &= required
            .into_iter()
            .all(|name| !value[name.as_str().unwrap()].is_null());
        fits &= schema["enum"]
            .as_array()
            .is_none_or(|values| values.contains(value));
        let within = |size: i64, least: &str, most: &str| {
            schema[least].as_i64().is_none_or(|least| size >= least)
                && schema[most].as_i64().is_none_or(|most| size <= most)
        };
        let length = |length: usize| i64::try_from(length).unwrap();
        fits &= match (schema["type"].as_str().unwrap(), value) {
            ("string", Value::String(text)) => {
                within(length(text.chars().count()), "minLength", "maxLength")
            }
            ("array", Value::Array(items)) => within(length(items.len()), "minItems", "maxItems"),
            ("integer", number) => number
                .as_i64()
                .is_some_and(|number| within(number, "minimum", "maximum")),
            ("object", Value::Object(_)) => true,
            _ => false,
        };
    });
    fits
}

/// What rules refuse: path and message.
fn refused(schema: &Value, object: &Value, old: Option<&Value>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    descend("", schema, object, old, &mut |path, schema, value, old| {
        for rule in schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let text = rule["rule"].as_str().unwrap();
            let is_skipped = if text.contains("oldSelf") {
                old.is_none()
            } else {
                old == Some(value)
            };
            if is_skipped || evaluate(text, value, old) == CelValue::Bool(true) {
                continue;
            }
            let message = match (rule["message"].as_str(), rule["messageExpression"].as_str()) {
                (Some(message), None) => message.to_owned(),
                (None, Some(expression)) => match evaluate(expression, value, old) {
                    CelValue::String(message) => message.to_string(),
                    other => panic!("{expression} is {other:?}"),
                },
                other => panic!("{other:?}"),
            };
            let path = format!("{path}{}", rule["fieldPath"].as_str().unwrap_or_default());
            found.push((path.trim_start_matches('.').to_owned(), message));
        }
    });
    found
}

fn object(changes: &Value) -> Value {
    let mut object = json!({"metadata": {"name": "web"}, "spec": {
        "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
        "persistentPodAnnotations": [{"key": "example.io/ip"}],
    }});
    json_patch::merge(&mut object["spec"], changes);
    object
}

#[test]
fn rules_name_the_field_its_value_and_the_way_out() {
    let schema = schema();
    let none = json!({"persistentPodAnnotations": null});
    let target = |changes: Value| json!({"targetRef": changes});
    for (changes, old, path, words) in [
        (
            none.clone(),
            None,
            "spec",
            &["persists nothing", "persistentPodAnnotations"][..],
        ),
        (
            json!({"persistentPodAnnotations": [], "preferredPersistentTopology": []}),
            None,
            "spec",
            &["persists nothing"],
        ),
        (
            json!({"requiredPersistentTopology": {}}),
            None,
            "spec.requiredPersistentTopology",
            &["nodeTopologyKeys or keys"],
        ),
        (
            json!({"preferredPersistentTopology": [{"weight": 1, "preference": {"keys": ["a"], "nodeTopologyKeys": ["a"]}}]}),
            None,
            "spec.preferredPersistentTopology[0].preference",
            &["nodeTopologyKeys or keys"],
        ),
        (
            target(json!({"kind": "Deployment"})),
            None,
            "spec.targetRef.kind",
            &["\"Deployment\"", "StatefulSet"],
        ),
        (
            target(json!({"apiVersion": "v1", "kind": "Node"})),
            None,
            "spec.targetRef.kind",
            &["\"Node\""],
        ),
        (
            target(json!({"name": "db"})),
            Some(json!({})),
            "spec.targetRef.name",
            &["it is \"db\" and cannot change from \"web\"; create another"],
        ),
        (
            target(json!({"kind": "Database"})),
            Some(json!({})),
            "spec.targetRef.kind",
            &["it is \"Database\" and cannot change from \"StatefulSet\""],
        ),
        (
            target(json!({"apiVersion": "apps.kruise.io/v1"})),
            Some(json!({})),
            "spec.targetRef.apiVersion",
            &["it is \"apps.kruise.io/v1\" and its group cannot change from that of \"apps/v1\""],
        ),
        (
            target(json!({"apiVersion": "v1"})),
            Some(json!({})),
            "spec.targetRef.apiVersion",
            &["its group"],
        ),
        // A change that leaves it as wrong as it was.
        (
            json!({"persistentPodAnnotations": null, "nodeDeletionPolicy": "Keep"}),
            Some(none.clone()),
            "spec",
            &["persists"],
        ),
    ] {
        let found = refused(
            &schema,
            &object(&changes),
            old.map(|old| object(&old)).as_ref(),
        );
        let [(found_path, message)] = &found[..] else {
            panic!("{changes}: {found:?}")
        };
        assert_eq!(found_path, path, "{changes}: {message}");
        assert!(
            words.iter().all(|word| message.contains(word)),
            "{changes}: {message}"
        );
    }
}

#[test]
fn rules_accept_good_objects_and_never_keep_an_old_one_from_an_update_of_its_metadata() {
    let schema = schema();
    let alias = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "PersistentPodState"});
    for (changes, old) in [
        (json!({}), None),
        (
            json!({"targetRef": alias, "persistentPodAnnotations": null}),
            None,
        ),
        (
            json!({"requiredPersistentTopology": {"keys": ["a"]}, "persistentPodAnnotations": null}),
            None,
        ),
        (
            json!({"targetRef": {"apiVersion": "apps.kruise.io/v1beta1"}}),
            None,
        ),
        (
            json!({"targetRef": {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}}),
            None,
        ),
        // The version does not count.
        (
            json!({"targetRef": {"apiVersion": "apps/v2"}}),
            Some(json!({})),
        ),
    ] {
        let old = old.map(|old| object(&old));
        assert_eq!(
            refused(&schema, &object(&changes), old.as_ref()),
            [],
            "{changes}"
        );
    }
    for broken in [
        json!({"persistentPodAnnotations": null}),
        json!({"targetRef": {"kind": "Deployment"}}),
        json!({"requiredPersistentTopology": {}}),
    ] {
        let old = object(&broken);
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!(null);
        new["status"] = json!({"desired": 1});
        assert!(
            !refused(&schema, &old, None).is_empty()
                && refused(&schema, &new, Some(&old)).is_empty(),
            "{broken}"
        );
    }
}

/// Whether a rule checks what this violation of the policy is about.
fn has_a_rule(path: &str, remedy: &str) -> bool {
    let parts = [
        "cannot change",
        "do not keep their names",
        "list at least one node label key",
        "another spelling",
    ];
    path == "spec" || parts.iter().any(|part| remedy.contains(part))
}

#[test]
fn rules_and_policy_agree_on_the_corpus() {
    let schema = schema();
    let mut compared = BTreeSet::new();
    for case in pps_corpus::cases().unwrap() {
        let request = &case.request;
        let (new, old) = (
            &request["object"],
            Some(&request["oldObject"]).filter(|old| !old.is_null()),
        );
        if request["kind"]["kind"] != "PersistentPodState"
            || new.is_null()
            || !has_its_shape(&schema, new)
        {
            continue;
        }
        let by_rules: BTreeSet<String> = refused(&schema, new, old)
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        let mut by_policy = BTreeSet::new();
        if !is_exempt(new, old) {
            for violation in review(new, old, &AnnotationRules::default()).violations {
                // The policy does not recognize an alias whose reference is wrong, and misses its
                // content.
                let is_alias = new["spec"]["targetRef"]["kind"] == "PersistentPodState";
                if has_a_rule(&violation.path, &violation.remedy)
                    && !(is_alias && violation.path == "spec")
                {
                    // A rule about keys is at the term that has them.
                    let keys = [".nodeTopologyKeys", ".keys"];
                    let term = keys
                        .iter()
                        .find_map(|keys| violation.path.strip_suffix(keys));
                    by_policy.insert(term.unwrap_or(&violation.path).to_owned());
                }
            }
        }
        assert_eq!(by_rules, by_policy, "{}", case.name);
        assert!(
            by_rules.is_empty() || !case.expected.accepted,
            "{} is accepted by the policy",
            case.name
        );
        compared.insert((case.name, by_rules.is_empty()));
    }
    for accepted in [true, false] {
        let count = compared.iter().filter(|(_, one)| *one == accepted).count();
        assert!(count >= 5, "{compared:?}");
    }
}
