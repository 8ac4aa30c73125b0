//! What the findings come to: whether states are recorded, and whether they are injected.

use super::recorder::living_holder;
use crate::facts::{Facts, Read};
use crate::finding::{Diagnosis as D, Finding, Severity};

/// An answer, with the codes of the findings that it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Yes, except as these findings say.
    Yes(Vec<&'static str>),
    /// No, because of these findings.
    No(Vec<&'static str>),
    /// Not everything could be read.
    Unknown,
    /// It was not to be checked.
    NotChecked,
}

/// What the findings come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) recorded: Answer,
    pub(crate) injected: Answer,
}

/// What the findings come to. None before an installation.
pub(crate) fn verdict(facts: &Facts, findings: &[Finding]) -> Option<Verdict> {
    let verdict = || Verdict { recorded: recorded(facts, findings), injected: injected(facts, findings) };
    (!facts.settings.is_before()).then(verdict)
}

fn recorded(facts: &Facts, findings: &[Finding]) -> Answer {
    let errors = errors(findings, |diagnosis| {
        matches!(
            diagnosis,
            D::DefinitionMissing
                | D::DefinitionOfOpenKruise
                | D::DefinitionVersionNotServed
                | D::DefinitionWithoutStatus
                | D::SidecarMissing(_)
                | D::SidecarNotAvailable { .. }
                | D::SidecarForbidden(_)
                | D::LeaderMissing(_)
                | D::RecorderMissing
        )
    });
    let is_known =
        recorder(facts).is_some() || facts.recording.lease.is_none() && facts.sidecars.items().is_some();
    match errors.as_slice() {
        [] if is_known => Answer::Yes(codes(findings, |one| matches!(one, D::ObjectsNotRecorded { .. }))),
        [] => Answer::Unknown,
        _ => Answer::No(errors),
    }
}

/// The process that renews the Lease of the program that records.
pub(crate) fn recorder(facts: &Facts) -> Option<&str> {
    match facts.recording.recorder {
        crate::settings::Recorder::Own => living_holder(facts),
        crate::settings::Recorder::OpenKruise => facts.openkruise_lease.known()?.living_holder(),
    }
}

fn injected(facts: &Facts, findings: &[Finding]) -> Answer {
    if facts.settings.without_policies {
        return Answer::NotChecked;
    }
    let is_unread = matches!(facts.policies, Read::Unknown) || matches!(facts.mutating, Read::Unknown);
    let mut errors = errors(findings, |diagnosis| {
        matches!(
            diagnosis,
            D::KubewardenMissing(_)
                | D::KubewardenTooOld(_)
                | D::DefinitionMissing
                | D::DefinitionVersionNotServed
                | D::PolicyServerMissing
                | D::PolicyServerNotReady(_)
                | D::ServiceAccountMissing
                | D::LookupForbidden
                | D::PolicyMissing { .. }
                | D::PolicyNotActive { .. }
                | D::PolicyDiffers(_)
                | D::LookupNotGranted
                | D::WebhookMissing
        )
    });
    errors.extend(codes(findings, |one| matches!(one, D::PolicyMonitors)));
    if !errors.is_empty() {
        Answer::No(errors)
    } else if is_unread {
        Answer::Unknown
    } else {
        Answer::Yes(codes(findings, |one| matches!(one, D::NamespacesNotCovered(_))))
    }
}

fn errors(findings: &[Finding], is_it: fn(&D) -> bool) -> Vec<&'static str> {
    let errors: Vec<Finding> =
        findings.iter().filter(|one| one.severity == Severity::Error).cloned().collect();
    codes(&errors, is_it)
}

/// The codes of the findings that are like this, each once.
fn codes(findings: &[Finding], is_it: fn(&D) -> bool) -> Vec<&'static str> {
    let found = findings.iter().filter(|one| is_it(&one.diagnosis)).map(Finding::code);
    found.fold(Vec::new(), |mut codes, code| {
        if !codes.contains(&code) {
            codes.push(code);
        }
        codes
    })
}
