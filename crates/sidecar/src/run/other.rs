//! OpenKruise's manager beside this program.

use kube::Client;
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::Worker;
use crate::observe::openkruise::{Look, Manager, look};
use crate::serve::metrics::Metrics;

/// Looks at the manager's Lease in this namespace again and again.
pub(super) fn looks(client: Client, namespace: String) -> mpsc::Receiver<Look> {
    let (looks, seen) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut before = 0;
        while looks.send(look(&client, &namespace, before).await).await.is_ok() {
            before += 1;
        }
    });
    seen
}

/// Writes nothing, and tells whether the manager runs that records in place of this program.
pub(super) async fn leave_recording(client: &Client, namespace: &str, metrics: &Metrics) {
    info!("recording is left to OpenKruise's manager");
    let mut manager = Manager::default();
    for before in 0.. {
        if let Some(runs) = manager.take(look(client, namespace, before).await) {
            metrics.other_recorder(runs);
            if runs {
                info!("OpenKruise's manager runs");
            } else {
                warn!(
                    namespace,
                    "nobody records: OpenKruise's manager does not run, or its Lease is not in this namespace"
                );
            }
        }
    }
}

impl Worker {
    /// Whether OpenKruise's manager runs may have changed.
    pub(super) fn look_at_other(&mut self, look: Look, namespace: &str) {
        let Some(runs) = self.other.take(look) else { return };
        self.metrics.other_recorder(runs);
        if !runs {
            info!("OpenKruise's manager does not run");
            return;
        }
        warn!("OpenKruise's manager runs and writes the same objects; see --recorder");
        if let Some(notice) = self.other.notice(namespace) {
            self.publish(notice);
        }
    }
}
