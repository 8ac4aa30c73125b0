//! Pods that no simulated workload controls. They take room, and stay where they are until they
//! lose their node.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

#[derive(Debug, Default)]
pub(crate) struct Others {
    by_node: BTreeMap<String, Vec<Arc<Value>>>,
    /// Those in the namespace of the workloads.
    by_name: BTreeMap<String, Arc<Value>>,
}

impl Others {
    pub(super) fn insert(&mut self, pod: Arc<Value>, namespace: &str) {
        if let Some(name) = name_in(&pod, namespace) {
            self.by_name.insert(name.to_owned(), pod.clone());
        }
        let node = pod["spec"]["nodeName"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        self.by_node.entry(node).or_default().push(pod);
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Value> {
        self.by_name.get(name).map(Arc::as_ref)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.by_name.keys()
    }

    pub(crate) fn on(&self, node: &str) -> &[Arc<Value>] {
        self.by_node
            .get(node)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Value> {
        self.by_node.values().flatten().map(Arc::as_ref)
    }

    pub(super) fn remove(
        &mut self,
        node: &str,
        namespace: &str,
        is_removed: impl Fn(&Value) -> bool,
    ) {
        let Some(pods) = self.by_node.get_mut(node) else {
            return;
        };
        for pod in pods.extract_if(.., |pod| is_removed(pod)) {
            name_in(&pod, namespace).map(|name| self.by_name.remove(name));
        }
    }
}

fn name_in<'a>(pod: &'a Value, namespace: &str) -> Option<&'a str> {
    let metadata = &pod["metadata"];
    metadata["name"]
        .as_str()
        .filter(|_| metadata["namespace"] == namespace)
}
