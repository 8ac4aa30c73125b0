//! Prints findings: as a table for people, as JSON for programs, and as an exit code.
//!
//! Names and messages come from the cluster, and whoever may create an object chooses them. So
//! neither form passes control characters on: a terminal would obey them.

mod words;

use std::borrow::Cow;

use pps_core::{on_one_line, shorten_to};
use serde::Serialize;
use serde_json::{Value, json};
use textwrap::{Options, WordSeparator, WordSplitter};

pub(crate) use self::words::{Words, words};
use crate::facts::Facts;
use crate::finding::{Diagnosis, Finding, Severity};

/// The width of a line of the table, where nobody knows that of the terminal.
pub const WIDTH: usize = 110;
/// The columns before the text.
const INDENT: usize = 10;
/// The narrowest table.
const MIN_WIDTH: usize = 40;
/// The most characters that a field of a finding is printed with.
const MAX_TEXT: usize = 600;

/// The exit code: 1 if something is wrong, else 2 if something could not be read, else 0.
pub(crate) fn exit_code(findings: &[Finding]) -> u8 {
    let is_wrong = findings.iter().any(|one| one.severity == Severity::Error);
    let is_unread = findings
        .iter()
        .any(|one| matches!(one.diagnosis, Diagnosis::Unread(_)));
    match (is_wrong, is_unread) {
        (true, _) => 1,
        (false, true) => 2,
        (false, false) => 0,
    }
}

/// The findings as a table with lines of this width, and how many there are. Without `--all`, those
/// that are ok are only counted.
pub(crate) fn table(facts: &Facts, findings: &[Finding], width: usize) -> String {
    let width = width.max(MIN_WIDTH);
    let mut lines: Vec<String> = findings
        .iter()
        .filter(|one| facts.settings.all || one.severity != Severity::Ok)
        .flat_map(|finding| finding_lines(facts, finding, width))
        .collect();
    lines.extend(wrap(&summary(findings), width));
    lines.into_iter().map(|line| line + "\n").collect()
}

/// One finding of the table: its code, what was seen, and what to do.
fn finding_lines(facts: &Facts, finding: &Finding, width: usize) -> Vec<String> {
    let severity: &str = finding.severity.into();
    let mut lines = vec![format!("{severity:<INDENT$}{}", finding.code())];
    let words = words(facts, finding);
    let seen = printable(&format!("{}: {}", finding.subject, words.seen));
    for line in wrap(&seen, width - INDENT) {
        lines.push(format!("{:INDENT$}{line}", ""));
    }
    for (index, line) in advice(&words, width - INDENT - 3).iter().enumerate() {
        let arrow = if index == 0 { "->" } else { "  " };
        lines.push(format!("{:INDENT$}{arrow} {line}", ""));
    }
    lines
}

/// An advice in lines. A command is not broken if a line has room for it: it may be copied.
fn advice(words: &Words, width: usize) -> Vec<String> {
    let all = printable(&words.advice());
    if all.is_empty() {
        return Vec::new();
    }
    if all.chars().count() <= width || words.advice.is_empty() || words.command.is_empty() {
        return wrap(&all, width);
    }
    let lines = [format!("{}:", words.advice), words.command.clone()];
    lines
        .iter()
        .flat_map(|line| wrap(&printable(line), width))
        .collect()
}

/// How many findings of each severity there are.
fn summary(findings: &[Finding]) -> String {
    format!(
        "{}, {}, {} unknown, {} (INFO), {} ok",
        plural(count(findings, Severity::Error), "error"),
        plural(count(findings, Severity::Warning), "warning"),
        count(findings, Severity::Unknown),
        plural(count(findings, Severity::Info), "hint"),
        count(findings, Severity::Ok),
    )
}

fn count(findings: &[Finding], severity: Severity) -> usize {
    let counted = findings.iter().filter(|one| one.severity == severity);
    counted.count()
}

fn plural(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

/// The version of all answers for programs. Fields and values may be added to it.
pub const API_VERSION: &str = "kubectl-pps/v1";

/// The kind of the check's answer.
pub const KIND: &str = "CheckReport";

/// An answer for programs: its version and kind, and its fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Versioned<'a, T> {
    pub api_version: &'static str,
    pub kind: &'a str,
    #[serde(flatten)]
    pub answer: &'a T,
}

/// The findings for programs.
pub(crate) fn document(facts: &Facts, findings: &[Finding]) -> Value {
    let shown: Vec<Value> = findings
        .iter()
        .map(|finding| finding_document(facts, finding))
        .collect();
    json!({"exitCode": exit_code(findings), "findings": shown})
}

fn finding_document(facts: &Facts, finding: &Finding) -> Value {
    let words = words(facts, finding);
    json!({
        "severity": finding.severity,
        "code": finding.code(),
        "subject": printable(&finding.subject),
        "seen": printable(&words.seen),
        "advice": printable(&words.advice()),
    })
}

/// Replaces what a terminal would obey or hide. Cuts what is too long.
pub fn printable(text: &str) -> String {
    shorten_to(MAX_TEXT, &on_one_line(text))
}

/// Breaks a text into lines at spaces, and words that are longer than a line anywhere.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let options = Options::new(width).word_separator(WordSeparator::AsciiSpace);
    let options = options.word_splitter(WordSplitter::NoHyphenation);
    textwrap::wrap(text, options)
        .into_iter()
        .map(Cow::into_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{
        DefinitionDiagnosis, ObjectsDiagnosis, PolicyDiagnosis, ServerDiagnosis, UnreadDiagnosis,
    };

    fn finding(severity: Severity, subject: &str, diagnosis: impl Into<Diagnosis>) -> Finding {
        Finding {
            severity,
            subject: subject.into(),
            diagnosis: diagnosis.into(),
        }
    }

    #[test]
    fn the_exit_code_says_whether_something_is_wrong_or_could_not_be_checked() {
        let ok = finding(Severity::Ok, "a", ServerDiagnosis::PolicyServerReady);
        let error = finding(Severity::Error, "a", ServerDiagnosis::PolicyServerMissing);
        let unread = finding(
            Severity::Unknown,
            "a",
            UnreadDiagnosis::RequestFailed { why: "b".into() },
        );
        let unclear = finding(
            Severity::Unknown,
            "a",
            ObjectsDiagnosis::WhitelistMalformed { error: "b".into() },
        );
        let warning = finding(Severity::Warning, "a", PolicyDiagnosis::PolicyMonitors);
        assert_eq!(exit_code(&[]), 0);
        assert_eq!(exit_code(&[ok.clone(), warning, unclear]), 0);
        assert_eq!(exit_code(&[ok, unread.clone()]), 2);
        assert_eq!(exit_code(&[unread, error]), 1);
    }

    #[test]
    fn no_control_character_reaches_the_terminal_and_no_line_is_too_long() {
        let hostile = "\u{1b}[2Jx\r\ny\u{9b}31m\u{202e}z\u{200b}\u{7}";
        let facts = Facts::default();
        let failed = |why: &str| UnreadDiagnosis::RequestFailed { why: why.into() };
        let findings = [
            finding(Severity::Error, hostile, failed(hostile)),
            finding(Severity::Warning, "Pod a", failed(&"n".repeat(10_000))),
            finding(Severity::Warning, "Pod a", failed(&"wort 字 ".repeat(300))),
        ];
        for text in [
            table(&facts, &findings, WIDTH),
            document(&facts, &findings).to_string(),
        ] {
            let bad = |c: &char| {
                (c.is_control() && *c != '\n') || matches!(c, '\u{202e}' | '\u{200b}' | '\u{9b}')
            };
            assert_eq!(text.chars().find(bad), None, "{text:?}");
            assert!(text.len() < 12_000);
        }
        for width in [0, 80, WIDTH] {
            let table = table(&facts, &findings, width);
            assert!(
                table
                    .lines()
                    .all(|line| line.chars().count() <= width.max(MIN_WIDTH)),
                "{table}"
            );
        }
        assert!(table(&facts, &findings, WIDTH).contains("\u{fffd}[2Jx y\u{fffd}31m"));
    }

    #[test]
    fn a_command_at_the_end_of_an_advice_is_not_broken() {
        let words = Words {
            seen: String::new(),
            advice: "correct it; for all of it".into(),
            command: "kubectl describe pps queue -n without".into(),
        };
        assert_eq!(advice(&words, 80), [words.advice()]);
        let broken = [
            "correct it; for all of it:",
            "kubectl describe pps queue -n without",
        ];
        assert_eq!(advice(&words, 40), broken);
        assert!(advice(&words, 20).iter().all(|line| line.len() <= 20));
    }

    #[test]
    fn the_table_lists_what_is_not_ok_with_its_advice_and_counts_the_rest() {
        let findings = [
            finding(
                Severity::Ok,
                "PolicyServer a",
                ServerDiagnosis::PolicyServerReady,
            ),
            finding(
                Severity::Error,
                "CRD",
                DefinitionDiagnosis::DefinitionVersionNotServed,
            ),
        ];
        let mut facts = Facts::default();
        let expected = "ERROR     DefinitionVersionNotServed\n          CRD: serves neither \
                        v1alpha1 nor v1beta1 with the subresource status\n          -> apply our \
                        crd.yaml\n1 error, 0 warnings, 0 unknown, 0 hints (INFO), 1 ok\n";
        assert_eq!(table(&facts, &findings, WIDTH), expected);
        facts.settings.all = true;
        assert!(table(&facts, &findings, WIDTH).starts_with("OK        PolicyServerReady\n"));
        let json = document(&facts, &findings);
        assert_eq!(json["exitCode"], 1);
        assert_eq!(json["findings"][1]["code"], "DefinitionVersionNotServed");
        assert_eq!(json["findings"][1]["severity"], "error");
    }
}
