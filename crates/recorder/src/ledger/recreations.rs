//! Pods that an operator creates again and again because the policy has changed their affinity.
//!
//! An operator that compares the affinity of a running Pod with what it asked for never finds them
//! equal. Its Pods then live for a short time each, one after the other, although nobody changes
//! the workload. A Pod that something else has ended says nothing about that, nor do the Pods
//! around it: some operators restart a whole group when one of its Pods fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use pps_core::Reason;

use super::{Ledger, TrackedPps};
use crate::cluster::{Cluster, EndedPod};
use crate::facts::{GroupKind, NamespacedName, PodFact, WorkloadKey};
use crate::whitelist::Entry;

/// How many Pods of one name in a row have to live for a short time.
const SHORT_LIVES: u8 = 3;
/// How long such a Pod lives at most, in seconds.
const SHORT_LIFE: i64 = 60 * 60;
/// For how long a name is followed after its last Pod has ended, in seconds.
const MEMORY: i64 = 24 * 60 * 60;
/// How many names of one PPS are followed: a loop needs only one.
const MAX_NAMES: usize = 100;

/// The Pods of one PPS that have been short-lived.
#[derive(Debug, Default)]
pub(crate) struct Recreations {
    /// `metadata.generation` of the workload, which was the same for all these Pods.
    generation: Option<i64>,
    /// Names whose last Pods have been short-lived.
    lives: BTreeMap<Arc<str>, ShortLives>,
    /// UIDs of Pods that the sidecar has evicted, by name.
    evicted: BTreeMap<Arc<str>, String>,
}

/// The short-lived Pods of one name.
#[derive(Debug, Default)]
struct ShortLives {
    /// How many there have been in a row.
    count: u8,
    /// When the last one ended, in Unix seconds.
    last_end: i64,
}

impl Recreations {
    /// The first name whose Pods are created again and again.
    pub(crate) fn looping(&self) -> Option<&Arc<str>> {
        let mut lives = self.lives.iter();
        lives
            .find(|(_, lives)| lives.count >= SHORT_LIVES)
            .map(|(pod, _)| pod)
    }

    /// How many names are followed.
    #[cfg(test)]
    pub(crate) fn followed(&self) -> usize {
        self.lives.len()
    }

    fn is_empty(&self) -> bool {
        self.lives.is_empty()
    }

    fn follow(&mut self, generation: Option<i64>) {
        if self.generation != generation {
            self.lives.clear();
            self.generation = generation;
        }
    }

    /// The sidecar has evicted the Pod of this name and UID.
    fn on_evicted(&mut self, pod: &Arc<str>, uid: &str) {
        self.lives.remove(pod);
        if self.evicted.len() < MAX_NAMES {
            self.evicted.insert(pod.clone(), uid.to_owned());
        }
    }

    /// A Pod has ended at this time, in Unix seconds. `is_node_gone` is whether its node has ended
    /// it.
    fn on_ended(&mut self, pod: &Arc<str>, ended: &EndedPod, is_node_gone: bool, now: i64) {
        let incarnation = &ended.incarnation;
        let is_evicted = self.evicted.remove(pod).as_ref() == Some(&incarnation.uid);
        let is_short = now.saturating_sub(incarnation.created) < SHORT_LIFE;
        if incarnation.is_disturbed {
            self.lives.clear();
        } else if !is_short || ended.is_exempt || is_node_gone || is_evicted {
            self.lives.remove(pod);
        } else if self.lives.contains_key(pod) || self.lives.len() < MAX_NAMES {
            let lives = self.lives.entry(pod.clone()).or_default();
            lives.count = lives.count.saturating_add(1);
            lives.last_end = now;
        }
    }

    /// Forgets the names whose present Pods live for longer, or without the policy's annotation, and
    /// those that have had no Pod for too long.
    fn keep_short_lives<'a>(&mut self, pod: impl Fn(&Arc<str>) -> Option<&'a PodFact>, now: i64) {
        self.lives.retain(|name, lives| match pod(name) {
            None => now.saturating_sub(lives.last_end) < MEMORY,
            Some(pod) => pod
                .incarnation
                .as_ref()
                .is_some_and(|pod| now.saturating_sub(pod.created) < SHORT_LIFE),
        });
    }
}

/// What the condition of type Recording and an Event say.
pub(crate) fn advice(pod: &str) -> String {
    format!(
        "list annotations only, no topology (docs/operators.md): the operator has created Pod \
         {pod} again {SHORT_LIVES} times, each within an hour and without a change of the \
         workload, perhaps because it compares the node affinity that the policy adds"
    )
}

impl Ledger {
    /// Takes that a Pod has ended that carried the policy's annotation.
    pub(super) fn count_recreation(
        &mut self,
        pod: &NamespacedName,
        ended: &EndedPod,
        cluster: &Cluster,
    ) {
        let Some(now) = self.unix_time else { return };
        let Some(workload) = cluster.workloads.key_of(&pod.namespace, &ended.owner) else {
            return;
        };
        if !may_loop(&workload.kind) {
            return;
        }
        let generation = cluster.workloads.generation(workload);
        let is_node_gone = ended
            .node
            .as_ref()
            .is_some_and(|node| cluster.nodes.facts.get(node).is_none());
        self.change_recreations(&workload.clone(), cluster, |object| {
            let recreations = &mut object.progress.recreations;
            recreations.follow(generation);
            recreations.on_ended(&pod.name, ended, is_node_gone, now);
        });
    }

    /// The sidecar has evicted this Pod.
    pub(crate) fn on_evicted(
        &mut self,
        workload: &WorkloadKey,
        pod: &Arc<str>,
        uid: &str,
        cluster: &Cluster,
    ) {
        if may_loop(&workload.kind) {
            self.change_recreations(workload, cluster, |object| {
                object.progress.recreations.on_evicted(pod, uid);
            });
        }
    }

    /// Changes what the governing PPS of a workload knows, if it has a topology.
    fn change_recreations(
        &mut self,
        workload: &WorkloadKey,
        cluster: &Cluster,
        change: impl FnOnce(&mut TrackedPps),
    ) {
        let governing = self.objects.governing(workload);
        let Some(key) = governing
            .filter(|(_, pps)| pps.observed.spec.topology_keys().next().is_some())
            .map(|(key, _)| key.clone())
        else {
            return;
        };
        let Some(object) = self.objects.tracked.get_mut(&key) else {
            return;
        };
        let before = object.progress.recreations.looping().cloned();
        change(object);
        let after = object.progress.recreations.looping().cloned();
        if before == after {
            return;
        }
        object.progress.dirty.mark_header();
        self.work.statuses.insert(key);
        if let Some(pod) = after {
            self.report(workload, Reason::RecreationLoop, advice(&pod), cluster);
        }
    }

    /// Ends the loops of workloads that have changed, of Pods that live or never came back, and of
    /// objects that no longer have a topology.
    pub(super) fn end_loops(&mut self, cluster: &Cluster) {
        let Some(now) = self.unix_time else { return };
        for (key, object) in &mut self.objects.tracked {
            let recreations = &mut object.progress.recreations;
            if recreations.is_empty() {
                continue;
            }
            let before = recreations.looping().cloned();
            recreations.follow(cluster.workloads.generation(&object.workload));
            if object.observed.spec.topology_keys().next().is_none() {
                recreations.lives.clear();
            }
            let pod = |name: &Arc<str>| cluster.pods.facts.get(&key.sibling(name));
            recreations.keep_short_lives(pod, now);
            if recreations.looping() != before.as_ref() {
                object.progress.dirty.mark_header();
                self.work.statuses.insert(key.clone());
            }
        }
    }
}

/// Whether the controller of a kind may compare the affinity of its Pods: that of a StatefulSet
/// compares revisions of its template.
fn may_loop(kind: &GroupKind) -> bool {
    let openkruise = Entry::openkruise_stateful_set();
    let is_openkruise = (&*kind.group, &*kind.kind) == (&*openkruise.group, &*openkruise.kind);
    *kind != GroupKind::stateful_set() && !is_openkruise
}
