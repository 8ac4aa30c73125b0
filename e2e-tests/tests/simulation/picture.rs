//! What can be compared of a live cluster and a simulated one.

use std::collections::BTreeMap;

use pps_e2e::cluster::kubelet::IP_ANNOTATION;
use pps_simulation::{Phase, World};
use serde::Serialize;
use serde_json::{Value, json};

use crate::support::MARKER;

/// The annotation of the template that says which revision it is.
pub(crate) const REVISION: &str = "revision";

/// Nodes, Pods and recorded states.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Picture {
    /// The labels of each Node, and whether it is cordoned.
    pub(crate) nodes: BTreeMap<String, (BTreeMap<String, String>, bool)>,
    pub(crate) pods: BTreeMap<String, PodPicture>,
    pub(crate) states: BTreeMap<String, Value>,
}

/// A Pod that exists.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct PodPicture {
    pub(crate) node: Option<String>,
    pub(crate) ready: bool,
    pub(crate) affinity: Value,
    /// The PersistentPodState that was injected.
    pub(crate) injected: Value,
    pub(crate) revision: Value,
    /// Whether a Pod that has no node asks for an address. The CNI writes the same annotation
    /// later.
    pub(crate) asks_for_address: bool,
}

impl PodPicture {
    /// From a Pod as it was created, and where it is now.
    pub(crate) fn of(pod: &Value, node: Option<String>, ready: bool) -> Self {
        let annotations = &pod["metadata"]["annotations"];
        Self {
            ready,
            affinity: pod["spec"]["affinity"].clone(),
            injected: annotations[MARKER].clone(),
            revision: annotations[REVISION].clone(),
            asks_for_address: node.is_none() && annotations[IP_ANNOTATION].is_string(),
            node,
        }
    }
}

impl Picture {
    /// Of a simulated world, after the last action.
    pub(crate) fn of(world: &World, pps: &str) -> Self {
        let exists = world
            .pods
            .iter()
            .filter(|pod| matches!(pod.phase, Phase::Running | Phase::Pending));
        let pods = exists.map(|pod| {
            let manifest = pod
                .manifest
                .as_ref()
                .expect("a Pod that exists has a manifest");
            let picture = PodPicture::of(
                &manifest.after,
                pod.node.clone(),
                pod.phase == Phase::Running,
            );
            (pod.name.clone(), picture)
        });
        let nodes = world.nodes.iter().filter(|node| node.exists);
        let states = world
            .pps
            .iter()
            .filter(|one| one.name == pps)
            .flat_map(|pps| &pps.states);
        Self {
            nodes: nodes
                .map(|node| (node.name.clone(), (node.labels.clone(), node.cordoned)))
                .collect(),
            pods: pods.collect(),
            states: states
                .map(|(pod, state)| (pod.clone(), without_address(json!(state))))
                .collect(),
        }
    }
}

/// The address of a Pod depends on the CNI.
pub(crate) fn without_address(mut state: Value) -> Value {
    if let Some(address) = state["annotations"].get_mut(IP_ANNOTATION) {
        *address = json!("an address");
    }
    state
}
