//! Reads the facts from the cluster and the registry. Writes nothing: the only POST asks what an account may do.
//!
//! Each request has a limit and a timeout, and fails alone: what cannot be read is a fact, too.

mod leases;
mod rights;

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::Client;
use pps_recorder::whitelist;
use tokio::time::{Instant, timeout};

pub use self::leases::{Silence, silent_recorder};
use self::rights::{account, sidecar_rights};
use crate::facts::{
    Facts, Module, ModuleAnswer, Objects, PolicyServer, Read, Recorded, Recording, Right, container,
};
use crate::reader::{Limits, Reader, is_name};
use crate::registry::{self, Sources};
use crate::settings::Settings;

#[cfg(test)]
mod tests;

/// How long the check waits for what.
struct Timing {
    /// For all answers. The Jobs that run the check have more time, so that it can still say what it has found.
    total: Duration,
    /// Between two reads of a Lease. Both recorders renew theirs every two seconds.
    lease_interval: Duration,
    /// How long a holder may take to renew its Lease, before it counts as dead.
    lease_duration: Duration,
}

const TIMING: Timing = Timing {
    total: Duration::from_mins(2),
    lease_interval: Duration::from_secs(5),
    lease_duration: Duration::from_secs(crate::facts::LEASE_SECONDS),
};
const KUBEWARDEN: &str = "policies.kubewarden.io";
/// The webhook with which Kubewarden's controller checks policies.
const KUBEWARDEN_WEBHOOK: &str = "kubewarden-controller-validating-webhook-configuration";
const SIDECARS: &str = "app.kubernetes.io/component=sidecar";

/// Reads everything. The facts have what could not be read.
pub(crate) async fn gather(client: &Client, settings: Settings) -> Facts {
    gather_within(client, settings, &TIMING).await
}

async fn gather_within(client: &Client, settings: Settings, timing: &Timing) -> Facts {
    let reader = Reader::new(client.clone(), Limits::CHECK, Instant::now() + timing.total);
    let mut facts = Facts { settings, ..Facts::default() };
    facts.kubernetes = reader.version().await;
    if facts.kubernetes.known().is_none() {
        // Nothing else could be read either.
        facts.problems = reader.into_problems();
        return facts;
    }
    read_sidecars(&reader, &mut facts).await;
    facts.recording = Recording::of(&facts.settings, facts.own_sidecar());
    let first_read = Instant::now();
    let first = leases::read(&reader, &facts).await;

    (facts.definition, facts.policy_definition, facts.server_definition) = tokio::join!(
        reader.get_one(None, "persistentpodstates.apps.kruise.io"),
        reader.get_one(None, "clusteradmissionpolicies.policies.kubewarden.io"),
        reader.get_one(None, "policyservers.policies.kubewarden.io"),
    );
    (facts.policies, facts.mutating, facts.validating, facts.namespaces) = tokio::join!(
        reader.list(
            Right::new("list", KUBEWARDEN, "clusteradmissionpolicies"),
            "/apis/policies.kubewarden.io/v1/clusteradmissionpolicies",
            "",
        ),
        reader.list_all(None, ""),
        reader.list_all(None, ""),
        reader.list_all(None, ""),
    );
    facts.server_namespace = kubewarden_namespace(&facts);
    if !facts.settings.without_policies {
        read_server(&reader, &mut facts).await;
        read_modules(&reader, &mut facts).await;
    }
    read_sidecar_rights(&reader, &mut facts).await;
    let namespace = Some(facts.recording.config_namespace.as_str());
    let config = reader.get_one::<ConfigMap>(namespace, whitelist::CONFIG_MAP).await;
    facts.whitelist = config.and_then(|config| {
        let list = config.data.and_then(|mut data| data.remove(whitelist::KEY));
        list.map_or(Read::Absent, Read::Known)
    });
    facts.objects = read_objects(&reader, &facts).await;
    leases::compare(&reader, &mut facts, first, first_read, timing).await;
    facts.problems = reader.into_problems();
    facts
}

async fn read_server(reader: &Reader, facts: &mut Facts) {
    // The policy for Pods first: its name is the shortest.
    let installed = facts.own_policies().min_by_key(|policy| policy.name().len());
    let installed = installed.map(|policy| policy.spec.policy_server.clone()).filter(|name| !name.is_empty());
    let name = facts.settings.policy_server.clone().or(installed).unwrap_or_else(|| "default".into());
    facts.server_name.clone_from(&name);
    // A name that no object can have.
    if !is_name(&name) || facts.server_definition.is_absent() {
        facts.server = Read::Absent;
        return;
    }
    let path = format!("/apis/policies.kubewarden.io/v1/policyservers/{name}");
    facts.server = reader.get::<PolicyServer>(Right::new("get", KUBEWARDEN, "policyservers"), &path).await;
    if facts.server.known().is_none() {
        return;
    }
    // Only in Kubewarden's namespace: in others anybody could have made them.
    let (namespace, account_name) = (facts.server_namespace.as_str(), facts.account_name());
    let user = account(namespace, account_name);
    let lookup = Right::new("get", "apps.kruise.io", "persistentpodstates");
    let deployment = format!("policy-server-{name}");
    let (deployment, account, may) = tokio::join!(
        reader.get_one::<Deployment>(Some(namespace), &deployment),
        reader.get_one::<ServiceAccount>(Some(namespace), account_name),
        reader.may(&user, &lookup),
    );
    facts.server_deployment = deployment;
    facts.server_account = account.map(|_| ());
    facts.server_may_look_up = may;
}

/// Kubewarden's namespace: where its own webhook leads, else the one that is named. Labels of Deployments say nothing:
/// whoever may create a Deployment in some namespace can set them.
fn kubewarden_namespace(facts: &Facts) -> String {
    let all = facts.validating.items().unwrap_or_default().iter();
    let own = all.filter(|one| one.metadata.name.as_deref() == Some(KUBEWARDEN_WEBHOOK));
    let mut services = own
        .flat_map(|one| one.webhooks.iter().flatten())
        .filter_map(|webhook| webhook.client_config.service.as_ref());
    let named = services.next().map(|service| service.namespace.clone());
    named
        .filter(|namespace| is_name(namespace))
        .unwrap_or_else(|| facts.settings.kubewarden_namespace.clone())
}

async fn read_modules(reader: &Reader, facts: &mut Facts) {
    let settings = &facts.settings;
    let mut references: Vec<String> = match &settings.module {
        Some(module) => vec![module.clone()],
        None => facts.own_policies().map(|policy| policy.spec.module.clone()).collect(),
    };
    references.sort();
    references.dedup();
    let server = facts.server.known().map(|server| &server.spec);
    // An upgrade may change the PolicyServer that exists.
    let own = server.map_or(&[][..], |server| &server.insecure_sources);
    let insecure = [own, &settings.insecure_source].concat();
    let sources = Sources::new(&insecure, server.map(|server| &server.source_authorities));
    let mut modules = Vec::new();
    // The product has three policies.
    for reference in references.into_iter().take(3) {
        let answer = if settings.skip_registry {
            ModuleAnswer::NotAsked
        } else {
            let asked = timeout(reader.time_left(), registry::ask(&reference, &sources)).await;
            asked.unwrap_or_else(|_| ModuleAnswer::Unclear("nothing: no time is left".into()))
        };
        modules.push(Module { reference, answer });
    }
    facts.modules = modules;
}

async fn read_sidecars(reader: &Reader, facts: &mut Facts) {
    let found = reader.list_all::<Deployment>(None, SIDECARS).await;
    facts.sidecars = found.map(|mut all| {
        all.retain(|one| facts.is_own_sidecar(one) || has_sidecar(one));
        all
    });
}

/// Whether a Deployment runs the sidecar: by its image, because the chart can give it any name and label.
fn has_sidecar(deployment: &Deployment) -> bool {
    let image = container(deployment).and_then(|container| container.image.as_deref()).unwrap_or_default();
    let name = image.split('@').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    name.split(':').next() == Some("persistent-pod-state-sidecar")
}

async fn read_sidecar_rights(reader: &Reader, facts: &mut Facts) {
    let Some(own) = facts.own_sidecar() else { return };
    let spec = own.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let name = spec.and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
    let user = account(&facts.settings.namespace, name);
    let user = &user;
    let rights = sidecar_rights(&facts.settings.namespace, &facts.recording).into_iter();
    let answers = rights.map(|right| async move { (reader.may(user, &right).await, right) });
    let lacks = join_all(answers).await.into_iter().filter(|(may, _)| *may == Read::Known(false));
    facts.sidecar_lacks = lacks.map(|(_, right)| right).collect();
}

async fn read_objects(reader: &Reader, facts: &Facts) -> Read<Objects> {
    let served = facts.definition.known().map_or(&[][..], |definition| &definition.spec.versions);
    let is_served = |name: &str| served.iter().any(|version| version.name == name && version.served);
    let version = match facts.definition {
        Read::Absent => return Read::Absent,
        Read::Known(_) if !is_served("v1alpha1") && is_served("v1beta1") => "v1beta1",
        _ => "v1alpha1",
    };
    let right = Right::new("list", "apps.kruise.io", "persistentpodstates");
    let path = format!("/apis/apps.kruise.io/{version}/persistentpodstates");
    let read = reader.list_as(right, &path, "", |object| Recorded::read(&object)).await;
    read.map(|(listed, more)| Objects { listed, more })
}
