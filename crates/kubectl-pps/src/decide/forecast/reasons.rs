//! Why no node can take a Pod, in few words for many nodes.

use std::collections::BTreeMap;

use pps_simulation::NodeVerdict;
use pps_simulation::scheduler::ExclusionKind;
use serde::Serialize;

use crate::decide::names::list;

/// How many nodes are named.
const NAMED: usize = 4;

/// A reason that excludes some nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// In words, without the name of a node.
    pub text: String,
    /// The scheduler's filter.
    pub what: ExclusionKind,
    /// Whether the policy has injected the requirement: the Pod has it from its recorded state.
    pub from_pps: bool,
    /// How many nodes are excluded by it first.
    pub nodes: usize,
    /// One of them.
    pub example: String,
    /// All of them, if they are few.
    #[serde(skip)]
    pub names: Vec<String>,
}

impl Reason {
    /// `node-3 and node-5 are cordoned`, or `the Pod's recorded state requires zone a (excludes 998 nodes)`.
    pub(super) fn in_words(&self) -> String {
        let nodes =
            if self.nodes <= NAMED { list(&self.names, "and") } else { format!("{} nodes", self.nodes) };
        match (self.what, self.nodes) {
            (ExclusionKind::Cordon, 1) => format!("{nodes} is cordoned"),
            (ExclusionKind::Cordon, _) => format!("{nodes} are cordoned"),
            _ => format!("{} (excludes {nodes})", self.text),
        }
    }
}

/// Groups the first reason of each node, the most frequent one first.
pub(super) fn group(verdicts: &[NodeVerdict]) -> Vec<Reason> {
    let mut groups: BTreeMap<(String, bool), Reason> = BTreeMap::new();
    for verdict in verdicts {
        let Some(first) = verdict.excluded_by.first() else { continue };
        let text = without_node(&verdict.node, &first.text, first.what);
        let group = groups.entry((text.clone(), first.from_pps)).or_insert_with(|| Reason {
            text,
            what: first.what,
            from_pps: first.from_pps,
            nodes: 0,
            example: verdict.node.clone(),
            names: Vec::new(),
        });
        group.nodes += 1;
        if group.names.len() < NAMED {
            group.names.push(verdict.node.clone());
        }
    }
    let mut groups: Vec<Reason> = groups.into_values().collect();
    groups.sort_by(|one, other| other.nodes.cmp(&one.nodes).then_with(|| one.text.cmp(&other.text)));
    groups
}

/// The nodes that only the recorded state excludes.
pub(super) fn excluded_by_state_only(verdicts: &[NodeVerdict]) -> Vec<String> {
    let only = verdicts.iter().filter(|verdict| {
        !verdict.excluded_by.is_empty() && verdict.excluded_by.iter().all(|exclusion| exclusion.from_pps)
    });
    only.map(|verdict| verdict.node.clone()).collect()
}

/// The same reason for all nodes: `the Pod's recorded state requires topology.kubernetes.io/zone a`.
fn without_node(node: &str, text: &str, what: ExclusionKind) -> String {
    if what == ExclusionKind::Cordon {
        return "cordoned".into();
    }
    let text = text.strip_prefix(node).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(text);
    let requires = text.split_once(", the ").and_then(|(found, rest)| {
        let key = match found.strip_prefix("the label ") {
            Some(missing) => missing.strip_suffix(" is missing")?,
            None => found.split_once(" is ")?.0,
        };
        let (who, value) = rest.split_once(" requires ").or_else(|| rest.split_once(" require "))?;
        Some(match value {
            "this label" => format!("the {who} requires the label {key}"),
            value => format!("the {who} requires {key} {value}"),
        })
    });
    match (requires, what) {
        (
            Some(requires),
            ExclusionKind::RequiredAffinity | ExclusionKind::NodeSelector | ExclusionKind::Volume,
        ) => requires,
        (_, ExclusionKind::Room) => match text.split_once(" is free, the Pod requests ") {
            Some((found, amount)) => {
                let resource = found.rsplit(' ').next().unwrap_or_default();
                format!("too little {resource} is free, the Pod requests {amount}")
            }
            None => "no room for one more Pod".into(),
        },
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_reason_of_many_nodes_is_said_once() {
        use ExclusionKind::{Cordon, NodeSelector, RequiredAffinity, Room, Taint, Volume};
        for (text, what, expected) in [
            ("n1 is cordoned", Cordon, "cordoned"),
            (
                "n1: zone is b, the Pod's recorded state requires a",
                RequiredAffinity,
                "the Pod's recorded state requires zone a",
            ),
            (
                "n1: the label rack is missing, the Pod requires this label",
                RequiredAffinity,
                "the Pod requires the label rack",
            ),
            (
                "n1: disk is hdd, the Pod's nodeSelector requires ssd",
                NodeSelector,
                "the Pod's nodeSelector requires disk ssd",
            ),
            (
                "n1: zone is b, the volume of the Pod's claim data-db-0 requires a",
                Volume,
                "the volume of the Pod's claim data-db-0 requires zone a",
            ),
            (
                "n1: 100m of 4 cpu is free, the Pod requests 1",
                Room,
                "too little cpu is free, the Pod requests 1",
            ),
            ("n1: 3 Pods run there, and it takes 3", Room, "no room for one more Pod"),
            (
                "n1: the Pod does not tolerate the taint a=b:NoSchedule",
                Taint,
                "the Pod does not tolerate the taint a=b:NoSchedule",
            ),
        ] {
            assert_eq!(without_node("n1", text, what), expected);
        }
    }
}
