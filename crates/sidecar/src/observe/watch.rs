//! Watches: one task for each resource sends what it observes into a channel. Converts objects to facts before they are
//! stored, retries forever, and reports whether each watch works.

mod scope;
mod source;
mod target;

use std::fmt::{Debug, Display};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{DefaultBackoff, Event, watcher};
use kube::{Api, Client, Resource};
use pps_core::kinds;
use pps_core::whitelist::CONFIG_MAP;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use self::scope::FieldScope;
pub(crate) use self::scope::Relist;
pub(crate) use self::source::api_resource;
use self::source::{Source, is_forbidden, is_forbidden_response};
pub(crate) use self::target::resource_name;
use self::target::{Criticality, WatchTarget};
use crate::facts::interest::Interest;
use crate::facts::store::Update;
use crate::facts::{ConfigFact, GroupKind, NamespacedName, NodeFact, PodFact, PpsFact, WorkloadFact};
use crate::observe::discovery::WatchId;
use crate::observe::wire::{self, CustomResourceDefinition, CustomWorkload, Pod, ReadPps, StatefulSet};
use crate::telemetry::health::Health;
use crate::telemetry::metrics::Metrics;

/// The longest wait between two attempts to watch. A Pod that waits to be recorded should not have to wait long after
/// the API server is back.
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// A resumed watch that has not failed for this long counts as up.
const SETTLED: Duration = Duration::from_secs(1);

/// Each new key forces a relist, so pause after each one for this many times its duration, but not longer than
/// [`LONGEST_RELIST_PAUSE`]. Otherwise a series of new keys would keep the API server listing.
const RELIST_PAUSE_FACTOR: u32 = 4;
const LONGEST_RELIST_PAUSE: Duration = Duration::from_mins(1);

/// Page size of definitions: each includes a schema, which can be large.
const DEFINITIONS_PAGE_SIZE: u32 = 50;
/// Page size of Pods: a page is in memory as a whole, while only a small part of each Pod is kept.
const PODS_PAGE_SIZE: u32 = 250;

/// What the watches send.
#[derive(Clone, Debug)]
pub(crate) enum Observation {
    Pods(Update<NamespacedName, PodFact>),
    Nodes(Update<Arc<str>, NodeFact>),
    Workloads(WatchId, Update<NamespacedName, WorkloadFact>),
    /// The watch of a workload kind works again.
    KindUp(WatchId),
    /// The watch of a workload kind failed; says whether it is forbidden.
    KindDown(WatchId, bool),
    Config(Update<NamespacedName, ConfigFact>),
    Definitions(Update<Arc<str>, kinds::Definition>),
    PersistentPodStates(Update<NamespacedName, Box<PpsFact>>),
}

/// What all watches share.
#[derive(Clone)]
pub(crate) struct Watches {
    client: Client,
    interest: Interest,
    health: Health,
    metrics: Arc<Metrics>,
    observations: mpsc::Sender<Observation>,
}

impl Watches {
    pub(crate) fn new(
        client: Client,
        interest: Interest,
        health: Health,
        metrics: Arc<Metrics>,
        observations: mpsc::Sender<Observation>,
    ) -> Self {
        Self { client, interest, health, metrics, observations }
    }

    pub(crate) async fn watch_persistent_pod_states(self) {
        let convert = |object: ReadPps| {
            let key = wire::key_of(object.meta());
            let fact = wire::pps_fact(object);
            if let Some(error) = &fact.unreadable {
                warn!(object = %key, error, "a PersistentPodState cannot be read; nothing is recorded in it");
            }
            Some((key, Box::new(fact)))
        };
        let key = |object: &ReadPps| wire::key_of(object.meta());
        let target = WatchTarget::essential("persistentpodstates");
        let observation = Observation::PersistentPodStates;
        self.follow(target, self.all(), FieldScope::Fixed, key, convert, observation).await;
    }

    pub(crate) async fn watch_stateful_sets(self) {
        let key = |workload: &StatefulSet| wire::key_of(workload.meta());
        let convert = |workload: StatefulSet| Some((key(&workload), wire::workload_fact(&workload)));
        let id = WatchId { kind: GroupKind::stateful_set(), number: 0 };
        let observation = |update| Observation::Workloads(id.clone(), update);
        let target = WatchTarget::essential("statefulsets");
        self.follow(target, self.all(), FieldScope::Fixed, key, convert, observation).await;
    }

    /// Watches workloads of a kind that not every cluster has.
    pub(crate) async fn watch_kind(self, id: WatchId, resource: kinds::Resource) {
        let naming = resource.naming.clone();
        let target = WatchTarget::optional(&id, &resource);
        let api = api_resource(resource);
        let key = |workload: &CustomWorkload| wire::key_of(workload.meta());
        let convert = |workload: CustomWorkload| {
            Some((key(&workload), wire::custom_workload_fact(&workload, &api.api_version, &naming)))
        };
        let observation = |update| Observation::Workloads(id.clone(), update);
        let source = Source::new(Api::all_with(self.client.clone(), &api));
        self.follow(target, source, FieldScope::Fixed, key, convert, observation).await;
    }

    pub(crate) async fn watch_definitions(self) {
        let convert = |definition: CustomResourceDefinition| {
            Some((wire::definition_key(&definition), wire::definition_fact(definition)))
        };
        let source = self.all().with_page_size(DEFINITIONS_PAGE_SIZE);
        let target = WatchTarget::essential("customresourcedefinitions");
        let observation = Observation::Definitions;
        self.follow(target, source, FieldScope::Fixed, wire::definition_key, convert, observation).await;
    }

    /// Watches the one ConfigMap that lists workload kinds, in this namespace.
    pub(crate) async fn watch_config(self, namespace: String) {
        let key = |config: &wire::ConfigMap| wire::key_of(config.meta());
        let convert = |config: wire::ConfigMap| Some((key(&config), wire::config_fact(config)));
        let api = Api::namespaced(self.client.clone(), &namespace);
        let source = Source::new(api).with_fields(&format!("metadata.name={CONFIG_MAP}"));
        let target = WatchTarget::essential("configmaps");
        self.follow(target, source, FieldScope::Fixed, key, convert, Observation::Config).await;
    }

    /// Watches Pods, and lists them again when more annotations are of interest.
    pub(crate) async fn watch_pods(self, relist: Relist) {
        let interest = self.interest.clone();
        let convert = |pod: Pod| Some((wire::key_of(pod.meta()), wire::pod_fact(&pod, &interest)?));
        let key = |pod: &Pod| wire::key_of(pod.meta());
        let scope = FieldScope::Keys(interest.annotations(), relist);
        let source = self.all().with_page_size(PODS_PAGE_SIZE);
        self.follow(WatchTarget::essential("pods"), source, scope, key, convert, Observation::Pods).await;
    }

    /// Watches the metadata of Nodes, and lists it again when more labels are of interest.
    pub(crate) async fn watch_nodes(self, relist: Relist) {
        let interest = self.interest.clone();
        let convert =
            |node: PartialObjectMeta<Node>| Some((wire::node_key(&node), wire::node_fact(&node, &interest)));
        let scope = FieldScope::Keys(interest.labels(), relist);
        let target = WatchTarget::essential("nodes");
        self.follow(target, self.all(), scope, wire::node_key, convert, Observation::Nodes).await;
    }

    /// All objects of a resource.
    fn all<O: Resource<DynamicType = ()>>(&self) -> Source<O> {
        Source::new(Api::all(self.client.clone()))
    }

    /// Follows one resource until the receiver of observations is gone. Errors are reported and retried.
    async fn follow<O, K, F>(
        &self,
        target: WatchTarget,
        source: Source<O>,
        mut scope: FieldScope<'_>,
        key: impl Fn(&O) -> K,
        convert: impl Fn(O) -> Option<(K, F)>,
        observation: impl Fn(Update<K, F>) -> Observation,
    ) where
        O: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        loop {
            scope.begin_list();
            let mut events = Box::pin(watcher(source.api.clone(), source.config.clone()));
            let mut backoff = DefaultBackoff::default();
            let (mut is_down, mut is_known) = (false, false);
            // A list that has begun is read to its end even if keys are added: it has all that most objects need.
            let (mut list_began, mut relist_from) = (Instant::now(), None);
            loop {
                let event = tokio::select! {
                    () = scope.wait_for_new_keys(relist_from), if relist_from.is_some() => {
                        info!(resource = %target.name, "listing again because a PersistentPodState names new keys");
                        break;
                    }
                    event = events.next() => event,
                    // A resumed watch stays silent until something happens.
                    () = sleep(SETTLED), if is_down => {
                        is_down = false;
                        self.mark_up(&target).await;
                        continue;
                    }
                };
                let event = match event {
                    None => break,
                    Some(Err(error)) => {
                        is_down = true;
                        self.mark_down(&target, &error, is_forbidden(&error)).await;
                        self.wait_until_available(&target, &source, &mut backoff).await;
                        continue;
                    }
                    Some(Ok(event)) => event,
                };
                // A list begins before the API server has answered. It proves nothing about a watch that is down:
                // listing may be allowed while watching is not.
                let is_up = match event {
                    Event::Init => false,
                    Event::InitApply(_) | Event::InitDone => !is_known,
                    Event::Apply(_) | Event::Delete(_) => is_down || !is_known,
                };
                if is_up {
                    (is_down, is_known) = (false, true);
                    self.mark_up(&target).await;
                }
                self.metrics.count_watch_event(&target.name);
                let update = match event {
                    Event::Init => {
                        (list_began, relist_from) = (Instant::now(), None);
                        Some(Update::Begin(scope.revision()))
                    }
                    Event::Apply(object) | Event::InitApply(object) => {
                        convert(object).map(|(key, fact)| Update::Apply(key, fact))
                    }
                    Event::Delete(object) => Some(Update::Delete(key(&object))),
                    Event::InitDone => {
                        let pause = (RELIST_PAUSE_FACTOR * list_began.elapsed()).min(LONGEST_RELIST_PAUSE);
                        relist_from = Some(Instant::now() + pause);
                        Some(Update::Done)
                    }
                };
                if let Some(update) = update
                    && self.observations.send(observation(update)).await.is_err()
                {
                    return;
                }
            }
        }
    }

    async fn mark_up(&self, target: &WatchTarget) {
        self.metrics.set_watch_up(&target.name, true);
        match &target.criticality {
            Criticality::Essential(name) => self.health.mark_watch_up(name),
            // The receiver is gone only when the program ends.
            Criticality::Optional(id) => drop(self.observations.send(Observation::KindUp(id.clone())).await),
        }
    }

    async fn mark_down(&self, target: &WatchTarget, error: &(dyn Display + Sync), is_forbidden: bool) {
        warn!(resource = %target.name, %error, "the watch failed; retrying");
        self.metrics.count_watch_error(&target.name);
        match &target.criticality {
            Criticality::Essential(name) => self.health.mark_watch_down(name),
            Criticality::Optional(id) => {
                drop(self.observations.send(Observation::KindDown(id.clone(), is_forbidden)).await);
            }
        }
    }

    /// Waits until the API server allows this resource to be listed and watched, probing with increasing intervals.
    async fn wait_until_available<O>(
        &self,
        target: &WatchTarget,
        source: &Source<O>,
        backoff: &mut DefaultBackoff,
    ) where
        O: Clone + DeserializeOwned + Debug,
    {
        loop {
            sleep(backoff.next().unwrap_or(LONGEST_BACKOFF).min(LONGEST_BACKOFF)).await;
            let Err(error) = source.probe().await else { return };
            self.mark_down(target, &error, is_forbidden_response(&error)).await;
        }
    }
}
