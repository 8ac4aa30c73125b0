//! What the findings come to, in words: whether states are recorded, and whether they are injected.

use super::sidecar::living_holder;
use super::webhooks::of_pods;
use crate::facts::{Facts, Phase, Read, Recorder};
use crate::finding::{Code, Finding, Severity};

/// An error of one of these means that nothing is recorded.
const RECORDS: [Code; 9] = [
    Code::DefinitionMissing,
    Code::DefinitionOfOpenKruise,
    Code::DefinitionVersionNotServed,
    Code::DefinitionWithoutStatus,
    Code::SidecarMissing,
    Code::SidecarNotAvailable,
    Code::SidecarForbidden,
    Code::LeaderMissing,
    Code::RecorderMissing,
];
/// An error of one of these means that nothing is injected.
const INJECTS: [Code; 14] = [
    Code::KubewardenMissing,
    Code::KubewardenTooOld,
    Code::DefinitionMissing,
    Code::DefinitionVersionNotServed,
    Code::PolicyServerMissing,
    Code::PolicyServerNotReady,
    Code::ServiceAccountMissing,
    Code::LookupForbidden,
    Code::PolicyMissing,
    Code::PolicyNotActive,
    Code::PolicyDiffers,
    Code::LookupNotGranted,
    Code::WebhookMissing,
    Code::WebhookPointsElsewhere,
];

/// The last lines of the table. None before an installation.
pub fn verdict(facts: &Facts, findings: &[Finding]) -> Vec<String> {
    if facts.settings.phase == Phase::Before {
        return Vec::new();
    }
    if facts.kubernetes.known().is_none() {
        return vec!["Nothing could be read: whether states are recorded and injected is not known.".into()];
    }
    vec![records(facts, findings), injects(facts, findings)]
}

fn records(facts: &Facts, findings: &[Finding]) -> String {
    let last = facts.objects.known().and_then(|objects| {
        objects.listed.iter().filter_map(|object| object.metadata.managed_fields.last.as_deref()).max()
    });
    let last = last.map(|time| format!(" A status was last written at {time}.")).unwrap_or_default();
    let errors = errors(findings, &RECORDS);
    if !errors.is_empty() {
        return format!("States are not recorded: see {}.{last}", errors.join(", "));
    }
    let recorder = match facts.recording.recorder {
        Recorder::OpenKruise => {
            let manager = facts.openkruise_lease.known().and_then(|reads| reads.living_holder());
            manager.map(|manager| format!("OpenKruise's manager {manager} renews its Lease"))
        }
        Recorder::Own if facts.recording.lease.is_none() => {
            facts.sidecars.items().map(|_| "the sidecar is available".to_owned())
        }
        Recorder::Own => living_holder(facts).map(|holder| format!("{holder} renews its Lease")),
    };
    let Some(recorder) = recorder else {
        return format!("Whether states are recorded is not known: not everything could be read.{last}");
    };
    let except = if findings.iter().any(|finding| finding.code == Code::ObjectsNotRecorded) {
        ", but not those of all workloads (ObjectsNotRecorded)"
    } else {
        ""
    };
    format!("States are recorded{except}: {recorder}.{last}")
}

fn injects(facts: &Facts, findings: &[Finding]) -> String {
    if !facts.settings.has_policies {
        return "Whether states are injected into new Pods was not checked (--without-policies).".into();
    }
    let errors = errors(findings, &INJECTS);
    let has = |code: Code| findings.iter().any(|finding| finding.code == code);
    if has(Code::KubewardenMissing) && of_pods(facts).is_some() {
        return "Whether states are injected into new Pods is not known: the webhook exists, but not what should have made \
                it (KubewardenMissing)."
            .into();
    }
    if !errors.is_empty() {
        return format!("States are not injected into new Pods: see {}.", errors.join(", "));
    }
    if has(Code::PolicyMonitors) {
        return "States are not injected into new Pods: the policy only monitors (PolicyMonitors).".into();
    }
    let is_read = !matches!(facts.policies, Read::Unknown) && !matches!(facts.mutating, Read::Unknown);
    if !is_read {
        return "Whether states are injected into new Pods is not known: not everything could be read."
            .into();
    }
    let except = if has(Code::NamespacesNotCovered) {
        ", but not in all namespaces (NamespacesNotCovered)"
    } else {
        ""
    };
    format!("States are injected into new Pods{except}: the policies are active, and their webhooks exist.")
}

/// The errors among the findings that have one of these codes, each once.
fn errors(findings: &[Finding], codes: &[Code]) -> Vec<&'static str> {
    let is_error =
        |code: &&Code| findings.iter().any(|one| one.code == **code && one.severity == Severity::Error);
    codes.iter().filter(is_error).map(|code| code.as_str()).collect()
}
