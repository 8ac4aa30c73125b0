//! What the facts mean. No I/O, no clock.

mod cluster;
mod definition;
mod findings;
mod module;
mod objects;
mod policies;
mod sent;
mod server;
mod sidecar;
#[cfg(test)]
mod tests;
mod verdict;
mod webhooks;

use self::findings::Findings;
pub use self::module::INJECTION;
pub use self::sidecar::silent_recorder;
pub use self::verdict::verdict;
pub use self::webhooks::is_own_webhook;
use crate::facts::{Facts, Problem};
use crate::finding::{Code, Finding, Severity};

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
