//! Whether somebody records: the sidecar, its Lease, its rights, and other programs.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Findings;
use crate::facts::{Facts, Read, SidecarSetup};
use crate::finding::{Diagnosis, Finding, Leaderless, Replicas, Severity};
use crate::settings::Recorder;

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    if !facts.settings.is_before() {
        facts.each().for_each(|one| check_sidecar(one, findings));
    }
    // Anybody can make a Deployment of the sidecar's image, so that is no error, which would stop
    // an installation.
    let others = facts.sidecars.items().unwrap_or_default().iter();
    let others = others.filter(|one| replicas(one) > 0 && is_second(facts, one));
    let full_name = |ObjectMeta {
                         namespace, name, ..
                     }: &ObjectMeta| {
        format!(
            "{}/{}",
            namespace.as_deref().unwrap_or_default(),
            name.as_deref().unwrap_or_default()
        )
    };
    let others: Vec<String> = others.map(|one| full_name(&one.metadata)).collect();
    if !others.is_empty() {
        findings.warning(subject(facts), Diagnosis::SecondInstallation(others));
    }
    check_openkruise(facts, findings);
}

fn subject(facts: &Facts) -> String {
    format!(
        "Deployment {}/{}",
        facts.settings.namespace, facts.settings.sidecar
    )
}

/// Whether a sidecar is not of this installation, and may record what it records.
fn is_second(facts: &Facts, sidecar: &Deployment) -> bool {
    let other = SidecarSetup::of(&facts.settings, Some(sidecar)).namespace;
    let may_record =
        |own: &Facts| other.is_none() || [&None, &other].contains(&&own.setup.namespace);
    !facts.each().any(|own| own.is_own_sidecar(sidecar)) && facts.each().any(may_record)
}

fn check_sidecar(facts: &Facts, findings: &mut Findings) {
    let subject = subject(facts);
    if facts.sidecars.items().is_some() {
        if let Some(sidecar) = facts.own_sidecar() {
            check_deployment(sidecar, &subject, findings);
        } else {
            // A sidecar may run under another name or outside the cluster: then its Lease is
            // renewed all the same.
            let reads = facts.lease.known().filter(|_| facts.setup.lease.is_some());
            let holder = reads
                .and_then(|reads| reads.living_holder())
                .map(str::to_owned);
            let severity = if holder.is_some() {
                Severity::Warning
            } else {
                Severity::Error
            };
            findings.add(
                severity,
                subject.as_str(),
                Diagnosis::SidecarMissing(holder),
            );
        }
    }
    if facts.setup.recorder == Recorder::Own {
        check_lease(facts, findings);
    }
    if !facts.sidecar_lacks.is_empty() {
        findings.error(
            subject,
            Diagnosis::SidecarForbidden(facts.sidecar_lacks.clone()),
        );
    }
}

fn check_deployment(sidecar: &Deployment, subject: &str, findings: &mut Findings) {
    let wanted = replicas(sidecar);
    let available = sidecar
        .status
        .as_ref()
        .and_then(|status| status.available_replicas)
        .unwrap_or(0);
    let replicas = Replicas { available, wanted };
    let (severity, diagnosis) = match available {
        0 => (Severity::Error, Diagnosis::SidecarNotAvailable(replicas)),
        _ if available < wanted => (Severity::Warning, Diagnosis::SidecarNotAvailable(replicas)),
        _ => (Severity::Ok, Diagnosis::SidecarAvailable(replicas)),
    };
    findings.add(severity, subject, diagnosis);
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
        .0
        .into_iter()
        .find(|one| one.severity == Severity::Error)
}

fn check_lease(facts: &Facts, findings: &mut Findings) {
    let Some(name) = &facts.setup.lease else {
        return;
    };
    let subject = format!("Lease {}/{name}", facts.settings.namespace);
    let missing = |why| Diagnosis::LeaderMissing(why, facts.settings.sidecar.clone());
    let reads = match &facts.lease {
        Read::Unknown => return,
        Read::Absent => return findings.error(subject, missing(Leaderless::NoLease)),
        Read::Known(reads) => reads,
    };
    match (reads.living_holder(), reads.holder()) {
        // The identity is `<name of the Pod>_<suffix of the process>`.
        (Some(holder), _) => {
            let pod = holder.rsplit_once('_').map_or(holder, |(pod, _)| pod);
            findings.ok(subject, Diagnosis::LeaderActive(pod.to_owned()));
        }
        (None, Some(holder)) => {
            findings.error(subject, missing(Leaderless::Silent(holder.to_owned())));
        }
        (None, None) => findings.error(subject, missing(Leaderless::Free)),
    }
}

fn check_openkruise(facts: &Facts, findings: &mut Findings) {
    let subject = format!("Lease {}/kruise-manager", facts.setup.openkruise_namespace);
    let manager = facts
        .openkruise_lease
        .known()
        .and_then(|reads| reads.living_holder());
    match (facts.setup.recorder, manager) {
        (Recorder::Own, Some(manager)) => {
            findings.error(subject, Diagnosis::ConflictingRecorder(manager.to_owned()));
        }
        (Recorder::OpenKruise, None) if !matches!(facts.openkruise_lease, Read::Unknown) => {
            let severity = if facts.settings.is_before() {
                Severity::Warning
            } else {
                Severity::Error
            };
            findings.add(severity, subject, Diagnosis::RecorderMissing);
        }
        _ => {}
    }
}
