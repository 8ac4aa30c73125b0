//! Nodes on the wire, and their facts. Only the metadata of a Node is requested.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;

use super::object::{Item, Malformed, item};
use crate::facts::NodeFact;
use crate::facts::interest::Interest;

/// The key of a Node, which has no namespace.
pub fn node_key(node: &PartialObjectMeta<Node>) -> Arc<str> {
    node.metadata.name.as_deref().unwrap_or_default().into()
}

pub fn node_fact(node: &PartialObjectMeta<Node>, interest: &Interest) -> NodeFact {
    fact(&node.metadata, interest)
}

/// Reads the metadata of a Node. One that cannot be read exists and has no labels.
pub fn read_node(text: &str, interest: &Interest) -> Result<Item<Arc<str>, NodeFact>, Malformed> {
    let key = |metadata: &ObjectMeta| metadata.name.as_deref().unwrap_or_default().into();
    let whole = |node: PartialObjectMeta<Node>| Some(node_fact(&node, interest));
    item(text, |node: &PartialObjectMeta<Node>| &node.metadata, key, whole, |rest| Some(fact(rest, interest)))
}

fn fact(metadata: &ObjectMeta, interest: &Interest) -> NodeFact {
    let labels = metadata.labels.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    NodeFact { labels: interest.labels().pick(labels) }
}
