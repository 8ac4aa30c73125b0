//! A node.

use serde_json::{Value, json};

/// The label that says in which zone a node is.
const ZONE: &str = "topology.kubernetes.io/zone";

/// A node, with what the scheduler looks at.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    object: Value,
}

impl Node {
    /// Keeps what the scheduler looks at. None if it has no name.
    pub fn read(mut object: Value) -> Option<Self> {
        let name = object["metadata"]["name"].as_str()?.to_owned();
        let mut take = |path: &str| object.pointer_mut(path).map(Value::take).unwrap_or_default();
        let pruned = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "uid": take("/metadata/uid"),
                "labels": take("/metadata/labels"),
                "deletionTimestamp": take("/metadata/deletionTimestamp"),
            },
            "spec": take("/spec"),
            "status": {
                "allocatable": take("/status/allocatable"),
                "capacity": take("/status/capacity"),
                "conditions": take("/status/conditions"),
                "images": take("/status/images"),
            },
        });
        Some(Self { object: super::pod::without_nulls(pruned) })
    }

    /// What is kept of the object.
    pub fn object(&self) -> &Value {
        &self.object
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.object["metadata"]["labels"][key].as_str()
    }

    /// Its zone.
    pub fn zone(&self) -> Option<&str> {
        self.label(ZONE)
    }

    /// Whether it is cordoned.
    pub fn is_cordoned(&self) -> bool {
        self.object["spec"]["unschedulable"] == true
    }

    /// Whether its condition Ready is True. One without conditions counts as Ready: the scheduler looks at taints only.
    pub fn is_ready(&self) -> bool {
        self.ready().is_none_or(|ready| ready["status"] == "True")
    }

    /// Since when it is not Ready, in RFC 3339; none if it is, or if that is not known.
    pub fn not_ready_since(&self) -> Option<&str> {
        self.ready().filter(|ready| ready["status"] != "True")?["lastTransitionTime"].as_str()
    }

    fn ready(&self) -> Option<&Value> {
        let conditions = self.object["status"]["conditions"].as_array();
        conditions.into_iter().flatten().find(|one| one["type"] == "Ready")
    }
}
