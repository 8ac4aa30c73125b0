//! The watches of kinds of workloads that come and go.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::AbortHandle;
use tracing::info;

use super::Worker;
use crate::facts::store::Update;
use crate::facts::{GroupKind, NamespacedName, WorkloadFact};
use crate::observe::discovery::{WatchAction, WatchId};
use crate::observe::watch::{Forbidden, name_of};

/// The tasks that watch them, each with its name in metrics.
pub(super) type Kinds = HashMap<GroupKind, (AbortHandle, Arc<str>)>;

impl Worker {
    pub(super) fn workloads(&mut self, id: &WatchId, update: Update<NamespacedName, WorkloadFact>) {
        let is_listed = update == Update::Done;
        if id.kind == GroupKind::stateful_set() {
            self.index.apply_workloads(&id.kind, update);
        } else if self.discovery.is_current(id) {
            self.index.apply_workloads(&id.kind, update);
            if is_listed {
                self.on_kind_reported(id, true);
            }
        }
    }

    pub(super) fn on_kind_reported(&mut self, id: &WatchId, is_listed: bool) {
        if self.discovery.is_current(id) {
            self.discovery.heard(id, is_listed);
            self.follow_discovery();
        }
    }

    pub(super) fn on_kind_lost(&mut self, id: &WatchId, forbidden: Forbidden) {
        if self.discovery.is_current(id) {
            self.discovery.lost(id, forbidden);
            self.follow_discovery();
        }
    }

    /// Does what the discovery asks for.
    pub(super) fn follow_discovery(&mut self) {
        for step in self.discovery.take_actions() {
            match step {
                WatchAction::Start(id, resource) => {
                    info!(kind = %id.kind, version = resource.version, "watching workloads of this kind");
                    self.index.watch_kind(id.kind.clone());
                    let (kind, name) = (id.kind.clone(), name_of(&resource));
                    let task = tokio::spawn(self.watches.clone().kind(id, resource));
                    if let Some((before, _)) = self.kinds.insert(kind, (task.abort_handle(), name)) {
                        before.abort();
                    }
                }
                WatchAction::Stop(kind) => {
                    info!(%kind, "no longer watching workloads of this kind");
                    if let Some((task, name)) = self.kinds.remove(&kind) {
                        task.abort();
                        self.metrics.not_watching(&name);
                    }
                    self.index.unwatch_kind(&kind);
                }
                WatchAction::Forbid(kind, forbidden) => self.index.forbid_kind(&kind, forbidden),
                WatchAction::Tell(notice) => self.publish(notice),
            }
        }
        if self.discovery.is_known() {
            self.index.set_kinds_known();
        }
    }
}
