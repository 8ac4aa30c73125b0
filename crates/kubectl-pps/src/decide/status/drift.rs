//! How a Pod differs from its recorded state.

use std::net::IpAddr;

use pps_core::addresses::addresses_in;
use pps_core::{AnnotationRules, PodState, Spec, plan};
use serde::Serialize;

use super::HOSTNAME;
use crate::decide::template::Injected;
use crate::snapshot::{Node, Pod, Snapshot};

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind")]
#[allow(missing_docs, reason = "the fields' names say what they are")]
pub enum Drift {
    /// The node of the Pod lacks a label that it must have.
    RequiredTopology { key: String, found: Option<String>, wanted: String },
    /// The Pod is not where it is recorded.
    Node { recorded: String },
    /// The recorded node does not exist any more.
    NodeGone { node: String },
    /// The node that the Pod is bound to does not exist any more.
    OwnNodeGone { node: String },
    /// The Pod has no node, and was created with other values than are recorded now, if any are.
    Changed { recorded: bool },
    /// The addresses of the Pod are not the recorded ones.
    Address { recorded: Vec<IpAddr> },
    /// An annotation of the Pod has another value than the recorded one.
    Annotation { key: String },
    /// The sidecar does not record the Pod: a move has not been finished, or a user wants it so.
    Exempt { unfinished: bool },
    /// The Pod is Ready, and its node is not recorded: for so long that the sidecar does not record it, or not yet.
    Unrecorded { lasting: bool },
}

impl Drift {
    /// The node, if this says that one is gone.
    pub fn gone_node(&self) -> Option<&str> {
        match self {
            Self::NodeGone { node } | Self::OwnNodeGone { node } => Some(node),
            _ => None,
        }
    }
}

/// The recorded node does not exist.
pub(super) fn node_gone(snapshot: &Snapshot, state: Option<&PodState>) -> Option<Drift> {
    let node = state.map(|state| &state.node_name).filter(|name| !name.is_empty())?;
    snapshot.lacks_node(node).then(|| Drift::NodeGone { node: node.clone() })
}

/// The node that the Pod is bound to does not exist.
pub(super) fn own_node_gone(snapshot: &Snapshot, pod: &Pod) -> Option<Drift> {
    let node = pod.node().filter(|_| snapshot.is_stranded(pod))?;
    Some(Drift::OwnNodeGone { node: node.to_owned() })
}

/// A Pod without a node was created with other values than are recorded now.
pub(super) fn created_before(
    snapshot: &Snapshot,
    injected: &Injected,
    state: Option<&PodState>,
) -> Vec<Drift> {
    let host = injected.required.iter().find(|one| one.key == HOSTNAME).map(|one| one.value.as_str());
    let is_gone = |host: &&str| {
        let is_it = |node: &Node| node.name() == *host || node.label(HOSTNAME) == Some(*host);
        snapshot.nodes.as_ref().is_some_and(|nodes| !nodes.values().any(is_it))
    };
    let gone = host.filter(is_gone).map(|host| {
        // The label may have another value than the node's name.
        let is_its =
            |state: &&PodState| state.node_topology_labels.get(HOSTNAME).is_some_and(|own| own == host);
        let node = state.filter(is_its).map_or(host, |state| state.node_name.as_str()).to_owned();
        Drift::NodeGone { node }
    });
    gone.into_iter().chain([Drift::Changed { recorded: state.is_some() }]).collect()
}

/// All differences of a Pod.
pub fn of(snapshot: &Snapshot, spec: &Spec, pod: &Pod, state: Option<&PodState>) -> Vec<Drift> {
    let mut found: Vec<Drift> = own_node_gone(snapshot, pod).into_iter().collect();
    found.extend(pod.is_exempt().then(|| Drift::Exempt { unfinished: pod.is_marked() }));
    let is_recorded = state.is_some_and(|state| !state.node_name.is_empty());
    if !is_recorded && pod.is_ready() && !pod.is_terminating() {
        let lasting = found.is_empty() && snapshot.is_lasting(pod.ready_since());
        found.push(Drift::Unrecorded { lasting });
    }
    let Some(state) = state else { return found };
    let Some(name) = pod.node() else {
        found.extend(node_gone(snapshot, Some(state)));
        return found;
    };
    if let Some(node) = snapshot.node(name) {
        let required = plan("", spec, state, &AnnotationRules::default()).required.into_iter();
        found.extend(required.filter(|one| node.label(&one.key) != Some(&one.value)).map(|one| {
            let label = node.label(&one.key).map(str::to_owned);
            Drift::RequiredTopology { key: one.key, found: label, wanted: one.value }
        }));
    }
    if is_recorded && state.node_name != name {
        found.push(Drift::Node { recorded: state.node_name.clone() });
    }
    let ips: Vec<IpAddr> = pod.ips().iter().filter_map(|ip| ip.parse().ok()).collect();
    for key in spec.persistent_pod_annotations.iter().map(|annotation| &annotation.key) {
        let Some(value) = state.annotations.get(key).filter(|value| !value.is_empty()) else { continue };
        let own = pod.annotation(key).filter(|value| !value.is_empty());
        let recorded = addresses_in(value);
        if own.is_some_and(|own| own != value) {
            found.push(Drift::Annotation { key: key.clone() });
        } else if !recorded.is_empty() && !ips.is_empty() && !recorded.iter().any(|ip| ips.contains(ip)) {
            found.push(Drift::Address { recorded });
        }
    }
    found
}

/// The last part of a key: `zone` for `topology.kubernetes.io/zone`.
pub fn short(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(_, name)| name)
}
