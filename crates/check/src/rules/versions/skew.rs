//! Whether controller, `PolicyServers` and definitions of Kubewarden are of one minor version.
//!
//! Kubewarden supports no other combination, and upgrades by one minor version at a time.

use super::OLDEST_KUBEWARDEN;
use crate::facts::{DEFAULT_SERVER, Facts, MinorVersion, PolicyServer, Version};
use crate::finding::{KubewardenPart, NewestPart, OlderPart, TooOld, VersionDiagnosis};
use crate::rules::Findings;
use crate::rules::definition::fields;

/// A field of the definition of PolicyServer, and the version of Kubewarden that brought it.
pub(crate) struct ServerField {
    minor: MinorVersion,
    pub(crate) name: &'static str,
}

/// The fields by which the age of the definitions is known: they have neither a label nor an
/// annotation with a version. Those of 1.37 have the fields of 1.36.
pub(crate) const SERVER_FIELDS: [ServerField; 3] = [
    ServerField {
        minor: kubewarden(33),
        name: "sigstoreTrustConfig",
    },
    ServerField {
        minor: kubewarden(35),
        name: "namespacedPoliciesCapabilities",
    },
    ServerField {
        minor: kubewarden(36),
        name: "webhookPort",
    },
];

const fn kubewarden(minor: u32) -> MinorVersion {
    MinorVersion { major: 1, minor }
}

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    let controller = facts.controller_version();
    let servers = facts.servers.items().unwrap_or_default();
    if facts.has_controller() && controller.is_none() {
        let part = KubewardenPart::Controller;
        let diagnosis = VersionDiagnosis::KubewardenVersionUnknown(part);
        findings.unknown("Kubewarden's controller", diagnosis);
    }
    let newest = newest_part(facts, controller.as_ref());
    if let Some(version) = controller {
        check_controller(version, newest.as_ref(), findings);
    }
    for server in servers {
        check_server(facts, server, newest.as_ref(), findings);
    }
    if let Some(newest) = &newest {
        check_definitions(facts, newest, findings);
    }
    check_default_image(facts, findings);
}

/// The newest part. The controller before `PolicyServers`, these before the definitions, whose
/// version is only known to be at least some version.
fn newest_part(facts: &Facts, controller: Option<&Version>) -> Option<NewestPart> {
    let known = server_fields(facts).unwrap_or_default();
    let definitions = SERVER_FIELDS
        .iter()
        .filter(|field| known.contains(&field.name))
        .map(|field| (KubewardenPart::Definitions, field.minor));
    let servers = facts.servers.items().unwrap_or_default();
    let servers = servers.iter().filter_map(|server| {
        let version = Version::of_image(&server.spec.image)?;
        let part = KubewardenPart::PolicyServer(server.name().to_owned());
        Some((part, version.minor))
    });
    let controller = controller.map(|version| (KubewardenPart::Controller, version.minor));
    // The last of several counts.
    let (part, minor) = definitions
        .chain(servers)
        .chain(controller)
        .max_by_key(|(_, minor)| *minor)?;
    Some(NewestPart { part, minor })
}

fn check_controller(version: Version, newest: Option<&NewestPart>, findings: &mut Findings) {
    let subject = "Kubewarden's controller";
    if version.minor < OLDEST_KUBEWARDEN {
        let part = KubewardenPart::Controller;
        let version = version.text;
        let diagnosis = TooOld::Part { part, version };
        findings.error(subject, VersionDiagnosis::KubewardenTooOld(diagnosis));
    } else if let Some(newest) = newest.filter(|newest| version.minor < newest.minor) {
        let version = version.text;
        let older = OlderPart::Controller { version };
        findings.warning(subject, skewed(older, newest));
    }
}

fn check_server(
    facts: &Facts,
    server: &PolicyServer,
    newest: Option<&NewestPart>,
    findings: &mut Findings,
) {
    let name = server.name().to_owned();
    let subject = format!("PolicyServer {name}");
    let Some(version) = Version::of_image(&server.spec.image) else {
        let part = KubewardenPart::PolicyServer(name);
        let diagnosis = VersionDiagnosis::KubewardenVersionUnknown(part);
        return findings.unknown(subject, diagnosis);
    };
    if version.minor < OLDEST_KUBEWARDEN && name == facts.server_name {
        let part = KubewardenPart::PolicyServer(name);
        let version = version.text;
        let diagnosis = TooOld::Part { part, version };
        findings.error(subject, VersionDiagnosis::KubewardenTooOld(diagnosis));
    } else if let Some(newest) = newest.filter(|newest| version.minor < newest.minor) {
        let image = server.spec.image.clone();
        let older = OlderPart::PolicyServer { name, image };
        findings.warning(subject, skewed(older, newest));
    }
}

/// The fields of the newest version tell whether the definitions are as new.
fn check_definitions(facts: &Facts, newest: &NewestPart, findings: &mut Findings) {
    let Some(known) = server_fields(facts) else {
        return;
    };
    let mut due = SERVER_FIELDS
        .iter()
        .rev()
        .filter(|field| field.minor <= newest.minor);
    if let Some(missing) = due.find(|field| !known.contains(&field.name)) {
        let missing_field = missing.name;
        let older = OlderPart::Definitions { missing_field };
        findings.warning("Kubewarden's definitions", skewed(older, newest));
    }
}

fn skewed(older: OlderPart, newest: &NewestPart) -> VersionDiagnosis {
    let newest = newest.clone();
    VersionDiagnosis::KubewardenSkewed { older, newest }
}

/// As long as there is no policy, the user may still have to choose an image.
fn check_default_image(facts: &Facts, findings: &mut Findings) {
    let is_installed = facts.policies.items().is_none() || facts.own_policies().next().is_some();
    let Some(server) = facts.server_named(DEFAULT_SERVER).filter(|_| !is_installed) else {
        return;
    };
    let image = server.spec.image.clone();
    let diagnosis = VersionDiagnosis::DefaultPolicyServerImage { image };
    findings.info(format!("PolicyServer {DEFAULT_SERVER}"), diagnosis);
}

/// The fields of the spec of a PolicyServer. None if the definition does not show them.
fn server_fields(facts: &Facts) -> Option<Vec<&str>> {
    let mut versions = facts.server_definition.known()?.spec.versions.iter();
    let version = versions.find(|version| version.name == "v1")?;
    Some(
        fields(version, "spec")?
            .keys()
            .map(String::as_str)
            .collect(),
    )
}
