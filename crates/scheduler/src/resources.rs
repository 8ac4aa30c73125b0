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
    let staying: Vec<&Pod> = node
        .pods
        .iter()
        .filter(|other| other.priority.is_none_or(|other| other >= priority))
        .collect();
    let mut requested = Amounts::default();
    for other in &staying {
        requested.add(&other.requests);
    }
    staying.len() < node.pods.len()
        && exclusions_beside(pod, node, staying.len(), &requested).is_empty()
}

fn exclusions_beside(
    pod: &Pod,
    node: &Node,
    running: usize,
    requested_before: &Amounts,
) -> Vec<Exclusion> {
    let mut exclusions = Vec::new();
    let limit = node.allocatable.pods();
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

/// What of a resource would be in use with the Pod.
struct Use {
    used: i64,
    /// How much there is. None if that is not known.
    limit: Option<i64>,
}

impl Use {
    /// CPU and memory, as far as the Node has them.
    fn of(requests: &Amounts, requested_before: &Amounts, node: &Node) -> Vec<Self> {
        [CPU, MEMORY]
            .map(|resource| Self {
                used: requested_before
                    .get(resource)
                    .saturating_add(requests.get(resource)),
                limit: node.allocatable.limit(resource),
            })
            .into_iter()
            .filter(|one| one.limit != Some(0))
            .collect()
    }

    /// The share that is free, as a score.
    fn free(&self) -> i64 {
        match self.limit {
            None => BEST,
            Some(limit) if self.used > limit || limit <= 0 => 0,
            Some(limit) => {
                let share = i128::from(limit - self.used) * i128::from(BEST) / i128::from(limit);
                i64::try_from(share).unwrap_or(BEST)
            }
        }
    }

    /// The share that is in use.
    fn fraction(&self) -> f64 {
        self.limit
            .map_or(0.0, |limit| self.used as f64 / limit as f64)
            .min(1.0)
    }
}

/// `NodeResourcesFit`, strategy `LeastAllocated`: prefers Nodes with little in use.
pub(super) fn least_allocated(pod: &Pod, node: &Node) -> i64 {
    let uses = Use::of(&pod.requests_non_zero, &node.requested_non_zero, node);
    let mut sum = 0;
    let mut count = 0;
    for one in uses {
        sum += one.free();
        count += 1;
    }
    if count == 0 { 0 } else { sum / count }
}

/// `NodeResourcesBalancedAllocation`: prefers Nodes whose CPU and memory are used in equal shares.
pub(super) fn balanced(pod: &Pod, node: &Node) -> i64 {
    balance(&Use::of(&pod.requests, &node.requested, node))
}

/// The same, as Kubernetes 1.36 scores it: by what the Pod changes.
pub(super) fn balanced_in_1_36(pod: &Pod, node: &Node) -> i64 {
    if [CPU, MEMORY]
        .iter()
        .all(|resource| pod.requests.get(resource) == 0)
    {
        return 0;
    }
    let before = balance(&Use::of(&Amounts::default(), &node.requested, node));
    BEST / 2 + (BEST / 2 + balanced(pod, node) - before) / 2
}

fn balance(uses: &[Use]) -> i64 {
    let deviation = match uses {
        [cpu, memory] => ((cpu.fraction() - memory.fraction()) / 2.0).abs(),
        _ => 0.0,
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

/// The images of a Pod.
pub(super) struct Images {
    all: Vec<Image>,
}

struct Image {
    /// With its tag.
    name: String,
    /// The share of the Nodes that have it.
    share: f64,
}

impl Images {
    pub(super) fn of(spec: &Value, nodes: &[Node]) -> Self {
        let containers = list(&spec["containers"]).chain(list(&spec["initContainers"]));
        let all = containers.map(|container| {
            let name = full_name(text(&container["image"]));
            let having = nodes
                .iter()
                .filter(|node| node.images.contains_key(&name))
                .count();
            Image {
                name,
                share: having as f64 / nodes.len() as f64,
            }
        });
        Self { all: all.collect() }
    }

    /// `ImageLocality`: prefers Nodes that have the Pod's images, by their size and by how many
    /// Nodes have them.
    pub(super) fn locality(&self, node: &Node) -> i64 {
        const MIB: i64 = 1024 * 1024;
        const LEAST: i64 = 23 * MIB;
        if self.all.is_empty() || node.images.is_empty() {
            return 0;
        }
        let most = i64::try_from(self.all.len())
            .unwrap_or(1)
            .saturating_mul(1000 * MIB);
        let sum = self
            .all
            .iter()
            .filter_map(|image| image.score_on(node))
            .fold(0, i64::saturating_add)
            .clamp(LEAST, most);
        BEST.saturating_mul(sum - LEAST) / (most - LEAST)
    }
}

impl Image {
    /// None if the Node does not have the image.
    fn score_on(&self, node: &Node) -> Option<i64> {
        let size = *node.images.get(&self.name)?;
        Some(whole(size as f64 * self.share))
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
