//! What becomes of Pods with the states that are imported: whether a node can take them, and whether anything keeps them.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::{AnnotationRules, Spec};

use super::{Entry, Known, Plan};
use crate::decide::names::list;
use crate::snapshot::Node;

/// States that lack a label.
#[derive(Default)]
struct Lacking {
    states: usize,
    objects: BTreeSet<String>,
}

/// Says which required values no node has, and which required labels the states lack that are written.
pub fn notes(
    plans: &[Plan],
    entries: &[Entry],
    known: Known<'_>,
    nodes: &BTreeMap<String, Node>,
) -> Vec<String> {
    let mut values: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    let mut lacking: BTreeMap<(String, bool), Lacking> = BTreeMap::new();
    for (plan, entry) in plans.iter().zip(entries).filter(|(plan, _)| !plan.changes.is_empty()) {
        let spec = spec(entry, known);
        for state in plan.changes.values().filter_map(|change| change.after.as_ref()) {
            let injected = pps_core::plan("", &spec, state, &AnnotationRules::default()).required;
            let unrecorded: BTreeSet<&str> =
                spec.required_keys().filter(|key| !state.node_topology_labels.contains_key(*key)).collect();
            for key in unrecorded {
                let lacking = lacking.entry((key.to_owned(), injected.is_empty())).or_default();
                lacking.states += 1;
                lacking.objects.insert(format!("{}/{}", plan.namespace, plan.name));
            }
            for one in injected {
                *values.entry(one.key).or_default().entry(one.value).or_default() += 1;
            }
        }
    }
    let mut notes = Vec::new();
    for (key, mut of_key) in values {
        let existing: BTreeSet<&str> = nodes.values().filter_map(|node| node.label(&key)).collect();
        of_key.retain(|value, _| !existing.contains(value.as_str()));
        if !of_key.is_empty() {
            notes.push(unknown(&key, &of_key));
        }
    }
    notes.extend(lacking.into_iter().map(|((key, is_free), lacking)| lacking.note(&key, is_free)));
    notes
}

/// That of the cluster, which an import does not change.
fn spec(entry: &Entry, known: Known<'_>) -> Spec {
    let existing =
        known.pps.iter().find(|pps| pps.namespace() == entry.namespace && pps.name() == entry.name);
    existing.map_or_else(|| entry.spec.clone(), |pps| pps.spec().unwrap_or_default())
}

/// `no node has kubernetes.io/hostname=old-1 (3 states): …`
fn unknown(key: &str, values: &BTreeMap<String, usize>) -> String {
    let states: usize = values.values().sum();
    let names: Vec<String> = values.keys().map(|value| format!("{key}={value}")).collect();
    let (of, pods) = if states == 1 { ("1 state", "its Pod") } else { ("states", "their Pods") };
    let count = if states == 1 { of.to_owned() } else { format!("{states} {of}") };
    format!(
        "no node has {} ({count}): {pods} would be Pending; --drop-key {key} leaves it out",
        list(&names, "or")
    )
}

impl Lacking {
    fn note(&self, key: &str, is_free: bool) -> String {
        let (states, pods) = match self.states {
            1 => ("1 state does".to_owned(), "its Pod"),
            several => (format!("{several} states do"), "their Pods"),
        };
        let objects: Vec<String> = self.objects.iter().cloned().collect();
        let require = if objects.len() == 1 { "requires" } else { "require" };
        let so = match (is_free, self.states) {
            (true, 1) => "starts anywhere",
            (true, _) => "start anywhere",
            (false, 1) => "is kept only by what else is required",
            (false, _) => "are kept only by what else is required",
        };
        format!("{states} not have {key}, which {} {require}: {pods} {so}", list(&objects, "and"))
    }
}
