//! What the scheduler reads of Nodes and of the Pods on them: thousands of each are in memory at
//! once.

use serde_json::{Map, Value};

/// The fields of a Node that the scheduler reads, apart from the node's images.
pub fn slim_node(node: &Value) -> Value {
    let mut slim = Map::new();
    slim.insert(
        "metadata".into(),
        pick(&node["metadata"], &["name", "labels"]),
    );
    slim.insert(
        "spec".into(),
        pick(&node["spec"], &["taints", "unschedulable"]),
    );
    slim.insert(
        "status".into(),
        pick(&node["status"], &["allocatable", "capacity"]),
    );
    slim.into()
}

/// The fields of a Pod that the scheduler reads of Pods on nodes.
pub fn slim_pod(pod: &Value) -> Value {
    const METADATA: [&str; 4] = ["name", "namespace", "labels", "deletionTimestamp"];
    const SPEC: [&str; 5] = ["nodeName", "priority", "affinity", "overhead", "resources"];
    let mut spec = pick(&pod["spec"], &SPEC);
    for field in ["containers", "initContainers"] {
        let containers = pod["spec"][field].as_array().into_iter().flatten();
        let slim: Vec<Value> = containers
            .map(|container| pick(container, &["name", "resources", "restartPolicy"]))
            .collect();
        spec[field] = slim.into();
    }
    let mut slim = Map::new();
    slim.insert("metadata".into(), pick(&pod["metadata"], &METADATA));
    slim.insert("spec".into(), spec);
    slim.insert("status".into(), pick(&pod["status"], &["phase"]));
    slim.into()
}

fn pick(object: &Value, fields: &[&str]) -> Value {
    let given = fields.iter().filter(|field| !object[**field].is_null());
    given
        .map(|field| ((*field).to_owned(), object[*field].clone()))
        .collect::<Map<String, Value>>()
        .into()
}
