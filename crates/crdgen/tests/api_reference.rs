//! `docs/reference/api.md` says what the definition says, and names the annotations and labels that
//! the programs read. `UPDATE=1` writes it again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::path::PathBuf;
use std::{env, fs};

use pps_admission::deletion::PROTECTION_LABEL;
use pps_core::annotations::{
    INJECTED_ANNOTATION, INJECTION_LABEL, MOVE_ANNOTATION, RECORD_ANNOTATION,
};
use pps_core::pps::{NodeDeletionPolicy, RecordingPolicy, RetentionPolicy};
use pps_recorder::generate::{
    AUTO_GENERATE, FIELD_MANAGER, MANAGED_BY_LABEL, POD_ANNOTATIONS, PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
};
use serde_json::Value;

const DOCUMENT: &str = "docs/reference/api.md";
/// What follows is generated.
const MARK: &str = "<!-- What follows is made from the definition: UPDATE=1 cargo test -p \
                    pps-crdgen --test api_reference -->\n";

/// A key of an annotation or a label, who sets it where, and what it does.
struct Key {
    name: &'static str,
    place: &'static str,
    set_by: &'static str,
    meaning: &'static str,
}

const KEYS: [Key; 9] = [
    Key {
        name: AUTO_GENERATE,
        place: "annotation of a workload",
        set_by: "you",
        meaning: "`\"true\"`: the sidecar generates a PersistentPodState from the next three annotations.",
    },
    Key {
        name: REQUIRED_TOPOLOGY,
        place: "annotation of a workload",
        set_by: "you",
        meaning: "Keys of node labels, separated by commas: `spec.requiredPersistentTopology`.",
    },
    Key {
        name: PREFERRED_TOPOLOGY,
        place: "annotation of a workload",
        set_by: "you",
        meaning: "Keys of node labels, separated by commas: one term of `spec.preferredPersistentTopology` with weight 100.",
    },
    Key {
        name: POD_ANNOTATIONS,
        place: "annotation of a workload",
        set_by: "you",
        meaning: "Keys of annotations, separated by commas: `spec.persistentPodAnnotations`. `KEY=PodIPsJSON` and `KEY=PodIPsCSV` set `valueFrom`.",
    },
    Key {
        name: RECORD_ANNOTATION,
        place: "annotation of a Pod",
        set_by: "you, `kubectl pps move`",
        meaning: "`\"false\"`: the Pod is not recorded, and its recorded state stays unchanged.",
    },
    Key {
        name: INJECTED_ANNOTATION,
        place: "annotation of a Pod",
        set_by: "the policy",
        meaning: "The name of the PersistentPodState whose recorded state the Pod was given.",
    },
    Key {
        name: MOVE_ANNOTATION,
        place: "annotation of a Pod",
        set_by: "`kubectl pps move`",
        meaning: "The Pod is being moved; whether it was `recorded` or `exempt` before.",
    },
    Key {
        name: INJECTION_LABEL,
        place: "label of a namespace",
        set_by: "you",
        meaning: "`enabled` or `disabled`: whether the namespace is in [scope](../security.md#scope).",
    },
    Key {
        name: PROTECTION_LABEL,
        place: "label of a PersistentPodState",
        set_by: "you",
        meaning: "`Always` or `Cascading`: [protection from deletion](../security.md#protection-from-deletion).",
    },
];

/// The values that a missing field stands for.
fn defaults() -> BTreeMap<&'static str, String> {
    fn name(value: impl Debug) -> String {
        format!("{value:?}")
    }
    BTreeMap::from([
        (
            "spec.persistentPodStateRetentionPolicy",
            name(RetentionPolicy::default()),
        ),
        (
            "spec.nodeDeletionPolicy",
            name(NodeDeletionPolicy::default()),
        ),
        ("spec.recordingPolicy", name(RecordingPolicy::default())),
    ])
}

fn markdown() -> String {
    let definition = pps_crdgen::definition();
    let versions = definition["spec"]["versions"].as_array().unwrap();
    let schema = &versions[0]["schema"];
    assert!(
        versions.iter().all(|version| version["schema"] == *schema),
        "the versions differ, and the page shows one schema"
    );

    let mut page =
        String::from("\n## Versions\n\n| `apiVersion` | served | stored |\n|---|---|---|\n");
    let group = definition["spec"]["group"].as_str().unwrap();
    for version in versions {
        let yes = |field: &str| if version[field] == true { "yes" } else { "no" };
        let name = version["name"].as_str().unwrap();
        let (served, stored) = (yes("served"), yes("storage"));
        let _ = writeln!(page, "| `{group}/{name}` | {served} | {stored} |");
    }
    page.push_str(
        "\nAll versions have the same fields, and an object is not converted between them.\n",
    );

    let root = &schema["openAPIV3Schema"];
    for part in ["spec", "status"] {
        describe_object(&mut page, part, &root["properties"][part]);
    }

    page.push_str(
        "\n## Columns\n\nOf `kubectl get pps`:\n\n| column | from | meaning |\n|---|---|---|\n",
    );
    for column in versions[0]["additionalPrinterColumns"].as_array().unwrap() {
        let of = |field: &str| column[field].as_str().unwrap_or_default();
        let name = of("name").to_uppercase();
        let (path, meaning) = (of("jsonPath"), of("description"));
        let _ = writeln!(page, "| {name} | `{path}` | {meaning} |");
    }

    page.push_str(
        "\n## Annotations and labels\n\n| key | on | set by | meaning |\n|---|---|---|---|\n",
    );
    for Key {
        name,
        place,
        set_by,
        meaning,
    } in KEYS
    {
        let _ = writeln!(page, "| `{name}` | {place} | {set_by} | {meaning} |");
    }
    let _ = writeln!(
        page,
        "\nA generated object has the label `{MANAGED_BY_LABEL}: {FIELD_MANAGER}`, and the field manager \
         `{FIELD_MANAGER}` owns a part of its spec."
    );
    page
}

/// A section for an object with fields, and then one for each object in it.
fn describe_object(page: &mut String, path: &str, schema: &Value) {
    let level = if path.contains('.') { "###" } else { "##" };
    let _ = writeln!(page, "\n{level} {path}\n\n{}", text(schema, "\n\n"));
    page.push_str("\n| field | type and limits | |\n|---|---|---|\n");
    let fields = schema["properties"].as_object().unwrap();
    let is_required = |name: &str| {
        schema["required"]
            .as_array()
            .is_some_and(|names| names.iter().any(|one| one == name))
    };
    for (name, field) in fields {
        let mut kind = kind(field);
        if is_required(name) {
            kind.insert_str(0, "required; ");
        }
        if let Some(default) = defaults().get(format!("{path}.{name}").as_str()) {
            let _ = write!(kind, "; default `{default}`");
            let said = format!("The default is {default}.");
            assert!(text(field, " ").contains(&said), "{path}.{name}: {said}");
        }
        let _ = writeln!(page, "| `{name}` | {kind} | {} |", text(field, "<br>"));
    }
    let mut rules = String::new();
    describe_rules(&mut rules, "", schema);
    for (name, field) in fields.iter().filter(|(_, field)| inner(field).is_none()) {
        describe_rules(&mut rules, name, field);
    }
    if !rules.is_empty() {
        let _ = write!(
            page,
            "\nThe API server refuses an object unless:\n\n{rules}"
        );
    }
    for (name, field) in fields {
        if let Some((sign, below)) = inner(field) {
            describe_object(page, &format!("{path}.{name}{sign}"), below);
        }
    }
}

/// The object with fields in a field: itself, the items of its list, or the values of its map.
fn inner(field: &Value) -> Option<(&'static str, &Value)> {
    let places = [
        ("", field),
        ("[]", &field["items"]),
        ("[name]", &field["additionalProperties"]),
    ];
    places
        .into_iter()
        .find(|(_, schema)| schema["properties"].is_object())
}

fn text(schema: &Value, between: &str) -> String {
    let text = schema["description"].as_str().unwrap();
    text.replace("\n\n", between)
        .replace('|', "\\|")
        .replace('*', "\\*")
}

/// A schema's type and limits.
fn kind(schema: &Value) -> String {
    let limit = |name: &str| schema[name].as_u64();
    let between = |least: Option<u64>, most: Option<u64>, what: &str| match (least, most) {
        (Some(least), Some(most)) => format!(", {least} to {most} {what}"),
        (None, Some(most)) => format!(", at most {most} {what}"),
        _ => String::new(),
    };
    match schema["type"].as_str().unwrap() {
        "string" => {
            if let Some(values) = schema["enum"].as_array() {
                let values: Vec<String> = values
                    .iter()
                    .map(|value| format!("`{}`", value.as_str().unwrap()))
                    .collect();
                return values.join(", ");
            }
            let name = schema["format"].as_str().unwrap_or("string");
            let length = between(limit("minLength"), limit("maxLength"), "characters");
            format!("{name}{length}")
        }
        "integer" => {
            let range = match (limit("minimum"), limit("maximum")) {
                (Some(least), Some(most)) => format!(", {least} to {most}"),
                _ => String::new(),
            };
            format!("{}{range}", schema["format"].as_str().unwrap())
        }
        "array" => {
            let size = between(limit("minItems"), limit("maxItems"), "items");
            format!("list{size}; each: {}", kind(&schema["items"]))
        }
        "object" if schema["additionalProperties"].is_object() => {
            let size = between(None, limit("maxProperties"), "keys");
            format!(
                "map{size}; each value: {}",
                kind(&schema["additionalProperties"])
            )
        }
        "object" => "object".to_owned(),
        other => panic!("a field of type {other}"),
    }
}

fn describe_rules(rules: &mut String, field: &str, schema: &Value) {
    let list = schema["x-kubernetes-validations"].as_array();
    for rule in list.into_iter().flatten() {
        let cel = rule["rule"].as_str().unwrap();
        let field = if field.is_empty() {
            String::new()
        } else {
            format!("`{field}`: ")
        };
        let _ = match rule["message"].as_str() {
            Some(message) => writeln!(rules, "- {field}`{cel}`\\\n  \"{message}\""),
            None => writeln!(
                rules,
                "- {field}`{cel}`\\\n  message: `{}`",
                rule["messageExpression"].as_str().unwrap()
            ),
        };
    }
}

#[test]
fn the_document_says_what_the_definition_says() {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../..", DOCUMENT]
        .iter()
        .collect();
    let document = fs::read_to_string(&path).unwrap_or_default();
    let (by_hand, _) = document
        .split_once(MARK)
        .unwrap_or_else(|| panic!("{DOCUMENT} lacks the line {MARK}"));
    let generated = format!("{by_hand}{MARK}{}", markdown());
    if env::var_os("UPDATE").is_some_and(|value| value == "1") {
        fs::write(&path, &generated).unwrap();
        return;
    }
    assert!(
        document == generated,
        "{DOCUMENT} is out of date: UPDATE=1 cargo test -p pps-crdgen --test api_reference"
    );
}
