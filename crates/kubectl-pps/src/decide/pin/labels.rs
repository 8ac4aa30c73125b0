//! Labels that nodes lack.

use std::collections::{BTreeMap, BTreeSet};

use crate::snapshot::Node;

/// How many names a warning lists.
const MAX_LISTED: usize = 5;

/// Warns of labels that the nodes do not have on which the Pods run: `pods` are the Pods and their nodes.
pub fn warn_of_missing_labels<'a>(
    keys: impl IntoIterator<Item = &'a str>,
    pods: &[(&str, &str)],
    nodes: &BTreeMap<String, Node>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for key in keys.into_iter().collect::<BTreeSet<_>>() {
        if !nodes.is_empty() && nodes.values().all(|node| node.label(key).is_none()) {
            warnings.push(format!("no node has the label {key}: check its spelling"));
            continue;
        }
        let lacking: Vec<&(&str, &str)> = pods
            .iter()
            .filter(|(_, node)| nodes.get(*node).is_some_and(|node| node.label(key).is_none()))
            .collect();
        if !lacking.is_empty() {
            let nodes: BTreeSet<&str> = lacking.iter().map(|(_, node)| *node).collect();
            let pods: Vec<&str> = lacking.iter().map(|(pod, _)| *pod).collect();
            warnings.push(format!(
                "the label {key} is not recorded for {}: {} {} not have it",
                list(&pods),
                list(&nodes.iter().copied().collect::<Vec<_>>()),
                if nodes.len() == 1 { "does" } else { "do" },
            ));
        }
    }
    warnings
}

fn list(names: &[&str]) -> String {
    if names.len() <= MAX_LISTED {
        return names.join(", ");
    }
    format!("{} and {} more", names[..MAX_LISTED].join(", "), names.len() - MAX_LISTED)
}
