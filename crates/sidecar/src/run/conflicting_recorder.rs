//! OpenKruise's manager, which writes the same objects: checks whether it runs, and reports it.

use kube::Client;
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::worker::Worker;
use crate::args::CompactStates;
use crate::observe::openkruise::{LeaseCheck, Manager, check_lease};
use crate::telemetry::metrics::Metrics;

/// Checks the manager's Lease in this namespace periodically, until the receiver is gone.
pub(super) async fn check_repeatedly(client: Client, namespace: String, checked: mpsc::Sender<LeaseCheck>) {
    let mut checks = 0;
    while checked.send(check_lease(&client, &namespace, checks).await).await.is_ok() {
        checks += 1;
    }
}

/// Reports whether the manager runs, which records in place of this sidecar. Never returns.
pub(super) async fn watch_manager(client: &Client, namespace: &str, metrics: &Metrics) {
    info!("OpenKruise's manager is expected to record; this sidecar writes nothing");
    let mut manager = Manager::default();
    for checks in 0.. {
        if let Some(is_running) = manager.apply(check_lease(client, namespace, checks).await) {
            metrics.set_conflicting_recorder(is_running);
            if is_running {
                info!("OpenKruise's manager runs");
            } else {
                warn!(
                    namespace,
                    "nothing is recorded: OpenKruise's manager does not run, or its Lease is in another namespace"
                );
            }
        }
    }
}

impl Worker {
    pub(super) fn on_manager_checked(&mut self, check: LeaseCheck, namespace: &str) {
        let changed = self.manager.apply(check);
        self.index.allow_compact_form(self.compact_states == CompactStates::Auto && self.manager.is_idle());
        let Some(is_running) = changed else { return };
        self.metrics.set_conflicting_recorder(is_running);
        self.follow_discovery();
        if !is_running {
            info!("OpenKruise's manager does not run");
            return;
        }
        warn!("OpenKruise's manager runs and writes the same objects; see --recorder");
        if let Some(notice) = self.manager.notice(namespace) {
            self.publish(notice);
        }
    }
}
