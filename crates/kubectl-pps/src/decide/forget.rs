//! Which recorded states are dropped, and which are not.

use std::collections::BTreeMap;

use pps_core::edit::states;
use pps_core::{PodState, RECORD_ANNOTATION, forbids_recording};

use crate::Failure;
use crate::decide::hand::Hand;
use crate::decide::unread;
use crate::snapshot::{Index, Pod, Snapshot};

/// Whose states are dropped.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// Those of these Pods.
    Pods(&'a [String]),
    /// Those that were recorded on this node.
    Node(&'a str),
}

/// What is dropped, and what is not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drops {
    /// What is dropped, by the namespace and the name of the PersistentPodState.
    pub objects: BTreeMap<(String, String), BTreeMap<String, PodState>>,
    /// Pods that are Ready, by namespace and name: the sidecar would record them again at once.
    pub ready: Vec<(String, String)>,
    /// Pods without a node that were created with what is dropped, by namespace and name: it still holds for them.
    pub pending: Vec<(String, String)>,
    /// Pods without a recorded state.
    pub unrecorded: Vec<String>,
    /// PersistentPodStates whose states cannot be read, with why.
    pub unreadable: Vec<String>,
}

/// Decides what is dropped.
///
/// # Errors
///
/// If too little could be read to know whether a Pod runs.
pub fn decide(snapshot: &Snapshot, which: Which<'_>) -> Result<Drops, Failure> {
    unread::require(snapshot, "pods")?;
    unread::require(snapshot, unread::PPS)?;
    let index = Index::of(snapshot);
    let mut drops = Drops::default();
    for pps in snapshot.pps.iter().filter(|pps| !pps.is_alias()) {
        let recorded = match states(pps.object()) {
            Ok(recorded) => recorded,
            Err(error) => {
                drops.unreadable.push(format!("PersistentPodState {}: {error}", pps.name()));
                continue;
            }
        };
        for (name, state) in recorded.into_iter().filter(|(name, state)| which.has(name, state)) {
            let pod = index.pod(pps.namespace(), &name);
            let key = (pps.namespace().to_owned(), name.clone());
            if pod.is_some_and(is_recorded) {
                drops.ready.push(key);
                continue;
            }
            if pod.is_some_and(|pod| pod.node().is_none() && pod.injected_from().is_some()) {
                drops.pending.push(key);
            }
            let object = (pps.namespace().to_owned(), pps.name().to_owned());
            drops.objects.entry(object).or_default().insert(name, state);
        }
    }
    if let Which::Pods(names) = which {
        let is_known = |name: &String| {
            drops.objects.values().any(|states| states.contains_key(name))
                || drops.ready.iter().any(|(_, ready)| ready == name)
        };
        drops.unrecorded = names.iter().filter(|name| !is_known(name)).cloned().collect();
        drops.unrecorded.dedup();
    }
    Ok(drops)
}

/// Whether the sidecar records this Pod.
fn is_recorded(pod: &Pod) -> bool {
    pod.is_ready()
        && !pod.is_terminating()
        && !pod.annotation(RECORD_ANNOTATION).is_some_and(forbids_recording)
}

impl Which<'_> {
    fn has(&self, pod: &str, state: &PodState) -> bool {
        match self {
            Self::Pods(names) => names.iter().any(|name| name == pod),
            Self::Node(node) => state.node_name == *node,
        }
    }
}

impl Drops {
    /// How many states are dropped.
    pub fn count(&self) -> usize {
        self.objects.values().map(BTreeMap::len).sum()
    }

    /// Whether nothing of what was asked for is left out.
    pub fn is_complete(&self) -> bool {
        self.ready.is_empty() && self.unrecorded.is_empty() && self.unreadable.is_empty()
    }

    /// What the user should know beside what is dropped.
    pub fn notes(&self, hand: &Hand) -> Vec<String> {
        let ready = self.ready.iter().map(|(namespace, pod)| {
            format!(
                "Pod {pod} is Ready, so the sidecar would record it again within seconds; to move it: {}",
                hand.pps(&format!("move {pod}"), namespace)
            )
        });
        let pending = self.pending.iter().map(|(namespace, pod)| {
            format!(
                "Pod {pod} is Pending with what was recorded before; to have it created without: {}",
                hand.kubectl_in(&format!("delete pod {pod}"), namespace)
            )
        });
        let unrecorded = self.unrecorded.iter().map(|pod| format!("nothing is recorded of Pod {pod}"));
        ready.chain(pending).chain(unrecorded).chain(self.unreadable.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests;
