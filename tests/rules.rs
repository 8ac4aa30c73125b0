//! The rules of the definition (`x-kubernetes-validations`), evaluated as the API server does: they
//! refuse nothing that the policy accepts, and what both check gets the same answer.
//! `e2e-tests/tests/crd.rs` has a real API server evaluate them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use cel::extractors::This;
use cel::{Context, Program, Value as CelValue, to_value};
use pps_admission::validate::{is_exempt, review};
use pps_core::AnnotationRules;
use serde_json::Value;

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

/// The paths of what rules refuse.
fn refused(schema: &Value, object: &Value, old: Option<&Value>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
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
            let path = format!("{path}{}", rule["fieldPath"].as_str().unwrap_or_default());
            found.insert(path.trim_start_matches('.').to_owned());
        }
    });
    found
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
        let by_rules = refused(&schema, new, old);
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
