//! Nodes on the wire, and their facts. Only the metadata of a Node is requested.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::core::PartialObjectMeta;

use crate::facts::NodeFact;
use crate::facts::interest::Interest;

/// The key of a Node, which has no namespace.
pub fn node_key(node: &PartialObjectMeta<Node>) -> Arc<str> {
    node.metadata.name.as_deref().unwrap_or_default().into()
}

pub fn node_fact(node: &PartialObjectMeta<Node>, interest: &Interest) -> NodeFact {
    let labels = node.metadata.labels.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    NodeFact { labels: interest.labels().pick(labels) }
}
