//! Watches: one task for each resource sends what it observes into a channel. Converts objects to
//! facts before they are stored, retries forever, and reports whether each watch works.
//!
//! ARCHITECTURE.md says why this is no `watcher` of kube.

mod follow;
mod merge;
mod requests;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::core::{ApiResource, DynamicObject};
use kube::{Client, Resource};
use pps_api::{PAGES_AT_ONCE, Source};
use pps_recorder::kinds;
use pps_recorder::whitelist::CONFIG_MAP;
use tokio::sync::{Semaphore, mpsc};

pub(crate) use self::follow::StoreWentBack;
pub use self::merge::Merge;
pub(crate) use self::requests::Relist;
use self::requests::Relisting;
use crate::observe::discovery::WatchId;
use crate::observe::objects;
use crate::telemetry::Health;
use crate::telemetry::metrics::Metrics;
use pps_recorder::facts::WatchState;
use pps_recorder::facts::{
    ConfigFact, GroupKind, NamespacedName, NodeFact, PodFact, PpsFact, PpsObject, WorkloadFact,
    interest::Interest, store::Update,
};

/// Page size of definitions, which include schemas, and of PPS objects: one can be as large as etcd
/// stores, which is 1.5 MiB. A page is in memory as a whole, while only a small part of each object
/// is kept.
const LARGE_OBJECTS_PAGE_SIZE: u32 = 50;
/// Page size of custom workloads, which can be large.
const CUSTOM_WORKLOADS_PAGE_SIZE: u32 = 100;
/// Page size of built-in kinds. The API server compresses no page of less than 128 KiB.
const PAGE_SIZE: u32 = 250;
/// After a definition has changed, each API server takes a moment until it serves objects
/// accordingly.
const DEFINITION_DELAY: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(crate) enum Observation {
    Pods(Update<NamespacedName, PodFact>),
    Nodes(Update<Arc<str>, NodeFact>),
    Namespaces(Update<Arc<str>, ()>),
    Workloads(WatchId, Update<NamespacedName, WorkloadFact>),
    Kind(WatchId, WatchState),
    /// The Lease of OpenKruise's manager was read; nothing if nobody holds it.
    Manager(Option<Box<Lease>>),
    Config(Update<NamespacedName, ConfigFact>),
    Definitions(Update<Arc<str>, kinds::Definition>),
    PersistentPodStates(Update<NamespacedName, Box<PpsFact>>),
}

pub(crate) fn resource_name(resource: &kinds::Resource) -> String {
    format!("{}.{}", resource.plural, resource.group)
}

#[derive(Clone)]
pub(crate) struct Watches {
    pub(crate) client: Client,
    /// The only namespace that is recorded; all if there is none.
    namespace: Option<Arc<str>>,
    pub(crate) interest: Interest,
    pub(crate) health: Health,
    pub(crate) metrics: Arc<Metrics>,
    observations: mpsc::Sender<Observation>,
    /// Bounds the pages in memory.
    pages: Arc<Semaphore>,
}

impl Watches {
    pub(crate) fn new(
        client: Client,
        namespace: Option<&str>,
        health: Health,
        metrics: Arc<Metrics>,
        observations: mpsc::Sender<Observation>,
    ) -> Self {
        let namespace = namespace.map(Arc::from);
        let interest = Interest::default();
        let pages = Arc::new(Semaphore::new(PAGES_AT_ONCE));
        Self {
            client,
            namespace,
            interest,
            health,
            metrics,
            observations,
            pages,
        }
    }

    /// Sends an observation. The receiver is gone only when the program ends.
    pub(super) async fn observe(&self, observation: Observation) {
        drop(self.observations.send(observation).await);
    }

    fn cluster<O: Resource<DynamicType = (), Scope = ClusterResourceScope>>(
        &self,
        page: u32,
    ) -> Source {
        Source::new::<O>(self.client.clone(), &(), None, page)
    }

    /// The objects of the namespace that is recorded, or of all.
    fn namespaced<O: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(
        &self,
        page: u32,
    ) -> Source {
        Source::new::<O>(self.client.clone(), &(), self.namespace.as_deref(), page)
    }

    pub(crate) async fn watch_persistent_pod_states(self, relist: Relist) -> StoreWentBack {
        let source = self.namespaced::<PpsObject>(LARGE_OBJECTS_PAGE_SIZE);
        let relisting = Relisting::new(relist, DEFINITION_DELAY);
        let observation = Observation::PersistentPodStates;
        self.follow(
            "persistentpodstates",
            None,
            source,
            relisting,
            objects::read_pps,
            observation,
        )
        .await
    }

    pub(crate) async fn watch_stateful_sets(self) -> StoreWentBack {
        let id = WatchId {
            kind: GroupKind::stateful_set(),
            number: 0,
        };
        let observation = |update| Observation::Workloads(id.clone(), update);
        let source = self.namespaced::<StatefulSet>(PAGE_SIZE);
        self.follow(
            "statefulsets",
            None,
            source,
            Relisting::fixed(),
            objects::read_stateful_set,
            observation,
        )
        .await
    }

    pub(crate) async fn watch_kind(self, id: WatchId, resource: kinds::Resource) -> StoreWentBack {
        let name = resource_name(&resource);
        let naming = resource.naming.clone();
        let api = api_resource(resource);
        let namespace = self.namespace.as_deref();
        let source = Source::new::<DynamicObject>(
            self.client.clone(),
            &api,
            namespace,
            CUSTOM_WORKLOADS_PAGE_SIZE,
        )
        .with_any_list_kind();
        let read = |object: &str| objects::read_custom_workload(object, &api.api_version, &naming);
        let observation = |update| Observation::Workloads(id.clone(), update);
        self.follow(
            &name,
            Some(&id),
            source,
            Relisting::fixed(),
            read,
            observation,
        )
        .await
    }

    pub(crate) async fn watch_definitions(self) -> StoreWentBack {
        let source = self.cluster::<CustomResourceDefinition>(LARGE_OBJECTS_PAGE_SIZE);
        let read = objects::read_definition;
        let observation = Observation::Definitions;
        self.follow(
            "customresourcedefinitions",
            None,
            source,
            Relisting::fixed(),
            read,
            observation,
        )
        .await
    }

    pub(crate) async fn watch_config(self, namespace: String) -> StoreWentBack {
        let source = Source::new::<ConfigMap>(self.client.clone(), &(), Some(&namespace), 1)
            .named(CONFIG_MAP);
        let read = objects::read_config;
        let observation = Observation::Config;
        self.follow(
            "configmaps",
            None,
            source,
            Relisting::fixed(),
            read,
            observation,
        )
        .await
    }

    pub(crate) async fn watch_namespaces(self, selector: String) -> StoreWentBack {
        let source = self.cluster::<Namespace>(PAGE_SIZE).only_metadata();
        let source = source.selected(&selector);
        let read = objects::read_namespace;
        self.follow(
            "namespaces",
            None,
            source,
            Relisting::fixed(),
            read,
            Observation::Namespaces,
        )
        .await
    }

    pub(crate) async fn watch_pods(self, relist: Relist) -> StoreWentBack {
        let source = self.namespaced::<Pod>(PAGE_SIZE);
        let read = |object: &str| objects::read_pod(object, &self.interest);
        let relisting = Relisting::new(relist, Duration::ZERO);
        self.follow("pods", None, source, relisting, read, Observation::Pods)
            .await
    }

    pub(crate) async fn watch_nodes(self, relist: Relist) -> StoreWentBack {
        let source = self.cluster::<Node>(PAGE_SIZE).only_metadata();
        let read = |object: &str| objects::read_node(object, &self.interest);
        let relisting = Relisting::new(relist, Duration::ZERO);
        self.follow("nodes", None, source, relisting, read, Observation::Nodes)
            .await
    }
}

pub(crate) fn api_resource(resource: kinds::Resource) -> ApiResource {
    ApiResource {
        api_version: format!("{}/{}", resource.group, resource.version),
        group: resource.group,
        version: resource.version,
        kind: resource.kind,
        plural: resource.plural,
    }
}
