//! Which nodes the scheduler of Kubernetes may choose for a Pod, and why it excludes the others.
//!
//! This is the default profile of kube-scheduler, whose filters and scores decide for one Pod after the other:
//! `NodeUnschedulable`, `NodeName`, `TaintToleration`, `NodeAffinity`, `NodeResourcesFit` (strategy `LeastAllocated`),
//! `InterPodAffinity`, `PodTopologySpread` (also what it does for Pods of a controller without constraints of their
//! own), `NodeResourcesBalancedAllocation` and `ImageLocality`. Of several best nodes the real scheduler takes any.
//!
//! Weights and formulas differ between versions. The scores of a [`Selection`] are those of Kubernetes 1.32, and
//! [`Selection::may_land_on`] has the best nodes of 1.20, of 1.32 and of 1.36.
//!
//! It is not simulated where volumes are, which host ports are in use, what resource claims, overhead, runtime classes
//! and other schedulers do, and selectors of Services. Where a Pod has one of these, `caveats` says so, and `may_land_on`
//! has every node that is not excluded. There are no extenders, and no annotation
//! `scheduler.alpha.kubernetes.io/preferAvoidPods`, which 1.20 obeys. A node that does not say how much CPU and memory it
//! has is not excluded for lack of them.

mod amounts;
mod caveats;
mod exclusion;
mod fields;
mod node_affinity;
mod pod_affinity;
mod quantity;
mod read;
mod resources;
mod selector;
mod spread;
mod taints;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::Value;

pub use self::exclusion::{Exclusion, ExclusionKind, Kubernetes};
use self::pod_affinity::PodAffinity;
use self::read::{Node, Pod};
use self::spread::Required;
pub(crate) use self::taints::{Stay, stay};

/// With fewer nodes than these the scheduler looks at all of them.
const LOOKS_AT_ALL: usize = 100;
const BEST: i64 = 100;

/// A Node and the Pods that are on it.
#[derive(Clone, Debug)]
pub struct NodeView<'a> {
    /// The Node object.
    pub node: &'a Value,
    /// The Pods that are bound to it.
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
    /// What the Pod asks for that is not simulated, in words that follow the Pod's name.
    pub caveats: Vec<String>,
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
    let nodes = parse(nodes);
    let mut selection = select_among(Kubernetes::V1_32, placement, &nodes);
    let mut may_land_on: BTreeSet<String> = selection.may_land_on.into_iter().collect();
    for kubernetes in [Kubernetes::V1_20, Kubernetes::V1_36] {
        may_land_on.extend(select_among(kubernetes, placement, &nodes).may_land_on);
    }
    selection.may_land_on = may_land_on.into_iter().collect();
    selection
}

/// Selects a node as one version of Kubernetes does.
pub fn select_in(kubernetes: Kubernetes, placement: &Placement, nodes: &[NodeView]) -> Selection {
    select_among(kubernetes, placement, &parse(nodes))
}

fn parse<'a>(nodes: &[NodeView<'a>]) -> Vec<Node<'a>> {
    nodes.iter().map(|view| Node::of(view.node, &view.pods)).collect()
}

fn select_among<'a>(kubernetes: Kubernetes, placement: &Placement<'a>, parsed: &[Node<'a>]) -> Selection {
    let pod = Pod::of(placement.pod);
    let world = World {
        kubernetes,
        pod: &pod,
        nodes: parsed,
        affinity: PodAffinity::of(&pod, parsed),
        spread: Required::of(&pod, parsed, kubernetes),
    };
    let before = placement.before.map(|before| &before["spec"]);
    let mut verdicts: Vec<Verdict> = parsed
        .iter()
        .map(|node| Verdict {
            node: node.name.to_owned(),
            exclusions: world.exclusions(node, before),
            score: 0,
        })
        .collect();
    let is_feasible = |(index, _): &(usize, _)| verdicts[*index].exclusions.is_empty();
    let (indexes, feasible): (Vec<usize>, Vec<&Node>) = parsed.iter().enumerate().filter(is_feasible).unzip();

    let mut caveats = caveats::of(pod.spec);
    let name = |index: &usize| parsed[*index].name.to_owned();
    let mut chosen = None;
    let mut best: BTreeSet<usize> = BTreeSet::new();
    for (number, selector) in spreads(placement).into_iter().enumerate() {
        let scores = world.scores(&feasible, selector);
        let most = scores.iter().max().copied();
        let scored = || indexes.iter().zip(&scores);
        best.extend(scored().filter(|(_, score)| Some(**score) == most).map(|(index, _)| *index));
        if number == 0 {
            chosen = best.iter().map(name).min();
            scored().for_each(|(index, score)| verdicts[*index].score = *score);
        }
    }
    if !caveats.is_empty() || samples(parsed.len(), feasible.len()) {
        best.extend(&indexes);
    }
    if feasible.is_empty() && caveats::may_preempt(pod.spec) {
        let about_pods = |verdict: &Verdict| verdict.exclusions.iter().all(|one| one.what.is_about_pods());
        best.extend(
            verdicts.iter().enumerate().filter(|(_, verdict)| about_pods(verdict)).map(|(index, _)| index),
        );
        if !best.is_empty() {
            caveats.push("Pods of lower priority may be evicted for it, which is not simulated".to_owned());
        }
    }
    let may_land_on: BTreeSet<String> = best.iter().map(name).collect();
    Selection { verdicts, chosen, may_land_on: may_land_on.into_iter().collect(), caveats }
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
    kubernetes: Kubernetes,
    pod: &'a Pod<'a>,
    nodes: &'a [Node<'a>],
    affinity: PodAffinity<'a>,
    spread: Required<'a>,
}

impl<'a> World<'a> {
    fn exclusions(&self, node: &Node<'a>, before: Option<&Value>) -> Vec<Exclusion> {
        let spec = self.pod.spec;
        if spec["nodeName"].as_str().is_some_and(|name| !name.is_empty()) {
            // Nothing schedules such a Pod.
            return node_affinity::other_node(spec, node).into_iter().collect();
        }
        let mut exclusions = taints::exclusions(spec, node);
        exclusions.extend(node_affinity::mismatches(spec, before, node));
        exclusions.extend(resources::lacking_room(self.pod, node, self.kubernetes));
        exclusions.extend(self.affinity.exclusions(node));
        exclusions.extend(self.spread.exclusions(node));
        exclusions
    }

    fn scores(&self, feasible: &[&Node<'a>], selector: Option<&Value>) -> Vec<i64> {
        let (pod, kubernetes) = (self.pod, self.kubernetes);
        let each =
            |score: &dyn Fn(&Node<'a>) -> i64| feasible.iter().map(|node| score(node)).collect::<Vec<_>>();
        let weights = Weights::of(kubernetes);
        let weighted = [
            (weights.taints, scaled(&each(&|node| taints::avoided(pod.spec, node)), true)),
            (weights.node_affinity, scaled(&each(&|node| node_affinity::preference(pod.spec, node)), false)),
            (weights.pod_affinity, stretched(&each(&|node| self.affinity.score(node)))),
            (weights.spread, spread::scores(pod, selector, self.nodes, feasible, kubernetes)),
            (1, each(&|node| resources::least_allocated(pod, node, kubernetes))),
            (1, each(&|node| resources::balanced(pod, node, kubernetes))),
            (1, each(&|node| resources::image_locality(pod, node, self.nodes, kubernetes))),
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
