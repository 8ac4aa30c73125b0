//! The PolicyServer and its ServiceAccount.

use crate::facts::{Facts, Read};
use crate::finding::{Diagnosis, Severity, Unready};
use crate::rules::Findings;

pub(crate) fn check(facts: &Facts, findings: &mut Findings) {
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
            let severity = if is_before { Severity::Warning } else { Severity::Error };
            findings.add(severity, subject.as_str(), Diagnosis::PolicyServerNotReady(unready));
        }
        None if facts.server_deployment.known().is_some() => {
            findings.ok(subject.as_str(), Diagnosis::PolicyServerReady);
        }
        None => {}
    }
    check_account(facts, &subject, findings);
}

fn unready(facts: &Facts, wanted: i32) -> Option<Unready> {
    if wanted == 0 {
        return Some(Unready::Stopped);
    }
    match &facts.server_deployment {
        Read::Absent => Some(Unready::NoDeployment),
        Read::Unknown => None,
        Read::Known(deployment) => {
            let status = deployment.status.clone().unwrap_or_default();
            let ready = status.ready_replicas.unwrap_or(0);
            let unavailable = status.unavailable_replicas.unwrap_or(0);
            // A Pod that cannot pull a module ends at its start, while those of the former ReplicaSet answer.
            (ready < wanted || unavailable > 0).then_some(Unready::Pods { ready, wanted, unavailable })
        }
    }
}

fn check_account(facts: &Facts, subject: &str, findings: &mut Findings) {
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
