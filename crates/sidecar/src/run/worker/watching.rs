//! The tasks that watch. One that ends, or that panics, ends the program: what it did must not be
//! missing unnoticed.

use std::collections::HashMap;
use std::future::pending;

use pps_recorder::{Fact, Work, kinds};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tracing::info;

use super::Worker;
use crate::args::Args;
use crate::lead::Leadership;
use crate::observe::discovery::{WatchAction, WatchId};
use crate::observe::openkruise::check_repeatedly;
use crate::observe::watch::{StoreWentBack, Watches, resource_name};
use pps_recorder::facts::WatchState;
use pps_recorder::facts::{GroupKind, NamespacedName, WorkloadFact, store::Update};

pub(crate) struct Watching {
    watches: Watches,
    leadership: Leadership,
    /// Each returns why it has ended.
    pub(super) tasks: JoinSet<anyhow::Error>,
    kinds: HashMap<GroupKind, WatchedKind>,
    relist_objects: watch::Sender<u64>,
    relist_pods_and_nodes: watch::Sender<u64>,
    /// Whether Pods and Nodes are watched. They are watched later than the rest, so that they need
    /// not be listed twice.
    pub(super) has_pods: bool,
}

struct WatchedKind {
    /// The task that watches the kind.
    task: AbortHandle,
    /// How objects of the kind are read.
    resource: kinds::Resource,
}

impl Watching {
    pub(super) fn new(watches: Watches, leadership: Leadership) -> Self {
        Self {
            watches,
            leadership,
            tasks: JoinSet::new(),
            kinds: HashMap::new(),
            relist_objects: watch::Sender::new(0),
            relist_pods_and_nodes: watch::Sender::new(0),
            has_pods: false,
        }
    }

    /// Waits until a task ends that was not aborted, and says how.
    pub(crate) async fn first_failure(&mut self) -> anyhow::Error {
        loop {
            match self.tasks.join_next().await {
                None => return pending().await,
                Some(Ok(error)) => return error,
                Some(Err(error)) if error.is_cancelled() => {}
                Some(Err(error)) => return anyhow::Error::new(error).context("a watch has failed"),
            }
        }
    }

    /// Starts the watches from which the interest follows.
    pub(crate) fn start_first(&mut self, args: &Args) {
        let watches = self.watches.clone();
        let manager = check_repeatedly(watches.clone(), args.openkruise_namespace().to_owned());
        self.tasks.spawn(async {
            manager.await;
            anyhow::anyhow!("the check for OpenKruise's manager has ended")
        });
        let relist = self.relist_objects.subscribe();
        self.spawn(watches.clone().watch_persistent_pod_states(relist));
        self.spawn(watches.clone().watch_stateful_sets());
        self.spawn(watches.clone().watch_definitions());
        self.spawn(watches.clone().watch_config(args.config_namespace.clone()));
        if !args.namespace_selector.is_empty() {
            self.spawn(watches.watch_namespaces(args.namespace_selector.clone()));
        }
    }

    /// Runs a watch. When the API server has gone back to an earlier state, writing ends in this
    /// moment, before anything else is decided.
    fn spawn(
        &mut self,
        watch: impl Future<Output = StoreWentBack> + Send + 'static,
    ) -> AbortHandle {
        let leadership = self.leadership.clone();
        self.tasks.spawn(async move {
            let error = watch.await;
            leadership.revoke();
            error.into()
        })
    }

    pub(super) fn start_pods_and_nodes(&mut self) {
        self.has_pods = true;
        self.relist_new_keys();
        let relist = self.relist_pods_and_nodes.subscribe();
        self.spawn(self.watches.clone().watch_pods(relist.clone()));
        self.spawn(self.watches.clone().watch_nodes(relist));
    }

    pub(super) fn relist(&self, work: &Work) {
        if let Some(revision) = work.relist_objects {
            self.relist_objects.send_replace(revision);
        }
        if self.has_pods {
            self.relist_new_keys();
        }
    }

    /// Asks for the Pods and Nodes again if there are keys that they were listed without.
    fn relist_new_keys(&self) {
        let revision = self.watches.interest.revision();
        let relist = |current: &mut u64| std::mem::replace(current, revision) != revision;
        self.relist_pods_and_nodes.send_if_modified(relist);
    }

    fn start_kind(&mut self, id: WatchId, resource: kinds::Resource) {
        info!(kind = %id.kind, version = resource.version, "watching this workload kind");
        let kind = id.kind.clone();
        let task = self.spawn(self.watches.clone().watch_kind(id, resource.clone()));
        if let Some(before) = self.kinds.insert(kind, WatchedKind { task, resource }) {
            before.task.abort();
        }
    }

    fn stop_kind(&mut self, kind: &GroupKind) -> Option<kinds::Resource> {
        info!(%kind, "no longer watching this workload kind");
        let watched = self.kinds.remove(kind)?;
        watched.task.abort();
        Some(watched.resource)
    }

    /// The resource of a custom kind; `None` if it is no longer watched.
    pub(super) fn resource_of(&self, kind: &GroupKind) -> Option<kinds::Resource> {
        self.kinds.get(kind).map(|kind| kind.resource.clone())
    }
}

/// The watches of workload kinds that come and go: does what the discovery decides.
impl Worker {
    pub(super) fn apply_workloads(
        &mut self,
        id: &WatchId,
        update: Update<NamespacedName, WorkloadFact>,
    ) {
        let is_listed = update == Update::Done;
        let is_custom = id.kind != GroupKind::stateful_set();
        if !is_custom || self.discovery.is_current(id) {
            self.recorder
                .apply(Fact::Workloads(id.kind.clone(), update));
            if is_custom && is_listed {
                self.on_kind(id, WatchState::Listed);
            }
        }
    }

    pub(super) fn on_kind(&mut self, id: &WatchId, state: WatchState) {
        if self.discovery.is_current(id) {
            self.recorder.apply(Fact::KindState(id.kind.clone(), state));
            self.discovery.mark(id, state);
            self.follow_discovery();
        }
    }

    pub(super) fn follow_discovery(&mut self) {
        for action in self.discovery.take_actions() {
            match action {
                WatchAction::Start(id, resource) => {
                    self.recorder.apply(Fact::KindWatched(id.kind.clone()));
                    self.watching.start_kind(id, resource);
                }
                WatchAction::Stop(kind) => {
                    if let Some(resource) = self.watching.stop_kind(&kind) {
                        self.metrics.remove_watch(&resource_name(&resource));
                    }
                    self.recorder.apply(Fact::KindUnwatched(kind));
                }
                WatchAction::Publish(notice) => self.term.publish(notice),
                WatchAction::RelistObjects => self.recorder.on_definition_changed(),
            }
        }
        // Beside OpenKruise's manager no object gets the compact form.
        if let Some(is_kept) = self
            .discovery
            .keeps_packed()
            .filter(|_| self.manager.is_known())
        {
            self.recorder
                .change_compact_form(|form| form.is_kept = Some(is_kept));
        }
        if self.discovery.is_known() {
            self.recorder.apply(Fact::KindsKnown);
        }
    }
}
