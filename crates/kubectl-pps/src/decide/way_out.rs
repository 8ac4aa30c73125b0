//! The recorded values that keep a Pod from other nodes, and the fewest to give up.

use std::collections::BTreeSet;

use pps_core::pps::short;
use pps_core::{PodState, Spec, is_label_key};

use crate::snapshot::Node;

/// The fewest required values, beside the node itself, that have to be given up so that a node can
/// take a Pod.
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
    pub fn of<'a>(
        spec: &Spec,
        state: &PodState,
        nodes: impl IntoIterator<Item = &'a Node>,
    ) -> Option<Self> {
        let recorded = spec.required_values(state);
        let differing = |node: &Node| -> BTreeSet<(&str, &str)> {
            let recorded = recorded.iter().map(|(key, value)| (*key, *value));
            recorded
                .filter(|(key, value)| node.label(key) != Some(value))
                .collect()
        };
        let all: Vec<_> = nodes
            .into_iter()
            .map(|node| (node.name(), differing(node)))
            .collect();
        let fewest = all
            .iter()
            .map(|(_, values)| values)
            .min_by_key(|values| values.len())?;
        let within = all.iter().filter(|(_, values)| values.is_subset(fewest));
        let nodes = within.map(|(node, _)| (*node).to_owned()).collect();
        let values = fewest
            .iter()
            .map(|(key, value)| format!("{}={value}", short(key)))
            .collect();
        let word = |key| {
            if spec.keys_named(short(key)).len() > 1 {
                key
            } else {
                short(key)
            }
        };
        // Nobody may have validated the keys, and a shell would obey some.
        let keys = fewest.iter().filter(|(key, _)| is_label_key(key));
        let flags = keys.flat_map(|(key, _)| [" --any ", word(key)]).collect();
        Some(Self {
            values,
            flags,
            nodes,
        })
    }
}
