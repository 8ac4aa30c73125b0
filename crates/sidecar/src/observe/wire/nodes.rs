//! Nodes on the wire, and their facts. Only the metadata of a Node is requested.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use serde::Deserialize;

use super::metadata::labelled_metadata;
use super::object::{Item, Malformed, item, item_of};
use super::protobuf;
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
    #[derive(Deserialize)]
    struct Labelled {
        #[serde(deserialize_with = "labelled_metadata")]
        metadata: ObjectMeta,
    }
    let fact = |metadata: &ObjectMeta| Some(fact(metadata, interest));
    item(text, |node: &Labelled| &node.metadata, key_of, |node| fact(&node.metadata), fact)
}

/// Reads the metadata of a Node like [`read_node`].
pub fn read_node_message(message: &[u8], interest: &Interest) -> Result<Item<Arc<str>, NodeFact>, Malformed> {
    let fact = |metadata: &ObjectMeta| Some(fact(metadata, interest));
    let node = protobuf::read(message, |message| {
        let mut node = ObjectMeta::default();
        for field in protobuf::Fields::of(message) {
            if let (1, value) = field? {
                node = protobuf::metadata(value.fields()?)?;
                node.labels = Some(protobuf::labels(value.fields()?)?);
            }
        }
        Ok(node)
    });
    item_of(node?, |node| node, key_of, |node| fact(&node), fact)
}

fn key_of(metadata: &ObjectMeta) -> Arc<str> {
    metadata.name.as_deref().unwrap_or_default().into()
}

fn fact(metadata: &ObjectMeta, interest: &Interest) -> NodeFact {
    let labels = metadata.labels.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    NodeFact { labels: interest.labels().pick(labels) }
}
