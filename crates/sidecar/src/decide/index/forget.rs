//! What was recorded on nodes that are gone, where the object says that it is to be forgotten.
//!
//! Whether a node is gone long enough needs a clock, and whether it is gone at all a question to the API
//! server. Both come from outside: this only knows which nodes are named and not there, what has been
//! found out about them, and what is asked because an entry would go.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pps_core::pps::{NodeDeletionPolicy, PodState};
use pps_core::workload::{Place, forgets};

use super::Index;
use super::object::Object;
use crate::facts::states::States;
use crate::facts::{NamespacedName, PodFact, PpsFact, WorkloadKey};

/// What is known of a node that is named and not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// It may come back: its grace period has not ended.
    Excused,
    /// Its grace period has ended. That it is gone has to be confirmed before anything is dropped.
    Overdue,
    /// The API server has just confirmed that there is no such node.
    Confirmed,
}

/// Nodes that entries name, of objects that forget.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// The entries, each as object and Pod name, by node.
    entries: HashMap<Arc<str>, BTreeSet<(NamespacedName, Arc<str>)>>,
    /// Those of these nodes that are not there.
    missing: HashMap<Arc<str>, Absence>,
    /// Nodes of which it has to be confirmed that they are gone.
    questions: BTreeSet<Arc<str>>,
    /// Pods that bear the policy's mark and wait for a node.
    waiting: BTreeSet<NamespacedName>,
}

impl Named {
    pub(super) fn missing(&self) -> usize {
        self.missing.len()
    }

    fn add(&mut self, node: &Arc<str>, object: &NamespacedName, pod: &Arc<str>) {
        let entry = (object.clone(), pod.clone());
        if let Some(entries) = self.entries.get_mut(node) {
            entries.insert(entry);
        } else if !node.is_empty() {
            self.entries.insert(node.clone(), [entry].into());
        }
    }

    fn remove(&mut self, node: &str, object: &NamespacedName, pod: &Arc<str>) {
        if let Some(entries) = self.entries.get_mut(node) {
            entries.remove(&(object.clone(), pod.clone()));
            if entries.is_empty() {
                self.entries.remove(node);
            }
        }
    }
}

/// An entry that a write has changed, with the node that it named and the one that it names now.
pub(super) struct Moved {
    pub(super) pod: Arc<str>,
    pub(super) before: Option<Arc<str>>,
    pub(super) after: Option<Arc<str>>,
}

/// A Pod that has to be deleted: it waits for a node that no longer exists. Its controller makes it anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEviction {
    /// The Pod.
    pub pod: NamespacedName,
    /// Its UID.
    pub uid: String,
    /// Its resource version: it may just be getting a node.
    pub resource_version: String,
    /// Its workload.
    pub workload: WorkloadKey,
}

/// Pod and node of the entries by which an object names nodes that may be forgotten.
fn entries(fact: &PpsFact) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
    let states = forgets_nodes(fact).then_some(&fact.status.pod_states);
    states.into_iter().flat_map(States::nodes)
}

fn forgets_nodes(fact: &PpsFact) -> bool {
    fact.spec.node_deletion() == NodeDeletionPolicy::Forget
}

impl Index {
    /// Whether entries that may be forgotten name this node, and it is not there.
    pub fn is_missing(&self, node: &str) -> bool {
        self.named.missing.contains_key(node)
    }

    /// A missing node has not come back for the grace period; or what was confirmed of it is too old.
    pub fn on_node_overdue(&mut self, node: &Arc<str>) {
        self.found(node, Absence::Overdue);
    }

    /// The API server has just confirmed that there is no such node.
    pub fn on_node_gone(&mut self, node: &Arc<str>) {
        // If it came and went meanwhile, the answer may be to an older question.
        if self.named.missing.get(node) == Some(&Absence::Overdue) {
            self.found(node, Absence::Confirmed);
        }
    }

    /// The API server has the node, although the watch has not told of it yet.
    pub fn on_node_there(&mut self, node: &Arc<str>) {
        self.found(node, Absence::Excused);
    }

    fn found(&mut self, node: &Arc<str>, what: Absence) {
        let Some(absence) = self.named.missing.get_mut(node) else { return };
        *absence = what;
        let entries: Vec<_> = self.named.entries.get(node).into_iter().flatten().cloned().collect();
        for (object, pod) in entries {
            self.touch(&object, |touched| touched.pod(&pod));
        }
    }

    /// Hands over the nodes of which it has to be confirmed that they are gone, before what was recorded
    /// on them is dropped.
    pub fn take_questions(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.named.questions)
    }

    pub(super) fn ask(&mut self, nodes: impl IntoIterator<Item = String>) {
        self.named.questions.extend(nodes.into_iter().map(Arc::from));
    }

    /// What is known of the node of an entry, if the entry goes once that node is gone for good.
    pub(super) fn absence(&self, object: &Object, name: &Arc<str>, state: &PodState) -> Option<Absence> {
        let absence = *self.named.missing.get(state.node_name.as_str())?;
        let key = NamespacedName { namespace: object.workload.object.namespace.clone(), name: name.clone() };
        let pod = self.pods.get(&key);
        let place = match pod.and_then(|pod| pod.node.as_deref()) {
            None => Place::Nowhere,
            Some(node) if *node == *state.node_name => Place::There,
            Some(_) => Place::Elsewhere,
        };
        let ready = pod.is_some_and(|pod| pod.ready);
        let policy = object.fact.spec.node_deletion();
        forgets(policy, self.bearer(object, name), ready, place).then_some(absence)
    }

    /// An object has come, changed or gone.
    pub(super) fn object_names(&mut self, key: &NamespacedName, before: Option<&PpsFact>) {
        let after = self.objects.get(key).map(|object| &object.fact);
        let mut nodes: BTreeSet<Arc<str>> = BTreeSet::new();
        for (pod, node) in before.into_iter().flat_map(entries) {
            self.named.remove(node, key, pod);
            nodes.insert(node.clone());
        }
        for (pod, node) in after.into_iter().flat_map(entries) {
            self.named.add(node, key, pod);
            nodes.insert(node.clone());
        }
        // Only now, so that a node that is named as before stays as it is.
        for node in nodes {
            self.follow_node(&node);
        }
    }

    /// A write has changed entries of an object.
    pub(super) fn entries_moved(&mut self, key: &NamespacedName, moved: Vec<Moved>) {
        let forgets = self.objects.get(key).is_some_and(|object| forgets_nodes(&object.fact));
        for Moved { pod, before, after } in moved {
            if after.is_none() {
                self.evict_later(&NamespacedName { namespace: key.namespace.clone(), name: pod.clone() });
            }
            if !forgets || before == after {
                continue;
            }
            if let Some(before) = before {
                self.named.remove(&before, key, &pod);
                self.follow_node(&before);
            }
            if let Some(after) = after {
                self.named.add(&after, key, &pod);
                self.follow_node(&after);
            }
        }
    }

    /// A node has come or gone, or is named or no longer named.
    pub(super) fn follow_node(&mut self, node: &Arc<str>) {
        let missing = self.nodes.complete().is_some()
            && self.named.entries.contains_key(node)
            && self.nodes.get(node).is_none();
        if missing == self.named.missing.contains_key(node) {
            return;
        }
        if missing {
            self.named.missing.insert(node.clone(), Absence::Excused);
        } else {
            self.named.missing.remove(node);
        }
        self.work.absences.insert(node.clone());
    }

    /// The nodes have been listed: looks for all that are named.
    pub(super) fn follow_nodes(&mut self) {
        let named: Vec<Arc<str>> = self.named.entries.keys().cloned().collect();
        for node in named {
            self.follow_node(&node);
        }
    }

    // ---- Pods that wait ------------------------------------------------------------------------------

    /// A Pod is like this now, or gone.
    pub(super) fn follow_waiting(&mut self, pod: &NamespacedName, fact: Option<&PodFact>) {
        if fact.is_some_and(|fact| fact.pending.is_some()) {
            self.named.waiting.insert(pod.clone());
            self.work.evictions.insert(pod.clone());
        } else if self.named.waiting.remove(pod) {
            self.work.evictions.insert(pod.clone());
        }
    }

    /// Whether this Pod bears the policy's mark and waits for a node.
    pub fn is_waiting(&self, pod: &NamespacedName) -> bool {
        self.named.waiting.contains(pod)
    }

    fn evict_later(&mut self, pod: &NamespacedName) {
        if self.named.waiting.contains(pod) {
            self.work.evictions.insert(pod.clone());
        }
    }

    /// Brings up again all Pods that wait: there may be a node for one, or none any longer.
    pub(super) fn retry_waiting(&mut self) {
        self.work.evictions.extend(self.named.waiting.iter().cloned());
    }

    /// What has to be deleted so that this Pod is made anew: nothing unless it waits for a node that no
    /// longer exists, and what pinned it there has been dropped. Otherwise its successor would be
    /// pinned again.
    pub fn eviction(&self, pod: &NamespacedName) -> Option<PodEviction> {
        if !self.is_complete() {
            return None;
        }
        let fact = self.pods.get(pod).filter(|fact| !fact.terminating)?;
        let pending = fact.pending.as_deref().filter(|pending| !pending.required_affinity.is_empty())?;
        let workload = self.workloads.key_of(fact.owner.as_ref()?)?;
        let key = NamespacedName { namespace: pod.namespace.clone(), name: pending.object.clone() };
        let object = self.objects.get(&key).filter(|object| !object.fact.terminating)?;
        if object.workload != *workload
            || !forgets_nodes(&object.fact)
            || !self.is_interest_met(object)
            || object.has_entry(&pod.name)
            || self.obstacle(&key, object).is_some()
        {
            return None;
        }
        let keys: Vec<&str> = object.fact.spec.required_keys().collect();
        let unschedulable =
            self.nodes.values().all(|node| pending.required_affinity.exclude(&keys, |key| node.label(key)));
        unschedulable.then(|| PodEviction {
            pod: pod.clone(),
            uid: pending.uid.clone(),
            resource_version: pending.resource_version.clone(),
            workload: workload.clone(),
        })
    }
}
