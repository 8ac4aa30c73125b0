//! Which recorded values a move keeps. A required one, beside the node itself, is given up only by name.

use std::collections::BTreeSet;

use pps_core::{PodState, Spec};

use super::{HOSTNAME, Refusal};
use crate::snapshot::{Index, Node, Resource, Snapshot};

/// A key as users write it: `zone`.
pub fn short(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

/// The topology keys that a word of `--any` names: the key itself, or those that end with it.
fn named<'a>(spec: &'a Spec, word: &str) -> BTreeSet<&'a str> {
    let whole = spec.topology_keys().find(|key| *key == word);
    spec.topology_keys().filter(|key| whole.map_or(short(key) == word, |whole| *key == whole)).collect()
}

/// The topology keys whose values are given up with these words.
pub(super) fn given_up(spec: &Spec, words: &[String]) -> Result<Vec<String>, Refusal> {
    let mut given_up = Vec::new();
    for word in words {
        let keys: Vec<String> = named(spec, word).into_iter().map(str::to_owned).collect();
        if keys.len() > 1 {
            return Err(Refusal::AmbiguousKey { word: word.clone(), keys });
        }
        given_up.extend(keys);
    }
    Ok(given_up)
}

/// Fails if one of these words names a key of no governing PersistentPodState: nothing would be given up.
///
/// # Errors
///
/// If one does, or if PersistentPodStates could not be read.
pub fn require_keys(snapshot: &Snapshot, words: &[String]) -> Result<(), Refusal> {
    let index = Index::of(snapshot);
    let specs: Vec<Spec> = index.targeted().filter_map(|(_, all)| all.first()?.spec().ok()).collect();
    let is_unknown = |word: &&String| specs.iter().all(|spec| named(spec, word).is_empty());
    let Some(word) = words.iter().find(is_unknown) else { return Ok(()) };
    snapshot.require(Resource::PersistentPodStates)?;
    let keys: BTreeSet<&str> = specs.iter().flat_map(Spec::topology_keys).collect();
    let keys = keys.into_iter().map(str::to_owned).collect();
    Err(Refusal::UnknownKey { word: word.clone(), keys })
}

/// The fewest required values, beside the node itself, that have to be given up so that a node can take a Pod.
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
    /// Of a Pod that only its recorded state keeps from these nodes; none without a node.
    pub fn of<'a>(spec: &Spec, state: &PodState, nodes: impl IntoIterator<Item = &'a Node>) -> Option<Self> {
        let differing = |node: &Node| -> BTreeSet<(&str, &String)> {
            let keys = spec.required_keys().filter(|key| *key != HOSTNAME);
            let recorded = keys.filter_map(|key| Some((key, state.node_topology_labels.get(key)?)));
            recorded.filter(|(key, value)| node.label(key) != Some(value)).collect()
        };
        let all: Vec<_> = nodes.into_iter().map(|node| (node.name(), differing(node))).collect();
        let fewest = all.iter().map(|(_, values)| values).min_by_key(|values| values.len())?;
        let within = all.iter().filter(|(_, values)| values.is_subset(fewest));
        let nodes = within.map(|(node, _)| (*node).to_owned()).collect();
        let values = fewest.iter().map(|(key, value)| format!("{}={value}", short(key))).collect();
        let word = |key| if named(spec, short(key)).len() > 1 { key } else { short(key) };
        let flags: Vec<&str> = fewest.iter().flat_map(|(key, _)| [" --any ", word(key)]).collect();
        let flags = flags.concat();
        Some(Self { values, flags, nodes })
    }
}
