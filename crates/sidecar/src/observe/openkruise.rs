//! Whether OpenKruise's manager runs in the cluster: it writes the same objects. Reads its Lease;
//! writes nothing.
//!
//! The manager's leader renews the Lease every two seconds. A Lease that changed between two checks
//! has a live holder; clocks are never compared.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use pps_api::{Failure, bounded};
use pps_core::Reason;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::watch::{Observation, Watches};
use crate::lead::holder;
use crate::telemetry::metrics::Metrics;
use pps_recorder::facts::{NamespacedName, Notice, Subject};

const LEASE: &str = "kruise-manager";
/// The time between two checks, longer than the manager takes to renew the Lease.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// After so many checks without the manager it may be gone for good: ten minutes. One that restarts
/// in a loop must not cost a write of each large object whenever it comes and goes.
const IDLE_CHECKS: u32 = 60;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the manager runs, from successive checks.
#[derive(Debug, Default)]
pub(crate) struct Manager {
    last: Option<Box<Lease>>,
    is_running: Option<bool>,
    /// How many more checks must find that the manager does not run.
    checks_until_idle: u32,
}

impl Manager {
    /// Applies a check. Returns whether the manager runs if that has changed. The first check of a
    /// held Lease decides nothing, because the Lease may be left over.
    pub(crate) fn apply(&mut self, held: Option<Box<Lease>>) -> Option<bool> {
        let is_running = match (self.last.take(), &held) {
            (_, None) => Some(false),
            (last, Some(held)) => last.map(|last| last.spec != held.spec),
        };
        self.last = held;
        let is_running = is_running?;
        self.checks_until_idle = if is_running {
            IDLE_CHECKS
        } else {
            self.checks_until_idle.saturating_sub(1)
        };
        (self.is_running.replace(is_running) != Some(is_running)).then_some(is_running)
    }

    pub(crate) fn is_known(&self) -> bool {
        self.is_running.is_some()
    }

    /// Whether the manager has not run for some time, if it ever has.
    pub(crate) fn is_idle(&self) -> bool {
        self.checks_until_idle == 0
    }

    /// The Event for users. It is published on the Lease, the only object of OpenKruise known here.
    pub(crate) fn notice(&self) -> Option<Notice> {
        let lease = &self.last.as_ref()?.metadata;
        let uid = lease.uid.as_deref().unwrap_or_default();
        let key = NamespacedName::new(
            lease.namespace.as_deref().unwrap_or_default(),
            lease.name.as_deref().unwrap_or_default(),
        );
        let subject = Subject::new("coordination.k8s.io/v1", "Lease", key, uid);
        let message = "OpenKruise's manager also writes PersistentPodState status: remove it or \
                       its permission to write them, or start this sidecar with --recorder \
                       openkruise";
        Some(Notice {
            subject,
            reason: Reason::ConflictingRecorder,
            message: message.into(),
        })
    }
}

/// The manager's Lease, if somebody holds it; fails if that is unknown. Where reading it is
/// forbidden, the manager is assumed not to run: the sidecar's role grants the read in the
/// namespace where OpenKruise is installed.
async fn held_lease(client: &Client, namespace: &str) -> Result<Option<Box<Lease>>, Failure> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = match bounded(REQUEST_TIMEOUT, api.get_opt(LEASE)).await {
        Err(error) if matches!(error.code(), Some(401 | 403 | 404)) => {
            debug!(
                %error,
                "cannot read the Lease of OpenKruise's manager; assuming that it does not run"
            );
            None
        }
        lease => lease?,
    };
    Ok(lease
        .filter(|lease| lease.spec.as_ref().and_then(holder).is_some())
        .map(Box::new))
}

pub(crate) async fn check_repeatedly(watches: Watches, namespace: String) {
    loop {
        if let Ok(lease) = held_lease(&watches.client, &namespace).await {
            watches.observe(Observation::Manager(lease)).await;
        }
        sleep(CHECK_INTERVAL).await;
    }
}

/// Reports whether the manager runs, which records in place of this sidecar. Never returns.
pub(crate) async fn watch_manager(client: &Client, namespace: &str, metrics: &Metrics) {
    info!("OpenKruise's manager is expected to record; this sidecar writes nothing");
    let mut manager = Manager::default();
    loop {
        let lease = held_lease(client, namespace).await;
        if let Some(is_running) = lease.ok().and_then(|lease| manager.apply(lease)) {
            metrics.conflicting_recorder.set(is_running.into());
            if is_running {
                info!("OpenKruise's manager runs");
            } else {
                warn!(
                    namespace,
                    "nothing is recorded: OpenKruise's manager does not run, or its Lease is in \
                     another namespace"
                );
            }
        }
        sleep(CHECK_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use kube::client::Body;
    use tower::service_fn;

    use super::*;

    fn lease(holder: &str) -> Box<Lease> {
        let lease =
            serde_json::json!({"metadata": {"uid": "1"}, "spec": {"holderIdentity": holder}});
        serde_json::from_value(lease).unwrap()
    }

    #[test]
    fn the_manager_runs_while_its_lease_is_renewed() {
        let mut manager = Manager::default();
        assert_eq!(
            manager.apply(Some(lease("a"))),
            None,
            "the Lease may be left over"
        );
        assert_eq!(manager.apply(Some(lease("b"))), Some(true));
        assert_eq!(manager.notice().unwrap().subject.uid, "1");
        assert_eq!(manager.apply(Some(lease("c"))), None, "unchanged");
        assert_eq!(manager.apply(Some(lease("d"))), None);
        assert_eq!(manager.apply(Some(lease("d"))), Some(false), "not renewed");
        assert_eq!(manager.apply(Some(lease("e"))), Some(true));
        assert_eq!(manager.apply(None), Some(false));
        assert_eq!((manager.apply(None), manager.notice()), (None, None));
    }

    #[test]
    fn a_manager_that_comes_and_goes_is_idle_only_after_ten_minutes() {
        let mut manager = Manager::default();
        manager.apply(None);
        assert!(manager.is_idle(), "it has never run");
        for round in 0..3 {
            manager.apply(Some(lease(&format!("{round}a"))));
            manager.apply(Some(lease(&format!("{round}b"))));
            assert!(!manager.is_idle());
            for _ in 0..IDLE_CHECKS - 1 {
                manager.apply(None);
                assert!(!manager.is_idle());
            }
        }
        manager.apply(None);
        assert!(manager.is_idle());
    }

    #[tokio::test]
    async fn the_manager_does_not_run_without_a_held_lease() {
        assert_eq!(Manager::default().apply(None), Some(false));
        for (code, body, expected) in [
            (200, r#"{"spec": {"holderIdentity": "a"}}"#, Some(true)),
            (200, r#"{"spec": {"holderIdentity": ""}}"#, Some(false)),
            (200, "{}", Some(false)),
            (403, r#"{"code": 403}"#, Some(false)),
            (404, r#"{"code": 404}"#, Some(false)),
            (500, r#"{"code": 500}"#, None),
        ] {
            let answer = move |_: http::Request<Body>| async move {
                http::Response::builder()
                    .status(code)
                    .body(Body::from(body.as_bytes().to_vec()))
            };
            let held = held_lease(&Client::new(service_fn(answer), "n"), "n").await;
            assert_eq!(
                held.ok().map(|lease| lease.is_some()),
                expected,
                "{code} {body}"
            );
        }
    }
}
