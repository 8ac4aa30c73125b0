//! What the facts mean. No I/O, no clock.

mod definition;
mod objects;
mod policies;
mod recorder;
mod server;
#[cfg(test)]
mod tests;
mod versions;

use std::collections::BTreeSet;

pub(crate) use self::definition::{OWN_FIELD, VERSIONS, is_ours};
pub use self::policies::is_own_webhook;
pub(crate) use self::recorder::silent_recorder;
pub(crate) use self::versions::{OLDEST, OLDEST_KUBEWARDEN};
use crate::facts::{Facts, Problem, Right};
use crate::finding::{Diagnosis, Finding, Severity, UnreadDiagnosis};

/// Turns facts into findings, topic by topic.
pub(crate) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = Findings::default();
    versions::check(facts, &mut findings);
    definition::check(facts, &mut findings);
    if !facts.settings.without_policies {
        server::check(facts, &mut findings);
        policies::check(facts, &mut findings);
        for module in &facts.modules {
            server::check_module(facts, module, &mut findings);
        }
    }
    recorder::check(facts, &mut findings);
    objects::check(facts, &mut findings);
    // Each missing right once.
    for problem in facts.problems.iter().collect::<BTreeSet<_>>() {
        check_problem(problem, &mut findings);
    }
    findings.all
}

/// An error, but only a warning before an installation, which may repair it.
fn error_once_installed(facts: &Facts) -> Severity {
    if facts.settings.is_before() {
        Severity::Warning
    } else {
        Severity::Error
    }
}

fn check_problem(problem: &Problem, findings: &mut Findings) {
    match problem {
        Problem::Forbidden(right) => findings.add(
            Severity::Unknown,
            "this check",
            UnreadDiagnosis::PermissionMissing(right.clone()),
        ),
        Problem::Failed { right, why } => findings.add(
            Severity::Unknown,
            right
                .as_ref()
                .map_or_else(|| "the API server".to_owned(), Right::object),
            UnreadDiagnosis::RequestFailed { why: why.clone() },
        ),
    }
}

/// Collects findings.
#[derive(Default)]
struct Findings {
    all: Vec<Finding>,
}

impl Findings {
    fn add(
        &mut self,
        severity: Severity,
        subject: impl Into<String>,
        diagnosis: impl Into<Diagnosis>,
    ) {
        self.all.push(Finding {
            severity,
            subject: subject.into(),
            diagnosis: diagnosis.into(),
        });
    }

    fn ok(&mut self, subject: impl Into<String>, diagnosis: impl Into<Diagnosis>) {
        self.add(Severity::Ok, subject, diagnosis);
    }

    fn info(&mut self, subject: impl Into<String>, diagnosis: impl Into<Diagnosis>) {
        self.add(Severity::Info, subject, diagnosis);
    }

    fn unknown(&mut self, subject: impl Into<String>, diagnosis: impl Into<Diagnosis>) {
        self.add(Severity::Unknown, subject, diagnosis);
    }

    fn warning(&mut self, subject: impl Into<String>, diagnosis: impl Into<Diagnosis>) {
        self.add(Severity::Warning, subject, diagnosis);
    }

    fn error(&mut self, subject: impl Into<String>, diagnosis: impl Into<Diagnosis>) {
        self.add(Severity::Error, subject, diagnosis);
    }
}
