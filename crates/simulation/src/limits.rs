//! How large a scenario may be. Whatever is beyond is refused with a problem, before it costs anything.

use serde_json::Value;

/// Bytes of all objects and settings in JSON.
pub const MAX_BYTES: usize = 1024 * 1024;
/// Objects, those of actions not counted.
pub const MAX_OBJECTS: usize = 1000;
/// Maps and lists within each other.
pub const MAX_DEPTH: usize = 64;
/// Nodes, also lost ones.
pub const MAX_NODES: usize = 100;
/// Pods that all workloads want together.
pub const MAX_REPLICAS: u64 = 250;
/// Actions.
pub const MAX_ACTIONS: usize = 200;
/// Bytes of the steps of a result in JSON. A scenario whose steps have more ends early.
pub const MAX_RESULT_BYTES: usize = 64 * 1024 * 1024;
/// Problems that a result lists.
pub const MAX_PROBLEMS: usize = 100;
/// Pods that a whole scenario creates.
pub const MAX_CREATED_PODS: usize = 10_000;
/// Workloads of a live cluster that are simulated together.
pub const MAX_WORKLOADS: usize = 1000;
/// Characters in the value of a label.
pub(crate) const MAX_LABEL_VALUE: usize = pps_core::limits::MAX_LABEL_VALUE_LENGTH;
/// Ordinals that a workload reserves among those of its Pods.
pub(crate) const MAX_RESERVED: u64 = 10_000;

/// How large a scenario may be, and how much of its result is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all objects and settings in JSON.
    pub bytes: usize,
    /// Objects, those of actions not counted.
    pub objects: usize,
    /// Nodes, also lost ones.
    pub nodes: usize,
    /// Workloads.
    pub workloads: usize,
    /// Pods that all workloads want together.
    pub replicas: u64,
    /// Actions.
    pub actions: usize,
    /// Bytes of the steps of a result in JSON, if all of them are kept.
    pub result_bytes: usize,
    /// Pods that a whole scenario creates.
    pub created_pods: usize,
    /// Whether each step has its world, and the last one all details. Otherwise only the last step has a world, with
    /// manifests of the Pods that were created and with the scheduler's verdicts on those that no node can take.
    pub keeps_all: bool,
}

impl Limits {
    /// For a page in a browser, which shows each step.
    pub const PAGE: Self = Self {
        bytes: MAX_BYTES,
        objects: MAX_OBJECTS,
        nodes: MAX_NODES,
        workloads: MAX_WORKLOADS,
        replicas: MAX_REPLICAS,
        actions: MAX_ACTIONS,
        result_bytes: MAX_RESULT_BYTES,
        created_pods: MAX_CREATED_PODS,
        keeps_all: true,
    };
    /// For the objects of a live cluster.
    pub const CLUSTER: Self = Self {
        bytes: 512 * 1024 * 1024,
        objects: 100_000,
        nodes: 5000,
        workloads: MAX_WORKLOADS,
        replicas: 20_000,
        actions: MAX_ACTIONS,
        result_bytes: usize::MAX,
        created_pods: 40_000,
        keeps_all: false,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::PAGE
    }
}

/// About how many bytes a value has in JSON; none if it has more than [`MAX_DEPTH`] levels or more bytes than the limit.
/// Does not recurse.
pub(crate) fn measure(value: &Value, limit: usize) -> Option<usize> {
    let mut size = 0_usize;
    let mut level = vec![value];
    for _ in 0..MAX_DEPTH {
        let mut next = Vec::new();
        for value in level {
            size = size.saturating_add(2);
            match value {
                Value::Array(items) => next.extend(items),
                Value::Object(fields) => {
                    size = size.saturating_add(fields.keys().map(|key| key.len() + 4).sum());
                    next.extend(fields.values());
                }
                Value::String(text) => size = size.saturating_add(text.len()),
                _ => size = size.saturating_add(4),
            }
            if size > limit {
                return None;
            }
        }
        if next.is_empty() {
            return Some(size);
        }
        level = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_may_have_sixty_four_levels() {
        let nested = |depth: usize| (1..depth).fold(json!("x"), |value, _| json!([value]));
        assert!(measure(&nested(MAX_DEPTH), MAX_BYTES).is_some());
        assert_eq!(measure(&nested(MAX_DEPTH + 1), MAX_BYTES), None);
    }

    #[test]
    fn the_size_is_that_of_keys_and_texts() {
        let object = json!({"key": "x".repeat(1000), "list": [1, 2]});
        let size = measure(&object, MAX_BYTES).unwrap();
        assert!((1000..1100).contains(&size), "{size}");
        assert_eq!(measure(&object, 500), None);
    }
}
