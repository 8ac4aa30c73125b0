//! Reads what the scheduler needs of Nodes and Pods. What has another type than Kubernetes allows
//! counts as absent.
//!
//! What is read owns its texts, so that a simulation reads each object once and not once for each
//! Pod that it places.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::amounts::Amounts;
use super::fields::{list, text};
use super::selector::Labels;

/// The label with which each node has a name of its own.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

pub fn labels(object: &Value) -> Labels {
    let labels = object["metadata"]["labels"].as_object();
    labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), text(value).to_owned()))
        .collect()
}

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub name: String,
    pub(super) labels: Labels,
    pub(super) unschedulable: bool,
    pub(super) taints: Vec<Taint>,
    pub(super) allocatable: Amounts,
    pub(super) requested: Amounts,
    pub(super) requested_non_zero: Amounts,
    pub(super) pods: Vec<Pod>,
    pub(super) images: BTreeMap<String, i64>,
}

impl Node {
    pub fn of<'a>(node: &Value, pods: impl IntoIterator<Item = &'a Value>) -> Self {
        let images = list(&node["status"]["images"]).flat_map(|image| {
            let size = image["sizeBytes"].as_i64().unwrap_or_default();
            list(&image["names"]).map(move |name| (text(name).to_owned(), size))
        });
        let is_there =
            |pod: &&Value| !matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed");
        let mut node = Self {
            name: text(&node["metadata"]["name"]).to_owned(),
            labels: labels(node),
            unschedulable: node["spec"]["unschedulable"] == true,
            taints: list(&node["spec"]["taints"]).map(Taint::of).collect(),
            allocatable: Amounts::of_node(node),
            requested: Amounts::default(),
            requested_non_zero: Amounts::default(),
            pods: pods.into_iter().filter(is_there).map(Pod::of).collect(),
            images: images.collect(),
        };
        for pod in &node.pods {
            node.requested.add(&pod.requests);
            node.requested_non_zero.add(&pod.requests_non_zero);
        }
        node
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    pub key: String,
    /// Its value; empty if it has none.
    pub value: String,
    pub effect: String,
}

impl Taint {
    pub fn of(taint: &Value) -> Self {
        let [key, value, effect] =
            ["key", "value", "effect"].map(|field| text(&taint[field]).to_owned());
        Self { key, value, effect }
    }
}

/// As kubectl writes it: `dedicated=db:NoSchedule`.
impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let equals = if self.value.is_empty() { "" } else { "=" };
        write!(f, "{}{equals}{}:{}", self.key, self.value, self.effect)
    }
}

/// A Pod that needs a node.
pub(super) struct Candidate<'a> {
    pub(super) spec: &'a Value,
    pub(super) pod: Pod,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) labels: Labels,
    pub(super) terminating: bool,
    /// The API server writes it into each Pod. A Pod from a template has none, so it preempts no
    /// other.
    pub(super) priority: Option<i64>,
    pub(super) requests: Amounts,
    /// With a default for each container that requests no CPU or no memory: scores count with
    /// these.
    pub(super) requests_non_zero: Amounts,
    /// `podAffinity` and `podAntiAffinity`; null if it has neither.
    pub(super) affinity: Value,
}

impl Pod {
    pub(super) fn of(pod: &Value) -> Self {
        let metadata = &pod["metadata"];
        let spec = &pod["spec"];
        let affinity = spec["affinity"].as_object().into_iter().flatten();
        let between: Map<String, Value> = affinity
            .filter(|(kind, _)| matches!(kind.as_str(), "podAffinity" | "podAntiAffinity"))
            .map(|(kind, terms)| (kind.clone(), terms.clone()))
            .collect();
        Self {
            namespace: metadata["namespace"]
                .as_str()
                .unwrap_or("default")
                .to_owned(),
            labels: labels(pod),
            terminating: metadata["deletionTimestamp"].is_string(),
            priority: spec["priority"].as_i64(),
            requests: Amounts::of_pod(spec),
            requests_non_zero: Amounts::of_pod_non_zero(spec),
            affinity: if between.is_empty() {
                Value::Null
            } else {
                between.into()
            },
        }
    }
}
