//! The words about the versions of Kubernetes and Kubewarden.

use super::{Words, some_of};
use crate::facts::{DEFAULT_SERVER, Facts, MinorVersion, Version};
use crate::finding::{KubewardenPart, NewestPart, OlderPart, TooOld, VersionDiagnosis as D};
use crate::rules::{OLDEST, OLDEST_KUBEWARDEN};

/// The first version of Kubewarden that is one chart.
const FIRST_OF_ONE_CHART: MinorVersion = MinorVersion {
    major: 1,
    minor: 37,
};

pub(super) fn words(diagnosis: &D, facts: &Facts) -> Words {
    let kubernetes = facts
        .kubernetes
        .known()
        .map_or("", |version| version.text.as_str());
    match diagnosis {
        D::KubernetesSupported => Words::seen(kubernetes),
        D::KubernetesTooOld => Words::seen(kubernetes).advise(format!(
            "update it to {OLDEST} or newer, the oldest that is supported"
        )),
        D::KubewardenInstalled => Words::seen(format!(
            "its definitions have all fields that the policies use; {}",
            parts(facts).join("; ")
        )),
        D::KubewardenMissing { kinds } => {
            Words::seen(format!("no definition of {}", kinds.join(" and "))).advise(
                "install Kubewarden first: its chart admission-controller (up to 1.36 the charts \
                 kubewarden-crds, kubewarden-controller, kubewarden-defaults)",
            )
        }
        D::KubewardenTooOld(too_old) => too_old_words(too_old),
        D::KubewardenSkewed { older, newest } => skewed_words(older, newest, facts),
        D::KubewardenVersionUnknown(part) => {
            let why = match part {
                KubewardenPart::PolicyServer(_) => "its image has no version in its tag",
                _ => "neither its image nor a label has its version",
            };
            Words::seen(format!("{why}, so its version is not compared"))
                .advise("see for yourself that all parts of Kubewarden are of one minor version")
        }
        D::DefaultPolicyServerImage { image } => Words::seen(format!("its image is {image}"))
            .advise(
                "give the same to the PolicyServer of this installation, if it gets one of its \
                 own (chart: policyServer.image)",
            ),
    }
}

/// What runs of Kubewarden, as far as it is known.
fn parts(facts: &Facts) -> Vec<String> {
    let controller = facts.controller_version().map_or_else(
        || "controller of an unknown version".to_owned(),
        |version| format!("controller {}", version.text),
    );
    let Some(servers) = facts.servers.items() else {
        return vec![controller, "PolicyServers could not be read".to_owned()];
    };
    let servers: Vec<String> = servers
        .iter()
        .map(|server| format!("{} {}", server.name(), server.spec.image))
        .collect();
    if servers.is_empty() {
        return vec![controller];
    }
    vec![controller, format!("PolicyServers: {}", some_of(&servers))]
}

fn too_old_words(too_old: &TooOld) -> Words {
    let (seen, part) = match too_old {
        TooOld::Definition { missing_fields } => (
            format!("its definition does not have {}", missing_fields.join(", ")),
            &KubewardenPart::Definitions,
        ),
        TooOld::Part { part, version } => (format!("is {version}"), part),
    };
    let first = match part {
        KubewardenPart::Definitions => ", first its definitions",
        _ => "",
    };
    let chart = match part {
        KubewardenPart::PolicyServer(_) => String::new(),
        _ => format!(": {}", charts(part, OLDEST_KUBEWARDEN)),
    };
    Words::seen(seen).advise(format!(
        "update Kubewarden to {OLDEST_KUBEWARDEN} or newer, the oldest that is \
         supported{first}{chart}"
    ))
}

fn skewed_words(older: &OlderPart, newest: &NewestPart, facts: &Facts) -> Words {
    let minor = newest.minor;
    let other = match &newest.part {
        KubewardenPart::Controller => format!("the controller is {minor}"),
        KubewardenPart::PolicyServer(name) => format!("PolicyServer {name} is {minor}"),
        KubewardenPart::Definitions => format!("the definitions are {minor} or newer"),
    };
    match older {
        OlderPart::Controller { version } => Words::seen(format!("is {version}, but {other}"))
            .advise(format!(
                "update it: {}",
                charts(&KubewardenPart::Controller, minor)
            )),
        OlderPart::Definitions { missing_field } => Words::seen(format!(
            "have no PolicyServer.spec.{missing_field}, but {other}"
        ))
        .advise(format!(
            "update them: {}",
            charts(&KubewardenPart::Definitions, minor)
        )),
        OlderPart::PolicyServer { name, image } => {
            let words = Words::seen(format!("its image is {image}, but {other}"));
            if name == DEFAULT_SERVER {
                let part = KubewardenPart::PolicyServer(name.clone());
                return words.advise(format!("update it: {}", charts(&part, minor)));
            }
            let wanted = default_image(minor, facts)
                .map_or_else(|| format!("one of {minor}"), str::to_owned);
            let how = if *name == facts.server_name {
                " (chart: policyServer.image)"
            } else {
                ""
            };
            words.advise(format!("set its spec.image to {wanted}{how}"))
        }
    }
}

/// The image of Kubewarden's own PolicyServer, if it is of this version.
fn default_image(minor: MinorVersion, facts: &Facts) -> Option<&str> {
    let image = facts.server_named(DEFAULT_SERVER)?.spec.image.as_str();
    (Version::of_image(image)?.minor == minor).then_some(image)
}

/// The chart that brings this version of a part.
fn charts(part: &KubewardenPart, minor: MinorVersion) -> String {
    let former = match part {
        KubewardenPart::Controller => "kubewarden-controller",
        KubewardenPart::PolicyServer(_) => "kubewarden-defaults",
        KubewardenPart::Definitions => "kubewarden-crds",
    };
    if minor < FIRST_OF_ONE_CHART {
        format!("Kubewarden's chart {former} (from 1.37 on admission-controller)")
    } else {
        format!(
            "Kubewarden's chart admission-controller (up to 1.36 {former}; docs/upgrading.md says \
             how to change to it)"
        )
    }
}
