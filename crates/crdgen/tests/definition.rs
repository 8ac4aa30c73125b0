//! The generated definition is the one in `deploy/`, and what holds for each of its fields.
//! `e2e-tests/tests/crd.rs` has a real API server enforce it.

use std::path::Path;
use std::{env, fs};

use serde_json::Value;

#[test]
fn deploy_crd_yaml_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/base/crd.yaml");
    let generated = pps_crdgen::yaml().unwrap();
    if env::var_os("UPDATE").is_some_and(|value| value == "1") {
        fs::write(&path, generated).unwrap();
        return;
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "deploy/base/crd.yaml differs from the types in crates/core/src/pps; run `make crd`"
    );
}

#[test]
fn describes_every_field_in_sentences_without_markup() {
    each_schema(&mut |path, schema| {
        let Some(description) = schema.get("description") else {
            // The list or map around a key or a value describes it.
            assert!(
                path.ends_with("[]") || path.ends_with("{}"),
                "{path} has no description"
            );
            return;
        };
        let description = description.as_str().unwrap();
        assert!(
            description.ends_with(['.', ')']),
            "{path}: no sentence at the end of {description}"
        );
        for markup in ["`", "](", "[Self", "::"] {
            assert!(
                !description.replace("fd00::", "").contains(markup),
                "{path}: rustdoc markup in {description}"
            );
        }
    });
}

#[test]
fn every_list_map_and_string_has_a_limit() {
    let mut limited = 0;
    each_schema(&mut |path, schema| {
        let limit = match schema["type"].as_str().unwrap() {
            "string" if schema.get("enum").is_some() => return,
            "string" => "maxLength",
            "array" => "maxItems",
            "object" if schema.get("additionalProperties").is_some() => "maxProperties",
            _ => return,
        };
        assert!(schema[limit].is_u64(), "{path} has no {limit}");
        limited += 1;
    });
    assert!(limited > 20, "{limited}");
}

fn root(definition: &Value) -> &Value {
    &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// Visits every schema with its path, in which `[]` stands for the items of a list and `{}` for the
/// values of a map.
fn each_schema(visit: &mut dyn FnMut(&str, &Value)) {
    descend("", root(&pps_crdgen::definition()), visit);
}

fn descend(path: &str, schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        descend(&format!("{path}.{name}"), field, visit);
    }
    for (key, sign) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(below) = schema.get(key) {
            descend(&format!("{path}{sign}"), below, visit);
        }
    }
}
