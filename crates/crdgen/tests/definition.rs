//! Properties of the generated definition.

use std::path::Path;
use std::{env, fs};

use pps_core::limits;
use serde_json::{Value, json};

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
fn schema_is_structural() {
    each_schema(&mut |path, schema| {
        assert!(schema["type"].is_string(), "{path} has no type");
        for key in [
            "$ref", "anyOf", "oneOf", "allOf", "not", "nullable", "default", "title", "$schema",
        ] {
            assert!(schema.get(key).is_none(), "{path} has {key}");
        }
        if schema["type"] == "integer" {
            let format = schema["format"].as_str().unwrap_or_default();
            assert!(
                ["int32", "int64"].contains(&format),
                "{path} has the format {format:?}"
            );
        }
    });
}

#[test]
fn schema_has_limits_and_enum_values() {
    let definition = pps_crdgen::definition();
    let spec = &root(&definition)["properties"]["spec"]["properties"];
    let preferred = &spec["preferredPersistentTopology"]["items"]["properties"];
    assert_eq!(preferred["weight"]["minimum"], 1);
    assert_eq!(preferred["weight"]["maximum"], 100);
    for term in [
        &preferred["preference"],
        &spec["requiredPersistentTopology"],
    ] {
        for spelling in ["nodeTopologyKeys", "keys"] {
            assert_eq!(term["properties"][spelling]["minItems"], 1);
            assert_eq!(
                term["properties"][spelling]["maxItems"],
                limits::MAX_TOPOLOGY_KEYS
            );
        }
        assert_eq!(term.get("required"), None, "either spelling will do");
    }
    let retention = &spec["persistentPodStateRetentionPolicy"];
    assert_eq!(
        retention["enum"],
        json!(["WhenScaled", "WhenDeleted", "Retain"])
    );
    assert_eq!(
        spec["recordingPolicy"]["enum"],
        json!(["Always", "IfNotPresent"])
    );

    let status = &root(&definition)["properties"]["status"]["properties"];
    assert_eq!(status["podStates"]["x-kubernetes-map-type"], "atomic");
    assert_eq!(status["conditions"]["x-kubernetes-list-type"], "map");
    assert_eq!(
        status["conditions"]["x-kubernetes-list-map-keys"],
        json!(["type"])
    );
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

#[test]
fn serves_two_versions_with_one_schema_and_stores_the_first() {
    let definition = pps_crdgen::definition();
    let [v1alpha1, v1beta1] = &definition["spec"]["versions"].as_array().unwrap()[..] else {
        panic!()
    };
    assert_eq!(
        [&v1alpha1["name"], &v1beta1["name"]],
        ["v1alpha1", "v1beta1"]
    );
    assert_eq!([&v1alpha1["storage"], &v1beta1["storage"]], [true, false]);
    for field in [
        "served",
        "schema",
        "subresources",
        "additionalPrinterColumns",
    ] {
        assert_eq!(v1alpha1[field], v1beta1[field], "{field}");
    }
    // Without the null, the definition could not replace one with a webhook: neither kubectl apply
    // nor a server-side apply would remove it, and the API server refuses a webhook beside the
    // strategy None.
    let conversion = definition["spec"]["conversion"].as_object().unwrap();
    assert_eq!(conversion.get("webhook"), Some(&Value::Null));
    assert_eq!(conversion["strategy"], "None");
}

#[test]
fn kubectl_get_shows_progress_and_the_reason_of_the_recording_condition() {
    let definition = pps_crdgen::definition();
    let columns = definition["spec"]["versions"][0]["additionalPrinterColumns"]
        .as_array()
        .unwrap();
    let names: Vec<&str> = columns
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["Kind", "Target", "Recorded", "Desired", "Status", "Age"]
    );
    assert_eq!(
        columns[4]["jsonPath"],
        r#".status.conditions[?(@.type=="Recording")].reason"#
    );
    assert_eq!(columns[4]["type"], "string");
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
