//! Which nodes the scheduler of Kubernetes may choose for a Pod, and why it excludes the others.
//!
//! This is the default profile of kube-scheduler, whose filters and scores decide for one Pod after the other:
//! `NodeUnschedulable`, `NodeName`, `TaintToleration`, `NodeAffinity`, `VolumeBinding` and `VolumeZone` (of claims that
//! are bound), `NodeResourcesFit` (strategy `LeastAllocated`), `InterPodAffinity`, `PodTopologySpread` (also what it does
//! for Pods of a controller without constraints of their own), `NodeResourcesBalancedAllocation` and `ImageLocality`. Of several best nodes the real scheduler takes any.
//!
//! Weights and formulas differ between versions. The scores of a [`Selection`] are those of Kubernetes 1.32, and
//! [`Selection::may_land_on`] has the best nodes of 1.20, of 1.32 and of 1.36.
//!
//! It is not simulated where a volume will be whose claim is not bound, how many volumes a node takes, which host ports
//! are in use, what resource claims, overhead, runtime classes and other schedulers do, and selectors of Services. Where a Pod has one of these, `caveats` says so, and `may_land_on`
//! has every node that is not excluded. There are no extenders, and no annotation
//! `scheduler.alpha.kubernetes.io/preferAvoidPods`, which 1.20 obeys. A node that does not say how much CPU and memory it
//! has is not excluded for lack of them.

#![allow(missing_docs, reason = "not a public API: where a name says everything, a comment would repeat it")]

mod amounts;
mod caveats;
mod fields;
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
use self::read::Candidate;
pub use self::read::Node;
pub use self::reason::{Caveat, Exclusion, ExclusionKind, RequiredBy, Skew, UnknownVolume};
use self::resources::Images;
pub use self::selector::PodSelector;
use self::spread::Required;
pub use self::taints::{Stay, stay};
use self::volumes::PodVolumes;
pub use self::volumes::Volumes;

/// With fewer nodes than these the scheduler looks at all of them.
const LOOKS_AT_ALL: usize = 100;
const BEST: i64 = 100;

/// A Node and the Pods that are on it.
#[derive(Clone, Debug)]
pub struct NodeView<'a> {
    /// The Node object.
    pub node: &'a Value,
    /// The Pods that are bound to it. Those that have ended take no room.
    pub pods: Vec<&'a Value>,
}

/// A Pod that needs a node.
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    /// The Pod.
    pub pod: &'a Value,
    /// The same Pod before the policy injected a recorded state, if it did.
    pub before: Option<&'a Value>,
    /// `spec.selector` of its controller. The scheduler spreads the Pods that it selects.
    pub selector: Option<&'a Value>,
    /// What is known of claims and volumes; none if nothing is. Then `caveats` says so of a Pod that has a claim.
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
    /// Whether only a change of a node itself, or of its own Pods, may let the Pod run there.
    pub is_local: bool,
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

/// Versions between which the scheduler's rules changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kubernetes {
    /// 1.20, with which tests compare.
    V1_20,
    /// 1.32
    V1_32,
    /// 1.36
    V1_36,
}

impl Kubernetes {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::V1_20, Self::V1_32, Self::V1_36];
}

/// The weights of the scores that do not count once.
struct Weights {
    taints: i64,
    node_affinity: i64,
    pod_affinity: i64,
    spread: i64,
}

impl Weights {
    fn of(kubernetes: Kubernetes) -> Self {
        match kubernetes {
            Kubernetes::V1_20 => Self { taints: 1, node_affinity: 1, pod_affinity: 1, spread: 2 },
            Kubernetes::V1_32 | Kubernetes::V1_36 => {
                Self { taints: 3, node_affinity: 2, pod_affinity: 2, spread: 2 }
            }
        }
    }
}

/// Selects a node for a Pod.
pub fn select(placement: &Placement, nodes: &[NodeView]) -> Selection {
    select_from(placement, &parse(nodes))
}

/// Selects a node as one version of Kubernetes does.
pub fn select_in(kubernetes: Kubernetes, placement: &Placement, nodes: &[NodeView]) -> Selection {
    let new = Candidate::of(placement.pod);
    World::of(placement, &new, &parse(nodes)).select(&[kubernetes])
}

/// Selects a node of those that are read already.
pub fn select_from(placement: &Placement, nodes: &[Node]) -> Selection {
    let new = Candidate::of(placement.pod);
    World::of(placement, &new, nodes).select(&[Kubernetes::V1_32, Kubernetes::V1_20, Kubernetes::V1_36])
}

/// Brings what was found out about a Pod that no node could take up to date with the nodes that have changed. Returns
/// whether that is enough: otherwise it has to be selected again. The nodes are the same ones.
pub fn still_excluded(
    placement: &Placement,
    selection: &mut Selection,
    nodes: &[Node],
    changed: impl IntoIterator<Item = usize>,
) -> bool {
    if !selection.is_local || selection.chosen.is_some() || selection.verdicts.len() != nodes.len() {
        return false;
    }
    let new = Candidate::of(placement.pod);
    for index in changed {
        let Some(node) = nodes.get(index..=index) else { return false };
        let mut alone = World::of(placement, &new, node).select(&Kubernetes::ALL);
        let (Some(verdict), true) = (alone.verdicts.pop(), alone.may_land_on.is_empty()) else {
            return false;
        };
        selection.verdicts[index] = verdict;
    }
    true
}

fn parse(nodes: &[NodeView]) -> Vec<Node> {
    nodes.iter().map(|view| Node::of(view.node, view.pods.iter().copied())).collect()
}

/// The selectors by which the Pod may be spread. The scheduler knows the selector of a `StatefulSet` in `apps/v1`; a Pod of
/// another kind is spread if a Service selects it.
fn spreads<'a>(placement: &Placement<'a>) -> Vec<Option<&'a Value>> {
    let Some(selector) = placement.selector else { return vec![None] };
    let owners = fields::list(&placement.pod["metadata"]["ownerReferences"]);
    let is_known = owners
        .filter(|owner| owner["controller"] == true)
        .any(|owner| owner["apiVersion"] == "apps/v1" && owner["kind"] == "StatefulSet");
    if is_known { vec![Some(selector)] } else { vec![None, Some(selector)] }
}

/// Whether the scheduler stops looking before it has seen all nodes that can take the Pod.
fn samples(nodes: usize, feasible: usize) -> bool {
    if nodes < LOOKS_AT_ALL {
        return false;
    }
    let percentage = 50_usize.saturating_sub(nodes / 125).max(5);
    feasible > (nodes.saturating_mul(percentage) / 100).max(LOOKS_AT_ALL)
}

/// The cluster as it is for one Pod.
struct World<'a> {
    placement: Placement<'a>,
    new: &'a Candidate<'a>,
    nodes: &'a [Node],
    affinity: PodAffinity<'a>,
    volumes: PodVolumes<'a>,
}

impl<'a> World<'a> {
    fn of(placement: &Placement<'a>, new: &'a Candidate<'a>, nodes: &'a [Node]) -> Self {
        let affinity = PodAffinity::of(&new.pod, nodes);
        let volumes = PodVolumes::of(placement.pod, placement.volumes);
        Self { placement: *placement, new, nodes, affinity, volumes }
    }

    /// Selects a node. The verdicts are those of the first version, and the best nodes those of all.
    fn select(&self, versions: &[Kubernetes]) -> Selection {
        let mut caveats = caveats::of(self.new.spec, self.placement.volumes.is_some());
        caveats.extend(self.volumes.caveats.iter().cloned());
        let takes_any = !caveats.is_empty();
        // What keeps the Pod from a node in every version: before the room on it, and after.
        let lasting: Vec<Vec<Exclusion>> = self.nodes.iter().map(|node| self.lasting(node)).collect();
        let apart: Vec<Vec<Exclusion>> = self
            .nodes
            .iter()
            .map(|node| if self.is_bound() { Vec::new() } else { self.affinity.exclusions(node) })
            .collect();
        let mut verdicts: Vec<Verdict> = Vec::new();
        let mut chosen = None;
        let mut may_land_on: BTreeSet<usize> = BTreeSet::new();
        let mut is_local = self.affinity.is_local();
        for (number, kubernetes) in versions.iter().enumerate() {
            let spread = Required::of(self.new, self.nodes, *kubernetes);
            is_local &= spread.is_nothing();
            let (mut feasible, mut about_pods) = (Vec::new(), Vec::new());
            for (index, node) in self.nodes.iter().enumerate() {
                let (lasting, apart) = (&lasting[index], &apart[index]);
                let mut own = Vec::new();
                if !self.is_bound() && (number == 0 || lasting.is_empty()) {
                    own = resources::exclusions(&self.new.pod, node, *kubernetes);
                    own.extend(apart.iter().cloned());
                    own.extend(spread.exclusions(node));
                }
                if lasting.is_empty() && own.is_empty() {
                    feasible.push(index);
                } else if lasting.is_empty() && own.iter().all(Exclusion::is_about_pods) {
                    about_pods.push(index);
                }
                if number == 0 {
                    let exclusions = lasting.iter().cloned().chain(own).collect();
                    verdicts.push(Verdict { node: node.name.clone(), exclusions, score: 0 });
                }
            }
            let (best, scores) = self.best(&feasible, *kubernetes);
            if number == 0 {
                let most = scores.iter().map(|(_, score)| *score).max();
                let first = scores.iter().filter(|(_, score)| Some(*score) == most);
                chosen = first.map(|(index, _)| &self.nodes[*index].name).min().cloned();
                for (index, score) in scores {
                    verdicts[index].score = score;
                }
            }
            may_land_on.extend(best);
            if takes_any || samples(self.nodes.len(), feasible.len()) {
                may_land_on.extend(&feasible);
            }
            if feasible.is_empty() && caveats::may_preempt(self.new.spec) && !about_pods.is_empty() {
                may_land_on.extend(about_pods);
                if number == 0 {
                    caveats.push(Caveat::Preemption);
                }
            }
        }
        let names: BTreeSet<String> =
            may_land_on.into_iter().map(|index| self.nodes[index].name.clone()).collect();
        Selection { verdicts, chosen, may_land_on: names.into_iter().collect(), caveats, is_local }
    }

    /// Whether nothing schedules the Pod, because it names its node.
    fn is_bound(&self) -> bool {
        self.new.spec["nodeName"].as_str().is_some_and(|name| !name.is_empty())
    }

    /// What keeps the Pod from a node whatever runs there.
    fn lasting(&self, node: &Node) -> Vec<Exclusion> {
        let spec = self.new.spec;
        if self.is_bound() {
            let wanted = fields::text(&spec["nodeName"]);
            let other = (wanted != node.name).then(|| Exclusion::NodeName { wanted: wanted.to_owned() });
            return other.into_iter().collect();
        }
        let mut exclusions = taints::exclusions(spec, node);
        let before = self.placement.before.map(|before| &before["spec"]);
        exclusions.extend(node_affinity::mismatches(spec, before, node));
        exclusions.extend(self.volumes.exclusions(node));
        exclusions
    }

    /// The best of these nodes, and the score of each.
    fn best(&self, feasible: &[usize], kubernetes: Kubernetes) -> (BTreeSet<usize>, Vec<(usize, i64)>) {
        let nodes: Vec<&Node> = feasible.iter().map(|index| &self.nodes[*index]).collect();
        let mut best = BTreeSet::new();
        let mut first = Vec::new();
        for (number, selector) in spreads(&self.placement).into_iter().enumerate() {
            let scores = self.scores(&nodes, selector, kubernetes);
            let most = scores.iter().max().copied();
            let scored = || feasible.iter().copied().zip(scores.iter().copied());
            best.extend(scored().filter(|(_, score)| Some(*score) == most).map(|(index, _)| index));
            if number == 0 {
                first = scored().collect();
            }
        }
        (best, first)
    }

    fn scores(&self, feasible: &[&Node], selector: Option<&Value>, kubernetes: Kubernetes) -> Vec<i64> {
        let (spec, pod) = (self.new.spec, &self.new.pod);
        let each = |score: &dyn Fn(&Node) -> i64| feasible.iter().map(|node| score(node)).collect::<Vec<_>>();
        let weights = Weights::of(kubernetes);
        let images = Images::of(spec, self.nodes, kubernetes);
        let weighted = [
            (weights.taints, scaled(&each(&|node| taints::avoided(spec, node)), true)),
            (weights.node_affinity, scaled(&each(&|node| node_affinity::preference(spec, node)), false)),
            (weights.pod_affinity, stretched(&each(&|node| self.affinity.score(node)))),
            (weights.spread, spread::scores(self.new, selector, self.nodes, feasible, kubernetes)),
            (1, each(&|node| resources::least_allocated(pod, node, kubernetes))),
            (1, each(&|node| resources::balanced(pod, node, kubernetes))),
            (1, each(&|node| resources::image_locality(&images, node))),
        ];
        let sum = |index: usize| weighted.iter().map(|(weight, scores)| weight * scores[index]).sum();
        (0..feasible.len()).map(sum).collect()
    }
}

/// Scales the highest score to 100. Where less is better, the scores are turned round.
fn scaled(scores: &[i64], less_is_better: bool) -> Vec<i64> {
    let most = scores.iter().copied().max().unwrap_or_default();
    let one = |score: &i64| {
        let share = if most <= 0 { 0 } else { i128::from(*score) * i128::from(BEST) / i128::from(most) };
        let share = i64::try_from(share).unwrap_or_default();
        if less_is_better { BEST - share } else { share }
    };
    scores.iter().map(one).collect()
}

/// Stretches the scores so that the lowest is 0 and the highest 100.
fn stretched(scores: &[i64]) -> Vec<i64> {
    let least = scores.iter().copied().min().unwrap_or_default();
    let most = scores.iter().copied().max().unwrap_or_default();
    let width = i128::from(most) - i128::from(least);
    let one = |score: &i64| {
        let share = (i128::from(*score) - i128::from(least)) * i128::from(BEST);
        if width == 0 { 0 } else { i64::try_from(share / width).unwrap_or_default() }
    };
    scores.iter().map(one).collect()
}
