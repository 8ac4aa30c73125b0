//! The filter and the scores that look at what Pods request and Nodes have.

use serde_json::Value;

use super::BEST;
use super::amounts::{Amounts, CPU, MEMORY};
use super::fields::{list, text};
use super::read::{Node, Pod};
use super::reason::Exclusion;

pub(super) fn exclusions(pod: &Pod, node: &Node) -> Vec<Exclusion> {
    exclusions_beside(pod, node, node.pods.len(), &node.requested)
}

/// Whether the Pod fits once the node's Pods of lower priority are evicted.
pub(super) fn may_preempt(pod: &Pod, priority: i64, node: &Node) -> bool {
    let (mut count, mut requested) = (0, Amounts::default());
    for other in node
        .pods
        .iter()
        .filter(|other| other.priority.is_none_or(|other| other >= priority))
    {
        count += 1;
        requested.add(&other.requests);
    }
    count < node.pods.len() && exclusions_beside(pod, node, count, &requested).is_empty()
}

fn exclusions_beside(
    pod: &Pod,
    node: &Node,
    running: usize,
    requested_before: &Amounts,
) -> Vec<Exclusion> {
    let (mut exclusions, limit) = (Vec::new(), node.allocatable.pods());
    if i64::try_from(running).is_ok_and(|running| running >= limit) {
        exclusions.push(Exclusion::TooManyPods { running, limit });
    }
    for (resource, &requested) in pod
        .requests
        .0
        .iter()
        .filter(|(_, requested)| **requested > 0)
    {
        let Some(limit) = node.allocatable.limit(resource) else {
            continue;
        };
        let free = limit.saturating_sub(requested_before.get(resource));
        if requested > free {
            exclusions.push(Exclusion::Insufficient {
                resource: resource.clone(),
                requested,
                free,
                limit,
            });
        }
    }
    exclusions
}

/// What of a resource would be in use with the Pod, and how much there is.
type Use = (i64, Option<i64>);

fn uses(requests: &Amounts, requested: &Amounts, node: &Node) -> [Use; 2] {
    [CPU, MEMORY].map(|resource| {
        let sum = requested
            .get(resource)
            .saturating_add(requests.get(resource));
        (sum, node.allocatable.limit(resource))
    })
}

/// `NodeResourcesFit`, strategy `LeastAllocated`: prefers Nodes with little in use.
pub(super) fn least_allocated(pod: &Pod, node: &Node) -> i64 {
    let uses = uses(&pod.requests_non_zero, &node.requested_non_zero, node).into_iter();
    let scores = uses
        .filter(|(_, limit)| *limit != Some(0))
        .map(|(used, limit)| match limit {
            None => BEST,
            Some(limit) if used > limit || limit <= 0 => 0,
            Some(limit) => {
                let share = i128::from(limit - used) * i128::from(BEST) / i128::from(limit);
                i64::try_from(share).unwrap_or(BEST)
            }
        });
    let (sum, count) = scores.fold((0, 0), |(sum, count), score| (sum + score, count + 1));
    if count == 0 { 0 } else { sum / count }
}

/// `NodeResourcesBalancedAllocation`: prefers Nodes whose CPU and memory are used in equal shares.
pub(super) fn balanced(pod: &Pod, node: &Node) -> i64 {
    balance(uses(&pod.requests, &node.requested, node))
}

/// The same, as Kubernetes 1.36 scores it: by what the Pod changes.
pub(super) fn balanced_in_1_36(pod: &Pod, node: &Node) -> i64 {
    if [CPU, MEMORY]
        .iter()
        .all(|resource| pod.requests.get(resource) == 0)
    {
        return 0;
    }
    let before = balance(uses(&Amounts::default(), &node.requested, node));
    BEST / 2 + (BEST / 2 + balanced(pod, node) - before) / 2
}

fn balance(uses: [Use; 2]) -> i64 {
    let known = uses.into_iter().filter(|(_, limit)| *limit != Some(0));
    let fraction = |(used, limit): Use| {
        limit
            .map_or(0.0, |limit| used as f64 / limit as f64)
            .min(1.0)
    };
    let known: Vec<f64> = known.map(fraction).collect();
    let deviation = if let [cpu, memory] = known[..] {
        ((cpu - memory) / 2.0).abs()
    } else {
        0.0
    };
    whole((1.0 - deviation) * 100.0)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the scheduler cuts it as well"
)]
pub(super) fn whole(score: f64) -> i64 {
    score as i64
}

/// The images of a Pod, and the share of the Nodes that have each.
pub(super) struct Images(Vec<(String, f64)>);

impl Images {
    pub(super) fn of(spec: &Value, nodes: &[Node]) -> Self {
        let containers = list(&spec["containers"]).chain(list(&spec["initContainers"]));
        let images = containers.map(|container| {
            let image = full_name(text(&container["image"]));
            let having = nodes
                .iter()
                .filter(|node| node.images.contains_key(&image))
                .count();
            let share = having as f64 / nodes.len() as f64;
            (image, share)
        });
        Self(images.collect())
    }

    /// `ImageLocality`: prefers Nodes that have the Pod's images, by their size and by how many
    /// Nodes have them.
    pub(super) fn locality(&self, node: &Node) -> i64 {
        const MIB: i64 = 1024 * 1024;
        const LEAST: i64 = 23 * MIB;
        if self.0.is_empty() || node.images.is_empty() {
            return 0;
        }
        let most = i64::try_from(self.0.len())
            .unwrap_or(1)
            .saturating_mul(1000 * MIB);
        let of_image =
            |(image, share): &(String, f64)| Some(whole(*node.images.get(image)? as f64 * share));
        let sum = self
            .0
            .iter()
            .filter_map(of_image)
            .fold(0, i64::saturating_add)
            .clamp(LEAST, most);
        BEST.saturating_mul(sum - LEAST) / (most - LEAST)
    }
}

fn full_name(image: &str) -> String {
    let has_tag = image
        .rfind(':')
        .is_some_and(|colon| image.rfind('/').is_none_or(|slash| colon > slash));
    if has_tag {
        image.to_owned()
    } else {
        format!("{image}:latest")
    }
}
