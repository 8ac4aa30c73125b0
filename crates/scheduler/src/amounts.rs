//! What Pods request and Nodes have.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::list;
use super::quantity::Quantity;

pub(super) const CPU: &str = "cpu";
pub(super) const MEMORY: &str = "memory";
const PODS: &str = "pods";

/// A container that requests none counts as this much in scores.
const DEFAULT_CPU: i64 = 100;
const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;
/// How many Pods a Node takes that does not say so, as the kubelet does.
const DEFAULT_PODS: i64 = 110;

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

    pub(super) fn raise_to(&mut self, other: &Self) {
        for (resource, amount) in &other.0 {
            let most = self.0.entry(resource.clone()).or_default();
            *most = (*most).max(*amount);
        }
    }

    pub(super) fn of_nothing(resources: [&str; 2]) -> Self {
        Self(resources.map(|resource| (resource.to_owned(), 0)).into())
    }

    pub(super) fn is_anything(&self) -> bool {
        self.0.values().any(|amount| *amount > 0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &i64)> {
        self.0.iter()
    }

    pub(super) fn get(&self, resource: &str) -> i64 {
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

#[derive(Clone, Debug, PartialEq)]
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
    pub(super) fn limit(&self, resource: &str) -> Option<i64> {
        let assumed = matches!(resource, CPU | MEMORY | "ephemeral-storage").then_some(());
        self.0.get(resource).copied().or(if assumed.is_some() { None } else { Some(0) })
    }
}
