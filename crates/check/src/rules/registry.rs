//! Whether the PolicyServer can pull the module.

use super::Findings;
use crate::facts::{Facts, Module, ModuleAnswer, Policy};
use crate::finding::{Diagnosis, PullFailure, Severity};

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    for module in &facts.modules {
        check_module(facts, module, findings);
    }
}

fn check_module(facts: &Facts, module: &Module, findings: &mut Findings) {
    // As long as the policies are active, only the next start of the PolicyServer fails. An upgrade that keeps the module
    // may be the repair.
    let mut ours = facts.own_policies().peekable();
    let is_harmless_now = if facts.settings.is_before() {
        ours.any(|policy| policy.spec.module == module.reference)
    } else {
        ours.peek().is_some() && ours.all(Policy::is_active)
    };
    let severity = if is_harmless_now { Severity::Warning } else { Severity::Error };
    let failure = PullFailure { answer: module.answer.clone(), is_harmless_now };
    let (severity, diagnosis) = match &module.answer {
        ModuleAnswer::Found => (Severity::Ok, Diagnosis::ModuleFound),
        ModuleAnswer::NotFound => (severity, Diagnosis::ModuleNotFound(failure)),
        ModuleAnswer::NeedsCredentials(code) => {
            (Severity::Unknown, Diagnosis::RegistryNeedsCredentials(*code))
        }
        ModuleAnswer::Unreachable(_) => {
            let may_differ = may_differ(facts);
            let severity = if may_differ { Severity::Unknown } else { severity };
            (severity, Diagnosis::RegistryUnreachable { failure, may_differ })
        }
        ModuleAnswer::UnknownAuthority(_)
            if facts.settings.source_authority.contains(&host_of(&module.reference)) =>
        {
            (Severity::Unknown, Diagnosis::RegistryUntrusted(failure))
        }
        ModuleAnswer::UnknownAuthority(_) | ModuleAnswer::PlainHttp => {
            (severity, Diagnosis::RegistryUntrusted(failure))
        }
        ModuleAnswer::Unclear(answer) => {
            (Severity::Unknown, Diagnosis::RegistryAnswerUnclear(answer.clone()))
        }
        ModuleAnswer::NotAsked => (Severity::Info, Diagnosis::ModuleNotChecked),
    };
    findings.add(severity, format!("module {}", module.reference), diagnosis);
}

/// Whether the PolicyServer may reach a registry that the check does not reach.
fn may_differ(facts: &Facts) -> bool {
    let mut variables = facts.server.known().into_iter().flat_map(|server| &server.spec.env);
    !facts.settings.runs_in_cluster
        || variables.any(|variable| variable.name.to_ascii_uppercase().ends_with("_PROXY"))
}

/// The registry in a reference: `registry://host:port/repository:tag`.
pub(crate) fn host_of(reference: &str) -> String {
    let rest = reference.split_once("://").map_or(reference, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default().to_owned()
}
