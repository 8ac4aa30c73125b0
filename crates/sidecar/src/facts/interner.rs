//! Interner that many facts share, each kept once.

use std::collections::HashSet;
use std::sync::Arc;

use super::keys::{GroupKind, NamespacedName, WorkloadKey};

/// How many names are added at least before it is looked for those that nobody uses any longer.
const SWEEP_AFTER: usize = 1024;

/// The names in use. What it gives out compares and hashes like any other `Arc<str>`, so that nothing
/// depends on a name having come through here but the memory that it takes.
#[derive(Debug, Default)]
pub struct Interner {
    shared: HashSet<Arc<str>>,
    /// Size at which it is swept next: twice what the last sweep left, so that a name costs the same however
    /// many there are.
    sweep_at: usize,
}

impl Interner {
    /// This name, kept once.
    pub fn intern(&mut self, name: &Arc<str>) -> Arc<str> {
        if let Some(shared) = self.shared.get(&**name) {
            return shared.clone();
        }
        self.sweep();
        self.shared.insert(name.clone());
        name.clone()
    }

    /// The same for the names that a key consists of.
    pub fn intern_name(&mut self, key: &NamespacedName) -> NamespacedName {
        NamespacedName { namespace: self.intern(&key.namespace), name: self.intern(&key.name) }
    }

    /// The same for the key of a workload.
    pub fn intern_workload_key(&mut self, key: &WorkloadKey) -> WorkloadKey {
        let kind = GroupKind { group: self.intern(&key.kind.group), kind: self.intern(&key.kind.kind) };
        WorkloadKey { object: self.intern_name(&key.object), kind }
    }

    /// The same for pairs of names.
    pub fn intern_pairs<'a>(&mut self, pairs: impl IntoIterator<Item = &'a mut (Arc<str>, Arc<str>)>) {
        for (key, value) in pairs {
            *key = self.intern(key);
            *value = self.intern(value);
        }
    }

    /// Drops what nobody uses, now and then.
    fn sweep(&mut self) {
        if self.shared.len() >= self.sweep_at.max(SWEEP_AFTER) {
            self.shared.retain(|name| Arc::strong_count(name) > 1);
            self.sweep_at = 2 * self.shared.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once_and_as_long_as_it_is_used() {
        let mut names = Interner::default();
        let first = names.intern(&"node-1".into());
        assert!(Arc::ptr_eq(&first, &names.intern(&"node-1".into())));
        for number in 0..10 * SWEEP_AFTER {
            names.intern(&format!("passing-{number}").into());
        }
        assert!(names.shared.len() <= SWEEP_AFTER);
        assert!(Arc::ptr_eq(&first, &names.intern(&"node-1".into())));
    }
}
