//! Collects findings.

use crate::finding::{Code, Finding, Severity};

/// How many names a finding lists.
const MAX_NAMES: usize = 5;

/// Collects findings.
#[derive(Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    pub(super) fn ok(&mut self, code: Code, subject: impl Into<String>, seen: impl Into<String>) {
        self.add(Severity::Ok, code, subject, seen, "");
    }

    pub(super) fn add(
        &mut self,
        severity: Severity,
        code: Code,
        subject: impl Into<String>,
        seen: impl Into<String>,
        advice: impl Into<String>,
    ) {
        let (subject, seen, advice) = (subject.into(), seen.into(), advice.into());
        self.0.push(Finding { severity, code, subject, seen, advice });
    }

    pub(super) fn error(
        &mut self,
        code: Code,
        subject: impl Into<String>,
        seen: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.add(Severity::Error, code, subject, seen, advice);
    }

    pub(super) fn warning(
        &mut self,
        code: Code,
        subject: impl Into<String>,
        seen: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.add(Severity::Warning, code, subject, seen, advice);
    }

    pub(super) fn info(
        &mut self,
        code: Code,
        subject: impl Into<String>,
        seen: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.add(Severity::Info, code, subject, seen, advice);
    }
}

/// The first names, and how many more there are.
pub(super) fn some_of(names: &[String]) -> String {
    let shown = names.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
