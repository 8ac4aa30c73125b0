//! The tasks that watch. None of them ends by itself: one that does, or that panics, ends the program, so
//! that what it did is not missing unnoticed.

use std::collections::HashMap;
use std::future::pending;

use pps_recorder::kinds;
use tokio::sync::watch;
use tokio::task::{self, AbortHandle, JoinError, JoinSet};
use tracing::info;

use super::worker::Worker;
use crate::args::Args;
use crate::observe::discovery::{WatchAction, WatchId};
use crate::observe::openkruise::check_repeatedly;
use crate::observe::watch::{Watches, resource_name};
use pps_recorder::decide::index::Work;
use pps_recorder::facts::{GroupKind, NamespacedName, WorkloadFact, store::Update};

pub(super) struct Watching {
    watches: Watches,
    tasks: JoinSet<()>,
    names: HashMap<task::Id, String>,
    /// The task that watches each kind, and how objects of the kind are read.
    kinds: HashMap<GroupKind, (AbortHandle, kinds::Resource)>,
    relist_objects: watch::Sender<u64>,
    relist_pods_and_nodes: watch::Sender<u64>,
    /// Whether Pods and Nodes are watched. They are watched later than the rest, so that they need not be
    /// listed twice.
    pub(super) has_pods: bool,
}

impl Watching {
    pub(super) fn new(watches: Watches) -> Self {
        Self {
            watches,
            tasks: JoinSet::new(),
            names: HashMap::new(),
            kinds: HashMap::new(),
            relist_objects: watch::Sender::new(0),
            relist_pods_and_nodes: watch::Sender::new(0),
            has_pods: false,
        }
    }

    pub(super) fn spawn(
        &mut self,
        name: impl Into<String>,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        let task = self.tasks.spawn(task);
        self.names.insert(task.id(), name.into());
        task
    }

    /// Waits until a task ends that was not aborted, and says which and how.
    pub(super) async fn first_failure(&mut self) -> anyhow::Error {
        loop {
            let Some(ended) = self.tasks.join_next_with_id().await else { return pending().await };
            let id = ended.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
            let name = self.names.remove(&id).unwrap_or_default();
            match ended {
                Ok(_) => return anyhow::anyhow!("the {name} has ended"),
                Err(error) if error.is_cancelled() => {}
                Err(error) => return anyhow::Error::new(error).context(format!("the {name} has failed")),
            }
        }
    }

    /// Starts the watches from which the interest follows.
    pub(super) fn start_first(&mut self, args: &Args) {
        let watches = self.watches.clone();
        let checks = check_repeatedly(watches.clone(), args.openkruise_namespace().to_owned());
        self.spawn("check of OpenKruise's manager", checks);
        let relist = self.relist_objects.subscribe();
        self.spawn("watch of persistentpodstates", watches.clone().watch_persistent_pod_states(relist));
        self.spawn("watch of statefulsets", watches.clone().watch_stateful_sets());
        self.spawn("watch of customresourcedefinitions", watches.clone().watch_definitions());
        self.spawn("watch of configmaps", watches.watch_config(args.config_namespace.clone()));
    }

    pub(super) fn start_pods_and_nodes(&mut self) {
        self.has_pods = true;
        self.relist_new_keys();
        let relist = || self.relist_pods_and_nodes.subscribe();
        let (pods, nodes) = (relist(), relist());
        self.spawn("watch of pods", self.watches.clone().watch_pods(pods));
        self.spawn("watch of nodes", self.watches.clone().watch_nodes(nodes));
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
        let (kind, name) = (id.kind.clone(), format!("watch of {}", resource_name(&resource)));
        let task = self.spawn(name, self.watches.clone().watch_kind(id, resource.clone()));
        if let Some((before, _)) = self.kinds.insert(kind, (task, resource)) {
            before.abort();
        }
    }

    fn stop_kind(&mut self, kind: &GroupKind) -> Option<kinds::Resource> {
        info!(%kind, "no longer watching this workload kind");
        let (task, resource) = self.kinds.remove(kind)?;
        task.abort();
        Some(resource)
    }

    /// The resource of a custom kind; `None` if it is no longer watched.
    pub(super) fn resource_of(&self, kind: &GroupKind) -> Option<kinds::Resource> {
        self.kinds.get(kind).map(|(_, resource)| resource.clone())
    }
}

/// The watches of workload kinds that come and go: does what the discovery decides.
impl Worker {
    pub(super) fn apply_workloads(&mut self, id: &WatchId, update: Update<NamespacedName, WorkloadFact>) {
        let is_listed = update == Update::Done;
        if id.kind == GroupKind::stateful_set() {
            self.index.apply_workloads(&id.kind, update);
        } else if self.discovery.is_current(id) {
            self.index.apply_workloads(&id.kind, update);
            if is_listed {
                self.on_kind_up(id, true);
            }
        }
    }

    pub(super) fn on_kind_up(&mut self, id: &WatchId, is_listed: bool) {
        if self.discovery.is_current(id) {
            self.index.set_kind_failing(&id.kind, false);
            self.discovery.mark_up(id, is_listed);
            self.follow_discovery();
        }
    }

    pub(super) fn on_kind_down(&mut self, id: &WatchId, is_forbidden: bool) {
        if self.discovery.is_current(id) {
            self.index.set_kind_failing(&id.kind, true);
            self.discovery.mark_down(id, is_forbidden);
            self.follow_discovery();
        }
    }

    pub(super) fn follow_discovery(&mut self) {
        for action in self.discovery.take_actions() {
            match action {
                WatchAction::Start(id, resource) => {
                    self.index.watch_kind(id.kind.clone());
                    self.watching.start_kind(id, resource);
                }
                WatchAction::Stop(kind) => {
                    if let Some(resource) = self.watching.stop_kind(&kind) {
                        self.metrics.remove_watch(&resource_name(&resource));
                    }
                    self.index.unwatch_kind(&kind);
                }
                WatchAction::SetForbidden(kind, is_forbidden) => self.index.forbid_kind(&kind, is_forbidden),
                WatchAction::Publish(notice) => self.term.publish(notice),
                WatchAction::RelistObjects => self.index.on_definition_changed(),
            }
        }
        // Beside OpenKruise's manager no object gets the compact form.
        if let Some(is_kept) = self.discovery.keeps_packed().filter(|_| self.manager.is_known()) {
            self.index.set_compact_form_kept(is_kept);
        }
        if self.discovery.is_known() {
            self.index.set_kinds_known();
        }
    }
}
