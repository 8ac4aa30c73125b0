//! Pods that no simulated workload controls. They take room, and stay where they are until they lose their node.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::shared::Shared;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Others {
    by_node: BTreeMap<String, Vec<Shared>>,
    /// How many have a name, in the namespace of the workloads.
    names: BTreeMap<String, usize>,
}

impl Others {
    pub(super) fn insert(&mut self, pod: Shared, namespace: &str) {
        if let Some(name) = name_in(&pod, namespace) {
            *self.names.entry(name.to_owned()).or_default() += 1;
        }
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        self.by_node.entry(node).or_default().push(pod);
    }

    /// Whether one has this name, in the namespace of the workloads.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Those on a node.
    pub(crate) fn on(&self, node: &str) -> &[Shared] {
        self.by_node.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Value> {
        self.by_node.values().flatten().map(Shared::value)
    }

    /// Removes those on a node for which this holds.
    pub(super) fn remove(
        &mut self,
        node: &str,
        namespace: &str,
        is_removed: impl Fn(&Value) -> bool,
    ) -> Vec<Shared> {
        let all = self.by_node.remove(node).unwrap_or_default();
        let (removed, kept): (Vec<Shared>, Vec<Shared>) = all.into_iter().partition(|pod| is_removed(pod));
        if !kept.is_empty() {
            self.by_node.insert(node.to_owned(), kept);
        }
        for name in removed.iter().filter_map(|pod| name_in(pod, namespace)) {
            if let Some(count) = self.names.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    self.names.remove(name);
                }
            }
        }
        removed
    }
}

fn name_in<'a>(pod: &'a Value, namespace: &str) -> Option<&'a str> {
    let metadata = &pod["metadata"];
    metadata["name"].as_str().filter(|_| metadata["namespace"] == namespace)
}
