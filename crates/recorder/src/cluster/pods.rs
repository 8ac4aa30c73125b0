//! Pods, by key, by owner and by node.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::facts::store::{Put, Store};
use crate::facts::{Incarnation, NamespacedName, PendingPod, PodFact};

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

/// A Pod with the policy's annotation that does not exist any longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndedPod {
    /// UID of its controller owner.
    pub(crate) owner: Arc<str>,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) is_exempt: bool,
    pub(crate) incarnation: Box<Incarnation>,
}

impl EndedPod {
    pub(super) fn of(before: &PodFact) -> Option<Self> {
        Some(Self {
            owner: before.owner.clone()?,
            node: before.node.clone(),
            is_exempt: before.exempt,
            incarnation: before.incarnation.clone()?,
        })
    }
}

impl Pods {
    pub(super) fn apply(&mut self, key: &NamespacedName, mut fact: PodFact) -> Put<PodFact> {
        self.keep_disturbance(key, &mut fact);
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

    /// A Pod that was disturbed when its deletion began ends for that reason. The Pod does not show
    /// it any longer: a failed Pod that is deleted looks like a healthy one.
    fn keep_disturbance(&self, key: &NamespacedName, fact: &mut PodFact) {
        let before = self.facts.get(key).and_then(|pod| pod.incarnation.as_ref());
        if fact.terminating
            && let Some(now) = &mut fact.incarnation
            && before.is_some_and(|before| before.uid == now.uid && before.is_disturbed)
        {
            now.is_disturbed = true;
        }
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
