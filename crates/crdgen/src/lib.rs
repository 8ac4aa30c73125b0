//! The `CustomResourceDefinition` of PersistentPodState, generated from the types of `pps-core`.
//!
//! schemars generates JSON Schemas of the spec and the status. [`definition`] makes them
//! *structural*, as the API server needs them, and their descriptions plain text for `kubectl
//! explain`.
//!
//! There are no defaults: the API server would write them into the stored object, which would then
//! not show whether a user chose a value, and `OpenKruise`'s definition has none.

use pps_core::pps::{API_VERSIONS, GROUP, KIND, LIST_KIND, PLURAL, Spec, Status, VERSION};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

const HEADER: &str = "\
# Generated from the types in crates/core/src/pps: do not edit.
# To regenerate it: make crd
";

const DESCRIPTION: &str = "\
A PersistentPodState names a workload whose Pods return to where they ran: to their zone or node, \
                           and with the annotations that give them their address. Once a Pod is \
                           Ready, the sidecar records its state in the status. When a Pod of the \
                           same name is created again, the policy injects that state. You can \
                           write the object yourself, or annotate the workload with \
                           kruise.io/auto-generate-persistent-pod-state to have it generated.";

/// The definition as YAML, with a comment that says how it was generated.
pub fn yaml() -> Result<String, yaml_serde::Error> {
    Ok(format!("{HEADER}{}", yaml_serde::to_string(&definition())?))
}

/// The definition, as an object of `apiextensions.k8s.io/v1`.
///
/// Its keys are in alphabetical order, with any features of `serde_json`.
pub fn definition() -> Value {
    let versions =
        API_VERSIONS.map(|version| version.trim_start_matches(GROUP).trim_start_matches('/'));
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
            "versions": versions.map(version),
            // The null removes the webhook of a definition that this one replaces: OpenKruise's,
            // after v1.9.0.
            "conversion": {"strategy": "None", "webhook": null},
        },
    });
    definition.sort_all_objects();
    definition
}

/// A served version. All have the same schema, so that an object needs no conversion between them.
fn version(name: &str) -> Value {
    json!({
        "name": name,
        "served": true,
        "storage": name == VERSION,
        "subresources": {"status": {}},
        "additionalPrinterColumns": printer_columns(),
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "description": DESCRIPTION,
            "required": ["spec"],
            "properties": {"spec": schema_of::<Spec>(), "status": schema_of::<Status>()},
        }},
    })
}

fn printer_columns() -> Value {
    json!([
        {"name": "Kind", "type": "string", "jsonPath": ".spec.targetRef.kind",
            "description": "Kind of the workload"},
        {"name": "Target", "type": "string", "jsonPath": ".spec.targetRef.name",
            "description": "Name of the workload"},
        {"name": "Recorded", "type": "integer", "jsonPath": ".status.recorded",
            "description": "How many Pods have a recorded state"},
        {"name": "Desired", "type": "integer", "jsonPath": ".status.desired",
            "description": "How many Pods the workload wants"},
        {"name": "Status", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Recording\")].reason",
            "description": "How far recording has come, or what keeps it from continuing"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ])
}

fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    structural(&mut schema);
    schema
}

/// Turns a schema from schemars into one that an API server accepts and people can read.
fn structural(schema: &mut Value) {
    let Value::Object(schema) = schema else {
        return;
    };
    for keyword in ["title", "nullable", "default"] {
        schema.remove(keyword);
    }
    unwrap_option(schema);
    merge_enum(schema);
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = prose(description);
    }

    for (_, field) in schema
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flatten()
    {
        structural(field);
    }
    for below in ["items", "additionalProperties"] {
        if let Some(below) = schema.get_mut(below) {
            structural(below);
        }
    }
}

/// Turns `anyOf` a schema and `null` into that schema, with the field's description.
fn unwrap_option(schema: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = schema.remove("anyOf") else {
        return;
    };
    let is_null = |choice: &Value| choice["enum"] == json!([null]) || choice["type"] == "null";
    for choice in choices.into_iter().filter(|choice| !is_null(choice)) {
        let Value::Object(choice) = choice else {
            continue;
        };
        for (key, value) in choice {
            schema.entry(key).or_insert(value);
        }
    }
}

/// Turns `oneOf` single values into one list of values. Their descriptions follow that of the
/// field.
fn merge_enum(schema: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = schema.remove("oneOf") else {
        return;
    };
    let mut values = Vec::new();
    let mut paragraphs: Vec<String> = schema
        .get("description")
        .and_then(Value::as_str)
        .map(str::to_owned)
        .into_iter()
        .collect();
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

/// A doc comment as plain text: one line for each paragraph, without backticks.
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

    fn to_structural(mut schema: Value) -> Value {
        structural(&mut schema);
        schema
    }

    #[test]
    fn removes_titles_nulls_and_defaults_at_every_depth() {
        let noisy = json!({"type": "string", "title": "T", "nullable": true, "default": ""});
        let schema =
            json!({"properties": {"a": {"items": noisy}, "b": {"additionalProperties": noisy}}});
        let clean = json!({"type": "string"});
        let expected =
            json!({"properties": {"a": {"items": clean}, "b": {"additionalProperties": clean}}});
        assert_eq!(to_structural(schema), expected);
    }
}
