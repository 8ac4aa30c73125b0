//! The PolicyServer, its ServiceAccount, and whether it can pull the module.

use super::Findings;
use crate::facts::{Facts, Module, ModuleAnswer, Policy, Read};
use crate::finding::{Diagnosis, Pull, Replicas, Severity, Unready};

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    if facts.server_definition.is_absent() {
        return;
    }
    let subject = format!("PolicyServer {}", facts.server_name);
    let is_before = facts.settings.is_before();
    let server = match &facts.server {
        Read::Unknown => return,
        Read::Absent if is_before && facts.settings.creates_policy_server => return,
        Read::Absent => return findings.error(subject, Diagnosis::PolicyServerMissing),
        Read::Known(server) => server,
    };
    match unready(facts, server.spec.replicas) {
        Some(unready) => {
            // An installation on a PolicyServer that is not ready works once it is.
            let severity = if is_before {
                Severity::Warning
            } else {
                Severity::Error
            };
            findings.add(
                severity,
                subject.as_str(),
                Diagnosis::PolicyServerNotReady(unready),
            );
        }
        None if facts.server_deployment.known().is_some() => {
            findings.ok(subject.as_str(), Diagnosis::PolicyServerReady);
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
            let replicas = Replicas {
                available: ready,
                wanted,
            };
            (ready < wanted || unavailable > 0).then_some(Unready::Pods(replicas, unavailable))
        }
    }
}

fn check_account(facts: &Facts, subject: String, findings: &mut Findings) {
    let (namespace, account) = (facts.server_namespace.as_str(), facts.account_name());
    let full = format!("ServiceAccount {namespace}/{account}");
    if let Some((bound_namespace, bound)) = &facts.settings.service_account
        && (bound_namespace.as_str(), bound.as_str()) != (namespace, account)
    {
        let diagnosis = Diagnosis::ServiceAccountMismatch(bound_namespace.clone(), bound.clone());
        findings.error(subject, diagnosis);
    }
    if facts.server_account.is_absent() {
        findings.error(full.as_str(), Diagnosis::ServiceAccountMissing);
    }
    match facts.server_may_look_up {
        // The installation binds the role.
        Read::Known(false) if facts.settings.is_before() => {}
        Read::Known(false) => findings.error(full, Diagnosis::LookupForbidden),
        Read::Known(true) => findings.ok(full, Diagnosis::LookupAllowed),
        Read::Absent | Read::Unknown => {}
    }
}

pub(super) fn check_module(
    facts: &Facts,
    Module { reference, answer }: &Module,
    findings: &mut Findings,
) {
    // As long as the policies are active, only the next start of the PolicyServer fails. An upgrade
    // that keeps the module may be the repair.
    let mut ours = facts.own_policies().peekable();
    let is_harmless_now = if facts.settings.is_before() {
        ours.any(|policy| policy.spec.module == *reference)
    } else {
        ours.peek().is_some() && ours.all(Policy::is_active)
    };
    // The PolicyServer may reach a registry that the check does not reach.
    let mut variables = facts
        .server
        .known()
        .into_iter()
        .flat_map(|server| &server.spec.env);
    let may_differ = !facts.settings.runs_in_cluster
        || variables.any(|variable| variable.name.to_ascii_uppercase().ends_with("_PROXY"));
    let host = reference
        .split_once("://")
        .map_or(reference.as_str(), |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or_default().to_owned();
    let is_given = facts.settings.source_authority.contains(&host);
    let failed = if is_harmless_now {
        Severity::Warning
    } else {
        Severity::Error
    };
    let severity = match answer {
        ModuleAnswer::ModuleFound => Severity::Ok,
        ModuleAnswer::ModuleNotFound => failed,
        ModuleAnswer::RegistryUnreachable(_) if !may_differ && !is_given => failed,
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
