//! The fewest recorded values to give up, as a user reads and writes them.

use std::collections::BTreeSet;

use pps_core::pps::short;
use pps_core::{PodState, Spec, is_label_key};
use pps_recorder::place::{GivenUp, OpenNode};

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
        let GivenUp { labels, nodes } = GivenUp::fewest(spec, state, nodes)?;
        let values = labels
            .iter()
            .map(|label| format!("{}={}", short(&label.key), label.value))
            .collect();
        // Nobody may have validated the keys, and a shell would obey some.
        let keys = labels.iter().filter(|label| is_label_key(&label.key));
        let flags = keys
            .flat_map(|label| [" --any ", word(spec, &label.key)])
            .collect();
        Some(Self {
            values,
            flags,
            nodes,
        })
    }
}

impl OpenNode for Node {
    fn name(&self) -> &str {
        Self::name(self)
    }

    fn label(&self, key: &str) -> Option<&str> {
        Self::label(self, key)
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
