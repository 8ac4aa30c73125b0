//! The state that a move records.

use std::collections::BTreeMap;

use pps_core::{PodState, Spec};
use pps_recorder::record::{RunningPod, record};
use serde_json::Value;

use super::{Destination, HOSTNAME, Refusal, Request, keep};
use crate::decide::similar::similar;
use crate::snapshot::{Node, Resource, Snapshot, Unread};

/// How a move changes the recorded state, whatever that is at the moment of the write.
#[derive(Clone, Debug)]
pub struct NewState {
    /// The destination with its labels; none for any node.
    node: Option<(String, BTreeMap<String, String>)>,
    /// The keys whose values are given up.
    given_up: Vec<String>,
    pub(super) drops_annotations: bool,
    pub(super) spec: Spec,
    /// Whether the Pod may be Ready when the state is written.
    is_bound: bool,
}

impl NewState {
    pub(super) fn of_request(
        snapshot: &Snapshot,
        request: &Request<'_>,
        spec: &Spec,
        is_bound: bool,
    ) -> Result<Self, Refusal> {
        let node = match request.destination {
            Some(Destination::Node(node)) => {
                Some((node.to_owned(), labels_of(snapshot, node, request.node)?))
            }
            Some(Destination::Anywhere) | None => None,
        };
        let given_up = keep::given_up(spec, request.any)?;
        let drops_annotations = request.drop_annotations;
        Ok(Self { node, given_up, drops_annotations, spec: spec.clone(), is_bound })
    }

    /// The state to record in place of this one.
    ///
    /// The entry of a bound Pod is emptied and not dropped: the sidecar, which may not know yet that the Pod is being moved,
    /// reads the Pod before it fills an empty entry, but not before it makes a new one.
    pub fn of(&self, before: Option<&PodState>) -> Option<PodState> {
        let mut kept = before.cloned().unwrap_or_default();
        if self.drops_annotations {
            kept.annotations.clear();
        }
        let Some((node, labels)) = &self.node else {
            kept.node_topology_labels.retain(|key, _| key != HOSTNAME && !self.given_up.contains(key));
            let rest = PodState { node_name: String::new(), ..kept };
            return (self.is_bound || rest != PodState::default()).then_some(rest);
        };
        let running = RunningPod {
            node_name: node,
            is_node_new: false,
            node_label: &|key| labels.get(key).map(String::as_str),
            annotation: &|_| None,
            pod_ips: &[],
        };
        Some(record(&self.spec, &running, Some(&kept)))
    }

    /// Whether this has to be written at all. An entry is not made only to be empty.
    pub fn changes(&self, before: Option<&PodState>) -> bool {
        let after = self.of(before);
        let is_empty = |state: Option<&PodState>| state.is_none_or(|state| *state == PodState::default());
        before != after.as_ref() && !(is_empty(before) && is_empty(after.as_ref()))
    }
}

fn labels_of(
    snapshot: &Snapshot,
    name: &str,
    read_alone: Option<&Node>,
) -> Result<BTreeMap<String, String>, Refusal> {
    let Some(node) = snapshot.node(name).or(read_alone.filter(|node| node.name() == name)) else {
        let needed = |unread: &Unread| Refusal::UnreadNode { node: name.to_owned(), unread: unread.clone() };
        snapshot.require(Resource::Nodes).map_err(needed)?;
        return Err(no_node(snapshot, name));
    };
    let labels = node.object()["metadata"]["labels"].as_object();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Ok(labels.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect())
}

/// There is no such node.
pub fn no_node(snapshot: &Snapshot, name: &str) -> Refusal {
    let names = snapshot.nodes.iter().flat_map(|nodes| nodes.values().map(Node::name));
    Refusal::NoNode { node: name.to_owned(), similar: similar(name, names) }
}
