//! State shared by the tasks of all Pods, and the switches that tests control.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use tokio::sync::{Semaphore, watch};

use super::{ipam::Ipam, program::Programs};

/// The CNI reads the requested address here and writes the assigned one.
pub const IP_ANNOTATION: &str = "ovn.kubernetes.io/ip_address";

/// A Pod with this annotation (any value) gets the next free address, and the CNI writes nothing to
/// it.
pub const NO_RESERVATION: &str = "e2e.pps.kubewarden.io/no-reservation";

pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) ipam: Ipam,
    /// Limits how many Pods are handled at once.
    pub(super) turns: Semaphore,
    /// Runs the product's Pods.
    pub(super) programs: OnceLock<Arc<Programs>>,
    pub(super) control: watch::Sender<Control>,
}

/// The switches that tests control.
#[derive(Default)]
pub(super) struct Control {
    /// `namespace/name` of Pods that must not become Ready.
    pub(super) held: BTreeSet<String>,
    /// Nodes that failed.
    pub(super) dead_nodes: BTreeSet<String>,
}

/// Repeats `attempt` until it succeeds or the Pod is gone: tests restart the API server.
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
