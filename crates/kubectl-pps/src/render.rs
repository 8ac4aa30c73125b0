//! What the user sees: tables, colours, and text that a terminal can show.

pub mod explanation;
pub mod export;
pub mod forecast;
pub mod forget;
pub mod import;
pub mod move_pod;
pub mod status;
mod terminal;
pub mod text;

use std::fmt::Write as _;

use pps_check::report::{API_VERSION, Versioned};
pub use pps_check::report::{printable, wrap};
use pps_core::is_hidden;
use pps_manifest::to_yaml;
use serde::Serialize;

pub use self::terminal::{Answer, Role, Style, Terminal};
pub use self::text::{Cell, Table};
use crate::args::Output;
use crate::snapshot::{Resource, Unread};

/// An answer of this kind for programs. `None` for people: the caller prints a table.
pub fn for_programs(output: Output, kind: &str, answer: &impl Serialize) -> Option<String> {
    let answer = &Versioned {
        api_version: API_VERSION,
        kind,
        answer,
    };
    match output {
        Output::Table | Output::Wide => None,
        Output::Json => Some(json(answer, |c, text| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        })),
        Output::Yaml => Some(to_yaml(&serde_json::to_value(answer).unwrap_or_default())),
    }
}

/// JSON that is YAML too: with the escapes of YAML.
pub fn json_as_yaml(value: &impl Serialize) -> String {
    json(value, |c, text| {
        let _ = write!(text, "\\U{:08x}", u32::from(c));
    })
}

/// Whether a terminal obeys or hides a character, beside the end of a line.
fn is_obeyed(c: char) -> bool {
    c != '\n' && is_hidden(c)
}

/// JSON in which the characters that a terminal obeys are escaped: they are only in strings.
fn json(value: &impl Serialize, escape: impl Fn(char, &mut String)) -> String {
    let json = serde_json::to_string_pretty(value).unwrap_or_default();
    let mut text = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        if is_obeyed(c) {
            escape(c, &mut text);
        } else {
            text.push(c);
        }
    }
    text + "\n"
}

/// A list that could not be read, and what the answer lacks because of it.
fn with_consequence(unread: &Unread) -> String {
    let unknown = match unread.resource {
        Resource::Nodes => "which nodes there are, and which labels and room they have",
        Resource::PersistentPodStates => {
            "which states are recorded, nor where a new Pod would start"
        }
        Resource::PersistentVolumes | Resource::PersistentVolumeClaims => "where volumes keep Pods",
        Resource::StatefulSets | Resource::KruiseStatefulSets => {
            "which Pods are wanted, and from which template"
        }
        Resource::Pods => "where those Pods are, and how much room they take",
        Resource::PodDisruptionBudgets => "which evictions are refused",
    };
    format!("{unread}, so it is not known {unknown}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn json_and_yaml_have_no_characters_that_a_terminal_obeys() {
        let text = "n\u{1b}[31m\u{202e}\u{9b}31m\u{e4}\u{e0041}";
        let answer = BTreeMap::from([("text", text)]);
        let json = for_programs(Output::Json, "Test", &answer).unwrap();
        let escaped = "\"n\\u001b[31m\\u202e\\u009b31m\u{e4}\\udb40\\udc41\"\n}\n";
        assert!(json.ends_with(escaped), "{json}");
        let yaml = for_programs(Output::Yaml, "Test", &answer).unwrap();
        let escaped = "text: \"n\\u001b[31m\\u202e\\u009b31m\u{e4}\\U000e0041\"\n";
        assert!(yaml.ends_with(escaped), "{yaml}");
    }

    #[test]
    fn the_same_characters_are_replaced_for_people_and_escaped_for_programs() {
        for c in ('\0'..=char::MAX).filter(|c| !c.is_whitespace() && *c != '\u{fffd}') {
            assert_eq!(
                printable(&c.to_string()) == "\u{fffd}",
                is_hidden(c),
                "{c:?}"
            );
        }
    }

    fn any_text() -> impl Strategy<Value = String> {
        let c = prop_oneof![
            any::<char>(),
            prop::sample::select(vec!['\u{9b}', '\u{202e}', '\n', 'a', ':'])
        ];
        prop::collection::vec(c, 0..8).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn what_is_written_for_programs_is_read_as_the_same(
            answer in prop::collection::btree_map(any_text(), prop::collection::vec(any_text(), 0..3), 0..3)
        ) {
            let answer = BTreeMap::from([("of".to_owned(), answer)]);
            let json = for_programs(Output::Json, "Test", &answer).unwrap();
            let yaml = for_programs(Output::Yaml, "Test", &answer).unwrap();
            prop_assert!(!json.chars().chain(yaml.chars()).any(is_obeyed), "{:?} {:?}", json, yaml);
            let expected = serde_json::json!({"apiVersion": API_VERSION, "kind": "Test", "of": answer["of"]});
            prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&json).unwrap(), &expected);
            prop_assert_eq!(&yaml_serde::from_str::<serde_json::Value>(&yaml).unwrap(), &expected, "{}", yaml);
        }
    }
}
