//! The sidecar, its Lease, its rights, and other programs that record.

use super::findings::{Findings, some_of};
use crate::facts::{Deployment, Facts, Phase, Read, Recorder};
use crate::finding::{Code, Finding, Severity};
use crate::gather::LEASE_DURATION;

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    let settings = &facts.settings;
    if settings.phase == Phase::After
        && let Some(sidecars) = facts.sidecars.items()
    {
        check_deployment(facts, sidecars, findings);
    }
    check_others(facts, findings);
    if settings.phase == Phase::After {
        if facts.recording.recorder == Recorder::Own {
            check_lease(facts, findings);
        }
        check_rights(facts, findings);
    }
    check_recorder(facts, findings);
}

/// Deployments of the sidecar's image. Anybody can make one, so only one that may write states is an error.
fn check_others(facts: &Facts, findings: &mut Findings) {
    let settings = &facts.settings;
    let subject = format!("Deployment {}/{}", settings.namespace, settings.sidecar);
    let advice = "delete one of the two installations";
    for (records, severity, seen) in [
        (Read::Known(true), Severity::Error, "another sidecar runs, which records the same objects"),
        (
            Read::Unknown,
            Severity::Warning,
            "another sidecar runs; whether it may write states was not found out",
        ),
        (
            Read::Known(false),
            Severity::Info,
            "another Deployment has the sidecar's image, but has no replicas, or may not write states",
        ),
    ] {
        let others = facts.other_sidecars.iter().filter(|other| other.records == records);
        let names: Vec<String> = others.map(|other| other.name.clone()).collect();
        if !names.is_empty() {
            let seen = format!("{seen}: {}", some_of(&names));
            findings.add(severity, Code::SecondInstallation, subject.as_str(), seen, advice);
        }
    }
}

fn check_deployment(facts: &Facts, sidecars: &[Deployment], findings: &mut Findings) {
    let (namespace, name) = (&facts.settings.namespace, &facts.settings.sidecar);
    let subject = format!("Deployment {namespace}/{name}");
    let found =
        sidecars.iter().find(|one| one.metadata.name == *name && one.metadata.namespace == *namespace);
    let Some(sidecar) = found else {
        return check_missing(facts, subject, findings);
    };
    let (wanted, available) = (sidecar.spec.replicas.unwrap_or(1), sidecar.status.available_replicas);
    let (code, seen) = (Code::SidecarNotAvailable, format!("{available} of {wanted} sidecars are available"));
    let how = format!("kubectl describe pods -n {namespace}; /readyz of a Pod says what it waits for");
    match available {
        0 => findings.error(code, subject.as_str(), format!("{seen}, so nothing is recorded"), how),
        some if some < wanted => findings.warning(code, subject.as_str(), seen, how),
        _ => findings.ok(Code::SidecarAvailable, subject.as_str(), seen),
    }
    let image =
        sidecar.spec.template.spec.containers.first().map_or("", |container| container.image.as_str());
    let module = facts.own_policies().next().map_or("", |policy| policy.spec.module.as_str());
    if let (Some(sidecar), Some(policy)) = (version(image), version(module))
        && sidecar != policy
    {
        findings.info(
            Code::VersionsDiffer,
            subject,
            format!("the sidecar is {sidecar}, the policy {policy}"),
            "update both to the same version",
        );
    }
}

/// A sidecar may run under another name or outside the cluster: then its Lease is renewed all the same.
fn check_missing(facts: &Facts, subject: String, findings: &mut Findings) {
    let advice = "apply it (kubectl apply -k, or helm upgrade), or name its namespace with --namespace";
    if let (Some(lease), Some(holder)) = (&facts.recording.lease, living_holder(facts)) {
        let namespace = &facts.settings.namespace;
        return findings.warning(
            Code::SidecarMissing,
            subject,
            format!(
                "does not exist, but {holder} holds and renews Lease {namespace}/{lease}: a sidecar outside the cluster, or under \
                 another name, records"
            ),
            "name the sidecar's Deployment with --sidecar and --namespace, if it has one; otherwise make sure that the \
             process outside the cluster is intended",
        );
    }
    let others: Vec<String> = facts
        .other_sidecars
        .iter()
        .filter(|other| other.records != Read::Known(false))
        .map(|other| other.name.clone())
        .collect();
    let seen = if others.is_empty() {
        "does not exist, so nothing is recorded".to_owned()
    } else {
        format!("does not exist; a sidecar is found as {}", some_of(&others))
    };
    findings.error(Code::SidecarMissing, subject, seen, advice);
}

/// Who holds the sidecar's Lease and renews it.
pub(super) fn living_holder(facts: &Facts) -> Option<&str> {
    facts.lease.known().and_then(|reads| reads.living_holder())
}

/// The tag of a reference, if it looks like a version.
fn version(reference: &str) -> Option<&str> {
    let reference = reference.split('@').next()?;
    let tag = reference.rsplit('/').next()?.split_once(':')?.1;
    let is_version = tag.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    is_version.then_some(tag)
}

/// Why nothing is recorded, if that is because nobody renews the recorder's Lease.
pub fn silent_recorder(facts: &Facts) -> Option<Finding> {
    let mut findings = Findings::default();
    match facts.recording.recorder {
        Recorder::Own => check_lease(facts, &mut findings),
        Recorder::OpenKruise => check_recorder(facts, &mut findings),
    }
    findings.0.into_iter().find(|one| one.severity == Severity::Error)
}

fn check_lease(facts: &Facts, findings: &mut Findings) {
    let Some(name) = &facts.recording.lease else { return };
    let namespace = &facts.settings.namespace;
    let subject = format!("Lease {namespace}/{name}");
    let why = "so nothing is recorded";
    let advice = format!("kubectl logs -n {namespace} deployment/{}", facts.settings.sidecar);
    let reads = match &facts.lease {
        Read::Unknown => return,
        Read::Absent => {
            return findings.error(Code::LeaderMissing, subject, format!("does not exist, {why}"), advice);
        }
        Read::Known(reads) => reads,
    };
    let Some(holder) = reads.living_holder() else {
        let seen = match reads.holder() {
            Some(holder) => {
                format!("{holder} holds it, but did not renew it for {} s, {why}", LEASE_DURATION.as_secs())
            }
            None => format!("nobody holds it, {why}"),
        };
        return findings.error(Code::LeaderMissing, subject, seen, advice);
    };
    // The identity is `<name of the Pod>_<suffix of the process>`.
    let pod = holder.rsplit_once('_').map_or(holder, |(pod, _)| pod);
    let pods = facts.sidecar_pods.items();
    if pods.is_some_and(|pods| pods.iter().all(|one| one.metadata.name != pod)) {
        return findings.warning(
            Code::LeaderMissing,
            subject,
            format!("{holder} holds and renews it, but no Pod {pod} exists in {namespace}"),
            "find out where that process runs",
        );
    }
    findings.ok(Code::LeaderActive, subject, format!("{pod} leads"));
}

fn check_rights(facts: &Facts, findings: &mut Findings) {
    let missing: Vec<String> = facts
        .sidecar_rights
        .iter()
        .filter(|(_, is_allowed)| !is_allowed)
        .map(|(right, _)| right.to_string())
        .collect();
    if !missing.is_empty() {
        findings.error(
            Code::SidecarForbidden,
            format!("Deployment {}/{}", facts.settings.namespace, facts.settings.sidecar),
            format!("its ServiceAccount may not {}", some_of(&missing)),
            "apply the roles and bindings of this version again (deploy/base/rbac.yaml, chart: rbac.create)",
        );
    }
}

fn check_recorder(facts: &Facts, findings: &mut Findings) {
    let subject = format!("Lease {}/kruise-manager", facts.recording.openkruise_namespace);
    let manager = facts.openkruise_lease.known().and_then(|reads| reads.living_holder());
    match (facts.recording.recorder, manager) {
        (Recorder::Own, Some(manager)) => findings.error(
            Code::ConflictingRecorder,
            subject,
            format!("OpenKruise's manager {manager} runs and writes the same objects"),
            "install the overlay openkruise (chart: sidecar.recorder=openkruise), or remove OpenKruise's manager",
        ),
        (Recorder::OpenKruise, None) if !matches!(facts.openkruise_lease, Read::Unknown) => findings.add(
            if facts.settings.phase == Phase::Before { Severity::Warning } else { Severity::Error },
            Code::RecorderMissing,
            subject,
            "OpenKruise's manager is to record, but does not renew its Lease: nothing is recorded",
            "start OpenKruise's manager, or install without the overlay openkruise (chart: sidecar.recorder=self)",
        ),
        _ => {}
    }
}
