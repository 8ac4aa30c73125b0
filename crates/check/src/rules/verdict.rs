//! What the findings come to: whether states are recorded, and whether they are injected.

use std::collections::BTreeSet;

use super::policies::has_webhook;
use super::recorder::living_holder;
use crate::facts::{Facts, Read};
use crate::finding::{Diagnosis as D, Finding, Severity};
use crate::settings::Recorder;

/// The codes of findings.
pub(crate) type Codes = BTreeSet<&'static str>;

/// An answer, with the codes of the findings that it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Yes, except as these findings say.
    Yes(Codes),
    /// No, because of these findings.
    No(Codes),
    /// These findings leave it open; without any, something could not be read.
    Unknown(Codes),
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
    let errors = codes(findings, |one| {
        one.severity == Severity::Error
            && matches!(
                one.diagnosis,
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
    if !errors.is_empty() {
        Answer::No(errors)
    } else if is_known {
        Answer::Yes(codes(findings, |one| matches!(one.diagnosis, D::ObjectsNotRecorded(..))))
    } else {
        Answer::Unknown(Codes::new())
    }
}

/// The process that renews the Lease of the program that records.
pub(crate) fn recorder(facts: &Facts) -> Option<&str> {
    match facts.recording.recorder {
        Recorder::Own => living_holder(facts),
        Recorder::OpenKruise => facts.openkruise_lease.known()?.living_holder(),
    }
}

fn injected(facts: &Facts, findings: &[Finding]) -> Answer {
    if facts.settings.without_policies {
        return Answer::NotChecked;
    }
    // Without its definitions Kubewarden changes nothing, but its PolicyServer answers the webhooks that are left.
    let is_left = has_webhook(facts, &facts.settings.policy, true) == Some(true);
    let stops = |diagnosis: &D| match diagnosis {
        D::KubewardenMissing(_) => !is_left,
        other => matches!(
            other,
            D::KubewardenTooOld(_)
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
        ),
    };
    let errors = codes(findings, |one| {
        one.severity == Severity::Error && stops(&one.diagnosis) || one.diagnosis == D::PolicyMonitors
    });
    let open = codes(findings, |one| matches!(one.diagnosis, D::KubewardenMissing(_)));
    let is_unread = matches!(facts.policies, Read::Unknown) || matches!(facts.mutating, Read::Unknown);
    if !errors.is_empty() {
        Answer::No(errors)
    } else if is_unread || !open.is_empty() {
        Answer::Unknown(open)
    } else {
        Answer::Yes(codes(findings, |one| matches!(one.diagnosis, D::NamespacesNotCovered(_))))
    }
}

fn codes(findings: &[Finding], is_it: impl Fn(&Finding) -> bool) -> Codes {
    findings.iter().filter(|one| is_it(one)).map(Finding::code).collect()
}
