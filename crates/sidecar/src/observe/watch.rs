//! Watches: one task for each resource sends what it observes into a channel. Converts objects to facts before they are
//! stored, retries forever, and reports whether each watch works.

mod body;
mod failure;
mod follow;
mod merge;
mod retry;
mod scope;
mod source;
mod target;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::core::{DynamicObject, PartialObjectMeta};
use pps_core::kinds;
use pps_core::whitelist::CONFIG_MAP;
use tokio::sync::{Semaphore, mpsc, watch};

pub(crate) use self::body::collect;
pub(crate) use self::failure::{LONGEST_SILENCE, WatchError};
pub use self::merge::Merge;
use self::scope::FieldScope;
pub(crate) use self::scope::Relist;
use self::source::PAGES_AT_ONCE;
pub(crate) use self::source::{Source, api_resource};
use self::target::WatchTarget;
pub(crate) use self::target::resource_name;
use crate::facts::interest::Interest;
use crate::facts::store::Update;
use crate::facts::{ConfigFact, GroupKind, NamespacedName, NodeFact, PodFact, PpsFact, WorkloadFact};
use crate::observe::discovery::WatchId;
use crate::observe::wire::{self, Encoded, Item, Malformed, PpsObject, in_either};
use crate::telemetry::health::Health;
use crate::telemetry::metrics::Metrics;

// A page is in memory as a whole, while only a small part of each object is kept.

/// Page size of definitions: each includes a schema, which can be large.
const DEFINITIONS_PAGE_SIZE: u32 = 50;
/// Page size of PPS objects: one can be as large as etcd stores, which is 1.5 MiB.
const PPS_PAGE_SIZE: u32 = 50;
/// Page size of workloads. Those of custom kinds can be large.
const WORKLOADS_PAGE_SIZE: u32 = 100;
/// Page size of Pods, and of the metadata of nodes.
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
    /// Bounds the pages in memory.
    pages: Arc<Semaphore>,
}

impl Watches {
    pub(crate) fn new(
        client: Client,
        interest: Interest,
        health: Health,
        metrics: Arc<Metrics>,
        observations: mpsc::Sender<Observation>,
    ) -> Self {
        let pages = Arc::new(Semaphore::new(PAGES_AT_ONCE));
        Self { client, interest, health, metrics, observations, pages }
    }

    /// Watches PPS objects, and lists them again when their definition has changed.
    pub(crate) async fn watch_persistent_pod_states(self, requests: watch::Receiver<u64>) {
        let source = Source::new::<PpsObject>(self.client.clone(), &(), None, PPS_PAGE_SIZE);
        let target = WatchTarget::essential("persistentpodstates");
        let observation = Observation::PersistentPodStates;
        let scope = FieldScope::OnRequest { requests, due: None, revision: 0 };
        self.follow(target, source, scope, only_json(wire::read_pps), observation).await;
    }

    pub(crate) async fn watch_stateful_sets(self) {
        let id = WatchId { kind: GroupKind::stateful_set(), number: 0 };
        let observation = |update| Observation::Workloads(id.clone(), update);
        let source =
            Source::new::<StatefulSet>(self.client.clone(), &(), None, WORKLOADS_PAGE_SIZE).prefer_protobuf();
        let target = WatchTarget::essential("statefulsets");
        let read = in_either(wire::read_stateful_set, wire::read_stateful_set_message);
        self.follow(target, source, FieldScope::Fixed, read, observation).await;
    }

    /// Watches workloads of a kind that not every cluster has.
    pub(crate) async fn watch_kind(self, id: WatchId, resource: kinds::Resource) {
        let naming = resource.naming.clone();
        let target = WatchTarget::optional(&id, &resource);
        let api = api_resource(resource);
        let read = only_json(|text| wire::read_custom_workload(text, &api.api_version, &naming));
        let observation = |update| Observation::Workloads(id.clone(), update);
        let source = Source::new::<DynamicObject>(self.client.clone(), &api, None, WORKLOADS_PAGE_SIZE);
        self.follow(target, source, FieldScope::Fixed, read, observation).await;
    }

    pub(crate) async fn watch_definitions(self) {
        let source =
            Source::new::<CustomResourceDefinition>(self.client.clone(), &(), None, DEFINITIONS_PAGE_SIZE);
        let target = WatchTarget::essential("customresourcedefinitions");
        let observation = Observation::Definitions;
        self.follow(target, source, FieldScope::Fixed, only_json(wire::read_definition), observation).await;
    }

    /// Watches the one ConfigMap that lists workload kinds, in this namespace.
    pub(crate) async fn watch_config(self, namespace: String) {
        let source =
            Source::new::<ConfigMap>(self.client.clone(), &(), Some(&namespace), 1).named(CONFIG_MAP);
        let target = WatchTarget::essential("configmaps");
        let read = only_json(wire::read_config);
        self.follow(target, source, FieldScope::Fixed, read, Observation::Config).await;
    }

    /// Watches Pods, and lists them again when more annotations are of interest.
    pub(crate) async fn watch_pods(self, relist: Relist) {
        let read = in_either(
            |text| wire::read_pod(text, &self.interest),
            |message| wire::read_pod_message(message, &self.interest),
        );
        let scope = FieldScope::Keys(self.interest.annotations(), relist);
        let source = Source::new::<Pod>(self.client.clone(), &(), None, PODS_PAGE_SIZE).prefer_protobuf();
        self.follow(WatchTarget::essential("pods"), source, scope, read, Observation::Pods).await;
    }

    /// Watches the metadata of Nodes, and lists it again when more labels are of interest.
    pub(crate) async fn watch_nodes(self, relist: Relist) {
        let read = in_either(
            |text| wire::read_node(text, &self.interest),
            |message| wire::read_node_message(message, &self.interest),
        );
        let scope = FieldScope::Keys(self.interest.labels(), relist);
        let source = Source::new::<PartialObjectMeta<Node>>(self.client.clone(), &(), None, PODS_PAGE_SIZE)
            .only_metadata()
            .prefer_protobuf();
        self.follow(WatchTarget::essential("nodes"), source, scope, read, Observation::Nodes).await;
    }
}

/// A reader of objects that are never asked for in protobuf: custom resources have none.
pub(crate) fn only_json<K, F>(
    read: impl Fn(&str) -> Result<Item<K, F>, Malformed>,
) -> impl Fn(Encoded<'_>) -> Result<Item<K, F>, Malformed> {
    in_either(read, |_| Err(Malformed("protobuf, which was not asked for".into())))
}
