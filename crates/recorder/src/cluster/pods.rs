//! Pods, by key, by owner and by node.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::facts::store::{Put, Store};
use crate::facts::{NamespacedName, PendingPod, PodFact};

#[derive(Debug, Default)]
pub(crate) struct Pods {
    /// Read-only outside, apart from the begin and the end of a list.
    pub(crate) facts: Store<NamespacedName, PodFact>,
    /// By namespace and UID of the owner: anybody can name the UID of another namespace's workload
    /// in a Pod.
    by_owner: HashMap<(Arc<str>, Arc<str>), OwnedPods>,
    by_node: HashMap<Arc<str>, HashSet<NamespacedName>>,
    /// Pods with the policy's annotation that have no node yet.
    pub(crate) waiting: BTreeSet<NamespacedName>,
}

#[derive(Debug, Default)]
struct OwnedPods {
    names: BTreeSet<Arc<str>>,
    living: usize,
}

impl Pods {
    pub(super) fn apply(&mut self, key: &NamespacedName, fact: PodFact) -> Put<PodFact> {
        let owner = fact.owner.clone();
        let node = fact.node.clone();
        let terminating = fact.terminating;
        let put = self.facts.put(key, fact);
        match &put {
            Put::Known => return put,
            Put::New => {}
            Put::Changed(before) => self.unlink(key, before),
        }
        if let Some(owner) = owner {
            let owned = self
                .by_owner
                .entry((key.namespace.clone(), owner))
                .or_default();
            owned.names.insert(key.name.clone());
            owned.living += usize::from(!terminating);
        }
        if let Some(node) = node {
            self.by_node.entry(node).or_default().insert(key.clone());
        }
        put
    }

    pub(super) fn remove(&mut self, key: &NamespacedName) -> Option<PodFact> {
        let before = self.facts.remove(key)?;
        self.unlink(key, &before);
        Some(before)
    }

    fn unlink(&mut self, key: &NamespacedName, fact: &PodFact) {
        if let Some(owner) = &fact.owner
            && let Entry::Occupied(mut entry) =
                self.by_owner.entry((key.namespace.clone(), owner.clone()))
        {
            let owned = entry.get_mut();
            owned.names.remove(&key.name);
            owned.living -= usize::from(!fact.terminating);
            if owned.names.is_empty() {
                entry.remove();
            }
        }
        if let Some(node) = &fact.node
            && let Some(keys) = self.by_node.get_mut(node)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.by_node.remove(node);
            }
        }
    }

    /// The names of the Pods of an owner in this namespace, given its UID.
    pub(crate) fn names_of(
        &self,
        namespace: &Arc<str>,
        owner: &Arc<str>,
    ) -> impl Iterator<Item = &Arc<str>> {
        let owned = self.by_owner.get(&(namespace.clone(), owner.clone()));
        owned.into_iter().flat_map(|owned| &owned.names)
    }

    /// The names of the Pods of an owner in this namespace that are not terminating.
    pub(crate) fn living_names(
        &self,
        namespace: &Arc<str>,
        owner: &Arc<str>,
    ) -> impl Iterator<Item = &Arc<str>> {
        let mut key = NamespacedName {
            namespace: namespace.clone(),
            name: Arc::default(),
        };
        self.names_of(namespace, owner).filter(move |name| {
            key.name = Arc::clone(name);
            self.facts.get(&key).is_some_and(|pod| !pod.terminating)
        })
    }

    /// How many Pods of an owner in this namespace are not terminating.
    pub(crate) fn living(&self, namespace: &Arc<str>, owner: &Arc<str>) -> usize {
        self.by_owner
            .get(&(namespace.clone(), owner.clone()))
            .map_or(0, |owned| owned.living)
    }

    pub(crate) fn on_node(&self, node: &Arc<str>) -> impl Iterator<Item = &NamespacedName> {
        self.by_node.get(node).into_iter().flatten()
    }

    pub(crate) fn is_bound(&self, key: &NamespacedName) -> bool {
        self.facts.get(key).is_some_and(|pod| pod.node.is_some())
    }

    /// Notes whether a Pod waits for a node with the policy's annotation. Returns whether it waits,
    /// or has waited until now.
    pub(super) fn set_waiting(&mut self, key: &NamespacedName, is_waiting: bool) -> bool {
        if is_waiting {
            self.waiting.insert(key.clone());
        }
        is_waiting || self.waiting.remove(key)
    }

    /// Why and since when a Pod with the policy's annotation waits for a node.
    pub(crate) fn pending(&self, key: &NamespacedName) -> Option<&PendingPod> {
        self.facts.get(key)?.pending.as_deref()
    }
}
