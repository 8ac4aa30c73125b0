//! What the facts mean. No I/O, no clock.

mod objects;
mod policies;
mod recorder;
mod server;
#[cfg(test)]
mod tests;
mod versions;

use std::collections::BTreeSet;

pub use self::policies::is_own_webhook;
pub(crate) use self::recorder::silent_recorder;
pub(crate) use self::versions::{OLDEST, OWN_FIELD, VERSIONS, is_ours};
use crate::facts::{Facts, Problem, Right};
use crate::finding::{Diagnosis, Finding, Severity};

/// Turns facts into findings, topic by topic.
pub(crate) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = Findings::default();
    versions::check(facts, &mut findings);
    if !facts.settings.without_policies {
        server::check(facts, &mut findings);
        policies::check(facts, &mut findings);
        facts
            .modules
            .iter()
            .for_each(|module| server::check_module(facts, module, &mut findings));
    }
    recorder::check(facts, &mut findings);
    objects::check(facts, &mut findings);
    // Each missing right once.
    for problem in facts.problems.iter().collect::<BTreeSet<_>>() {
        let (subject, diagnosis) = match problem {
            Problem::Forbidden(right) => (
                "this check".to_owned(),
                Diagnosis::PermissionMissing(right.clone()),
            ),
            Problem::Failed { right, why } => (
                right
                    .as_ref()
                    .map_or_else(|| "the API server".to_owned(), Right::object),
                Diagnosis::RequestFailed(why.clone()),
            ),
        };
        findings.add(Severity::Unknown, subject, diagnosis);
    }
    findings.0
}

/// Collects findings.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, severity: Severity, subject: impl Into<String>, diagnosis: Diagnosis) {
        self.0.push(Finding {
            severity,
            subject: subject.into(),
            diagnosis,
        });
    }

    fn ok(&mut self, subject: impl Into<String>, diagnosis: Diagnosis) {
        self.add(Severity::Ok, subject, diagnosis);
    }

    fn warning(&mut self, subject: impl Into<String>, diagnosis: Diagnosis) {
        self.add(Severity::Warning, subject, diagnosis);
    }

    fn error(&mut self, subject: impl Into<String>, diagnosis: Diagnosis) {
        self.add(Severity::Error, subject, diagnosis);
    }
}
