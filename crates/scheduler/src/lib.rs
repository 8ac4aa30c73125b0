//! Which nodes the scheduler of Kubernetes may choose for a Pod, and why it excludes the others.
//!
//! This is the default profile of kube-scheduler, whose filters and scores decide for one Pod after
//! the other: `NodeUnschedulable`, `NodeName`, `TaintToleration`, `NodeAffinity`, `VolumeBinding`
//! (of claims that are bound), `NodeResourcesFit` (strategy `LeastAllocated`), `InterPodAffinity`,
//! `PodTopologySpread` (also what it does for Pods of a controller without constraints of their
//! own), `NodeResourcesBalancedAllocation` and `ImageLocality`. Of several best nodes the real
//! scheduler takes any. The scores of a [`Selection`] are those of Kubernetes 1.32, and
//! [`Selection::may_land_on`] also has the best nodes of 1.36.
//!
//! It is not simulated where a volume will be whose claim is not bound, zone labels of volumes that
//! have no node affinity, how many volumes a node takes, which host ports are in use, what resource
//! claims, runtime classes and other schedulers do, and selectors of namespaces and Services. Where
//! a Pod has one of these, `caveats` says so, and `may_land_on` has every node that is not
//! excluded. Pods of lower priority make room, but not way for affinity and spreading. A node whose
//! CPU and memory are not known is not excluded for lack of them.

#![expect(
    clippy::cast_precision_loss,
    reason = "the scheduler computes with the same types"
)]
#![allow(
    missing_docs,
    reason = "not a public API: where a name says everything, a comment would repeat it"
)]

mod amounts;
mod caveats;
pub mod fields;
mod node_affinity;
mod pod_affinity;
mod quantity;
mod read;
mod reason;
mod render;
mod resources;
mod scores;
mod selector;
mod spread;
mod taints;
#[cfg(test)]
mod tests;
mod volumes;
mod world;

use serde_json::Value;

pub use self::read::HOSTNAME;
use self::read::{Candidate, Pod};
pub use self::read::{Node, Taint, labels};
pub use self::reason::{Caveat, Exclusion, ExclusionKind, RequiredBy, Skew};
pub use self::selector::PodSelector;
pub use self::taints::{UNSCHEDULABLE, evicting_taint};
pub use self::volumes::{Contradiction, Volumes};
use self::world::World;

/// The highest score that a plugin of the scheduler gives.
const BEST: i64 = 100;

#[derive(Clone, Debug)]
pub struct NodeView<'a> {
    pub node: &'a Value,
    /// The Pods that are bound to it. Those that have ended take no room.
    pub pods: Vec<&'a Value>,
}

/// A Pod that needs a node.
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    pub pod: &'a Value,
    /// The same Pod before the policy injected a recorded state, if it did.
    pub before: Option<&'a Value>,
    /// `spec.selector` of its controller. The scheduler spreads the Pods that it selects.
    pub selector: Option<&'a Value>,
    /// What is known of claims and volumes; none if nothing is. Then `caveats` says so of a Pod
    /// that has a claim.
    pub volumes: Option<&'a Volumes>,
}

/// What the scheduler decides about one Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// One for each node, in the order of the nodes.
    pub verdicts: Vec<Verdict>,
    /// The node that the simulation takes: the first by name of the best.
    pub chosen: Option<String>,
    /// The best nodes, by name: a real scheduler may choose any of them and no other.
    pub may_land_on: Vec<String>,
    /// What the Pod asks for that is not simulated.
    pub caveats: Vec<Caveat>,
    /// The nodes, by name, from which the anti-affinity of a running Pod may keep it away: that
    /// selects namespaces by their labels, which are not known. They count as if it did not.
    pub unclear: Vec<String>,
}

/// What the scheduler finds out about one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Verdict {
    pub node: String,
    /// Why the Pod cannot run there; empty if it can.
    #[serde(rename = "excludedBy")]
    pub exclusions: Vec<Exclusion>,
    /// How much the Pod prefers the node, compared with the others. 0 if it is excluded.
    pub score: i64,
}

pub fn select(placement: &Placement, nodes: &[NodeView]) -> Selection {
    let nodes: Vec<Node> = nodes
        .iter()
        .map(|view| Node::of(view.node, view.pods.iter().copied()))
        .collect();
    select_from(placement, &nodes)
}

/// Selects a node of those that are read already.
pub fn select_from(placement: &Placement, nodes: &[Node]) -> Selection {
    let new = Candidate {
        spec: &placement.pod["spec"],
        pod: Pod::of(placement.pod),
    };
    World::of(placement, &new, nodes).select()
}
