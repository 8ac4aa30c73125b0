//! Reads the facts from the cluster and the registry. Writes nothing: the only POST asks what an account may do.
//!
//! Each request has a limit and a timeout, and fails alone: what cannot be read is a fact, too.

mod objects;
pub mod reader;
mod recorder;
mod registry_services;
mod rights;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use kube::Client;
use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout};

use self::reader::{Limits, Reader, is_name};
pub(crate) use self::reader::{encode, root_cause};
pub use self::recorder::gather_recorder;
use self::rights::{account, sidecar_rights};
use crate::facts::{
    Deployment, Facts, LeaseReads, LeaseSpec, Module, ModuleAnswer, Objects, OtherSidecar, Phase, Policy,
    Read, Recorder, Recording, Right, Settings,
};
use crate::registry::{self, Sources};

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
    lease_duration: LEASE_DURATION,
};
/// The duration of the recorders' Leases.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(15);
/// The accounts of how many other sidecars are examined.
const MAX_OTHER_SIDECARS: usize = 20;
const KUBEWARDEN: &str = "policies.kubewarden.io";
/// The webhook with which Kubewarden's controller checks policies.
const KUBEWARDEN_WEBHOOK: &str = "kubewarden-controller-validating-webhook-configuration";
/// The PolicyServer of Kubewarden's chart.
const SHARED_SERVER: &str = "default";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// Reads everything. The facts have what could not be read.
pub async fn gather(client: &Client, settings: Settings) -> Facts {
    gather_within(client, settings, &TIMING).await
}

async fn gather_within(client: &Client, settings: Settings, timing: &Timing) -> Facts {
    let reader = Reader::new(client.clone(), Limits::CHECK, Instant::now() + timing.total);
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
    let first = read_leases(&reader, &facts).await;
    let first_read = Instant::now();

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
    facts.server_namespace = kubewarden_namespace(&facts);
    if let Read::Known(found) = &mut facts.controllers {
        found.retain(|one| one.metadata.namespace == facts.server_namespace);
    }
    if facts.settings.has_policies {
        read_server(&reader, &mut facts).await;
        read_module(&reader, &mut facts).await;
    }
    read_sidecar(&reader, &mut facts).await;
    facts.whitelist = read_whitelist(&reader, &facts.recording.config_namespace).await;
    facts.objects = read_objects(&reader, &facts).await;
    (facts.lease, facts.openkruise_lease) = compare_leases(&reader, &facts, first, first_read, timing).await;
    facts.problems = reader.into_problems();
    facts
}

async fn read_server(reader: &Reader, facts: &mut Facts) {
    facts.server_name = facts.settings.chosen_server(facts.policies.items().unwrap_or_default());
    let name = facts.server_name.clone();
    // A name that no object can have.
    if !is_name(&name) || facts.server_definition.is_absent() {
        facts.server = Read::Absent;
        return;
    }
    let get = async |name: &str| {
        let path = format!("/apis/policies.kubewarden.io/v1/policyservers/{name}");
        reader.get(Right::new("get", KUBEWARDEN, "policyservers"), &path).await
    };
    facts.server = get(&name).await;
    if name != SHARED_SERVER {
        facts.default_server = get(SHARED_SERVER).await;
    }
    if facts.server.known().is_none() {
        return;
    }
    let selector = format!("kubewarden/policy-server={name}");
    // Only here: in other namespaces anybody could have made it.
    let deployments = reader.deployments_in(&facts.server_namespace, &selector).await;
    let own = format!("policy-server-{name}");
    facts.server_deployment = deployments.and_then(|found| {
        found.into_iter().find(|one| one.metadata.name == own).map_or(Read::Absent, Read::Known)
    });
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

/// Kubewarden's namespace: where its own webhook leads, else the one that is named. Labels of Deployments say nothing:
/// whoever may create a Deployment in some namespace can set them.
fn kubewarden_namespace(facts: &Facts) -> String {
    let own = facts.validating.items().unwrap_or_default();
    let own = own.iter().filter(|one| one.metadata.name == KUBEWARDEN_WEBHOOK).flat_map(|one| &one.webhooks);
    let mut named = own.filter_map(|webhook| webhook.client_config["service"]["namespace"].as_str());
    named
        .next()
        .filter(|namespace| is_name(namespace))
        .unwrap_or(&facts.settings.kubewarden_namespace)
        .to_owned()
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
            let asked = timeout(reader.time_left(), registry::ask(&reference, &sources)).await;
            asked.unwrap_or_else(|_| ModuleAnswer::Unclear("nothing: no time is left".into()))
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
    facts.other_sidecars = read_other_sidecars(reader, facts).await;
    let Some(own) = own_sidecar(facts) else { return };
    let user = account(&settings.namespace, account_of(own));
    let user = &user;
    let asked = sidecar_rights(&settings.namespace, &facts.recording).into_iter();
    let asked = asked.map(|right| async move { (reader.may(user, &right).await, right) });
    let answers = join_all(asked).await.into_iter();
    facts.sidecar_rights = answers.filter_map(|(may, right)| Some((right, *may.known()?))).collect();
}

/// The ServiceAccount of a Deployment's Pods.
fn account_of(deployment: &Deployment) -> &str {
    match deployment.spec.template.spec.service_account_name.as_str() {
        "" => "default",
        name => name,
    }
}

/// The Deployments of the sidecar's image that are not this installation's, and whether they record.
async fn read_other_sidecars(reader: &Reader, facts: &Facts) -> Vec<OtherSidecar> {
    let own = (&facts.settings.namespace, &facts.settings.sidecar);
    let right = Right::new("patch", "apps.kruise.io", "persistentpodstates/status");
    let mut asked: BTreeMap<(&str, &str), Read<bool>> = BTreeMap::new();
    let mut others = Vec::new();
    for one in facts.sidecars.items().unwrap_or_default() {
        let (namespace, name) = (&one.metadata.namespace, &one.metadata.name);
        if (namespace, name) == own {
            continue;
        }
        let key = (namespace.as_str(), account_of(one));
        let records = if one.spec.replicas == Some(0) {
            Read::Known(false)
        } else if let Some(answer) = asked.get(&key) {
            answer.clone()
        } else if asked.len() < MAX_OTHER_SIDECARS {
            let answer = reader.may(&account(key.0, key.1), &right).await;
            asked.insert(key, answer.clone());
            answer
        } else {
            Read::Unknown
        };
        others.push(OtherSidecar { name: format!("{namespace}/{name}"), records });
    }
    others
}

async fn read_sidecars(reader: &Reader, settings: &Settings) -> Read<Vec<Deployment>> {
    let found = reader.deployments("app.kubernetes.io/component=sidecar").await;
    found.map(|all| all.into_iter().filter(|one| is_sidecar(settings, one)).collect())
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
    reader.get::<Value>(right, &path).await.map(|lease| serde_json::from_value(lease["spec"].clone()).ok())
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

/// Reads the Leases again, until the one of the recorder was renewed or its duration has passed.
async fn compare_leases(
    reader: &Reader,
    facts: &Facts,
    (first, first_openkruise): (Read<Option<LeaseSpec>>, Read<Option<LeaseSpec>>),
    first_read: Instant,
    timing: &Timing,
) -> (Read<LeaseReads>, Read<LeaseReads>) {
    if first.known().is_some() || first_openkruise.known().is_some() {
        sleep_until(first_read + timing.lease_interval.min(reader.time_left())).await;
    }
    loop {
        let now = Instant::now();
        let (second, second_openkruise) = read_leases(reader, facts).await;
        let mut own = compare(first.clone(), second);
        let mut openkruise = compare(first_openkruise.clone(), second_openkruise);
        let recorders = match facts.recording.recorder {
            Recorder::Own if facts.settings.phase == Phase::Before => return (own, openkruise),
            Recorder::Own => &mut own,
            Recorder::OpenKruise => &mut openkruise,
        };
        let is_silent = recorders
            .known()
            .is_some_and(|reads| reads.holder().is_some() && reads.living_holder().is_none());
        if !is_silent || now >= first_read + timing.lease_duration {
            return (own, openkruise);
        }
        if reader.time_left().is_zero() {
            *recorders =
                reader.failed("the recorder's Lease", "no time is left to see whether it is renewed");
            return (own, openkruise);
        }
        sleep_until(now + (timing.lease_interval / 2).min(reader.time_left())).await;
    }
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
    reader.get::<Value>(right, &path).await.and_then(|config| {
        let list = config["data"][pps_core::whitelist::KEY].as_str();
        list.map_or(Read::Absent, |text| Read::Known(text.into()))
    })
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
    reader.list_with_rest(right, &path, "").await.map(|(listed, more)| Objects { listed, more })
}
