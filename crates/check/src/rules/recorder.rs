//! Whether somebody records: the sidecar, its Lease, its rights, and other programs.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Findings, error_once_installed};
use crate::facts::{Facts, LeaseReads, Read, SidecarSetup};
use crate::finding::{Finding, Leaderless, RecorderDiagnosis, Replicas, Severity};
use crate::settings::Recorder;

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    if !facts.settings.is_before() {
        facts.each().for_each(|one| check_sidecar(one, findings));
    }
    check_other_sidecars(facts, findings);
    check_openkruise(facts, findings);
}

/// Anybody can make a Deployment of the sidecar's image, so that is no error, which would stop an
/// installation.
fn check_other_sidecars(facts: &Facts, findings: &mut Findings) {
    let all = facts.sidecars.items().unwrap_or_default().iter();
    let deployments: Vec<String> = all
        .filter(|one| replicas(one) > 0 && is_second(facts, one))
        .map(|one| full_name(&one.metadata))
        .collect();
    if !deployments.is_empty() {
        let diagnosis = RecorderDiagnosis::SecondInstallation { deployments };
        findings.warning(subject(facts), diagnosis);
    }
}

fn full_name(metadata: &ObjectMeta) -> String {
    format!(
        "{}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    )
}

fn subject(facts: &Facts) -> String {
    format!(
        "Deployment {}/{}",
        facts.settings.namespace, facts.settings.sidecar
    )
}

/// Whether a sidecar is not of this installation, and may record what it records.
fn is_second(facts: &Facts, sidecar: &Deployment) -> bool {
    let setup = SidecarSetup::of(&facts.settings, Some(sidecar));
    !facts.each().any(|own| own.is_own_sidecar(sidecar))
        && facts
            .each()
            .any(|own| own.setup.shares_objects_with(&setup))
}

fn check_sidecar(facts: &Facts, findings: &mut Findings) {
    let subject = subject(facts);
    if facts.sidecars.items().is_some() {
        match facts.own_sidecar() {
            Some(sidecar) => check_deployment(sidecar, &subject, findings),
            None => report_missing_sidecar(facts, &subject, findings),
        }
    }
    if facts.setup.recorder == Recorder::Own {
        check_lease(facts, findings);
    }
    if !facts.missing_sidecar_rights.is_empty() {
        let rights = facts.missing_sidecar_rights.clone();
        findings.error(&subject, RecorderDiagnosis::SidecarForbidden { rights });
    }
    check_fallbacks(facts, &subject, findings);
}

/// Where a requirement has an end, the sidecar needs further rights, and a flag.
fn check_fallbacks(facts: &Facts, subject: &str, findings: &mut Findings) {
    let rights = facts.missing_fallback_rights.clone();
    let has_sidecar = facts.own_sidecar().is_some();
    let is_off = facts.falls_back && has_sidecar && !facts.setup.evicts_pending_pods;
    if is_off || !rights.is_empty() {
        findings.warning(subject, RecorderDiagnosis::FallbackForbidden { rights });
    }
}

/// A sidecar may run under another name or outside the cluster: then its Lease is renewed all the
/// same.
fn report_missing_sidecar(facts: &Facts, subject: &str, findings: &mut Findings) {
    let reads = facts.lease.known().filter(|_| facts.setup.lease.is_some());
    let lease_holder = reads
        .and_then(|reads| reads.living_holder())
        .map(str::to_owned);
    let severity = if lease_holder.is_some() {
        Severity::Warning
    } else {
        Severity::Error
    };
    let diagnosis = RecorderDiagnosis::SidecarMissing { lease_holder };
    findings.add(severity, subject, diagnosis);
}

fn check_deployment(sidecar: &Deployment, subject: &str, findings: &mut Findings) {
    let wanted = replicas(sidecar);
    let available = sidecar
        .status
        .as_ref()
        .and_then(|status| status.available_replicas)
        .unwrap_or(0);
    let replicas = Replicas { available, wanted };
    if available == 0 {
        findings.error(subject, RecorderDiagnosis::SidecarNotAvailable(replicas));
    } else if available < wanted {
        findings.warning(subject, RecorderDiagnosis::SidecarNotAvailable(replicas));
    } else {
        findings.ok(subject, RecorderDiagnosis::SidecarAvailable(replicas));
    }
}

fn replicas(deployment: &Deployment) -> i32 {
    deployment.spec.replicas.unwrap_or(1)
}

/// Why nothing is recorded, if that is because nobody renews the recorder's Lease.
pub(crate) fn silent_recorder(facts: &Facts) -> Option<Finding> {
    let mut findings = Findings::default();
    match facts.setup.recorder {
        Recorder::Own => check_lease(facts, &mut findings),
        Recorder::OpenKruise => check_openkruise(facts, &mut findings),
    }
    findings
        .all
        .into_iter()
        .find(|one| one.severity == Severity::Error)
}

fn check_lease(facts: &Facts, findings: &mut Findings) {
    let Some(name) = &facts.setup.lease else {
        return;
    };
    let subject = format!("Lease {}/{name}", facts.settings.namespace);
    let leader = match &facts.lease {
        Read::Unknown => return,
        Read::Absent => Err(Leaderless::NoLease),
        Read::Known(reads) => leader(reads),
    };
    match leader {
        Ok(pod) => findings.ok(subject, RecorderDiagnosis::LeaderActive { pod }),
        Err(why) => {
            let sidecar = facts.settings.sidecar.clone();
            findings.error(subject, RecorderDiagnosis::LeaderMissing { why, sidecar });
        }
    }
}

/// The Pod that holds the Lease and renews it.
fn leader(reads: &LeaseReads) -> Result<String, Leaderless> {
    let holder = reads.holder().ok_or(Leaderless::Free)?;
    if reads.living_holder().is_none() {
        return Err(Leaderless::Silent {
            holder: holder.to_owned(),
        });
    }
    // The identity is `<name of the Pod>_<suffix of the process>`.
    let pod = holder.rsplit_once('_').map_or(holder, |(pod, _)| pod);
    Ok(pod.to_owned())
}

fn check_openkruise(facts: &Facts, findings: &mut Findings) {
    let subject = format!("Lease {}/kruise-manager", facts.setup.openkruise_namespace);
    let manager = facts
        .openkruise_lease
        .known()
        .and_then(|reads| reads.living_holder());
    match (facts.setup.recorder, manager) {
        (Recorder::Own, Some(manager)) => {
            let manager = manager.to_owned();
            findings.error(subject, RecorderDiagnosis::ConflictingRecorder { manager });
        }
        (Recorder::OpenKruise, None) if !matches!(facts.openkruise_lease, Read::Unknown) => {
            let severity = error_once_installed(facts);
            findings.add(severity, subject, RecorderDiagnosis::RecorderMissing);
        }
        _ => {}
    }
}
