//! Reads the facts from the cluster and the registry. Writes nothing: the only POST asks what an
//! account may do.
//!
//! Each request has a limit and a timeout, and fails alone: what cannot be read is a fact, too.

mod leases;
mod sidecar_rights;

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::Client;
use pps_recorder::whitelist;
use tokio::time::timeout;

use self::leases::Leases;
pub use self::leases::{Silence, silent_recorder};
use crate::facts::{
    DEFAULT_SERVER, Facts, Module, ModuleAnswer, Objects, Read, Recorded, Right, SidecarSetup,
    container,
};
use crate::reader::Reader;
use crate::registry::{self, Sources};
use crate::settings::Settings;

#[cfg(test)]
mod tests;

/// How long the check waits for what.
pub(crate) struct Timing {
    /// For all answers. The Jobs that run the check have more time, so that it can still say what
    /// it has found.
    total: Duration,
    /// How long a holder that lives takes at most to renew its Lease: both recorders renew theirs
    /// every two seconds.
    lease_interval: Duration,
    /// How long a holder may take to renew its Lease, before it counts as dead.
    lease_duration: Duration,
}

pub(crate) const TIMING: Timing = Timing {
    total: Duration::from_mins(2),
    lease_interval: Duration::from_secs(5),
    lease_duration: Duration::from_secs(crate::facts::LEASE_SECONDS),
};
const KUBEWARDEN: &str = "policies.kubewarden.io";
const SIDECARS: &str = "app.kubernetes.io/component=sidecar";

/// Reads everything. The facts have what could not be read.
pub(crate) async fn gather(client: &Client, settings: Settings, timing: &Timing) -> Facts {
    let reader = Reader::new(client.clone(), settings.limits, timing.total);
    let mut facts = Facts {
        settings,
        ..Facts::default()
    };
    facts.kubernetes = reader.version().await;
    // Without an answer nothing else could be read either.
    if facts.kubernetes.known().is_some() {
        read_all(&reader, &mut facts, timing).await;
    }
    facts.problems = reader.into_problems();
    facts
}

async fn read_all(reader: &Reader, facts: &mut Facts, timing: &Timing) {
    read_sidecars(reader, facts).await;
    facts.setup = SidecarSetup::of(&facts.settings, facts.own_sidecar());
    let first = Leases::read(reader, facts).await;

    (
        facts.definition,
        facts.policy_definition,
        facts.server_definition,
    ) = tokio::join!(
        reader.get_one(None, "persistentpodstates.apps.kruise.io"),
        reader.get_one(None, "clusteradmissionpolicies.policies.kubewarden.io"),
        reader.get_one(None, "policyservers.policies.kubewarden.io"),
    );
    let policies = Right::new("list", KUBEWARDEN, "clusteradmissionpolicies");
    let servers = Right::new("list", KUBEWARDEN, "policyservers");
    (
        facts.policies,
        facts.servers,
        facts.mutating,
        facts.validating,
        facts.namespaces,
    ) = tokio::join!(
        reader.list(
            policies,
            "/apis/policies.kubewarden.io/v1/clusteradmissionpolicies",
            ""
        ),
        async {
            if facts.settings.without_policies {
                return Read::Unknown;
            }
            let path = "/apis/policies.kubewarden.io/v1/policyservers";
            reader.list(servers, path, "").await
        },
        reader.list_all(""),
        reader.list_all(""),
        reader.list_all(""),
    );
    facts.server_namespace = facts.kubewarden_namespace();
    if !facts.settings.without_policies {
        if let Some(name) = facts.controller_name() {
            let namespace = Some(facts.server_namespace.as_str());
            facts.controller = reader.get_one(namespace, name).await;
        }
        read_server(reader, facts).await;
        read_modules(reader, facts).await;
    }
    let objects = read_objects(reader, facts).await;
    let listed = objects.known().cloned().unwrap_or_default();
    let mut further = std::mem::take(&mut facts.further);
    let read_further = join_all(further.iter_mut().map(async |one| {
        let first = Leases::read(reader, one).await;
        sidecar_rights::read(reader, one).await;
        sidecar_rights::read_for_fallbacks(reader, one, &listed).await;
        leases::compare(reader, one, &first, timing).await;
    }));
    sidecar_rights::read(reader, facts).await;
    let namespace = Some(facts.setup.config_namespace.as_str());
    let config = reader
        .get_one::<ConfigMap>(namespace, whitelist::CONFIG_MAP)
        .await;
    facts.whitelist = config.map(|config| config.data?.remove(whitelist::KEY));
    sidecar_rights::read_for_fallbacks(reader, facts, &listed).await;
    facts.objects = objects;
    tokio::join!(leases::compare(reader, facts, &first, timing), read_further);
    facts.further = further;
}

async fn read_server(reader: &Reader, facts: &mut Facts) {
    // The policy for Pods first: its name is the shortest.
    let installed = facts
        .own_policies()
        .min_by_key(|policy| policy.name().len());
    let installed = installed
        .map(|policy| policy.spec.policy_server.clone())
        .filter(|name| !name.is_empty());
    // Without a policy, no PolicyServer is in use.
    let named = facts.settings.policy_server.clone().or(installed);
    let Some(name) = named.or(facts.settings.is_before().then(|| DEFAULT_SERVER.into())) else {
        return;
    };
    facts.server = match (facts.server_named(&name), &facts.servers) {
        (Some(server), _) => Read::Known(server.clone()),
        (None, Read::Unknown) => Read::Unknown,
        (None, _) => Read::Absent,
    };
    let deployment = format!("policy-server-{name}");
    facts.server_name = name;
    if facts.server.known().is_none() {
        return;
    }
    // Only in Kubewarden's namespace: in others anybody could have made them.
    let account = facts.server_account_name();
    let namespace = Some(account.namespace.as_str());
    let lookup = Right::new("get", "apps.kruise.io", "persistentpodstates");
    let found;
    (facts.server_deployment, found, facts.server_may_look_up) = tokio::join!(
        reader.get_one(namespace, &deployment),
        reader.get_one::<ServiceAccount>(namespace, &account.name),
        reader.may(&account, &lookup),
    );
    facts.server_account = found.map(|_| ());
}

async fn read_modules(reader: &Reader, facts: &mut Facts) {
    let settings = &facts.settings;
    let installed = facts.own_policies().map(|policy| &policy.spec.module);
    let references: BTreeSet<&String> = settings
        .module
        .as_ref()
        .map_or_else(|| installed.collect(), |module| [module].into());
    let server = facts.server.known().map(|server| &server.spec);
    // An upgrade may change the PolicyServer that exists.
    let insecure = [
        server.map_or(&[][..], |server| &server.insecure_sources),
        &settings.insecure_source,
    ];
    let authorities = server.map(|server| &server.source_authorities);
    let sources = Sources {
        insecure: &insecure.concat(),
        authorities,
    };
    let mut modules = Vec::new();
    // The product has three policies.
    for reference in references.into_iter().take(3) {
        let answer = if settings.skip_registry {
            ModuleAnswer::ModuleNotChecked
        } else {
            let asked = timeout(reader.time_left(), registry::ask(reference, &sources)).await;
            asked.unwrap_or_else(|_| {
                ModuleAnswer::RegistryAnswerUnclear("nothing: no time is left".into())
            })
        };
        modules.push(Module {
            reference: reference.clone(),
            answer,
        });
    }
    facts.modules = modules;
}

async fn read_sidecars(reader: &Reader, facts: &mut Facts) {
    let mut found = reader.list_all::<Deployment>(SIDECARS).await;
    if let Read::Known(all) = &mut found {
        all.retain(|one| facts.is_own_sidecar(one) || has_sidecar(one));
    }
    let namespace = Some(&facts.settings.namespace);
    let mut ours: Vec<Facts> = found
        .items()
        .unwrap_or_default()
        .iter()
        .filter(|one| one.metadata.namespace.as_ref() == namespace)
        .map(|one| facts_of(one, &facts.settings, &found))
        .collect();
    // The chart names it after the release, and each of several after the namespace that it
    // records.
    if ours.len() > 1 {
        ours.retain(|one| one.setup.namespace.is_some());
    }
    if !ours.is_empty() {
        facts.settings = ours.remove(0).settings;
    }
    facts.further = ours;
    facts.sidecars = found;
}

/// The facts that are known of one of the sidecars of an installation.
fn facts_of(sidecar: &Deployment, settings: &Settings, all: &Read<Vec<Deployment>>) -> Facts {
    let settings = Settings {
        sidecar: sidecar.metadata.name.clone().unwrap_or_default(),
        ..settings.clone()
    };
    Facts {
        setup: SidecarSetup::of(&settings, Some(sidecar)),
        settings,
        sidecars: all.clone(),
        ..Facts::default()
    }
}

/// Whether a Deployment runs the sidecar: by its image, because the chart can give it any name and
/// label.
fn has_sidecar(deployment: &Deployment) -> bool {
    let image = container(deployment)
        .and_then(|container| container.image.as_deref())
        .unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split([':', '@']).next() == Some("persistent-pod-state-sidecar")
}

async fn read_objects(reader: &Reader, facts: &Facts) -> Read<Objects> {
    let served = facts
        .definition
        .known()
        .map_or(&[][..], |definition| &definition.spec.versions);
    let served: Vec<&str> = served
        .iter()
        .filter(|version| version.served)
        .map(|version| version.name.as_str())
        .collect();
    let has_only_beta = served.contains(&"v1beta1") && !served.contains(&"v1alpha1");
    let version = match facts.definition {
        Read::Absent => return Read::Absent,
        Read::Known(_) if has_only_beta => "v1beta1",
        _ => "v1alpha1",
    };
    let right = Right::new("list", "apps.kruise.io", "persistentpodstates");
    let path = format!("/apis/apps.kruise.io/{version}/persistentpodstates");
    let read = reader
        .list_as(right, &path, "", |object| Recorded::read(&object))
        .await;
    read.map(|(listed, more)| Objects { listed, more })
}
