//! The recorded values that keep a Pod from other nodes, and the fewest to give up.

use std::collections::{BTreeMap, BTreeSet};

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
        spec: &'a Spec,
        state: &'a PodState,
        nodes: impl IntoIterator<Item = &'a Node>,
    ) -> Option<Self> {
        let recorded = spec.required_values(state);
        let candidates: Vec<Candidate> = nodes
            .into_iter()
            .map(|node| Candidate::of(node, &recorded))
            .collect();
        let fewest = candidates
            .iter()
            .map(|candidate| &candidate.differing)
            .min_by_key(|differing| differing.len())?;
        let nodes = candidates
            .iter()
            .filter(|candidate| candidate.differing.is_subset(fewest))
            .map(|candidate| candidate.node.to_owned())
            .collect();
        let values = fewest
            .iter()
            .map(|(key, value)| format!("{}={value}", short(key)))
            .collect();
        // Nobody may have validated the keys, and a shell would obey some.
        let keys = fewest.iter().filter(|(key, _)| is_label_key(key));
        let flags = keys
            .flat_map(|(key, _)| [" --any ", word(spec, key)])
            .collect();
        Some(Self {
            values,
            flags,
            nodes,
        })
    }
}

/// A node that could take the Pod without some of the required values.
struct Candidate<'a> {
    node: &'a str,
    /// The keys and values that the node does not have.
    differing: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Candidate<'a> {
    fn of(node: &'a Node, required: &BTreeMap<&'a str, &'a str>) -> Self {
        let differing = required
            .iter()
            .map(|(key, value)| (*key, *value))
            .filter(|(key, value)| node.label(key) != Some(value))
            .collect();
        Self {
            node: node.name(),
            differing,
        }
    }
}

/// How the command line names a key: short, unless that is ambiguous.
fn word<'a>(spec: &Spec, key: &'a str) -> &'a str {
    if spec.keys_named(short(key)).len() > 1 {
        key
    } else {
        short(key)
    }
}
