//! The recorded values that keep a Pod from other nodes, and the fewest to give up.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::{PodState, Spec};
use pps_scheduler::HOSTNAME;

use crate::snapshot::Node;

/// A key as users write it: `zone`.
pub fn short(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

/// The topology keys that a word of `--any` names: the key itself, or all keys that end with it.
pub fn named<'a>(spec: &'a Spec, word: &str) -> BTreeSet<&'a str> {
    let whole = spec.topology_keys().find(|key| *key == word);
    spec.topology_keys().filter(|key| whole.map_or(short(key) == word, |whole| *key == whole)).collect()
}

/// The recorded values that the Pod requires, beside the node itself.
pub fn required<'a>(spec: &'a Spec, state: &'a PodState) -> BTreeMap<&'a str, &'a str> {
    let keys = spec.required_keys().filter(|key| *key != HOSTNAME);
    keys.filter_map(|key| Some((key, state.node_topology_labels.get(key)?.as_str()))).collect()
}

/// The fewest required values, beside the node itself, that have to be given up so that a node can take a
/// Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WayOut {
    /// `zone=a`.
    pub values: Vec<String>,
    /// ` --any zone`.
    pub flags: String,
    /// The nodes that can take the Pod then.
    pub nodes: BTreeSet<String>,
}

impl WayOut {
    /// For a Pod that only its recorded state keeps from these nodes; none without a node.
    pub fn of<'a>(spec: &Spec, state: &PodState, nodes: impl IntoIterator<Item = &'a Node>) -> Option<Self> {
        let recorded = required(spec, state);
        let differing = |node: &Node| -> BTreeSet<(&str, &str)> {
            let recorded = recorded.iter().map(|(key, value)| (*key, *value));
            recorded.filter(|(key, value)| node.label(key) != Some(value)).collect()
        };
        let all: Vec<_> = nodes.into_iter().map(|node| (node.name(), differing(node))).collect();
        let fewest = all.iter().map(|(_, values)| values).min_by_key(|values| values.len())?;
        let within = all.iter().filter(|(_, values)| values.is_subset(fewest));
        let nodes = within.map(|(node, _)| (*node).to_owned()).collect();
        let values = fewest.iter().map(|(key, value)| format!("{}={value}", short(key))).collect();
        let word = |key| if named(spec, short(key)).len() > 1 { key } else { short(key) };
        let flags = fewest.iter().flat_map(|(key, _)| [" --any ", word(key)]).collect();
        Some(Self { values, flags, nodes })
    }
}
