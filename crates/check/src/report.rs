//! Prints findings: as a table for people, as JSON for programs, and as an exit code.
//!
//! Names and messages come from the cluster, and whoever may create an object chooses them. So neither form passes
//! control characters on: a terminal would obey them.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::json;

use crate::finding::{Code, Finding, Severity};

/// The width of a line of the table, where nobody knows that of the terminal.
pub const WIDTH: usize = 110;
/// The columns before the text.
const INDENT: usize = 10;
/// The narrowest table.
const MIN_WIDTH: usize = 40;
/// The most characters that a field of a finding is printed with.
const MAX_TEXT: usize = 600;

/// The exit code: 1 if something is wrong, else 2 if something could not be checked, else 0.
pub fn exit_code(findings: &[Finding]) -> u8 {
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        1
    } else if findings.iter().any(|one| matches!(one.code, Code::PermissionMissing | Code::RequestFailed)) {
        2
    } else {
        0
    }
}

/// The findings as a table with lines of this width, and below what they come to. Without `all`, those that are ok are only
/// counted.
pub fn table(findings: &[Finding], verdict: &[String], all: bool, width: usize) -> String {
    let mut text = String::new();
    let width = width.max(MIN_WIDTH);
    for finding in findings.iter().filter(|finding| all || finding.severity != Severity::Ok) {
        let _ = writeln!(text, "{:<INDENT$}{}", finding.severity.as_str(), finding.code.as_str());
        let seen = format!("{}: {}", finding.subject, finding.seen);
        for line in wrap(&printable(&seen), width - INDENT) {
            let _ = writeln!(text, "{:INDENT$}{line}", "");
        }
        if !finding.advice.is_empty() {
            for (index, line) in
                advice(&printable(&finding.advice), width - INDENT - 3).into_iter().enumerate()
            {
                let mark = if index == 0 { "-> " } else { "   " };
                let _ = writeln!(text, "{:INDENT$}{mark}{line}", "");
            }
        }
    }
    let summary = summary(findings);
    for line in [&summary].into_iter().chain(verdict).flat_map(|sentence| wrap(&printable(sentence), width)) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// An advice in lines. A command at its end is not broken, if a line has room for it: it may be copied.
fn advice(text: &str, width: usize) -> Vec<String> {
    const COMMAND: &str = ": kubectl ";
    match text.rsplit_once(COMMAND) {
        Some((before, words))
            if text.chars().count() > width
                && !words.contains([';', ':'])
                && words.chars().count() + COMMAND.len() - 2 <= width =>
        {
            let mut lines = wrap(&format!("{before}:"), width);
            lines.push(format!("kubectl {words}"));
            lines
        }
        _ => wrap(text, width),
    }
}

/// How many findings of each severity there are.
fn summary(findings: &[Finding]) -> String {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    format!(
        "{}, {}, {} unknown, {} (INFO), {} ok",
        plural(count(Severity::Error), "error"),
        plural(count(Severity::Warning), "warning"),
        count(Severity::Unknown),
        plural(count(Severity::Info), "hint"),
        count(Severity::Ok),
    )
}

/// The version of all answers for programs. Fields may be added to it.
pub const API_VERSION: &str = "kubectl-pps/v1";

/// An answer for programs: its version and kind, and its fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Versioned<'a, T> {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// What it is.
    pub kind: &'a str,
    /// Its fields.
    #[serde(flatten)]
    pub answer: &'a T,
}

/// The findings as JSON.
pub fn to_json(findings: &[Finding]) -> String {
    let clean: Vec<Finding> = findings
        .iter()
        .map(|finding| Finding {
            subject: printable(&finding.subject),
            seen: printable(&finding.seen),
            advice: printable(&finding.advice),
            ..finding.clone()
        })
        .collect();
    let report = json!({"exitCode": exit_code(findings), "findings": clean});
    serde_json::to_string_pretty(&Versioned {
        api_version: API_VERSION,
        kind: "CheckReport",
        answer: &report,
    })
    .unwrap_or_default()
        + "\n"
}

/// Replaces what a terminal would obey or hide: control characters, and those that change the direction of text or have
/// no width. Cuts what is too long.
pub fn printable(text: &str) -> String {
    let is_printable = |c: char| {
        !c.is_control()
            && !matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
    };
    let mut clean: String = text
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .map(|c| if is_printable(c) { c } else { '\u{fffd}' })
        .take(MAX_TEXT + 1)
        .collect();
    if clean.chars().count() > MAX_TEXT {
        clean.pop();
        clean.push('…');
    }
    clean
}

/// Breaks a text into lines at spaces, and words that are longer than a line anywhere.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            lines.push(String::new());
            used = 0;
        }
        for (index, c) in word.chars().enumerate() {
            if index == 0 && used > 0 {
                push(&mut lines, ' ');
                used += 1;
            }
            if used == width {
                lines.push(String::new());
                used = 0;
            }
            push(&mut lines, c);
            used += 1;
        }
    }
    lines
}

fn push(lines: &mut [String], c: char) {
    if let Some(line) = lines.last_mut() {
        line.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(severity: Severity, code: Code, seen: &str) -> Finding {
        Finding { severity, code, subject: "Pod a".into(), seen: seen.into(), advice: "do it".into() }
    }

    #[test]
    fn the_exit_code_says_whether_something_is_wrong_or_could_not_be_checked() {
        let ok = finding(Severity::Ok, Code::PolicyActive, "");
        let error = finding(Severity::Error, Code::PolicyMissing, "");
        let unread = finding(Severity::Unknown, Code::PermissionMissing, "");
        let unclear = finding(Severity::Unknown, Code::RegistryNeedsCredentials, "");
        let warning = finding(Severity::Warning, Code::PolicyMonitors, "");
        assert_eq!(exit_code(&[]), 0);
        assert_eq!(exit_code(&[ok.clone(), warning, unclear]), 0);
        assert_eq!(exit_code(&[ok, unread.clone()]), 2);
        assert_eq!(exit_code(&[unread, error]), 1);
    }

    #[test]
    fn no_control_character_reaches_the_terminal_and_no_line_is_too_long() {
        let hostile = "\u{1b}[2Jx\r\ny\u{9b}31m\u{202e}z\u{200b}\u{7}";
        let long = "n".repeat(10_000);
        let findings = [
            finding(Severity::Error, Code::PolicyMissing, hostile),
            finding(Severity::Warning, Code::PolicyMonitors, &long),
            finding(Severity::Warning, Code::PolicyMonitors, &"wort 字 ".repeat(300)),
        ];
        for text in [table(&findings, &[hostile.into()], true, WIDTH), to_json(&findings)] {
            let bad =
                |c: &char| (c.is_control() && *c != '\n') || matches!(c, '\u{202e}' | '\u{200b}' | '\u{9b}');
            assert_eq!(text.chars().find(bad), None, "{text:?}");
            assert!(text.len() < 12_000);
        }
        for width in [0, 80, WIDTH] {
            let table = table(&findings, &["wort ".repeat(50)], true, width);
            assert!(table.lines().all(|line| line.chars().count() <= width.max(MIN_WIDTH)), "{table}");
        }
        let table = table(&findings, &[], true, WIDTH);
        assert!(table.contains("\u{fffd}[2Jx y\u{fffd}31m"), "{table}");
    }

    #[test]
    fn a_command_at_the_end_of_an_advice_is_not_broken() {
        let text = "correct it; for all of it: kubectl describe pps queue -n without";
        assert_eq!(advice(text, 80), [text]);
        let broken = ["correct it; for all of it:", "kubectl describe pps queue -n without"];
        assert_eq!(advice(text, 40), broken);
        assert!(advice(text, 20).iter().all(|line| line.len() <= 20));
    }

    #[test]
    fn the_table_lists_what_is_not_ok_with_its_advice_and_counts_the_rest() {
        let findings = [
            finding(Severity::Ok, Code::PolicyActive, "fine"),
            finding(Severity::Error, Code::PolicyMissing, "does not exist"),
            finding(Severity::Info, Code::LaterWebhooks, "runs later"),
        ];
        let expected = "ERROR     PolicyMissing\n          Pod a: does not exist\n          -> do it\n\
                        INFO      LaterWebhooks\n          Pod a: runs later\n          -> do it\n\
                        1 error, 0 warnings, 0 unknown, 1 hint (INFO), 1 ok\nStates are recorded.\n";
        let verdict = ["States are recorded.".to_owned()];
        assert_eq!(table(&findings, &verdict, false, WIDTH), expected);
        assert!(table(&findings, &verdict, true, WIDTH).starts_with("OK        PolicyActive\n"));
        let json: serde_json::Value = serde_json::from_str(&to_json(&findings)).unwrap();
        assert_eq!((&json["apiVersion"], &json["kind"]), (&API_VERSION.into(), &"CheckReport".into()));
        assert_eq!(json["exitCode"], 1);
        assert_eq!(json["findings"][1]["code"], "PolicyMissing");
        assert_eq!(json["findings"][1]["severity"], "error");
    }
}
