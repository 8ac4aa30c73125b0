//! Whether OpenKruise's manager runs in the cluster: it writes the same objects.
//!
//! Its leader renews a Lease every few seconds. One that was renewed between two looks is held by somebody who
//! lives; no clocks are compared.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use pps_core::Reason;
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::facts::{NamespacedName, Notice, Subject};

/// The Lease of OpenKruise's manager.
pub const LEASE: &str = "kruise-manager";
/// How often it is looked at. It is renewed more often, every two seconds.
const PAUSE: Duration = Duration::from_secs(15);
/// How soon after the first look: only the second one can tell something.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// How long a look may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// What a look at the Lease has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Somebody holds it.
    Held(Held),
    /// There is none, nobody holds it, or it may not be read: then it is nobody's who matters here.
    Nobody,
    /// The API server did not answer.
    Unknown,
}

/// A Lease that somebody holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// UID of the Lease.
    pub uid: String,
    /// Who holds it, and since when and until when: each renewal changes that.
    pub mark: String,
}

/// Follows whether the manager runs.
#[derive(Debug, Default)]
pub struct Manager {
    last: Option<Held>,
    runs: Option<bool>,
}

impl Manager {
    /// Takes a look. Gives whether the manager runs, if that is news: nothing is known before the second look at a
    /// Lease that somebody holds.
    pub fn take(&mut self, look: Look) -> Option<bool> {
        let (held, runs) = match look {
            Look::Unknown => return None,
            Look::Nobody => (None, Some(false)),
            Look::Held(held) => {
                let before = self.last.as_ref();
                let runs = before.map(|before| *before != held);
                (Some(held), runs)
            }
        };
        self.last = held;
        let runs = runs?;
        (self.runs.replace(runs) != Some(runs)).then_some(runs)
    }

    /// What users have to be told: on the Lease, the one object of OpenKruise that is known here.
    pub fn notice(&self, namespace: &str) -> Option<Notice> {
        let subject = Subject {
            api_version: "coordination.k8s.io/v1".into(),
            kind: "Lease".into(),
            object: NamespacedName::new(namespace, LEASE),
            uid: self.last.as_ref()?.uid.clone(),
        };
        let message = "OpenKruise's manager runs and writes the same PersistentPodState objects as this sidecar; remove it or its right to write them, or start the sidecar with --recorder openkruise";
        Some(Notice { subject, reason: Reason::ConflictingRecorder, message: message.into() })
    }
}

/// Waits, and looks at the Lease in this namespace. `before` is how often that was done before.
pub async fn look(client: &Client, namespace: &str, before: u64) -> Look {
    match before {
        0 => {}
        1 => sleep(FIRST_PAUSE).await,
        _ => sleep(PAUSE).await,
    }
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    match timeout(REQUEST_TIMEOUT, api.get_opt(LEASE)).await {
        Ok(Ok(lease)) => lease.map_or(Look::Nobody, |lease| seen(&lease)),
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403 | 404) => {
            debug!(error = status.message, "it cannot be told whether OpenKruise's manager runs");
            Look::Nobody
        }
        Ok(Err(_)) | Err(_) => Look::Unknown,
    }
}

fn seen(lease: &Lease) -> Look {
    let spec = lease.spec.clone().unwrap_or_default();
    match spec.holder_identity.as_deref() {
        None | Some("") => Look::Nobody,
        Some(holder) => Look::Held(Held {
            uid: lease.metadata.uid.clone().unwrap_or_default(),
            mark: format!("{holder} {:?} {:?}", spec.acquire_time, spec.renew_time),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(mark: &str) -> Look {
        Look::Held(Held { uid: "1".into(), mark: mark.into() })
    }

    #[test]
    fn who_renews_the_lease_lives() {
        let mut manager = Manager::default();
        assert_eq!(manager.take(held("a")), None, "it may be left over");
        assert_eq!(manager.take(held("b")), Some(true));
        assert_eq!(manager.notice("k").unwrap().subject.uid, "1");
        assert_eq!(manager.take(held("c")), None, "no news");
        assert_eq!(manager.take(Look::Unknown), None);
        assert_eq!(manager.take(held("d")), None);
        assert_eq!(manager.take(held("d")), Some(false), "not renewed");
        assert_eq!(manager.take(held("e")), Some(true));
        assert_eq!(manager.take(Look::Nobody), Some(false));
        assert_eq!((manager.take(Look::Nobody), manager.notice("k")), (None, None));
    }

    #[test]
    fn where_there_is_no_lease_there_is_no_manager() {
        assert_eq!(Manager::default().take(Look::Nobody), Some(false));
        let lease = |spec: serde_json::Value| -> Lease {
            serde_json::from_value(serde_json::json!({"metadata": {"uid": "1"}, "spec": spec})).unwrap()
        };
        assert_eq!(seen(&lease(serde_json::json!({}))), Look::Nobody);
        assert_eq!(seen(&lease(serde_json::json!({"holderIdentity": ""}))), Look::Nobody);
        let times = ["2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:02.000000Z"];
        let [first, second] =
            times.map(|time| seen(&lease(serde_json::json!({"holderIdentity": "a", "renewTime": time}))));
        assert_ne!(first, second);
    }
}
