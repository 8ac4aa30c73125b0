//! Amounts of resources that Pods request and Nodes have.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::list;
use super::quantity;

pub(super) const CPU: &str = "cpu";
pub(super) const MEMORY: &str = "memory";
const DEFAULTS: [DefaultRequest; 2] = [
    DefaultRequest {
        resource: CPU,
        amount: 100,
    },
    DefaultRequest {
        resource: MEMORY,
        amount: 200 * 1024 * 1024,
    },
];
/// How many Pods a Node takes that does not say so, as the kubelet does.
const DEFAULT_PODS: i64 = 110;

/// A container that requests nothing of a resource counts as this much in scores.
#[derive(Clone, Copy)]
struct DefaultRequest {
    resource: &'static str,
    amount: i64,
}

/// Amounts by resource. CPU is in thousandths.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Amounts(pub(super) BTreeMap<String, i64>);

impl Amounts {
    fn read(amounts: &Value) -> Self {
        let amounts = amounts
            .as_object()
            .into_iter()
            .flatten()
            .map(|(resource, amount)| {
                let parts = if resource == CPU { 1000 } else { 1 };
                (
                    resource.clone(),
                    quantity::read(amount, parts).unwrap_or_default(),
                )
            });
        Self(amounts.collect())
    }

    /// From `status.allocatable`, else from `status.capacity`, as the API server does.
    pub(super) fn of_node(node: &Value) -> Self {
        let status = &node["status"];
        let allocatable = &status["allocatable"];
        Self::read(if allocatable.is_object() {
            allocatable
        } else {
            &status["capacity"]
        })
    }

    /// What a Pod requests.
    pub(super) fn of_pod(spec: &Value) -> Self {
        Self::of_pod_with_defaults(spec, &[])
    }

    /// The same, with a default for each container that requests no CPU or no memory.
    pub(super) fn of_pod_non_zero(spec: &Value) -> Self {
        // A limit of the whole Pod takes the place of the default.
        let limits = &spec["resources"]["limits"];
        let defaults: Vec<DefaultRequest> = DEFAULTS
            .into_iter()
            .filter(|default| limits[default.resource].is_null())
            .collect();
        Self::of_pod_with_defaults(spec, &defaults)
    }

    /// The sum of the containers, or the most of the init containers if that is more, or what the
    /// Pod requests as a whole; and its overhead.
    fn of_pod_with_defaults(spec: &Value, defaults: &[DefaultRequest]) -> Self {
        let own = &spec["resources"];
        let mut sum = Self::default();
        let mut restartable = Self::default();
        let mut most = Self::default();
        for container in list(&spec["containers"]) {
            sum.add(&Self::of_container(container, defaults));
        }
        for container in list(&spec["initContainers"]) {
            let mut requests = Self::of_container(container, defaults);
            if container["restartPolicy"] == "Always" {
                sum.add(&requests);
                restartable.add(&requests);
                requests = restartable.clone();
            } else {
                requests.add(&restartable);
            }
            most.merge(&requests, i64::max);
        }
        sum.merge(&most, i64::max);
        // A limit of the whole Pod counts only for a resource that no container requests.
        let mut all = Self::read(&own["limits"]);
        all.0.extend(sum.0);
        all.0.extend(Self::read(&own["requests"]).0);
        all.add(&Self::read(&spec["overhead"]));
        all
    }

    fn of_container(container: &Value, defaults: &[DefaultRequest]) -> Self {
        // A limit without a request is the request: the API server writes it there.
        let mut requests = Self::read(&container["resources"]["limits"]);
        requests
            .0
            .extend(Self::read(&container["resources"]["requests"]).0);
        for DefaultRequest { resource, amount } in defaults {
            requests.0.entry((*resource).to_owned()).or_insert(*amount);
        }
        requests
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.merge(other, i64::saturating_add);
    }

    fn merge(&mut self, other: &Self, merged: fn(i64, i64) -> i64) {
        for (resource, amount) in &other.0 {
            let own = self.0.entry(resource.clone()).or_default();
            *own = merged(*own, *amount);
        }
    }

    pub(super) fn get(&self, resource: &str) -> i64 {
        self.0.get(resource).copied().unwrap_or_default()
    }

    /// How much there is. CPU, memory and storage are unlimited on a Node that does not say how
    /// much it has.
    pub(super) fn limit(&self, resource: &str) -> Option<i64> {
        let is_assumed = matches!(resource, CPU | MEMORY | "ephemeral-storage");
        self.0.get(resource).copied().or((!is_assumed).then_some(0))
    }

    pub(super) fn pods(&self) -> i64 {
        self.0.get("pods").copied().unwrap_or(DEFAULT_PODS)
    }
}
