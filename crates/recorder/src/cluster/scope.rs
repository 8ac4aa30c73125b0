//! The namespaces in scope: those in which anything is recorded, dropped, generated or evicted.

use std::sync::Arc;

use crate::facts::store::Store;

#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// A label selector, which the API server evaluates. Empty if all namespaces are in scope; then
    /// they are not watched.
    pub(crate) selector: String,
    /// The namespaces that it selects.
    pub(crate) namespaces: Store<Arc<str>, ()>,
}

impl Scope {
    pub(crate) fn contains(&self, namespace: &str) -> bool {
        self.excludes(namespace).is_none()
    }

    /// The selector, if it does not select this namespace.
    pub(crate) fn excludes(&self, namespace: &str) -> Option<&str> {
        let is_selected = self.selector.is_empty() || self.namespaces.get(namespace).is_some();
        (!is_selected).then_some(&*self.selector)
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.selector.is_empty() || self.namespaces.complete().is_some()
    }
}
