//! The chart's README has a table of all values, generated from the comments of values.yaml.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::{is_update, path, read, yaml};

const VALUES: &str = "charts/persistent-pod-state/values.yaml";
const SCHEMA: &str = "charts/persistent-pod-state/values.schema.json";
const README: &str = "charts/persistent-pod-state/README.md";
const START: &str =
    "<!-- Generated from values.yaml. To update it: UPDATE=1 cargo test --test metadata -->\n";
const END: &str = "<!-- End of the values -->\n";

/// A value: its path, and the comment above it.
struct Described {
    path: String,
    description: String,
}

/// All keys of the file with their comments. From the first line of an example on, a comment is an
/// example: a line that begins with a dash or an indentation, or that sets a key.
fn described(text: &str) -> Vec<Described> {
    let mut found = Vec::new();
    let mut path: Vec<(usize, String)> = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    // The content of a list or of a text over several lines is no value of its own.
    let mut list = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim_start();
        if line.is_empty() {
            comment.clear();
            continue;
        }
        if let Some(text) = line.strip_prefix('#') {
            comment.push(text.strip_prefix(' ').unwrap_or(text));
            continue;
        }
        if line.starts_with("- ") {
            list = list.or(Some(indent));
        } else if list.is_some_and(|list| indent <= list) {
            list = None;
        }
        if list.is_some() {
            continue;
        }
        let Some((key, _)) = line.split_once(':') else {
            continue;
        };
        path.retain(|(outer, _)| *outer < indent);
        path.push((indent, key.trim_matches('"').to_owned()));
        let is_example = |line: &&str| line.starts_with(['-', ' ']) || line.starts_with("---");
        let sentences: Vec<&str> = comment
            .drain(..)
            .take_while(|line| !is_example(line))
            .collect();
        found.push(Described {
            path: path
                .iter()
                .map(|(_, key)| key.as_str())
                .collect::<Vec<_>>()
                .join("."),
            description: sentences.join(" "),
        });
    }
    found
}

/// Whether the chart gives a meaning to what is below; else the map is one value.
fn has_known_fields(schema: &Value, definitions: &Value, path: &str) -> bool {
    let mut schema = schema;
    for key in path.split('.') {
        if let Some(name) = schema["$ref"].as_str() {
            schema = &definitions[name.trim_start_matches("#/definitions/")];
        }
        schema = &schema["properties"][key];
    }
    if let Some(name) = schema["$ref"].as_str() {
        schema = &definitions[name.trim_start_matches("#/definitions/")];
    }
    // Kubernetes has more fields in a security context than the schema checks.
    schema["properties"].is_object() && !path.to_lowercase().ends_with("securitycontext")
}

fn table() -> String {
    let text = read(VALUES);
    let values = yaml(&text);
    let schema: Value = serde_json::from_str(&read(SCHEMA)).unwrap();
    let mut rows = String::from("| value | default | |\n|---|---|---|\n");
    let mut inside: Option<String> = None;
    for Described { path, description } in described(&text) {
        if inside
            .as_ref()
            .is_some_and(|outer| path.starts_with(outer.as_str()))
        {
            continue;
        }
        let pointer = format!("/{}", path.replace('.', "/"));
        let default = values
            .pointer(&pointer)
            .unwrap_or_else(|| panic!("{VALUES} has no {path}"));
        let has_rows = default.as_object().is_some_and(|fields| !fields.is_empty());
        if has_rows && has_known_fields(&schema, &schema["definitions"], &path) {
            continue;
        }
        inside = default.is_object().then(|| format!("{path}."));
        assert!(
            !description.is_empty(),
            "{VALUES}: {path} has no comment above it that says what it is"
        );
        let cell = |text: &str| text.replace('|', "\\|");
        writeln!(
            rows,
            "| `{path}` | `{}` | {} |",
            cell(&default.to_string()),
            cell(&description)
        )
        .unwrap();
    }
    rows
}

#[test]
fn the_readme_of_the_chart_has_a_table_of_all_values() {
    let readme = read(README);
    let (before, rest) = readme
        .split_once(START)
        .unwrap_or_else(|| panic!("{README} has no line {START}"));
    let (_, after) = rest
        .split_once(END)
        .unwrap_or_else(|| panic!("{README} has no line {END}"));
    let expected = format!("{before}{START}\n{}\n{END}{after}", table());
    if is_update() {
        fs::write(path(README), expected).unwrap();
        return;
    }
    assert!(
        readme == expected,
        "{README} is out of date with values.yaml. To update it: UPDATE=1 cargo test --test \
         metadata"
    );
}
