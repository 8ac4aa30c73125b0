//! docs/troubleshooting.md has a row for each text with which the policy refuses something, and no
//! row for a text that it does not have.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The files that make messages.
const SOURCES: &[&str] = &[
    "src/response.rs",
    "crates/admission/src/decision.rs",
    "crates/admission/src/deletion.rs",
    "crates/admission/src/failed_lookup.rs",
    "crates/admission/src/lookup.rs",
    "crates/admission/src/lookup/error.rs",
    "crates/admission/src/pps_objects.rs",
    "crates/admission/src/pods.rs",
    "crates/core/src/packed.rs",
    "crates/core/src/packed/recorded.rs",
    "crates/core/src/packed/version.rs",
];

/// Texts in these files that refuse nothing, or are only a part of a message that has a row.
const OTHERS: &[&str] = &[
    // What follows a text that has a row.
    "correct it, or find the webhook that changed it",
    "is refused",
    ", or set settings.onLookupFailure to \"accept\" to",
    "start Pods without their recorded state",
    "skip this check",
    "Always: remove the label before you delete it",
    "to 0 and wait until its Pods are gone, or remove the label",
    // In parentheses, what the host has said.
    "failed",
    "of this name",
    "it is no text",
    "it has another name, or none",
    "it is no object",
    "has states in status.packed, which the cluster does not show",
    // Warnings and the log.
    "this Pod starts without its recorded state",
    "accepted without this check",
    "is being deleted; once it is gone, create it again",
    "if it is not meant for this one: kubectl pps forget",
    ", which protects nothing",
    "label the object that it points to",
    "use Always or Cascading",
    // Where there is no CRD, Pods are accepted.
    "the cluster does not serve",
    ", v1alpha1 or v1beta1), or remove this policy",
];

/// The files that make the other texts in the rows about refusals.
const MORE_SOURCES: &[&str] = &[
    "crates/admission/src/validate.rs",
    "crates/core/src/annotations.rs",
    "crates/core/src/packed/damaged.rs",
    "crates/core/src/packed/read.rs",
];

/// Texts of others in these rows.
const FOREIGN: &[&str] = &["failed calling webhook", "Policy execution interrupted"];

/// The sections with the rows about refusals.
const SECTIONS: [&str; 2] = [
    "## Creating a Pod is refused with",
    "## A PersistentPodState is refused with",
];

fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The string literals of a source file, without its tests and comments.
fn literals(code: &str) -> Vec<String> {
    let code = code.split("#[cfg(test)]").next().unwrap();
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    // A literal goes on after a backslash at the end of a line.
    let code = lines.fold(String::new(), |code, line| match code.strip_suffix('\\') {
        Some(begun) => begun.to_owned() + line.trim_start(),
        None => code + "\n" + line,
    });
    let mut literals = Vec::new();
    let mut letters = code.chars();
    while letters.by_ref().any(|letter| letter == '"') {
        let mut literal = String::new();
        while let Some(letter) = letters.next().filter(|letter| *letter != '"') {
            if letter == '\\' {
                literal.extend(letters.next());
            } else {
                literal.push(letter);
            }
        }
        literals.push(literal);
    }
    literals
}

/// The part of a format string that identifies the message: the longest one between its arguments.
fn fixed_part(format: &str) -> &str {
    let parts = format
        .split('{')
        .map(|part| part.rsplit('}').next().unwrap());
    let part = parts.max_by_key(|part| part.len()).unwrap_or_default();
    part.trim_matches(is_around)
}

/// Whether a character only joins a part of a message to its arguments.
fn is_around(letter: char) -> bool {
    letter.is_whitespace() || "(:;".contains(letter)
}

#[test]
fn troubleshooting_has_a_row_for_each_refusal() {
    let documented = file("docs/troubleshooting.md");
    let rows: Vec<&str> = documented
        .lines()
        .filter(|line| line.starts_with("| "))
        .collect();
    let mut others: BTreeSet<&str> = OTHERS.iter().copied().collect();
    let (mut found, mut missing) = (0, Vec::new());
    for path in SOURCES {
        for literal in literals(&file(path)) {
            let part = fixed_part(&literal);
            // Names of fields, kinds and operations are no sentences.
            if !part.contains(' ') && !OTHERS.contains(&part) {
                continue;
            }
            found += 1;
            if OTHERS.contains(&part) {
                others.remove(part);
            } else if !rows.iter().any(|row| row.contains(part)) {
                missing.push(format!("{path}: {part:?}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "add rows for these texts:\n{}",
        missing.join("\n")
    );
    assert!(found > 15, "only {found} texts were found");
    assert_eq!(
        others,
        BTreeSet::new(),
        "no source has these texts any longer"
    );
}

#[test]
fn each_row_about_a_refusal_has_a_text_of_the_policy() {
    let documented = file("docs/troubleshooting.md");
    let sources = SOURCES.iter().chain(MORE_SOURCES);
    let constants = [("{KIND}", "PersistentPodState"), ("{GET}", "get_resource")];
    let texts: Vec<String> = sources
        .flat_map(|path| literals(&file(path)))
        .map(|text| {
            constants
                .iter()
                .fold(text, |text, (name, value)| text.replace(name, value))
        })
        .collect();
    // What is between arguments; one word proves nothing.
    let parts: Vec<&str> = texts
        .iter()
        .flat_map(|text| text.split('{').map(|part| part.rsplit('}').next().unwrap()))
        .map(|part| part.trim_matches(is_around))
        .filter(|part| part.contains(' '))
        .collect();
    let is_known = |text: &str| {
        FOREIGN.contains(&text)
            || texts.iter().any(|known| known.contains(text))
            || parts.iter().any(|part| text.contains(part))
    };
    let mut checked = 0;
    for section in SECTIONS {
        let rest = documented.split_once(section).unwrap().1;
        let section = rest.split("\n## ").next().unwrap();
        let rows = section
            .lines()
            .filter(|line| line.starts_with("| "))
            .skip(1);
        for row in rows {
            let message = row.split(" | ").next().unwrap();
            for text in message.split('`').skip(1).step_by(2) {
                assert!(is_known(text), "no source has {text:?}");
                checked += 1;
            }
        }
    }
    assert!(checked > 15, "only {checked} texts were found");
}

#[test]
fn identifies_a_message_by_its_longest_fixed_part() {
    assert_eq!(
        literals("a(\"b \\\"c\\\"\");\n// \"d\"\n\"e\" #[cfg(test)] \"f\""),
        ["b \"c\"", "e"]
    );
    assert_eq!(fixed_part("{KIND} {name} is refused: {}"), "is refused");
    assert_eq!(fixed_part("{failure}: {remedy} ({details})"), "");
}
