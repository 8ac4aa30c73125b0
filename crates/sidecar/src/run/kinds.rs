//! The watches of workload kinds that come and go: does what the discovery decides.

use tracing::info;

use super::worker::Worker;
use crate::facts::store::Update;
use crate::facts::{GroupKind, NamespacedName, WorkloadFact};
use crate::observe::discovery::{WatchAction, WatchId};
use crate::observe::watch::resource_name;

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
                    info!(kind = %id.kind, version = resource.version, "watching this workload kind");
                    self.index.watch_kind(id.kind.clone());
                    let (kind, name) = (id.kind.clone(), resource_name(&resource));
                    self.kind_resources.insert(kind.clone(), resource.clone());
                    let watch = self.watches.clone().watch_kind(id, resource);
                    let task = self.tasks.spawn(format!("watch of {name}"), watch);
                    if let Some((before, _)) = self.kind_watches.insert(kind, (task, name)) {
                        before.abort();
                    }
                }
                WatchAction::Stop(kind) => {
                    info!(%kind, "no longer watching this workload kind");
                    if let Some((task, name)) = self.kind_watches.remove(&kind) {
                        task.abort();
                        self.metrics.remove_watch(&name);
                    }
                    self.kind_resources.remove(&kind);
                    self.index.unwatch_kind(&kind);
                }
                WatchAction::SetForbidden(kind, is_forbidden) => self.index.forbid_kind(&kind, is_forbidden),
                WatchAction::Publish(notice) => self.publish(notice),
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
