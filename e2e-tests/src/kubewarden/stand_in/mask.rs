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
