//! Reads the facts from the cluster and the registry. Writes nothing: the only POST asks what an account may do.
//!
//! Each request has a limit and a timeout, and fails alone: what cannot be read is a fact, too.

mod reader;
mod registry_services;
mod rights;

use std::time::Duration;

use kube::Client;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use self::reader::{Reader, is_name};
pub(crate) use self::reader::{encode, root_cause};
use self::rights::{account, sidecar_rights};
use crate::facts::{
    Deployment, Facts, LeaseReads, LeaseSpec, Module, ModuleAnswer, Objects, Policy, Read, Recording, Right,
    Settings,
};
use crate::registry::{self, Sources};

/// The time between two reads of a Lease. Both recorders renew theirs every two seconds.
const LEASE_INTERVAL: Duration = Duration::from_secs(5);
const KUBEWARDEN: &str = "policies.kubewarden.io";
/// The webhook with which Kubewarden's controller checks policies.
const KUBEWARDEN_WEBHOOK: &str = "kubewarden-controller-validating-webhook-configuration";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// Reads everything. The facts have what could not be read.
pub async fn gather(client: &Client, settings: Settings) -> Facts {
    let reader = Reader::new(client.clone());
    let started = Instant::now();
    let mut facts = Facts { settings, ..Facts::default() };
    let kubernetes = reader.version().await;
    if kubernetes.known().is_none() {
        // Nothing else could be read either.
        facts.problems = reader.into_problems();
        return facts;
    }
    facts.kubernetes = kubernetes;
    facts.sidecars = read_sidecars(&reader, &facts.settings).await;
    facts.recording = Recording::of(&facts.settings, own_sidecar(&facts));
    let (first_lease, first_openkruise) = read_leases(&reader, &facts).await;

    (facts.definition, facts.policy_definition, facts.server_definition) = tokio::join!(
        reader.definition("persistentpodstates.apps.kruise.io"),
        reader.definition("clusteradmissionpolicies.policies.kubewarden.io"),
        reader.definition("policyservers.policies.kubewarden.io"),
    );
    let controllers = "app.kubernetes.io/part-of=kubewarden,app.kubernetes.io/component=controller";
    (facts.controllers, facts.policies, facts.mutating, facts.validating, facts.namespaces) = tokio::join!(
        reader.deployments(controllers),
        reader.list(
            Right::new("list", KUBEWARDEN, "clusteradmissionpolicies"),
            "/apis/policies.kubewarden.io/v1/clusteradmissionpolicies",
            ""
        ),
        reader.list(
            Right::new("list", ADMISSION, "mutatingwebhookconfigurations"),
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
            "",
        ),
        reader.list(
            Right::new("list", ADMISSION, "validatingwebhookconfigurations"),
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            "",
        ),
        reader.namespaces(),
    );
    if facts.settings.has_policies {
        read_server(&reader, &mut facts).await;
        read_module(&reader, &mut facts).await;
    }
    read_sidecar(&reader, &mut facts).await;
    facts.whitelist = read_whitelist(&reader, &facts.recording.config_namespace).await;
    facts.objects = read_objects(&reader, &facts).await;
    if first_lease.known().is_some() || first_openkruise.known().is_some() {
        sleep_until(started + LEASE_INTERVAL).await;
    }
    let (second_lease, second_openkruise) = read_leases(&reader, &facts).await;
    facts.lease = compare(first_lease, second_lease);
    facts.openkruise_lease = compare(first_openkruise, second_openkruise);
    facts.problems = reader.into_problems();
    facts
}

async fn read_server(reader: &Reader, facts: &mut Facts) {
    facts.server_name = facts.settings.chosen_server(facts.policies.items().unwrap_or_default());
    let name = facts.server_name.clone();
    facts.server_namespace = kubewarden_namespace(facts);
    // A name that no object can have.
    if !is_name(&name) || facts.server_definition.is_absent() {
        facts.server = Read::Absent;
        return;
    }
    let path = format!("/apis/policies.kubewarden.io/v1/policyservers/{name}");
    facts.server = reader.get(Right::new("get", KUBEWARDEN, "policyservers"), &path).await;
    if facts.server.known().is_none() {
        return;
    }
    let selector = format!("kubewarden/policy-server={name}");
    facts.server_deployment = match reader.deployments(&selector).await {
        Read::Known(mut found) if !found.is_empty() => Read::Known(found.swap_remove(0)),
        Read::Known(_) | Read::Absent => Read::Absent,
        Read::Unknown => Read::Unknown,
    };
    if let Some(deployment) = facts.server_deployment.known() {
        facts.server_namespace.clone_from(&deployment.metadata.namespace);
    }
    let (namespace, account_name) = (&facts.server_namespace, facts.account_name());
    if !is_name(account_name) {
        return;
    }
    let user = account(namespace, account_name);
    let lookup = Right::new("get", "apps.kruise.io", "persistentpodstates");
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account_name}");
    let (pods, found, may) = tokio::join!(
        reader.pods(namespace, &selector),
        reader.exists(Right::new("get", "", "serviceaccounts").within(namespace), &path),
        reader.may(&user, &lookup),
    );
    (facts.server_pods, facts.server_account, facts.server_may_look_up) = (pods, found, may);
}

/// Kubewarden's namespace: where its own webhook leads, else where a Deployment with its labels is.
fn kubewarden_namespace(facts: &Facts) -> String {
    let own = facts.validating.items().unwrap_or_default();
    let own = own.iter().filter(|one| one.metadata.name == KUBEWARDEN_WEBHOOK).flat_map(|one| &one.webhooks);
    let mut named = own.filter_map(|webhook| webhook.client_config["service"]["namespace"].as_str());
    let controller = || facts.controllers.items().unwrap_or_default().first();
    let found = named.next().or_else(|| controller().map(|one| one.metadata.namespace.as_str()));
    found.filter(|namespace| is_name(namespace)).unwrap_or(&facts.settings.kubewarden_namespace).to_owned()
}

async fn read_module(reader: &Reader, facts: &mut Facts) {
    let settings = &facts.settings;
    let mut references: Vec<String> = match &settings.module {
        Some(module) => vec![module.clone()],
        None => facts.own_policies().map(|policy: &Policy| policy.spec.module.clone()).collect(),
    };
    references.sort();
    references.dedup();
    // The product has three policies.
    references.truncate(3);
    let mut modules = Vec::new();
    for reference in references {
        let answer = if settings.asks_registry {
            let server = facts.server.known().map(|server| &server.spec);
            // An upgrade may change the PolicyServer that exists.
            let own = server.map_or(&[][..], |server| &server.insecure_sources);
            let insecure = [own, &settings.insecure_sources].concat();
            let sources = Sources::new(&insecure, server.map(|server| &server.source_authorities));
            registry::ask(&reference, &sources).await
        } else {
            ModuleAnswer::NotAsked("the registry was not asked (--skip-registry)")
        };
        modules.push(Module { reference, answer });
    }
    if settings.asks_registry {
        facts.registry_services = registry_services::find(reader, &modules).await;
    }
    facts.modules = modules;
}

async fn read_sidecar(reader: &Reader, facts: &mut Facts) {
    let settings = &facts.settings;
    facts.sidecar_pods = reader.pods(&settings.namespace, "").await;
    let Some(own) = own_sidecar(facts) else { return };
    let name = own.spec.template.spec.service_account_name.as_str();
    let user = account(&settings.namespace, if name.is_empty() { "default" } else { name });
    let mut rights = Vec::new();
    for right in sidecar_rights(&settings.namespace, &facts.recording) {
        match reader.may(&user, &right).await {
            Read::Known(is_allowed) => rights.push((right, is_allowed)),
            // This check may not ask: it need not ask again.
            Read::Absent | Read::Unknown => break,
        }
    }
    facts.sidecar_rights = rights;
}

async fn read_sidecars(reader: &Reader, settings: &Settings) -> Read<Vec<Deployment>> {
    match reader.deployments("app.kubernetes.io/component=sidecar").await {
        Read::Known(found) => {
            Read::Known(found.into_iter().filter(|one| is_sidecar(settings, one)).collect())
        }
        other => other,
    }
}

/// The sidecar's Deployment of the installation that is checked.
fn own_sidecar(facts: &Facts) -> Option<&Deployment> {
    let (namespace, name) = (&facts.settings.namespace, &facts.settings.sidecar);
    let found = facts.sidecars.items()?.iter();
    let mut found = found.filter(|one| one.metadata.namespace == *namespace && one.metadata.name == *name);
    found.next()
}

/// Whether a Deployment runs the sidecar: by its image, because the chart can give it any name and label.
fn is_sidecar(settings: &Settings, deployment: &Deployment) -> bool {
    let metadata = &deployment.metadata;
    metadata.namespace == settings.namespace && metadata.name == settings.sidecar
        || deployment.spec.template.spec.containers.iter().any(|container| {
            let image = container.image.split('@').next().unwrap_or_default();
            let name = image.rsplit('/').next().unwrap_or_default();
            name.split(':').next() == Some("persistent-pod-state-sidecar")
        })
}

async fn read_lease(reader: &Reader, namespace: &str, name: &str) -> Read<Option<LeaseSpec>> {
    // Names from a Deployment may be any text.
    if !is_name(namespace) || !is_name(name) {
        return Read::Absent;
    }
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
    let right = Right::new("get", "coordination.k8s.io", "leases").named(name).within(namespace);
    match reader.get::<Value>(right, &path).await {
        Read::Known(mut lease) => Read::Known(serde_json::from_value(lease["spec"].take()).ok()),
        Read::Absent => Read::Absent,
        Read::Unknown => Read::Unknown,
    }
}

/// The sidecar's Lease and that of OpenKruise's manager.
async fn read_leases(reader: &Reader, facts: &Facts) -> (Read<Option<LeaseSpec>>, Read<Option<LeaseSpec>>) {
    let own = async {
        match &facts.recording.lease {
            Some(lease) => read_lease(reader, &facts.settings.namespace, lease).await,
            None => Read::Unknown,
        }
    };
    tokio::join!(own, read_lease(reader, &facts.recording.openkruise_namespace, "kruise-manager"))
}

/// Two reads of one Lease.
fn compare(first: Read<Option<LeaseSpec>>, second: Read<Option<LeaseSpec>>) -> Read<LeaseReads> {
    match (first, second) {
        (Read::Unknown, _) | (_, Read::Unknown) => Read::Unknown,
        (_, Read::Absent) => Read::Absent,
        // A Lease that has just appeared has no first read, so its holder counts as living.
        (Read::Absent, Read::Known(second)) => Read::Known(LeaseReads { first: None, second }),
        (Read::Known(first), Read::Known(second)) => Read::Known(LeaseReads { first, second }),
    }
}

async fn read_whitelist(reader: &Reader, namespace: &str) -> Read<String> {
    if !is_name(namespace) {
        return Read::Absent;
    }
    let name = pps_core::whitelist::CONFIG_MAP;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    let right = Right::new("get", "", "configmaps").named(name).within(namespace);
    match reader.get::<Value>(right, &path).await {
        Read::Known(config) => config["data"][pps_core::whitelist::KEY]
            .as_str()
            .map_or(Read::Absent, |text| Read::Known(text.into())),
        Read::Absent => Read::Absent,
        Read::Unknown => Read::Unknown,
    }
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
    match reader.list_with_rest(right, &path, "").await {
        Read::Known((listed, more)) => Read::Known(Objects { listed, more }),
        Read::Absent => Read::Absent,
        Read::Unknown => Read::Unknown,
    }
}
