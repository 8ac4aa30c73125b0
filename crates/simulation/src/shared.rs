//! Objects that a simulation shares with whoever asks it: a cluster of many Pods is kept once.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde_json::Value;

/// An object that is copied only where it is changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shared(Arc<Value>);

impl Shared {
    pub(crate) fn value(&self) -> &Value {
        &self.0
    }
}

impl From<Value> for Shared {
    fn from(object: Value) -> Self {
        Self(Arc::new(object))
    }
}

impl From<Arc<Value>> for Shared {
    fn from(object: Arc<Value>) -> Self {
        Self(object)
    }
}

impl Deref for Shared {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl DerefMut for Shared {
    fn deref_mut(&mut self) -> &mut Value {
        Arc::make_mut(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_changed_is_copied_and_what_is_not_is_shared() {
        let own = Arc::new(json!({"a": 1}));
        let (mut changed, same) = (Shared::from(Arc::clone(&own)), Shared::from(Arc::clone(&own)));
        changed["a"] = json!(2);
        assert_eq!((own.as_ref(), changed.value()), (&json!({"a": 1}), &json!({"a": 2})));
        assert!(std::ptr::eq(same.value(), own.as_ref()));
    }
}
