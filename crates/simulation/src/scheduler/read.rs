//! Reads what the scheduler needs of Nodes and Pods. What has another type than Kubernetes allows counts as absent.

use std::collections::BTreeMap;

use serde_json::Value;

use super::amounts::{Allocatable, Requests};
use super::fields::{list, text};
use super::selector::Labels;

pub(super) fn labels(object: &Value) -> Labels<'_> {
    let labels = object["metadata"]["labels"].as_object();
    labels.into_iter().flatten().map(|(key, value)| (key.as_str(), text(value))).collect()
}

/// A Node, with what its Pods use of it.
pub(super) struct Node<'a> {
    pub(super) name: &'a str,
    pub(super) labels: Labels<'a>,
    pub(super) unschedulable: bool,
    pub(super) taints: Vec<Taint<'a>>,
    pub(super) allocatable: Allocatable,
    pub(super) requested: Requests,
    pub(super) requested_non_zero: Requests,
    pub(super) pods: Vec<Pod<'a>>,
    pub(super) images: BTreeMap<&'a str, i64>,
}

impl<'a> Node<'a> {
    pub(super) fn of(node: &'a Value, pods: &[&'a Value]) -> Self {
        let pods: Vec<Pod> = pods.iter().map(|pod| Pod::of(pod)).collect();
        let (mut requested, mut requested_non_zero) = (Requests::default(), Requests::default());
        for pod in &pods {
            requested.add(&pod.requests);
            requested_non_zero.add(&pod.requests_non_zero);
        }
        let images = list(&node["status"]["images"]).flat_map(|image| {
            let size = image["sizeBytes"].as_i64().unwrap_or_default();
            list(&image["names"]).map(move |name| (text(name), size))
        });
        Self {
            name: text(&node["metadata"]["name"]),
            labels: labels(node),
            unschedulable: node["spec"]["unschedulable"] == true,
            taints: list(&node["spec"]["taints"]).map(Taint::of).collect(),
            allocatable: Allocatable::of(node),
            requested,
            requested_non_zero,
            pods,
            images: images.collect(),
        }
    }
}

/// A taint of a Node.
pub(super) struct Taint<'a> {
    pub(super) key: &'a str,
    pub(super) value: &'a str,
    pub(super) effect: &'a str,
}

impl<'a> Taint<'a> {
    pub(super) fn of(taint: &'a Value) -> Self {
        Self { key: text(&taint["key"]), value: text(&taint["value"]), effect: text(&taint["effect"]) }
    }
}

/// A Pod.
pub(super) struct Pod<'a> {
    pub(super) spec: &'a Value,
    pub(super) namespace: &'a str,
    pub(super) labels: Labels<'a>,
    pub(super) terminating: bool,
    pub(super) requests: Requests,
    /// With a default for each container that requests no CPU or no memory: scores count with these.
    pub(super) requests_non_zero: Requests,
}

impl<'a> Pod<'a> {
    pub(super) fn of(pod: &'a Value) -> Self {
        let metadata = &pod["metadata"];
        Self {
            spec: &pod["spec"],
            namespace: metadata["namespace"].as_str().unwrap_or("default"),
            labels: labels(pod),
            terminating: metadata["deletionTimestamp"].is_string(),
            requests: Requests::of(&pod["spec"], false),
            requests_non_zero: Requests::of(&pod["spec"], true),
        }
    }
}
