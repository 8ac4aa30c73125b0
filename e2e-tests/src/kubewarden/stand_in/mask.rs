//! Field masks: the fields of an object that a policy asks for.

use std::collections::BTreeMap;

use serde_json::Value;

/// A tree of field names. A node without children keeps everything below it.
#[derive(Debug, Default)]
pub(super) struct Mask {
    fields: BTreeMap<String, Mask>,
}

impl Mask {
    /// Parses paths such as `spec.containers.image`. A dot in a name cannot be escaped.
    pub(super) fn new(paths: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut root = Self::default();
        for path in paths {
            let mut node = &mut root;
            for field in path.as_ref().split('.') {
                node = node.fields.entry(field.to_owned()).or_default();
            }
        }
        root
    }

    /// Removes every field that the mask does not name. In an array the mask applies to each item.
    pub(super) fn prune(&self, value: &mut Value) {
        if self.fields.is_empty() {
            return;
        }
        match value {
            Value::Object(object) => object.retain(|key, inner| match self.fields.get(key) {
                Some(mask) => {
                    mask.prune(inner);
                    true
                }
                None => false,
            }),
            Value::Array(items) => items.iter_mut().for_each(|item| self.prune(item)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(paths: &[&str], expected: &Value) {
        let mut value = json!({
            "spec": {"replicas": 3, "list": [{"name": "a", "x": 1}, {"name": "b", "x": [2]}]},
            "status": {"podStates": {"web-0": {"nodeName": "n"}, "a.b": {"nodeName": "m"}}},
        });
        Mask::new(paths).prune(&mut value);
        assert_eq!(&value, expected);
    }

    #[test]
    fn a_leaf_keeps_everything_below_it() {
        check(
            &["spec"],
            &json!({"spec": {"replicas": 3, "list": [{"name": "a", "x": 1}, {"name": "b", "x": [2]}]}}),
        );
        check(
            &["spec", "spec.replicas"],
            &json!({"spec": {"replicas": 3}}),
        );
    }

    #[test]
    fn a_mask_applies_to_each_item_of_an_array() {
        check(
            &["spec.list.name"],
            &json!({"spec": {"list": [{"name": "a"}, {"name": "b"}]}}),
        );
    }

    #[test]
    fn a_name_with_a_dot_cannot_be_masked() {
        check(
            &["status.podStates.a.b"],
            &json!({"status": {"podStates": {}}}),
        );
        check(
            &["status.podStates.web-0"],
            &json!({"status": {"podStates": {"web-0": {"nodeName": "n"}}}}),
        );
    }

    #[test]
    fn an_empty_mask_keeps_everything_and_an_unknown_field_nothing() {
        let all = json!({"a": 1});
        let mut value = all.clone();
        Mask::new([""; 0]).prune(&mut value);
        assert_eq!(value, all);
        Mask::new(["metadata.name"]).prune(&mut value);
        assert_eq!(value, json!({}));
    }
}
