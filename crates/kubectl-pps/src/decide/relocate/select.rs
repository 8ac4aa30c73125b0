//! Which Pods a node stands for.

use std::collections::BTreeSet;

use super::forecast::comes_back;
use super::{HOSTNAME, PodName, governing};
use crate::Failure;
use crate::decide::hand::{Hand, portions};
use crate::decide::injected::{Injected, injected};
use crate::decide::names::list;
use crate::decide::unread;
use crate::snapshot::{Index, Pod, Snapshot, WorkloadKey};

/// What is on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// The Pods that run on it, and those that belong there and cannot come back.
    pub pods: Vec<PodName>,
    /// The Pods that belong there and come back by themselves, to this node or another one that has what is recorded: they
    /// are not moved.
    pub returning: Vec<PodName>,
    /// The Pods that are there as well, and that no PersistentPodState governs: they are not moved.
    pub others: Vec<PodName>,
    /// The Pods without a node that wait for it, and that no PersistentPodState governs any more.
    pub unpinned: Vec<PodName>,
}

/// The Pods that are on a node.
///
/// # Errors
///
/// If Pods or what is recorded could not be read.
pub fn select(snapshot: &Snapshot, node: &str) -> Result<Selected, Failure> {
    unread::require(snapshot, "pods")?;
    unread::require(snapshot, unread::PPS)?;
    let index = Index::of(snapshot);
    let mut selected = Selected::default();
    let in_scope = |pod: &&Pod| snapshot.scope.contains(pod.namespace()) && !pod.is_finished();
    for pod in snapshot.pods.iter().filter(in_scope) {
        let key = pod.owner().map(|(owner, _)| WorkloadKey::of(pod.namespace(), &owner));
        let pps = key.as_ref().and_then(|key| index.governing(key));
        let waits = || {
            let workload = key.as_ref().and_then(|key| index.workload(key));
            let recorded = pps.and_then(|pps| pps.state(pod.name()).ok().flatten());
            let spec = pps.and_then(|pps| pps.spec().ok());
            let injected = injected(pod, workload, spec.as_ref(), recorded.as_ref());
            recorded.is_some_and(|state| state.node_name == node)
                || injected.is_some_and(|injected| is_named(snapshot, &injected, node))
        };
        if !pod.node().map_or_else(waits, |own| own == node) {
            continue;
        }
        let runs = pod.node().is_some() && !snapshot.is_stranded(pod);
        let list = match key.as_ref().zip(pps) {
            Some((key, pps)) if !runs && comes_back(snapshot, &index, key, pps, pod.name()) => {
                &mut selected.returning
            }
            Some(_) => &mut selected.pods,
            None if pod.node().is_none() => &mut selected.unpinned,
            None => &mut selected.others,
        };
        list.push((pod.namespace().to_owned(), pod.name().to_owned()));
    }
    for (key, all) in index.targeted().filter(|(key, _)| snapshot.scope.contains(&key.namespace)) {
        let Some(pps) = all.first() else { continue };
        let states = pps.states().unwrap_or_default();
        for (name, _) in states.iter().filter(|(_, state)| state.node_name == node) {
            let is_absent = index.pod(&key.namespace, name).is_none_or(Pod::is_finished);
            if is_absent && index.workload(key).is_some() && governing::may_come(&index, key, name) {
                let comes = comes_back(snapshot, &index, key, pps, name);
                let list = if comes { &mut selected.returning } else { &mut selected.pods };
                list.push((key.namespace.clone(), name.clone()));
            }
        }
    }
    Ok(selected)
}

/// Whether what was injected into a Pod names this node by its label. A move that was interrupted may have changed what is
/// recorded, and the Pod waits for the node all the same.
fn is_named(snapshot: &Snapshot, injected: &Injected, node: &str) -> bool {
    let label = snapshot.node(node).and_then(|node| node.label(HOSTNAME)).unwrap_or(node);
    injected.required.iter().any(|one| one.key == HOSTNAME && one.value == label)
}

impl Selected {
    /// What the user should know of the Pods that are not moved.
    pub fn notes(&self, node: &str, hand: &Hand) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.others.is_empty() {
            notes.push(format!("{}: not moved", not_governed(&self.others)));
        }
        if !self.returning.is_empty() {
            let names: Vec<String> = self.returning.iter().map(|(_, pod)| pod.clone()).collect();
            let (pods, come) = if names.len() == 1 { ("Pod", "comes") } else { ("Pods", "come") };
            notes.push(format!("{pods} {} {come} back without a move: not moved", list(&names, "and")));
        }
        let namespaces: BTreeSet<&str> =
            self.unpinned.iter().map(|(namespace, _)| namespace.as_str()).collect();
        for namespace in namespaces {
            let own = self.unpinned.iter().filter(|(own, _)| own == namespace);
            let names: Vec<&str> = own.map(|(_, pod)| pod.as_str()).collect();
            for names in portions(&names) {
                let (pods, wait, their, them) = if names.len() == 1 {
                    ("Pod", "waits", "its", "it")
                } else {
                    ("Pods", "wait", "their", "them")
                };
                notes.push(format!(
                    "{pods} {} {wait} for {node} with what was injected, and no PersistentPodState names {their} workload any more; to \
                     have {them} created again without that: {}",
                    names.join(", "),
                    hand.kubectl_in(&format!("delete pod {}", names.join(" ")), namespace)
                ));
            }
        }
        notes
    }
}

/// Names the Pods without a recorded state: `Pod load-0 is not recorded by any PersistentPodState`.
pub fn not_governed(pods: &[PodName]) -> String {
    let names: Vec<String> = pods.iter().map(|(_, pod)| pod.clone()).collect();
    let (pods, are) = if names.len() == 1 { ("Pod", "is") } else { ("Pods", "are") };
    format!("{pods} {} {are} not recorded by any PersistentPodState", list(&names, "and"))
}
