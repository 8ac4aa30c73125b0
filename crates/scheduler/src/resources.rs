//! Room on Nodes: the filter and the two scores that look at it.

use serde_json::Value;

use super::Kubernetes;
use super::amounts::{CPU, MEMORY, Requests};
use super::fields::{list, text};
use super::read::{Node, Pod};
use super::reason::Exclusion;

const BEST: i64 = 100;

pub(super) fn exclusions(pod: &Pod, node: &Node, kubernetes: Kubernetes) -> Vec<Exclusion> {
    let mut exclusions = Vec::new();
    let (running, limit) = (node.pods.len(), node.allocatable.pods());
    if i64::try_from(running).is_ok_and(|running| running >= limit) {
        exclusions.push(Exclusion::TooManyPods { running, limit });
    }
    // 1.20 also refuses a node on which more is in use than it has of something that the Pod does not request.
    let mut looked_at = pod.requests.clone();
    if kubernetes == Kubernetes::V1_20 && pod.requests.is_anything() {
        looked_at.raise_to(&Requests::of_nothing([CPU, MEMORY]));
    }
    for (resource, &requested) in looked_at.iter() {
        let Some(limit) = node.allocatable.limit(resource) else { continue };
        let free = limit.saturating_sub(node.requested.get(resource));
        if requested > free && (requested > 0 || kubernetes == Kubernetes::V1_20) {
            exclusions.push(Exclusion::Insufficient { resource: resource.clone(), requested, free, limit });
        }
    }
    exclusions
}

/// What of a resource would be in use with the Pod, and how much there is.
type Use = (i64, Option<i64>);

fn uses(requests: &Requests, requested: &Requests, node: &Node) -> [Use; 2] {
    [CPU, MEMORY].map(|resource| {
        let sum = requested.get(resource).saturating_add(requests.get(resource));
        (sum, node.allocatable.limit(resource))
    })
}

/// `NodeResourcesFit`, strategy `LeastAllocated`: prefers Nodes with little in use.
pub(super) fn least_allocated(pod: &Pod, node: &Node, kubernetes: Kubernetes) -> i64 {
    let (mut sum, mut count) = (0, 0);
    for (used, limit) in uses(&pod.requests_non_zero, &node.requested_non_zero, node) {
        if limit == Some(0) && kubernetes != Kubernetes::V1_20 {
            continue;
        }
        count += 1;
        sum += match limit {
            None => BEST,
            Some(limit) if used > limit || limit <= 0 => 0,
            Some(limit) => {
                let share = i128::from(limit - used) * i128::from(BEST) / i128::from(limit);
                i64::try_from(share).unwrap_or(BEST)
            }
        };
    }
    if count == 0 { 0 } else { sum / count }
}

/// `NodeResourcesBalancedAllocation`: prefers Nodes whose CPU and memory are used in equal shares.
pub(super) fn balanced(pod: &Pod, node: &Node, kubernetes: Kubernetes) -> i64 {
    let before = uses(&Requests::default(), &node.requested, node);
    let after = uses(&pod.requests, &node.requested, node);
    match kubernetes {
        Kubernetes::V1_20 => balance_of_1_20(uses(&pod.requests_non_zero, &node.requested_non_zero, node)),
        Kubernetes::V1_32 => balance(after),
        Kubernetes::V1_36 if [CPU, MEMORY].iter().all(|resource| pod.requests.get(resource) == 0) => 0,
        Kubernetes::V1_36 => BEST / 2 + (BEST / 2 + balance(after) - balance(before)) / 2,
    }
}

#[expect(clippy::cast_precision_loss, reason = "the scheduler computes with the same type")]
fn fraction((used, limit): Use) -> f64 {
    limit.map_or(0.0, |limit| if limit == 0 { 1.0 } else { used as f64 / limit as f64 })
}

#[expect(clippy::cast_possible_truncation, reason = "it is from 0 to 100, and the scheduler cuts it as well")]
fn whole(score: f64) -> i64 {
    score as i64
}

fn balance_of_1_20([cpu, memory]: [Use; 2]) -> i64 {
    let (cpu, memory) = (fraction(cpu), fraction(memory));
    if cpu >= 1.0 || memory >= 1.0 { 0 } else { whole((1.0 - (cpu - memory).abs()) * 100.0) }
}

fn balance(uses: [Use; 2]) -> i64 {
    let known: Vec<f64> =
        uses.into_iter().filter(|(_, limit)| *limit != Some(0)).map(|of| fraction(of).min(1.0)).collect();
    let deviation = if let [cpu, memory] = known[..] { ((cpu - memory) / 2.0).abs() } else { 0.0 };
    whole((1.0 - deviation) * 100.0)
}

/// The images of a Pod, and the share of the Nodes that have each.
pub(super) struct Images(Vec<(String, f64)>);

impl Images {
    pub(super) fn of(spec: &Value, nodes: &[Node], kubernetes: Kubernetes) -> Self {
        let init = list(&spec["initContainers"]).filter(|_| kubernetes != Kubernetes::V1_20);
        let containers = list(&spec["containers"]).chain(init);
        let images = containers.map(|container| {
            let image = full_name(text(&container["image"]));
            let having = nodes.iter().filter(|node| node.images.contains_key(&image)).count();
            #[expect(clippy::cast_precision_loss, reason = "the scheduler computes with the same type")]
            let share = having as f64 / nodes.len() as f64;
            (image, share)
        });
        Self(images.collect())
    }
}

/// `ImageLocality`: prefers Nodes that have the Pod's images, by their size and by how many Nodes have them.
pub(super) fn image_locality(images: &Images, node: &Node) -> i64 {
    const MIB: i64 = 1024 * 1024;
    const LEAST: i64 = 23 * MIB;
    let Images(images) = images;
    if images.is_empty() || node.images.is_empty() {
        return 0;
    }
    let most = i64::try_from(images.len()).unwrap_or(1).saturating_mul(1000 * MIB);
    let of_image = |(image, share): &(String, f64)| {
        let size = *node.images.get(image)?;
        #[expect(clippy::cast_precision_loss, reason = "the scheduler computes with the same type")]
        Some(whole(size as f64 * share))
    };
    let sum = images.iter().filter_map(of_image).fold(0, i64::saturating_add).clamp(LEAST, most);
    BEST.saturating_mul(sum - LEAST) / (most - LEAST)
}

fn full_name(image: &str) -> String {
    let has_tag = image.rfind(':').is_some_and(|colon| image.rfind('/').is_none_or(|slash| colon > slash));
    if has_tag { image.to_owned() } else { format!("{image}:latest") }
}
