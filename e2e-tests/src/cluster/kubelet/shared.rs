//! What the tasks of all Pods share, and what tests can switch.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use tokio::sync::{Semaphore, watch};

use super::{container::Containers, ipam::Ipam};

/// Where the CNI reads which address a Pod wants, and writes which it got.
pub const IP_ANNOTATION: &str = "ovn.kubernetes.io/ip_address";

/// A Pod with this annotation (any value) gets whatever address comes next, and the CNI writes
/// nothing on it.
pub const NO_RESERVATION: &str = "e2e.pps.kubewarden.io/no-reservation";

/// How the kubelet behaves. Changes count for Pods that start later.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// How long a Pod takes from its address to Ready.
    pub ready_delay: Duration,
    /// More annotations that the CNI writes on each Pod. `{ip}`, `{node}` and `{pod}` are replaced.
    pub annotations: BTreeMap<String, String>,
    /// The CNI writes an empty value into [`IP_ANNOTATION`] when a Pod ends, as some do.
    pub blank_on_teardown: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self { ready_delay: Duration::ZERO, annotations: BTreeMap::new(), blank_on_teardown: false }
    }
}

pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) ipam: Ipam,
    /// How many Pods are worked on at once.
    pub(super) turns: Semaphore,
    /// For Pods that run for real.
    pub(super) containers: OnceLock<Arc<Containers>>,
    pub(super) control: watch::Sender<Control>,
}

/// What tests switch.
#[derive(Clone, Debug, Default)]
pub(super) struct Control {
    pub(super) behaviour: Behaviour,
    /// `namespace/name` of Pods that must not become Ready.
    pub(super) held: BTreeSet<String>,
    /// Nodes on which nothing happens.
    pub(super) dead_nodes: BTreeSet<String>,
}

/// Runs `attempt` until it works or the Pod is gone; API servers restart now and then.
pub(super) async fn persist<T, F>(
    pod: &watch::Receiver<Arc<Pod>>,
    mut attempt: impl FnMut() -> F,
) -> Option<T>
where
    F: Future<Output = Result<T>>,
{
    let mut pause = Duration::from_millis(20);
    loop {
        match attempt().await {
            Ok(value) => return Some(value),
            Err(error) => tracing::debug!("kubelet tries again: {error:#}"),
        }
        if pod.has_changed().is_err() {
            return None;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}
