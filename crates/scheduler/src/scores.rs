//! How much a Pod prefers each of the nodes that can take it.

use serde_json::Value;

use super::pod_affinity::PodAffinity;
use super::read::{Candidate, Node};
use super::resources::{self, Images};
use super::{BEST, Placement, fields, node_affinity, spread, taints};

/// The scores of nodes in each way in which a real scheduler may count. The first is the
/// simulation's.
pub(super) fn variants(
    placement: &Placement,
    new: &Candidate,
    nodes: &[Node],
    feasible: &[&Node],
    affinity: &PodAffinity,
) -> Vec<Vec<i64>> {
    let Candidate { spec, pod } = new;
    let images = Images::of(spec, nodes);
    let untolerated = of_each(feasible, |node| taints::avoided(spec, node));
    let preference = of_each(feasible, |node| node_affinity::preference(spec, node));
    let nearness = of_each(feasible, |node| affinity.score(node));
    let free = of_each(feasible, |node| resources::least_allocated(pod, node));
    let locality = of_each(feasible, |node| images.locality(node));
    let common = Totals::zero(feasible.len())
        .plus(3, &reversed(&stretched(&untolerated)))
        .plus(2, &stretched(&preference))
        .plus(2, &normalized(&nearness))
        .plus(1, &free)
        .plus(1, &locality);
    let mut variants = Vec::new();
    for selector in spread_selectors(placement) {
        let spread = spread::scores(new, selector, nodes, feasible);
        for balanced in [resources::balanced, resources::balanced_in_1_36] {
            let balanced = of_each(feasible, |node| balanced(pod, node));
            let totals = common.clone().plus(2, &spread).plus(1, &balanced);
            variants.push(totals.by_node);
        }
    }
    variants
}

fn of_each(nodes: &[&Node], score: impl Fn(&Node) -> i64) -> Vec<i64> {
    nodes.iter().map(|node| score(node)).collect()
}

/// The sums of weighted scores.
#[derive(Clone)]
struct Totals {
    by_node: Vec<i64>,
}

impl Totals {
    fn zero(nodes: usize) -> Self {
        Self {
            by_node: vec![0; nodes],
        }
    }

    fn plus(mut self, weight: i64, scores: &[i64]) -> Self {
        for (total, score) in self.by_node.iter_mut().zip(scores) {
            *total += weight * score;
        }
        self
    }
}

/// The selectors by which the Pod may be spread. The scheduler knows the selector of a
/// `StatefulSet` in `apps/v1`; a Pod of another kind is spread if a Service selects it.
fn spread_selectors<'a>(placement: &Placement<'a>) -> Vec<Option<&'a Value>> {
    let Some(selector) = placement.selector else {
        return vec![None];
    };
    if fields::controller(placement.pod).is_some_and(is_stateful_set) {
        vec![Some(selector)]
    } else {
        vec![None, Some(selector)]
    }
}

fn is_stateful_set(owner: &Value) -> bool {
    owner["apiVersion"] == "apps/v1" && owner["kind"] == "StatefulSet"
}

/// Stretches the scores so that the highest is 100.
pub(super) fn stretched(scores: &[i64]) -> Vec<i64> {
    let most = scores.iter().copied().max().unwrap_or_default().max(1);
    scores
        .iter()
        .map(|score| score.max(&0).saturating_mul(BEST) / most)
        .collect()
}

/// The highest score becomes the lowest.
fn reversed(scores: &[i64]) -> Vec<i64> {
    scores.iter().map(|score| BEST - score).collect()
}

/// Stretches the scores of `InterPodAffinity` so that the least is 0 and the highest 100.
pub(super) fn normalized(scores: &[i64]) -> Vec<i64> {
    let least = scores.iter().copied().min().unwrap_or_default();
    let above_least: Vec<f64> = scores
        .iter()
        .map(|score| score.saturating_sub(least) as f64)
        .collect();
    let width = above_least
        .iter()
        .copied()
        .fold(f64::MIN_POSITIVE, f64::max);
    above_least
        .into_iter()
        .map(|above| resources::whole(BEST as f64 * (above / width)))
        .collect()
}
