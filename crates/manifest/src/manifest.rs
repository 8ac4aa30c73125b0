//! Writes objects as YAML, as `kubectl get -o yaml` does.

use std::fmt::Write;

use serde_json::Value;

use crate::yaml::is_read_as_string;
use pps_core::is_hidden;

/// An object as YAML. Fields are in the order in which people write them: what an object is, then
/// its metadata and its spec.
pub fn to_yaml(object: &Value) -> String {
    let mut text = String::new();
    match object {
        Value::Object(map) if !map.is_empty() => fields(&mut text, object, 0, false),
        Value::Array(list) if !list.is_empty() => items(&mut text, object, 0),
        scalar => {
            text.push_str(&inline(scalar));
            text.push('\n');
        }
    }
    text
}

const FIRST: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "name"];

fn fields(text: &mut String, object: &Value, indent: usize, first_is_inline: bool) {
    let Some(map) = object.as_object() else {
        return;
    };
    let mut keys: Vec<&String> = map.keys().collect();
    keys.sort_by_key(|key| (rank(key), *key));
    for (index, key) in keys.into_iter().enumerate() {
        if index > 0 || !first_is_inline {
            text.push_str(&" ".repeat(indent));
        }
        text.push_str(&quoted(key));
        text.push(':');
        below(text, &map[key], indent);
    }
}

/// The place of a key among the keys of its object.
fn rank(key: &str) -> usize {
    FIRST
        .iter()
        .position(|first| *first == key)
        .unwrap_or(FIRST.len())
}

fn items(text: &mut String, list: &Value, indent: usize) {
    for item in list.as_array().into_iter().flatten() {
        text.push_str(&" ".repeat(indent));
        text.push('-');
        match item {
            Value::Object(map) if !map.is_empty() => {
                text.push(' ');
                fields(text, item, indent + 2, true);
            }
            // A list in a list is rare enough to be shown in flow style.
            _ => below_inline(text, item, indent + 2),
        }
    }
}

/// What follows a key and its colon.
fn below(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            text.push('\n');
            fields(text, value, indent + 2, false);
        }
        // Lists are not indented below their key, as kubectl does.
        Value::Array(list) if !list.is_empty() => {
            text.push('\n');
            items(text, value, indent);
        }
        _ => below_inline(text, value, indent + 2),
    }
}

fn below_inline(text: &mut String, value: &Value, indent: usize) {
    text.push(' ');
    match value {
        Value::String(string) if is_block(string) => block(text, string, indent),
        _ => {
            text.push_str(&inline(value));
            text.push('\n');
        }
    }
}

/// Whether a string is shown in block style.
fn is_block(string: &str) -> bool {
    string.trim_end_matches('\n').contains('\n')
        && string.chars().all(|c| c == '\n' || is_printable(c))
        && !string.starts_with([' ', '\n'])
        && string
            .lines()
            .all(|line| line.is_empty() || !line.ends_with(' '))
}

fn block(text: &mut String, string: &str, indent: usize) {
    let content = string.trim_end_matches('\n');
    text.push_str(match string.len() - content.len() {
        0 => "|-\n",
        1 => "|\n",
        _ => "|+\n",
    });
    for line in string.strip_suffix('\n').unwrap_or(string).split('\n') {
        if !line.is_empty() {
            text.push_str(&" ".repeat(indent));
            text.push_str(line);
        }
        text.push('\n');
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(string) => quoted(string),
        other => json(other),
    }
}

/// JSON, which is YAML too. Escapes the characters that YAML 1.1 forbids or takes for the end of a
/// line, and the ones that a terminal obeys or hides.
fn json(value: &Value) -> String {
    let mut text = String::new();
    for c in value.to_string().chars() {
        let code = u32::from(c);
        let _ = match c {
            _ if is_printable(c) => text.write_char(c),
            _ if code > 0xffff => write!(text, "\\U{code:08x}"),
            _ => write!(text, "\\u{code:04x}"),
        };
    }
    text
}

/// Whether YAML 1.1 allows a character, and a terminal shows it.
fn is_printable(c: char) -> bool {
    !is_hidden(c) && !matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// A string in plain style if it is read as the same string, else in double quotes.
fn quoted(string: &str) -> String {
    let is_plain = string.starts_with(|c: char| c.is_ascii_alphanumeric() || "/._".contains(c))
        && string
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "/._-+@%=,()$; :'".contains(c))
        && !string.contains(": ")
        && !string.ends_with([':', ' '])
        && !string.starts_with("...")
        && is_read_as_string(string);
    if is_plain {
        string.to_owned()
    } else {
        json(&string.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::yaml;

    #[test]
    fn a_pod_looks_as_kubectl_shows_it() {
        let pod = json!({
            "metadata": {"name": "db-0", "annotations": {"example.io/ip": "10.0.0.1", "empty": "", "yes": "yes"}},
            "spec": {
                "containers": [{"name": "db", "image": "postgres:17", "args": ["-c", "a: b", "1"], "ports": [{"containerPort": 5432}]}],
                "nodeSelector": {}, "volumes": [], "priority": 0, "script": "set -e\necho ok\n",
            },
            "kind": "Pod", "apiVersion": "v1",
        });
        let expected = "\
apiVersion: v1
kind: Pod
metadata:
  name: db-0
  annotations:
    empty: \"\"
    example.io/ip: 10.0.0.1
    \"yes\": \"yes\"
spec:
  containers:
  - name: db
    args:
    - \"-c\"
    - \"a: b\"
    - \"1\"
    image: postgres:17
    ports:
    - containerPort: 5432
  nodeSelector: {}
  priority: 0
  script: |
    set -e
    echo ok
  volumes: []
";
        assert_eq!(to_yaml(&pod), expected);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let string = prop_oneof![
            "[ -~]{0,12}",
            "[a-z:# \\n-]{0,12}",
            "\\PC{0,6}",
            Just("0x1F".to_owned()),
            Just("1e3".to_owned()),
            Just("null".to_owned()),
            Just("on".to_owned()),
            Just("2020-01-01".to_owned()),
            Just("...".to_owned()),
            Just("---".to_owned()),
            Just("\u{85}\u{2028}a\nb".to_owned()),
            hidden(),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            string.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(string.clone(), inner, 0..5).prop_map(|map| {
                    Value::Object(map.into_iter().filter(|(key, _)| key != "<<").collect())
                }),
            ]
        })
    }

    /// Texts with characters that a terminal obeys or hides, in one line and in several.
    fn hidden() -> impl Strategy<Value = String> {
        let c = prop_oneof![
            any::<char>(),
            prop::sample::select(vec![
                '\u{1b}', '\u{7f}', '\u{9b}', '\u{ad}', '\u{202e}', '\u{2066}'
            ]),
            prop::sample::select(vec![
                '\u{feff}',
                '\u{e0041}',
                '\u{fffd}',
                '\\',
                '"',
                '\n',
                'a',
                ' '
            ]),
        ];
        prop::collection::vec(c, 0..8).prop_map(String::from_iter)
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        let text = to_yaml(
            &json!({"a\u{9b}": "\u{202e}x\u{e0041}", "b": "1\n\u{202e}2\n", "c": "1\n2\n"}),
        );
        let expected = r#""a\u009b": "\u202ex\U000e0041"
b: "1\n\u202e2\n"
c: |
  1
  2
"#;
        assert_eq!(text, expected);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(value in any_value()) {
            let text = to_yaml(&value);
            prop_assert!(!text.chars().any(|c| is_hidden(c) && c != '\n'), "{:?}", text);
            let read = yaml::parse_one(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            prop_assert_eq!(&read.value, &value, "{}", text);
            let others: Value = yaml_serde::from_str(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            prop_assert_eq!(&others, &value, "{}", text);
        }
    }
}
