//! Kubernetes watches to facts: drops what is not needed before anything is stored.

use std::fmt::{Debug, Display};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, WatchParams};
use kube::core::{ApiResource, PartialObjectMeta};
use kube::runtime::watcher::{self, DefaultBackoff, Event, watcher};
use kube::{Api, Client, Resource};
use pps_core::kinds;
use pps_core::whitelist::CONFIG_MAP;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{info, warn};

use crate::facts::interest::{Interest, Keys};
use crate::facts::store::Update;
use crate::facts::{ConfigFact, GroupKind, NamespacedName, NodeFact, PodFact, PpsFact, WorkloadFact};
use crate::observe::discovery::WatchId;
use crate::observe::wire::{self, CustomResourceDefinition, CustomWorkload, Pod, ReadObject, StatefulSet};
use crate::serve::health::Health;
use crate::serve::metrics::Metrics;

/// The longest wait between two attempts to watch: who waits for a state to be recorded should not have to
/// wait long after the API server is back.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How long the API server may take to say whether something can be watched.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it takes until a refusal has come whose beginning has.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(250);
/// A watch that was taken up again and has not failed for so long works.
const SETTLED: Duration = Duration::from_secs(1);

/// Who names ever new keys makes everything be listed anew each time. So there is a rest after a list, so many
/// times as long as it took, but no longer than this.
const RELIST_PAUSE_FACTOR: u32 = 4;
const LONGEST_RELIST_PAUSE: Duration = Duration::from_mins(1);

/// How many definitions are listed at once: each comes with a schema, which can be large.
const DEFINITIONS_AT_ONCE: u32 = 50;

/// How many Pods are listed at once: of each, little more is kept than where it is.
const PODS_AT_ONCE: u32 = 250;

/// Watched the watches tell.
#[derive(Clone, Debug)]
pub enum Observation {
    /// Of Pods.
    Pods(Update<NamespacedName, PodFact>),
    /// Of Nodes.
    Nodes(Update<Arc<str>, NodeFact>),
    /// Of workloads of some kind.
    Workloads(WatchId, Update<NamespacedName, WorkloadFact>),
    /// Of a watch of some kind of workloads: it has failed, perhaps since it is forbidden.
    Lost(WatchId, Forbidden),
    /// Of a watch of some kind of workloads: it works again.
    Heard(WatchId),
    /// Of the ConfigMap that lists kinds of workloads.
    Config(Update<NamespacedName, ConfigFact>),
    /// Of the definitions of kinds.
    Definitions(Update<Arc<str>, kinds::Definition>),
    /// Of PPS objects.
    Objects(Update<NamespacedName, Box<PpsFact>>),
}

/// Whether a watch failed for want of a right.
pub type Forbidden = bool;

/// Watched all watches share.
#[derive(Clone)]
pub struct Watches {
    client: Client,
    interest: Interest,
    health: Health,
    metrics: Arc<Metrics>,
    seen: mpsc::Sender<Observation>,
}

/// Why a watch has to list everything anew: more is of interest than it kept so far.
pub type Relist = watch::Receiver<()>;

impl Watches {
    /// Watches with this client that send what they see into this channel.
    pub fn new(
        client: Client,
        interest: Interest,
        health: Health,
        metrics: Arc<Metrics>,
        seen: mpsc::Sender<Observation>,
    ) -> Self {
        Self { client, interest, health, metrics, seen }
    }

    /// Watches PPS objects.
    pub async fn objects(self) {
        let convert = |object: ReadObject| match object {
            ReadObject::Whole(object) => {
                Some((wire::key_of(&object.metadata), Box::new(wire::object_fact(*object))))
            }
            ReadObject::Malformed(metadata, error) => {
                warn!(object = %wire::key_of(&metadata), error, "a PersistentPodState cannot be read and is left alone");
                None
            }
        };
        let key = |object: &ReadObject| wire::key_of(object.meta());
        let what = Watched::vital("persistentpodstates");
        self.follow(what, self.all(), Retention::Always, key, convert, Observation::Objects).await;
    }

    /// Watches StatefulSets.
    pub async fn stateful_sets(self) {
        let key = |workload: &StatefulSet| wire::key_of(workload.meta());
        let convert = |workload: StatefulSet| Some((key(&workload), wire::workload_fact(&workload)));
        let id = WatchId { kind: GroupKind::stateful_set(), number: 0 };
        let seen = |update| Observation::Workloads(id.clone(), update);
        self.follow(Watched::vital("statefulsets"), self.all(), Retention::Always, key, convert, seen).await;
    }

    /// Watches workloads of a kind that not every cluster has.
    pub async fn kind(self, id: WatchId, resource: kinds::Resource) {
        let naming = resource.naming.clone();
        let what = Watched::of_kind(&id, &resource);
        let api = api_resource(resource);
        let key = |workload: &CustomWorkload| wire::key_of(workload.meta());
        let convert = |workload: CustomWorkload| {
            Some((key(&workload), wire::custom_workload_fact(&workload, &api.api_version, &naming)))
        };
        let seen = |update| Observation::Workloads(id.clone(), update);
        let source =
            Source { api: Api::all_with(self.client.clone(), &api), config: watcher::Config::default() };
        self.follow(what, source, Retention::Always, key, convert, seen).await;
    }

    /// Watches the definitions of kinds.
    pub async fn definitions(self) {
        let convert = |definition: CustomResourceDefinition| {
            Some((wire::definition_key(&definition), wire::definition_fact(definition)))
        };
        let mut source = self.all();
        source.config.page_size = Some(DEFINITIONS_AT_ONCE);
        let what = Watched::vital("customresourcedefinitions");
        self.follow(what, source, Retention::Always, wire::definition_key, convert, Observation::Definitions)
            .await;
    }

    /// Watches the one ConfigMap that lists kinds of workloads, in this namespace.
    pub async fn config(self, namespace: String) {
        let key = |config: &wire::ConfigMap| wire::key_of(config.meta());
        let convert = |config: wire::ConfigMap| Some((key(&config), wire::config_fact(config)));
        let source = Source {
            api: Api::namespaced(self.client.clone(), &namespace),
            config: watcher::Config::default().fields(&format!("metadata.name={CONFIG_MAP}")),
        };
        self.follow(
            Watched::vital("configmaps"),
            source,
            Retention::Always,
            key,
            convert,
            Observation::Config,
        )
        .await;
    }

    /// Watches Pods; lists them anew when more annotations are of interest.
    pub async fn pods(self, relist: Relist) {
        let interest = self.interest.clone();
        let convert = |pod: Pod| Some((wire::key_of(pod.meta()), wire::pod_fact(&pod, &interest)?));
        let key = |pod: &Pod| wire::key_of(pod.meta());
        let revision = Retention::Of(interest.annotations(), relist);
        let mut source = self.all();
        source.config.page_size = Some(PODS_AT_ONCE);
        self.follow(Watched::vital("pods"), source, revision, key, convert, Observation::Pods).await;
    }

    /// Watches the metadata of Nodes; lists them anew when more labels are of interest.
    pub async fn nodes(self, relist: Relist) {
        let interest = self.interest.clone();
        let convert =
            |node: PartialObjectMeta<Node>| Some((wire::node_key(&node), wire::node_fact(&node, &interest)));
        let revision = Retention::Of(interest.labels(), relist);
        self.follow(
            Watched::vital("nodes"),
            self.all(),
            revision,
            wire::node_key,
            convert,
            Observation::Nodes,
        )
        .await;
    }

    /// All objects of a kind.
    fn all<O: Resource<DynamicType = ()>>(&self) -> Source<O> {
        Source { api: Api::all(self.client.clone()), config: watcher::Config::default() }
    }

    /// Follows one kind for ever: errors are told, and it is tried again.
    async fn follow<O, K, F>(
        &self,
        watched: Watched,
        source: Source<O>,
        mut revision: Retention<'_>,
        key: impl Fn(&O) -> K,
        convert: impl Fn(O) -> Option<(K, F)>,
        seen: impl Fn(Update<K, F>) -> Observation,
    ) where
        O: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        loop {
            revision.begin();
            let mut events = Box::pin(watcher(source.api.clone(), source.config.clone()));
            let mut waits = DefaultBackoff::default();
            let (mut lost, mut known) = (false, false);
            // A list that has begun is read to its end: it has all that most objects need.
            let (mut began, mut rest) = (Instant::now(), None);
            loop {
                let event = tokio::select! {
                    () = revision.grown(rest), if rest.is_some() => {
                        info!(kind = %watched.name, "listing anew, since more is of interest");
                        break;
                    }
                    event = events.next() => event,
                    // A watch that is taken up again tells nothing before something happens.
                    () = sleep(SETTLED), if lost => {
                        lost = false;
                        self.heard(&watched).await;
                        continue;
                    }
                };
                let update = match event {
                    None => break,
                    Some(Err(error)) => {
                        lost = true;
                        self.lost(&watched, &error, is_forbidden(&error)).await;
                        self.wait_for(&watched, &source, &mut waits).await;
                        continue;
                    }
                    Some(Ok(event)) => {
                        // A list begins before the API server has answered, and says nothing about a watch
                        // that was lost: to list may be allowed and to watch not.
                        let works = match event {
                            Event::Init => false,
                            Event::InitApply(_) | Event::InitDone => !known,
                            Event::Apply(_) | Event::Delete(_) => lost || !known,
                        };
                        if works {
                            (lost, known) = (false, true);
                            self.heard(&watched).await;
                        }
                        self.metrics.watch_event(&watched.name);
                        match event {
                            Event::Init => (began, rest) = (Instant::now(), None),
                            Event::InitDone => {
                                rest = Some(
                                    Instant::now()
                                        + (RELIST_PAUSE_FACTOR * began.elapsed()).min(LONGEST_RELIST_PAUSE),
                                );
                            }
                            _ => {}
                        }
                        match event {
                            Event::Init => Some(Update::Begin(revision.number())),
                            Event::Apply(object) | Event::InitApply(object) => {
                                convert(object).map(|(key, fact)| Update::Apply(key, fact))
                            }
                            Event::Delete(object) => Some(Update::Delete(key(&object))),
                            Event::InitDone => Some(Update::Done),
                        }
                    }
                };
                if let Some(update) = update
                    && self.seen.send(seen(update)).await.is_err()
                {
                    return;
                }
            }
        }
    }

    /// A watch works.
    async fn heard(&self, watched: &Watched) {
        self.metrics.watching(&watched.name, true);
        match &watched.importance {
            Importance::Vital(name) => self.health.heard(name),
            // Nobody listens any longer when the program ends.
            Importance::Kind(id) => drop(self.seen.send(Observation::Heard(id.clone())).await),
        }
    }

    /// A watch has failed.
    async fn lost(&self, watched: &Watched, error: &(dyn Display + Sync), forbidden: Forbidden) {
        warn!(kind = %watched.name, %error, "the watch failed and is tried again");
        self.metrics.watch_error(&watched.name);
        match &watched.importance {
            Importance::Vital(name) => self.health.lost(name),
            Importance::Kind(id) => drop(self.seen.send(Observation::Lost(id.clone(), forbidden)).await),
        }
    }

    /// Waits until the API server lets this be listed and watched, and asks ever less often.
    async fn wait_for<O>(&self, watched: &Watched, source: &Source<O>, waits: &mut DefaultBackoff)
    where
        O: Clone + DeserializeOwned + Debug,
    {
        loop {
            sleep(waits.next().unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT)).await;
            let Err(error) = source.answers().await else { return };
            let forbidden = matches!(&error, kube::Error::Api(status) if status.is_forbidden());
            self.lost(watched, &error, forbidden).await;
        }
    }
}

/// Watched is watched.
struct Watched {
    /// Its name in logs and metrics.
    name: Arc<str>,
    importance: Importance,
}

enum Importance {
    /// Without it nothing works.
    Vital(&'static str),
    /// Without it workloads of this kind are left alone, and all others are not.
    Kind(WatchId),
}

impl Watched {
    fn vital(name: &'static str) -> Self {
        Self { name: name.into(), importance: Importance::Vital(name) }
    }

    fn of_kind(id: &WatchId, resource: &kinds::Resource) -> Self {
        Self { name: name_of(resource), importance: Importance::Kind(id.clone()) }
    }
}

/// The name of a custom kind in logs and metrics, such as `databases.example.io`.
pub fn name_of(resource: &kinds::Resource) -> Arc<str> {
    format!("{}.{}", resource.plural, resource.group).into()
}

fn api_resource(resource: kinds::Resource) -> ApiResource {
    ApiResource {
        api_version: format!("{}/{}", resource.group, resource.version),
        group: resource.group,
        version: resource.version,
        kind: resource.kind,
        plural: resource.plural,
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status.code == 403,
        _ => false,
    }
}

/// Which objects are watched.
struct Source<O> {
    api: Api<O>,
    config: watcher::Config,
}

impl<O: Clone + DeserializeOwned + Debug> Source<O> {
    /// Asks whether they can be listed and watched.
    async fn answers(&self) -> kube::Result<()> {
        let field_selector = self.config.field_selector.clone();
        let list =
            ListParams { field_selector: field_selector.clone(), limit: Some(1), ..ListParams::default() };
        let watch = WatchParams { field_selector, timeout: Some(1), ..WatchParams::default() };
        let asked = async {
            let list = self.api.list(&list).await?;
            let version = list.metadata.resource_version.unwrap_or_default();
            let mut events = Box::pin(self.api.watch(&watch, &version).await?);
            // A refusal comes at once, as the first event; a watch that works may tell nothing for long.
            timeout(REFUSAL_TIMEOUT, events.next()).await.map_or(Ok(None), Option::transpose).map(drop)
        };
        let no_answer = |_| kube::Error::Service("no answer from the API server".into());
        timeout(ANSWER_TIMEOUT, asked).await.map_err(no_answer)?
    }
}

/// How much is kept of each object.
enum Retention<'a> {
    /// All that is ever needed.
    Always,
    /// Watched is of interest; when that grows, everything has to be listed anew.
    Of(&'a Keys, Relist),
}

impl Retention<'_> {
    fn begin(&mut self) {
        if let Self::Of(_, relist) = self {
            relist.mark_unchanged();
        }
    }

    fn number(&self) -> u64 {
        match self {
            Self::Always => 0,
            Self::Of(keys, _) => keys.revision(),
        }
    }

    /// Waits until more is of interest, but not less than until then; for ever if that cannot be.
    async fn grown(&mut self, rest: Option<Instant>) {
        if let Self::Of(_, relist) = self {
            if let Some(rest) = rest {
                sleep_until(rest).await;
            }
            if relist.changed().await.is_ok() {
                return;
            }
        }
        pending::<()>().await;
    }
}
