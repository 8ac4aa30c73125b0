//! What the facts mean. No I/O, no clock.

mod cluster;
mod definition;
mod module;
mod objects;
mod policies;
mod server;
mod sidecar;
#[cfg(test)]
mod tests;
mod webhooks;

use crate::facts::{Facts, Problem};
use crate::finding::{Code, Finding, Severity};

/// How many names a finding lists.
const MAX_NAMES: usize = 5;

/// Turns facts into findings, topic by topic.
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = Findings::default();
    cluster::check(facts, &mut findings);
    definition::check(facts, &mut findings);
    if facts.settings.has_policies {
        server::check(facts, &mut findings);
        policies::check(facts, &mut findings);
        webhooks::check(facts, &mut findings);
        module::check(facts, &mut findings);
    }
    sidecar::check(facts, &mut findings);
    objects::check(facts, &mut findings);
    check_problems(facts, &mut findings);
    findings.0
}

/// What could not be read: each missing right once.
fn check_problems(facts: &Facts, findings: &mut Findings) {
    let mut problems: Vec<&Problem> = facts.problems.iter().collect();
    problems.sort();
    problems.dedup();
    for problem in problems {
        match problem {
            Problem::Forbidden(right) => findings.add(
                Severity::Unknown,
                Code::PermissionMissing,
                "this check",
                format!("may not {right}"),
                "run it with an account that may, for example with the ClusterRole pps-check of deploy/check.yaml",
            ),
            Problem::Failed { what, why } => findings.add(
                Severity::Unknown,
                Code::RequestFailed,
                what,
                format!("cannot be read: {why}"),
                "run the check again; if it fails again, see why the API server refuses the request",
            ),
        }
    }
}

/// Collects findings.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, code: Code, subject: impl Into<String>, seen: impl Into<String>) {
        self.add(Severity::Ok, code, subject, seen, "");
    }

    fn add(
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

    fn error(
        &mut self,
        code: Code,
        subject: impl Into<String>,
        seen: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.add(Severity::Error, code, subject, seen, advice);
    }

    fn warning(
        &mut self,
        code: Code,
        subject: impl Into<String>,
        seen: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.add(Severity::Warning, code, subject, seen, advice);
    }

    fn info(
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
fn some_of(names: &[String]) -> String {
    let shown = names.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
