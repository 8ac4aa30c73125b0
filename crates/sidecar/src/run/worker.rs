//! The worker: the state around the index that has a clock or does I/O. The files that extend it import it, never the
//! reverse.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use pps_core::kinds;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::supervisor::Supervisor;
use super::term::CurrentTerm;
use crate::args::{Args, CompactStates};
use crate::decide::conflicts::Conflicts;
use crate::decide::event_budget::EventBudget;
use crate::decide::index::Index;
use crate::decide::missing_nodes::MissingNodes;
use crate::decide::new_nodes::NewNodes;
use crate::decide::refusals::Refusals;
use crate::decide::schedule::Batch;
use crate::decide::unschedulable::UnschedulablePods;
use crate::facts::interest::Interest;
use crate::facts::{GroupKind, NamespacedName, WorkloadKey};
use crate::observe::discovery::Discovery;
use crate::observe::openkruise::Manager;
use crate::observe::watch::Watches;
use crate::telemetry::health::Health;
use crate::telemetry::metrics::{Metrics, WriteOutcome, WrittenResource};
use crate::write::events::Publisher;
use crate::write::{Failure, WriteResult, Writer};

/// How often a write that was too large is tried again: etcd's limit may have been raised.
pub(super) const OVERSIZED_RETRY_INTERVAL: Duration = Duration::from_mins(10);

/// How long a new node may lack a label, unless the grace period of missing nodes is shorter.
const LABEL_GRACE_PERIOD: Duration = Duration::from_mins(5);

/// How often drops that were not confirmed are tried again, if nothing is heard of the Pods before.
pub(super) const DROP_RETRY_INTERVAL: Duration = Duration::from_secs(30);

pub(super) struct Worker {
    pub(super) index: Index,
    pub(super) discovery: Discovery,
    pub(super) tasks: Supervisor,
    /// The task that watches each kind, with its resource name in metrics.
    pub(super) kind_watches: HashMap<GroupKind, (AbortHandle, Arc<str>)>,
    /// How the objects of each of these kinds are read.
    pub(super) kind_resources: HashMap<GroupKind, kinds::Resource>,
    pub(super) status_writes: Batch<NamespacedName>,
    pub(super) generated_writes: Batch<WorkloadKey>,
    pub(super) refusals: Refusals,
    pub(super) evictions: Batch<NamespacedName>,
    pub(super) conflicts: Conflicts,
    pub(super) unschedulable: UnschedulablePods,
    pub(super) evicts_pending_pods: bool,
    /// When the latest turn with evictions began, and how many Pods were examined in it.
    pub(super) examined_evictions: (Instant, usize),
    pub(super) missing_nodes: MissingNodes,
    pub(super) new_nodes: NewNodes,
    /// The writes in flight, each with whether it is a retry.
    pub(super) in_flight: JoinSet<(bool, WriteResult)>,
    pub(super) retries_in_flight: usize,
    pub(super) max_writes: usize,
    pub(super) writer: Writer,
    pub(super) publisher: Publisher,
    pub(super) event_budget: EventBudget,
    pub(super) term: CurrentTerm,
    pub(super) watches: Watches,
    pub(super) relist_objects: watch::Sender<u64>,
    pub(super) relist_pods: watch::Sender<()>,
    pub(super) relist_nodes: watch::Sender<()>,
    /// Whether Pods and Nodes are watched.
    pub(super) watches_pods: bool,
    pub(super) is_synced: bool,
    pub(super) retry_oversized_at: Instant,
    pub(super) retry_drops_at: Instant,
    pub(super) manager: Manager,
    pub(super) compact_states: CompactStates,
    pub(super) health: Health,
    pub(super) metrics: Arc<Metrics>,
}

impl Worker {
    pub(super) fn new(
        args: &Args,
        client: Client,
        interest: Interest,
        watches: Watches,
        term: CurrentTerm,
        health: Health,
        metrics: Arc<Metrics>,
    ) -> Self {
        let mut index = Index::new(interest);
        index.limit_object_size(args.max_object_size.saturating_mul(1024));
        index.allow_compact_form(args.compact_states == CompactStates::Auto);
        Self {
            index,
            discovery: Discovery::new(&args.config_namespace),
            tasks: Supervisor::default(),
            kind_watches: HashMap::new(),
            kind_resources: HashMap::new(),
            status_writes: Batch::default(),
            generated_writes: Batch::default(),
            refusals: Refusals::default(),
            evictions: Batch::default(),
            conflicts: Conflicts::default(),
            unschedulable: UnschedulablePods::new(args.node_grace_period),
            evicts_pending_pods: args.evict_pending_pods,
            examined_evictions: (Instant::now(), 0),
            missing_nodes: MissingNodes::new(args.node_grace_period),
            new_nodes: NewNodes::new(args.node_grace_period.min(LABEL_GRACE_PERIOD)),
            in_flight: JoinSet::new(),
            retries_in_flight: 0,
            max_writes: args.max_writes.into(),
            writer: Writer::new(client.clone(), term.permit()),
            publisher: Publisher::new(client, term.permit(), metrics.clone()),
            event_budget: EventBudget::default(),
            term,
            watches,
            relist_objects: watch::Sender::new(0),
            relist_pods: watch::Sender::new(()),
            relist_nodes: watch::Sender::new(()),
            watches_pods: false,
            is_synced: false,
            retry_oversized_at: Instant::now() + OVERSIZED_RETRY_INTERVAL,
            retry_drops_at: Instant::now() + DROP_RETRY_INTERVAL,
            manager: Manager::default(),
            compact_states: args.compact_states,
            health,
            metrics,
        }
    }

    /// Starts the watches from which the interest follows. Pods and Nodes are watched later, so that they need not be
    /// listed twice.
    pub(super) fn start_first_watches(&mut self, config_namespace: String) {
        let watches = || self.watches.clone();
        let relist = self.relist_objects.subscribe();
        self.tasks.spawn("watch of persistentpodstates", watches().watch_persistent_pod_states(relist));
        self.tasks.spawn("watch of statefulsets", watches().watch_stateful_sets());
        self.tasks.spawn("watch of customresourcedefinitions", watches().watch_definitions());
        self.tasks.spawn("watch of configmaps", watches().watch_config(config_namespace));
    }

    pub(super) fn start_pod_and_node_watches(&mut self) {
        self.watches_pods = true;
        let (pods, nodes) = (self.relist_pods.subscribe(), self.relist_nodes.subscribe());
        self.tasks.spawn("watch of pods", self.watches.clone().watch_pods(pods));
        self.tasks.spawn("watch of nodes", self.watches.clone().watch_nodes(nodes));
    }

    pub(super) fn begin_write(
        &mut self,
        is_retry: bool,
        write: impl Future<Output = WriteResult> + Send + 'static,
    ) {
        self.retries_in_flight += usize::from(is_retry);
        self.in_flight.spawn(async move { (is_retry, write.await) });
    }

    pub(super) fn count_failure(&self, resource: WrittenResource, failure: &Failure) {
        let outcome = match failure {
            Failure::Conflict => WriteOutcome::Conflict,
            Failure::NotFound => WriteOutcome::NotFound,
            Failure::Refused(_) => WriteOutcome::Refused,
            Failure::Other { .. } | Failure::Unreadable(_) => WriteOutcome::Error,
            Failure::TooLarge(_) => WriteOutcome::TooLarge,
            Failure::NotLeading => WriteOutcome::NotLeading,
        };
        self.metrics.count_write(resource, outcome);
    }
}
