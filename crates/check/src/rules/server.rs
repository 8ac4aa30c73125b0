//! The PolicyServer, its ServiceAccount, and whether it can pull the module.

use super::{Findings, error_once_installed};
use crate::facts::{Facts, Module, ModuleAnswer, Policy, Read};
use crate::finding::{Diagnosis, Pull, Replicas, ServerDiagnosis, Severity, Unready};

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    if facts.server_definition.is_absent() {
        return;
    }
    let subject = format!("PolicyServer {}", facts.server_name);
    let is_before = facts.settings.is_before();
    let server = match &facts.server {
        Read::Unknown => return,
        Read::Absent if is_before && facts.settings.creates_policy_server => return,
        Read::Absent => return findings.error(subject, ServerDiagnosis::PolicyServerMissing),
        Read::Known(server) => server,
    };
    match unready(facts, server.spec.replicas) {
        Some(unready) => {
            // An installation on a PolicyServer that is not ready works once it is.
            let severity = error_once_installed(facts);
            let diagnosis = ServerDiagnosis::PolicyServerNotReady(unready);
            findings.add(severity, subject.as_str(), diagnosis);
        }
        None if facts.server_deployment.known().is_some() => {
            findings.ok(subject.as_str(), ServerDiagnosis::PolicyServerReady);
        }
        None => {}
    }
    check_account(facts, subject, findings);
}

fn unready(facts: &Facts, wanted: i32) -> Option<Unready> {
    match &facts.server_deployment {
        _ if wanted == 0 => Some(Unready::Stopped),
        Read::Absent => Some(Unready::NoDeployment),
        Read::Unknown => None,
        Read::Known(deployment) => {
            let status = deployment.status.clone().unwrap_or_default();
            let ready = status.ready_replicas.unwrap_or(0);
            let unavailable = status.unavailable_replicas.unwrap_or(0);
            // A Pod that cannot pull a module ends at its start, while those of the former
            // ReplicaSet answer.
            (ready < wanted || unavailable > 0).then_some(Unready::Pods {
                replicas: Replicas {
                    available: ready,
                    wanted,
                },
                unavailable,
            })
        }
    }
}

fn check_account(facts: &Facts, subject: String, findings: &mut Findings) {
    let used = facts.server_account_name();
    let full = format!("ServiceAccount {used}");
    if let Some(bound) = &facts.settings.service_account
        && *bound != used
    {
        let bound = bound.clone();
        let diagnosis = ServerDiagnosis::ServiceAccountMismatch { used, bound };
        findings.error(subject, diagnosis);
    }
    if facts.server_account.is_absent() {
        findings.error(full.as_str(), ServerDiagnosis::ServiceAccountMissing);
    }
    match facts.server_may_look_up {
        // The installation binds the role.
        Read::Known(false) if facts.settings.is_before() => {}
        Read::Known(false) => findings.error(full, ServerDiagnosis::LookupForbidden),
        Read::Known(true) => findings.ok(full, ServerDiagnosis::LookupAllowed),
        Read::Absent | Read::Unknown => {}
    }
}

pub(super) fn check_module(facts: &Facts, module: &Module, findings: &mut Findings) {
    let Module { reference, answer } = module;
    let host = registry_host(reference);
    let is_harmless_now = is_harmless_now(facts, reference);
    let may_differ = may_get_another_answer(facts);
    let has_own_authority = facts.settings.source_authority.contains(&host);
    let failed = if is_harmless_now {
        Severity::Warning
    } else {
        Severity::Error
    };
    let severity = match answer {
        ModuleAnswer::ModuleFound => Severity::Ok,
        ModuleAnswer::ModuleNotFound => failed,
        ModuleAnswer::RegistryUnreachable(_) if !may_differ && !has_own_authority => failed,
        ModuleAnswer::ModuleNotChecked => Severity::Info,
        _ => Severity::Unknown,
    };
    let diagnosis = Diagnosis::Module(Pull {
        host,
        answer: answer.clone(),
        is_harmless_now,
        may_differ,
    });
    findings.add(severity, format!("module {reference}"), diagnosis);
}

fn registry_host(reference: &str) -> String {
    let rest = reference
        .split_once("://")
        .map_or(reference, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default().to_owned()
}

/// Whether the policies run with a module that the PolicyServer cannot pull. As long as the
/// policies are active, only the next start of the PolicyServer fails. An upgrade that keeps the
/// module may be the repair.
fn is_harmless_now(facts: &Facts, module: &str) -> bool {
    let mut ours = facts.own_policies().peekable();
    if facts.settings.is_before() {
        ours.any(|policy| policy.spec.module == module)
    } else {
        ours.peek().is_some() && ours.all(Policy::is_active)
    }
}

/// Whether the PolicyServer may reach a registry that the check does not reach.
fn may_get_another_answer(facts: &Facts) -> bool {
    let mut variables = facts
        .server
        .known()
        .into_iter()
        .flat_map(|server| &server.spec.env);
    !facts.settings.runs_in_cluster
        || variables.any(|variable| variable.name.to_ascii_uppercase().ends_with("_PROXY"))
}
