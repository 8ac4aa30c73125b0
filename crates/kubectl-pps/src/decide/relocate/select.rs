//! Which Pods a node stands for.

use std::collections::BTreeSet;

use pps_core::PodState;

use super::{Goal, PodName, governing};
use crate::Failure;
use crate::decide::hand::{Hand, portions};
use crate::decide::injected::{Injected, injected};
use crate::decide::names::list;
use crate::decide::unread;
use crate::snapshot::{Index, Node, Pod, Snapshot, WorkloadKey};

/// The label of a node that is its name, as a rule.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// What is on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// The Pods that are bound to it, and those without a node that wait for it or would start there.
    pub pods: Vec<PodName>,
    /// The Pods that are there as well, and that no PersistentPodState governs: they are not moved.
    pub others: Vec<PodName>,
    /// The Pods without a node that wait for it, and that no PersistentPodState governs any more.
    pub unpinned: Vec<PodName>,
    /// The Pods that wait for a place that is not recorded of them any more. Whether it was this node is not known: its labels
    /// cannot be seen.
    pub unsure: Vec<PodName>,
}

/// Where a Pod belongs.
enum Place {
    Here,
    Elsewhere,
    Unsure,
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
        let workload = || key.as_ref().and_then(|key| index.workload(key));
        let place = match (pod.node(), pps) {
            (Some(own), _) if own == node => Place::Here,
            (Some(_), _) => Place::Elsewhere,
            (None, Some(pps)) => {
                let recorded = pps.state(pod.name()).ok().flatten();
                let injected = injected(pod, workload(), pps.spec().ok().as_ref(), recorded.as_ref());
                place(snapshot, node, injected.as_ref(), recorded.as_ref())
            }
            (None, None) => match injected(pod, workload(), None, None) {
                Some(injected) if requires(snapshot, &injected, node) => Place::Here,
                _ => Place::Elsewhere,
            },
        };
        let list = match (place, pps) {
            (Place::Here, Some(_)) => &mut selected.pods,
            (Place::Here, None) if pod.node().is_none() => &mut selected.unpinned,
            (Place::Here, None) => &mut selected.others,
            (Place::Unsure, _) => &mut selected.unsure,
            (Place::Elsewhere, _) => continue,
        };
        list.push((pod.namespace().to_owned(), pod.name().to_owned()));
    }
    for (key, all) in index.targeted().filter(|(key, _)| snapshot.scope.contains(&key.namespace)) {
        let states = all.first().and_then(|pps| pps.states().ok()).unwrap_or_default();
        for (name, _) in states.iter().filter(|(_, state)| state.node_name == node) {
            let is_absent = index.pod(&key.namespace, name).is_none_or(Pod::is_finished);
            if is_absent && index.workload(key).is_some() && governing::may_come(&index, key, name) {
                selected.pods.push((key.namespace.clone(), name.clone()));
            }
        }
    }
    Ok(selected)
}

/// Where a Pod belongs that has no node.
fn place(snapshot: &Snapshot, node: &str, injected: Option<&Injected>, recorded: Option<&PodState>) -> Place {
    let names_it = |injected: &Injected| is_named(snapshot, injected, node);
    if recorded.is_some_and(|state| state.node_name == node) || injected.is_some_and(names_it) {
        return Place::Here;
    }
    let Some(injected) = injected.filter(|injected| !injected.required.is_empty()) else {
        return Place::Elsewhere;
    };
    let is_recorded = |key: &str, value: &str| {
        recorded.and_then(|state| state.node_topology_labels.get(key)).is_some_and(|own| own == value)
    };
    let requires_other = injected.required.iter().any(|one| one.key == HOSTNAME);
    if requires_other || injected.required.iter().all(|one| is_recorded(&one.key, &one.value)) {
        return Place::Elsewhere;
    }
    // It does not wait for the recorded place, but for a zone, for example, in which the node may be.
    match snapshot.node(node) {
        None => Place::Unsure,
        Some(_) if requires(snapshot, injected, node) => Place::Here,
        Some(_) => Place::Elsewhere,
    }
}

/// Whether what was injected into a Pod names this node by its label. A move that was interrupted may have changed what is
/// recorded, and the Pod waits for the node all the same.
fn is_named(snapshot: &Snapshot, injected: &Injected, node: &str) -> bool {
    let label = snapshot.node(node).and_then(|node| node.label(HOSTNAME)).unwrap_or(node);
    injected.required.iter().any(|one| one.key == HOSTNAME && one.value == label)
}

/// Whether this node has all that was injected into a Pod.
fn requires(snapshot: &Snapshot, injected: &Injected, node: &str) -> bool {
    let has = |node: &Node| injected.required.iter().all(|one| node.label(&one.key) == Some(&one.value));
    let is_it = snapshot.node(node).is_some_and(has) && !injected.required.is_empty();
    is_it || is_named(snapshot, injected, node)
}

impl Selected {
    /// Whether all Pods that are there, or wait for it, are moved or run.
    pub fn is_complete(&self) -> bool {
        self.unpinned.is_empty() && self.unsure.is_empty()
    }

    /// What the user should know of the Pods that are not moved.
    pub fn notes(&self, node: &str, goal: &Goal<'_>, hand: &Hand) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.others.is_empty() {
            notes.push(format!("{}: not moved", not_governed(&self.others)));
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
        if !self.unsure.is_empty() {
            let names: Vec<String> = self.unsure.iter().map(|(_, pod)| pod.clone()).collect();
            let (pods, wait, them) =
                if names.len() == 1 { ("Pod", "waits", "it") } else { ("Pods", "wait", "them") };
            notes.push(format!(
                "{pods} {} {wait} for a place that is not recorded any more, as after a move that was interrupted; whether {node} \
                 was there is not known",
                list(&names, "and")
            ));
            let commands = goal.commands(&self.unsure, hand);
            notes.extend(commands.into_iter().map(|command| format!("to move {them}: {command}")));
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
