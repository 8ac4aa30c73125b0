//! Amounts of resources that Pods request and Nodes have.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::list;
use super::quantity;

pub(super) const CPU: &str = "cpu";
pub(super) const MEMORY: &str = "memory";
/// A container that requests none counts as this much in scores.
const DEFAULTS: [(&str, i64); 2] = [(CPU, 100), (MEMORY, 200 * 1024 * 1024)];
/// How many Pods a Node takes that does not say so, as the kubelet does.
const DEFAULT_PODS: i64 = 110;

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
        Self::read(
            &status[if status["allocatable"].is_object() {
                "allocatable"
            } else {
                "capacity"
            }],
        )
    }

    /// What a Pod requests: the sum of its containers, or the most of its init containers if that
    /// is more, or what it requests as a whole; and its overhead.
    pub(super) fn of_pod(spec: &Value, defaults: bool) -> Self {
        let own = &spec["resources"];
        let requests = |container: &Value| {
            // A limit without a request is the request: the API server writes it there.
            let mut found = Self::read(&container["resources"]["limits"]);
            found
                .0
                .extend(Self::read(&container["resources"]["requests"]).0);
            for (name, amount) in DEFAULTS
                .iter()
                .filter(|one| defaults && own["limits"][one.0].is_null())
            {
                found.0.entry((*name).to_owned()).or_insert(*amount);
            }
            found
        };
        let (mut sum, mut restartable, mut most) =
            (Self::default(), Self::default(), Self::default());
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
