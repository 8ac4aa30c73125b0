//! The interner: keeps each of the names that many facts share only once in memory.

use std::collections::HashSet;
use std::sync::Arc;

use super::{GroupKind, NamespacedName, WorkloadKey};

/// The smallest set that is searched for unused names.
const SWEEP_AFTER: usize = 1024;

/// The names in use. An interned name compares and hashes like any other `Arc<str>`: interning
/// affects only how much memory is used.
#[derive(Debug, Default)]
pub struct Interner {
    shared: HashSet<Arc<str>>,
    /// The size at which the next sweep runs: twice what the last sweep left, so that the amortized
    /// cost of a name is constant.
    sweep_at: usize,
}

impl Interner {
    pub fn intern(&mut self, name: &Arc<str>) -> Arc<str> {
        if let Some(shared) = self.shared.get(&**name) {
            return shared.clone();
        }
        if self.shared.len() >= self.sweep_at.max(SWEEP_AFTER) {
            self.shared.retain(|name| Arc::strong_count(name) > 1);
            self.sweep_at = 2 * self.shared.len();
        }
        self.shared.insert(name.clone());
        name.clone()
    }

    pub fn intern_name(&mut self, key: &NamespacedName) -> NamespacedName {
        NamespacedName {
            namespace: self.intern(&key.namespace),
            name: self.intern(&key.name),
        }
    }

    pub fn intern_workload_key(&mut self, key: &WorkloadKey) -> WorkloadKey {
        let kind = GroupKind {
            group: self.intern(&key.kind.group),
            kind: self.intern(&key.kind.kind),
        };
        WorkloadKey {
            object: self.intern_name(&key.object),
            kind,
        }
    }

    pub fn intern_pairs<'a>(
        &mut self,
        pairs: impl IntoIterator<Item = &'a mut (Arc<str>, Arc<str>)>,
    ) {
        for (key, value) in pairs {
            *key = self.intern(key);
            *value = self.intern(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_one_copy_of_a_name_while_it_is_used() {
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
