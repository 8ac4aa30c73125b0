//! Which nodes the scheduler of Kubernetes may choose for a Pod, and why it excludes the others.

use serde_json::Value;

/// A Node and the Pods that are on it.
#[derive(Clone, Debug)]
pub struct NodeView<'a> {
    /// The Node object.
    pub node: &'a Value,
    /// The Pods that are bound to it.
    pub pods: Vec<&'a Value>,
}

/// What the scheduler decides about one Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// One for each node, in the order of the nodes.
    pub verdicts: Vec<Verdict>,
    /// The node that the simulation takes: the first by name of the best.
    pub chosen: Option<String>,
    /// The best nodes, by name: a real scheduler may choose any of them.
    pub may_land_on: Vec<String>,
}

/// What the scheduler finds out about one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The node's name.
    pub node: String,
    /// Why the Pod cannot run there; empty if it can.
    pub exclusions: Vec<Exclusion>,
    /// How much the Pod prefers the node, compared with the others. 0 if it is excluded.
    pub score: i64,
}

/// One reason why a Pod cannot run on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exclusion {
    /// Which of the scheduler's filters excludes it.
    pub what: ExclusionKind,
    /// A sentence for users: `node-2: topology.kubernetes.io/zone is b, the Pod requires a`.
    pub text: String,
    /// The label key that does not match, if it is one.
    pub key: Option<String>,
}

/// A filter of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ExclusionKind {
    /// `spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution`
    RequiredAffinity,
    /// `spec.nodeSelector`
    NodeSelector,
    /// A taint that the Pod does not tolerate.
    Taint,
    /// `spec.unschedulable`
    Cordon,
    /// Pods, CPU, memory or another resource.
    Room,
}

/// Selects a node for a Pod.
pub fn select(pod: &Value, nodes: &[NodeView]) -> Selection {
    let _ = pod;
    let mut names: Vec<String> = nodes
        .iter()
        .map(|node| node.node["metadata"]["name"].as_str().unwrap_or_default().to_owned())
        .collect();
    let verdicts = names.iter().map(|node| Verdict { node: node.clone(), ..Verdict::default() }).collect();
    names.sort();
    Selection { verdicts, chosen: names.first().cloned(), may_land_on: names }
}
