//! How large a scenario may be. Whatever is beyond is refused with a problem, before it costs anything.

use serde_json::Value;

/// Bytes of all objects and settings in JSON.
pub const MAX_BYTES: usize = 1024 * 1024;
/// Objects, those of actions not counted.
pub const MAX_OBJECTS: usize = 1000;
/// Maps and lists within each other.
pub const MAX_DEPTH: usize = 64;
/// Nodes, also lost ones.
pub const MAX_NODES: usize = 200;
/// Pods that all workloads want together.
pub const MAX_REPLICAS: u64 = 500;
/// Actions.
pub const MAX_ACTIONS: usize = 200;
/// Pods that a whole scenario creates.
pub const MAX_CREATED_PODS: usize = 20_000;
/// Ordinals that a workload reserves among those of its Pods.
pub(crate) const MAX_RESERVED: u64 = 10_000;

/// Whether a value has no more than [`MAX_DEPTH`] levels. Does not recurse, and counts at most `MAX_BYTES` values.
pub(crate) fn is_shallow(value: &Value) -> bool {
    let mut level = vec![value];
    for _ in 0..MAX_DEPTH {
        let mut next = Vec::new();
        for value in level {
            match value {
                Value::Array(items) => next.extend(items),
                Value::Object(fields) => next.extend(fields.values()),
                _ => {}
            }
        }
        if next.is_empty() {
            return true;
        }
        level = next;
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_may_have_sixty_four_levels() {
        let nested = |depth: usize| (1..depth).fold(json!("x"), |value, _| json!([value]));
        assert!(is_shallow(&nested(MAX_DEPTH)));
        assert!(!is_shallow(&nested(MAX_DEPTH + 1)));
    }
}
