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
mod selector;
mod spread;
mod taints;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::BTreeSet;

use serde_json::Value;

use self::pod_affinity::PodAffinity;
use self::read::{Candidate, Pod};
pub use self::read::{Node, Taint, labels};
pub use self::reason::{Caveat, Exclusion, ExclusionKind, RequiredBy, Skew};
use self::resources::Images;
pub use self::selector::PodSelector;
pub use self::spread::HOSTNAME;
use self::spread::Required;
pub use self::taints::{UNSCHEDULABLE, evicting_taint};
use self::volumes::PodVolumes;
pub use self::volumes::Volumes;

/// With fewer nodes than these the scheduler looks at all of them.
const LOOKS_AT_ALL: usize = 100;
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

/// The selectors by which the Pod may be spread. The scheduler knows the selector of a
/// `StatefulSet` in `apps/v1`; a Pod of another kind is spread if a Service selects it.
fn spreads<'a>(placement: &Placement<'a>) -> Vec<Option<&'a Value>> {
    let Some(selector) = placement.selector else {
        return vec![None];
    };
    let is_stateful_set =
        |owner: &Value| owner["apiVersion"] == "apps/v1" && owner["kind"] == "StatefulSet";
    let is_known = fields::controller(placement.pod).is_some_and(is_stateful_set);
    if is_known {
        vec![Some(selector)]
    } else {
        vec![None, Some(selector)]
    }
}

/// Whether the scheduler stops looking before it has seen all nodes that can take the Pod.
fn samples(nodes: usize, feasible: usize) -> bool {
    let percentage = 50_usize.saturating_sub(nodes / 125).max(5);
    nodes >= LOOKS_AT_ALL && feasible > (nodes.saturating_mul(percentage) / 100).max(LOOKS_AT_ALL)
}

/// The cluster as one Pod meets it.
struct World<'a> {
    placement: Placement<'a>,
    new: &'a Candidate<'a>,
    nodes: &'a [Node],
    affinity: PodAffinity<'a>,
    spread: Required<'a>,
    volumes: PodVolumes<'a>,
}

impl<'a> World<'a> {
    fn of(placement: &Placement<'a>, new: &'a Candidate<'a>, nodes: &'a [Node]) -> Self {
        let affinity = PodAffinity::of(&new.pod, nodes);
        let spread = Required::of(new, nodes);
        let volumes = PodVolumes::of(placement.pod, placement.volumes);
        Self {
            placement: *placement,
            new,
            nodes,
            affinity,
            spread,
            volumes,
        }
    }

    fn select(&self) -> Selection {
        let spec = self.new.spec;
        let mut caveats = caveats::of(spec, self.placement.volumes.is_some());
        caveats.extend(
            self.affinity
                .is_partial
                .then_some(Caveat::PodAffinityFields),
        );
        caveats.extend(self.volumes.caveats.iter().cloned());
        let mut verdicts: Vec<Verdict> = self.nodes.iter().map(|node| self.verdict(node)).collect();
        let all = 0..verdicts.len();
        let feasible: Vec<usize> = all
            .clone()
            .filter(|at| verdicts[*at].exclusions.is_empty())
            .collect();
        let mut may_land_on = BTreeSet::new();
        if !caveats.is_empty() || samples(self.nodes.len(), feasible.len()) {
            may_land_on.extend(feasible.iter().copied());
        }
        let priority = self
            .new
            .pod
            .priority
            .filter(|_| spec["preemptionPolicy"] != "Never");
        if let Some(priority) = priority.filter(|_| feasible.is_empty()) {
            let has_room = |at: &usize| {
                verdicts[*at]
                    .exclusions
                    .iter()
                    .all(|one| one.kind() == ExclusionKind::Resources)
                    && resources::may_preempt(&self.new.pod, priority, &self.nodes[*at])
            };
            may_land_on.extend(all.filter(has_room));
            caveats.extend((!may_land_on.is_empty()).then_some(Caveat::Preemption));
        }
        let mut chosen = None;
        let fits: Vec<&Node> = feasible.iter().map(|index| &self.nodes[*index]).collect();
        for (variant, scores) in self.scores(&fits).into_iter().enumerate() {
            let most = scores.iter().max();
            let best = || {
                feasible
                    .iter()
                    .zip(&scores)
                    .filter(|(_, score)| Some(*score) == most)
            };
            may_land_on.extend(best().map(|(index, _)| *index));
            if variant == 0 {
                chosen = best()
                    .map(|(index, _)| &self.nodes[*index].name)
                    .min()
                    .cloned();
                for (index, score) in feasible.iter().zip(&scores) {
                    verdicts[*index].score = *score;
                }
            }
        }
        let mut may_land_on: Vec<_> = may_land_on
            .iter()
            .map(|index| self.nodes[*index].name.clone())
            .collect();
        may_land_on.sort();
        Selection {
            verdicts,
            chosen,
            may_land_on,
            caveats,
        }
    }

    fn verdict(&self, node: &Node) -> Verdict {
        let spec = self.new.spec;
        // Nothing schedules a Pod that names its node.
        if let Some(wanted) = spec["nodeName"]
            .as_str()
            .filter(|wanted| !wanted.is_empty())
        {
            let other = (wanted != node.name).then(|| Exclusion::NodeName {
                wanted: wanted.to_owned(),
            });
            return Verdict {
                node: node.name.clone(),
                exclusions: other.into_iter().collect(),
                score: 0,
            };
        }
        let mut exclusions = taints::exclusions(spec, node);
        let before = self.placement.before.map(|before| &before["spec"]);
        exclusions.extend(node_affinity::mismatches(spec, before, node));
        exclusions.extend(self.volumes.exclusions(node));
        exclusions.extend(resources::exclusions(&self.new.pod, node));
        exclusions.extend(self.affinity.exclusions(node));
        exclusions.extend(self.spread.exclusions(node));
        Verdict {
            node: node.name.clone(),
            exclusions,
            score: 0,
        }
    }

    /// The scores of nodes in each way in which a real scheduler may count.
    fn scores(&self, feasible: &[&Node]) -> Vec<Vec<i64>> {
        let (spec, pod) = (self.new.spec, &self.new.pod);
        let each = |score: &dyn Fn(&Node) -> i64| {
            feasible.iter().map(|node| score(node)).collect::<Vec<_>>()
        };
        let images = Images::of(spec, self.nodes);
        let avoided = stretched(&each(&|node| taints::avoided(spec, node)));
        let always = [
            (3, avoided.iter().map(|score| BEST - score).collect()),
            (
                2,
                stretched(&each(&|node| node_affinity::preference(spec, node))),
            ),
            (2, normalized(&each(&|node| self.affinity.score(node)))),
            (1, each(&|node| resources::least_allocated(pod, node))),
            (1, each(&|node| images.locality(node))),
        ];
        let mut variants = Vec::new();
        for selector in spreads(&self.placement) {
            let spread = spread::scores(self.new, selector, self.nodes, feasible);
            for balanced in [resources::balanced, resources::balanced_in_1_36] {
                let balanced = each(&|node| balanced(pod, node));
                let sum = |index: usize| {
                    let always = always
                        .iter()
                        .map(|(weight, scores)| weight * scores[index])
                        .sum::<i64>();
                    always + 2 * spread[index] + balanced[index]
                };
                variants.push((0..feasible.len()).map(sum).collect());
            }
        }
        variants
    }
}

/// Stretches the scores so that the highest is 100.
fn stretched(scores: &[i64]) -> Vec<i64> {
    let most = scores.iter().copied().max().unwrap_or_default().max(1);
    scores
        .iter()
        .map(|score| score.max(&0).saturating_mul(BEST) / most)
        .collect()
}

/// Stretches the scores of `InterPodAffinity` so that the least is 0 and the highest 100.
fn normalized(scores: &[i64]) -> Vec<i64> {
    let least = scores.iter().copied().min().unwrap_or_default();
    let above = |score: &i64| score.saturating_sub(least) as f64;
    let width = scores.iter().map(above).fold(f64::MIN_POSITIVE, f64::max);
    scores
        .iter()
        .map(|score| resources::whole(BEST as f64 * (above(score) / width)))
        .collect()
}
