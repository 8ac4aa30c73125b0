//! The expected scores and decisions are those of kube-scheduler's own tests where it has one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

mod filters;
mod hostile;
mod scores;
mod selections;
mod volumes;

use serde_json::{Value, json};

use super::{NodeView, Placement, Selection, select};

pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

/// A Node with these labels.
pub(super) fn node(name: &str, labels: &Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}})
}

pub(super) fn with_amounts(name: &str, allocatable: &Value) -> Value {
    json!({"metadata": {"name": name}, "status": {"allocatable": allocatable}})
}

/// A Pod with this spec.
pub(super) fn pod(spec: &Value) -> Value {
    json!({"metadata": {"name": "db-0", "namespace": "default", "labels": {"app": "db"}}, "spec": spec})
}

/// A Pod whose containers request these amounts.
pub(super) fn requesting(containers: &[Value]) -> Value {
    let containers: Vec<Value> = containers
        .iter()
        .map(|requests| json!({"resources": {"requests": requests}}))
        .collect();
    pod(&json!({"containers": containers}))
}

/// Nodes, each with its Pods.
pub(super) type Nodes = Vec<(Value, Vec<Value>)>;

pub(super) fn empty(nodes: Vec<Value>) -> Nodes {
    nodes.into_iter().map(|node| (node, Vec::new())).collect()
}

pub(super) fn views(nodes: &Nodes) -> Vec<NodeView<'_>> {
    nodes
        .iter()
        .map(|(node, pods)| NodeView {
            node,
            pods: pods.iter().collect(),
        })
        .collect()
}

pub(super) fn selection(pod: &Value, nodes: &Nodes) -> Selection {
    select(
        &Placement {
            pod,
            before: None,
            selector: None,
            volumes: None,
        },
        &views(nodes),
    )
}

/// All exclusions, each after its node's name.
pub(super) fn texts(selection: &Selection) -> Vec<String> {
    let exclusions = selection.verdicts.iter().flat_map(|verdict| {
        verdict
            .exclusions
            .iter()
            .map(|exclusion| format!("{}: {exclusion}", verdict.node))
    });
    exclusions.collect()
}
