//! Room on Nodes: the filter and the two scores that look at it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::quantity::Quantity;
use super::read::{Node, Pod, list, text};
use super::{Exclusion, ExclusionKind, Kubernetes};

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const PODS: &str = "pods";
const BEST: i64 = 100;

/// A container that requests none counts as this much in scores.
const DEFAULT_CPU: i64 = 100;
const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;
/// How many Pods a Node takes that does not say so, as the kubelet does.
pub(super) const DEFAULT_PODS: i64 = 110;

/// Amounts by resource. CPU is in thousandths.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Requests(BTreeMap<String, i64>);

impl Requests {
    /// What a Pod requests: the sum of its containers, or the most of its init containers if that is more.
    pub(super) fn of(spec: &Value, with_defaults: bool) -> Self {
        let requests = |container: &Value| Self::of_container(container, with_defaults);
        let (mut sum, mut restartable, mut most) = (Self::default(), Self::default(), Self::default());
        for container in list(&spec["containers"]) {
            sum.add(&requests(container));
        }
        for container in list(&spec["initContainers"]) {
            let mut requests = requests(container);
            if container["restartPolicy"] == "Always" {
                sum.add(&requests);
                restartable.add(&requests);
                requests = restartable.clone();
            } else {
                requests.add(&restartable);
            }
            most.raise_to(&requests);
        }
        sum.raise_to(&most);
        sum
    }

    fn of_container(container: &Value, with_defaults: bool) -> Self {
        let resources = &container["resources"];
        let mut found = BTreeMap::new();
        // A limit without a request is the request: the API server writes it there.
        for amounts in [&resources["limits"], &resources["requests"]] {
            found.extend(amounts_of(amounts));
        }
        if with_defaults {
            found.entry(CPU.to_owned()).or_insert(DEFAULT_CPU);
            found.entry(MEMORY.to_owned()).or_insert(DEFAULT_MEMORY);
        }
        Self(found)
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (resource, amount) in &other.0 {
            let sum = self.0.entry(resource.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    fn raise_to(&mut self, other: &Self) {
        for (resource, amount) in &other.0 {
            let most = self.0.entry(resource.clone()).or_default();
            *most = (*most).max(*amount);
        }
    }

    fn get(&self, resource: &str) -> i64 {
        self.0.get(resource).copied().unwrap_or_default()
    }
}

fn amounts_of(amounts: &Value) -> impl Iterator<Item = (String, i64)> {
    amounts.as_object().into_iter().flatten().map(|(resource, amount)| {
        let quantity = Quantity::of(amount);
        let amount =
            if resource == CPU { quantity.map(Quantity::thousandths) } else { quantity.map(Quantity::units) };
        (resource.clone(), amount.unwrap_or_default())
    })
}

/// What a Node has for Pods.
#[derive(Clone, Debug)]
pub(super) struct Allocatable(BTreeMap<String, i64>);

impl Allocatable {
    /// From `status.allocatable`, else from `status.capacity`, as the API server does.
    pub(super) fn of(node: &Value) -> Self {
        let status = &node["status"];
        let amounts = if status["allocatable"].is_object() { "allocatable" } else { "capacity" };
        Self(amounts_of(&status[amounts]).collect())
    }

    pub(super) fn pods(&self) -> i64 {
        self.0.get(PODS).copied().unwrap_or(DEFAULT_PODS)
    }

    /// How much there is. CPU, memory and storage are unlimited on a Node that does not say how much it has.
    fn limit(&self, resource: &str) -> Option<i64> {
        let assumed = matches!(resource, CPU | MEMORY | "ephemeral-storage").then_some(());
        self.0.get(resource).copied().or(if assumed.is_some() { None } else { Some(0) })
    }
}

/// Why a Pod has no room on a Node.
pub(super) fn lacking_room(pod: &Pod, node: &Node, kubernetes: Kubernetes) -> Vec<Exclusion> {
    let mut lacking = Vec::new();
    let mut exclude = |text: String| {
        lacking.push(Exclusion { what: ExclusionKind::Room, text, from_pps: false });
    };
    let (used, room) = (node.pods.len(), node.allocatable.pods());
    if i64::try_from(used).is_ok_and(|used| used >= room) {
        let pods = if used == 1 { "Pod runs" } else { "Pods run" };
        exclude(format!("{}: {used} {pods} there, and it takes {room}", node.name));
    }
    let requests_any = pod.requests.0.values().any(|amount| *amount > 0);
    // 1.20 also refuses a node on which more is in use than it has of something that the Pod does not request.
    let mut looked_at = pod.requests.clone();
    if kubernetes == Kubernetes::V1_20 && requests_any {
        looked_at.raise_to(&Requests([CPU, MEMORY].map(|resource| (resource.to_owned(), 0)).into()));
    }
    for (resource, amount) in &looked_at.0 {
        let Some(limit) = node.allocatable.limit(resource) else { continue };
        let free = limit.saturating_sub(node.requested.get(resource));
        let lacks = *amount > free && (*amount > 0 || kubernetes == Kubernetes::V1_20);
        if lacks {
            let show = |amount: i64| shown(resource, amount);
            exclude(format!(
                "{}: {} of {} {resource} is free, the Pod requests {}",
                node.name,
                show(free),
                show(limit),
                show(*amount)
            ));
        }
    }
    lacking
}

fn shown(resource: &str, amount: i64) -> String {
    match resource {
        CPU if amount % 1000 == 0 => (amount / 1000).to_string(),
        CPU => format!("{amount}m"),
        MEMORY | "ephemeral-storage" => {
            let units = [(1_i64 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
            let unit = units.into_iter().find(|(size, _)| amount != 0 && amount % size == 0);
            unit.map_or_else(|| amount.to_string(), |(size, unit)| format!("{}{unit}", amount / size))
        }
        _ => amount.to_string(),
    }
}

/// What of a resource would be in use with the Pod, and how much there is.
type Use = (i64, Option<i64>);

fn uses(requests: &Requests, requested: &Requests, node: &Node) -> [Use; 2] {
    [CPU, MEMORY].map(|resource| {
        let sum = requested.get(resource).saturating_add(requests.get(resource));
        (sum, node.allocatable.limit(resource))
    })
}

/// `NodeResourcesFit`, strategy `LeastAllocated`: prefers Nodes of which little is in use.
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

/// `NodeResourcesBalancedAllocation`: prefers Nodes of which as much CPU as memory is in use.
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

/// `ImageLocality`: prefers Nodes that have the Pod's images, by their size and by how many Nodes have them.
pub(super) fn image_locality(pod: &Pod, node: &Node, nodes: &[Node], kubernetes: Kubernetes) -> i64 {
    const MIB: i64 = 1024 * 1024;
    const LEAST: i64 = 23 * MIB;
    let init = list(&pod.spec["initContainers"]).filter(|_| kubernetes != Kubernetes::V1_20);
    let images: Vec<String> = list(&pod.spec["containers"])
        .chain(init)
        .map(|container| full_name(text(&container["image"])))
        .collect();
    if images.is_empty() || node.images.is_empty() {
        return 0;
    }
    let most = i64::try_from(images.len()).unwrap_or(1).saturating_mul(1000 * MIB);
    let of_image = |image: &String| {
        let size = *node.images.get(image.as_str())?;
        let having = nodes.iter().filter(|node| node.images.contains_key(image.as_str())).count();
        #[expect(clippy::cast_precision_loss, reason = "the scheduler computes with the same type")]
        Some(whole(size as f64 * (having as f64 / nodes.len() as f64)))
    };
    let sum = images.iter().filter_map(of_image).fold(0, i64::saturating_add).clamp(LEAST, most);
    BEST.saturating_mul(sum - LEAST) / (most - LEAST)
}

fn full_name(image: &str) -> String {
    let has_tag = image.rfind(':').is_some_and(|colon| image.rfind('/').is_none_or(|slash| colon > slash));
    if has_tag { image.to_owned() } else { format!("{image}:latest") }
}
