//! How large a scenario may be. Whatever is beyond is refused with a problem, before it costs
//! anything.

use serde_json::Value;

/// Maps and lists within each other.
pub const MAX_DEPTH: usize = 64;
/// Problems that a result lists.
pub const MAX_PROBLEMS: usize = 100;
/// Ordinals that a workload reserves among those of its Pods.
pub(crate) const MAX_RESERVED: u64 = 10_000;

/// How large a scenario may be, and how much of its result is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all objects and settings in JSON.
    pub bytes: usize,
    /// Those of actions not counted.
    pub objects: usize,
    /// Lost ones, too.
    pub nodes: usize,
    pub workloads: usize,
    /// Of all workloads together.
    pub replicas: u64,
    pub actions: usize,
    /// Bytes of the steps of a result in JSON. A scenario whose steps have more ends early.
    pub result_bytes: usize,
    pub created_pods: usize,
    /// Whether each step has its world, and the last one all details. Otherwise only the last step
    /// has a world, with manifests of the Pods that were created and with the scheduler's verdicts
    /// on those that no node can take.
    pub keeps_all: bool,
}

impl Limits {
    /// For a page in a browser, which shows each step.
    pub const PAGE: Self = Self {
        bytes: 1024 * 1024,
        objects: 1000,
        nodes: 100,
        workloads: 1000,
        replicas: 250,
        actions: 200,
        result_bytes: 64 * 1024 * 1024,
        created_pods: 10_000,
        keeps_all: true,
    };
    /// For the objects of a live cluster.
    pub const CLUSTER: Self = Self {
        bytes: 512 * 1024 * 1024,
        objects: 100_000,
        nodes: 5000,
        workloads: 1000,
        replicas: 20_000,
        actions: 200,
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

/// About how many bytes a value has in JSON; none if it has more than [`MAX_DEPTH`] levels or more
/// bytes than the limit. Does not recurse.
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
        assert!(measure(&nested(MAX_DEPTH), Limits::PAGE.bytes).is_some());
        assert_eq!(measure(&nested(MAX_DEPTH + 1), Limits::PAGE.bytes), None);
    }

    #[test]
    fn the_size_is_that_of_keys_and_texts() {
        let object = json!({"key": "x".repeat(1000), "list": [1, 2]});
        let size = measure(&object, Limits::PAGE.bytes).unwrap();
        assert!((1000..1100).contains(&size), "{size}");
        assert_eq!(measure(&object, 500), None);
    }
}
