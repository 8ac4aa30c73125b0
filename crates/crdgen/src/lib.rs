//! The `CustomResourceDefinition` of PersistentPodState, made from the types of `pps-core`.
//!
//! schemars describes Rust types; what comes out of it is JSON Schema, and not yet what an API server
//! takes or what reads well in `kubectl explain`. [`definition`] puts the two schemas into a
//! definition and a pass over every field bridges the difference:
//!
//! - an API server wants *structural* schemas: a type for every field, nothing by reference;
//! - an `Option` is an optional field here, not one that may be `null`;
//! - an enum is a string with the allowed values; what each of them means moves into the description;
//! - descriptions are prose: no hard line breaks, no rustdoc markup;
//! - there are no defaults.
//!
//! # Why there are no defaults
//!
//! A default in the schema is written into the stored object. Then nobody could tell any more whether
//! a user chose a policy or left it open, and a generated object would hold fields that its workload
//! does not name and that no field manager owns. Under `OpenKruise`'s definition, which has no defaults,
//! the same object would look different. The descriptions name what holds if a field is not set.

use pps_core::pps::{GROUP, KIND, LIST_KIND, PLURAL, Spec, Status, VERSION};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// What stands on top of the file that [`yaml`] makes.
const HEADER: &str = "\
# Generated from crates/core/src/pps.rs: do not edit.
# To make it anew: UPDATE=1 cargo test -p pps-crdgen
";

const DESCRIPTION: &str = "\
A PersistentPodState names a workload whose Pods are to come back to where they were: to the zone or \
the node, and with the annotations that gave them their address. The sidecar records in the status \
where each Pod runs once it is ready; the policy gives that to a Pod of the same name when it is \
created again. It can be written by hand, or it is generated for a workload that bears the annotation \
kruise.io/auto-generate-persistent-pod-state.";

/// The definition as YAML, with a head that says how it was made.
pub fn yaml() -> Result<String, yaml_serde::Error> {
    Ok(format!("{HEADER}{}", yaml_serde::to_string(&definition())?))
}

/// The definition, as an object of `apiextensions.k8s.io/v1`.
///
/// Its keys are in alphabetical order, whatever `serde_json` was built with.
pub fn definition() -> Value {
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{PLURAL}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": KIND,
                "listKind": LIST_KIND,
                "plural": PLURAL,
                "singular": KIND.to_lowercase(),
                "shortNames": ["pps"],
            },
            "scope": "Namespaced",
            "versions": [{
                "name": VERSION,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": printer_columns(),
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": DESCRIPTION,
                    "required": ["spec"],
                    "properties": {"spec": schema_of::<Spec>(), "status": schema_of::<Status>()},
                }},
            }],
        },
    });
    definition.sort_all_objects();
    definition
}

/// The columns of `kubectl get pps`.
fn printer_columns() -> Value {
    json!([
        {"name": "Kind", "type": "string", "jsonPath": ".spec.targetRef.kind",
            "description": "Kind of the workload"},
        {"name": "Target", "type": "string", "jsonPath": ".spec.targetRef.name",
            "description": "Name of the workload"},
        {"name": "Recorded", "type": "integer", "jsonPath": ".status.recorded",
            "description": "How many Pods are remembered"},
        {"name": "Desired", "type": "integer", "jsonPath": ".status.desired",
            "description": "How many Pods the workload wants"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ])
}

fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    structural(&mut schema);
    schema
}

/// Turns a schema as schemars makes it into one that an API server takes and people can read.
fn structural(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    for noise in ["title", "nullable", "default"] {
        schema.remove(noise);
    }
    unwrap_option(schema);
    merge_enum(schema);
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = prose(description);
    }

    for (_, field) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        structural(field);
    }
    for below in ["items", "additionalProperties"] {
        if let Some(below) = schema.get_mut(below) {
            structural(below);
        }
    }
}

/// `anyOf` a schema and `null` becomes that schema, with the description of the field.
fn unwrap_option(schema: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = schema.remove("anyOf") else { return };
    let is_null = |choice: &Value| choice["enum"] == json!([null]) || choice["type"] == "null";
    for choice in choices.into_iter().filter(|choice| !is_null(choice)) {
        let Value::Object(choice) = choice else { continue };
        for (key, value) in choice {
            schema.entry(key).or_insert(value);
        }
    }
}

/// `oneOf` single values, each with a description, becomes one list of values; what they mean follows
/// the description of the field.
fn merge_enum(schema: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = schema.remove("oneOf") else { return };
    let mut values = Vec::new();
    let mut paragraphs: Vec<String> =
        schema.get("description").and_then(Value::as_str).map(str::to_owned).into_iter().collect();
    for variant in variants {
        let value = variant["enum"][0].clone();
        if let (Some(name), Some(meaning)) = (value.as_str(), variant["description"].as_str()) {
            paragraphs.push(format!("{name}: {meaning}"));
        }
        values.push(value);
    }
    schema.insert("type".into(), "string".into());
    schema.insert("enum".into(), values.into());
    schema.insert("description".into(), paragraphs.join("\n\n").into());
}

/// A doc comment as running text: one line for each paragraph, no backticks.
fn prose(doc: &str) -> String {
    let paragraphs = doc.split("\n\n").map(|paragraph| {
        let lines: Vec<&str> = paragraph.lines().map(str::trim).collect();
        lines.join(" ").replace('`', "")
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_structural(mut schema: Value) -> Value {
        structural(&mut schema);
        schema
    }

    #[test]
    fn an_option_is_what_it_holds() {
        let schema = json!({
            "description": "of the field",
            "anyOf": [{"type": "string", "description": "of the type"}, {"enum": [null], "nullable": true}],
        });
        assert_eq!(made_structural(schema), json!({"type": "string", "description": "of the field"}));
    }

    #[test]
    fn an_enum_keeps_what_its_values_mean() {
        let schema = json!({
            "description": "Which way.",
            "oneOf": [
                {"type": "string", "enum": ["Left"], "description": "Not\nright."},
                {"type": "string", "enum": ["Right"], "description": "Not `Left`."},
            ],
        });
        let expected = json!({
            "type": "string",
            "enum": ["Left", "Right"],
            "description": "Which way.\n\nLeft: Not right.\n\nRight: Not Left.",
        });
        assert_eq!(made_structural(schema), expected);
    }

    #[test]
    fn noise_goes_at_every_depth() {
        let noisy = json!({"type": "string", "title": "T", "nullable": true, "default": ""});
        let schema = json!({"properties": {"a": {"items": noisy}, "b": {"additionalProperties": noisy}}});
        let clean = json!({"type": "string"});
        let expected = json!({"properties": {"a": {"items": clean}, "b": {"additionalProperties": clean}}});
        assert_eq!(made_structural(schema), expected);
    }
}
