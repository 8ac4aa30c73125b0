//! Nodes and namespaces, and their facts. Only their metadata is read.

use std::sync::Arc;

use pps_recorder::facts::{NodeFact, interest::Interest};

use super::item::{Item, Metadata, Parsed, Unused};
use super::malformed::Malformed;

/// Reads the metadata of a Node. One that cannot be read exists and has no labels.
pub fn read_node(object: &str, interest: &Interest) -> Result<Item<Arc<str>, NodeFact>, Malformed> {
    let parsed = Parsed::<Unused, Unused>::read(object)?;
    Ok(parsed.into_item(Metadata::name, |metadata, _| {
        let labels = metadata
            .labels
            .iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        Some(NodeFact {
            labels: interest.pick(labels),
        })
    }))
}

/// Reads a namespace in scope. Only its name counts.
pub fn read_namespace(object: &str) -> Result<Item<Arc<str>, ()>, Malformed> {
    Ok(Parsed::<Unused, Unused>::read(object)?.into_item(Metadata::name, |_, _| Some(())))
}
