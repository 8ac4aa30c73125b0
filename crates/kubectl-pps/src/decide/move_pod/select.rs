//! Which Pods a node stands for.

use super::governing::may_come;
use super::successor::comes_back;
use super::{HOSTNAME, PodName, Refusal};
use crate::decide::template::{Injected, injected};
use crate::snapshot::{Index, Pod, Resource, Snapshot, WorkloadKey};

/// The Pods that a node stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// Pods to move: they run on the node, or are recorded there and no node can take them.
    pub pods: Vec<PodName>,
    /// Pods that are recorded there and come back by themselves, to this node or another one with the recorded values.
    pub returning: Vec<PodName>,
    /// Pods that no PersistentPodState governs: they are on the node, or wait for it with a state that was injected before.
    pub not_governed: Vec<PodName>,
}

/// The Pods that a node stands for.
///
/// # Errors
///
/// If Pods or PersistentPodStates could not be read.
pub fn select(snapshot: &Snapshot, node: &str) -> Result<Selected, Refusal> {
    snapshot.require(Resource::Pods)?;
    snapshot.require(Resource::PersistentPodStates)?;
    let index = Index::of(snapshot);
    let mut selected = Selected::default();
    let in_scope = |pod: &&Pod| snapshot.scope.contains(pod.namespace()) && !pod.is_finished();
    for pod in snapshot.pods.iter().filter(in_scope) {
        let key = WorkloadKey::of_pod(pod);
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
            None => &mut selected.not_governed,
        };
        list.push((pod.namespace().to_owned(), pod.name().to_owned()));
    }
    for (key, all) in index.targeted().filter(|(key, _)| snapshot.scope.contains(&key.namespace)) {
        let Some(pps) = all.first() else { continue };
        let states = pps.states().unwrap_or_default();
        for (name, _) in states.iter().filter(|(_, state)| state.node_name == node) {
            let is_absent = index.pod(&key.namespace, name).is_none_or(Pod::is_finished);
            if is_absent && index.workload(key).is_some() && may_come(&index, key, name) {
                let comes = comes_back(snapshot, &index, key, pps, name);
                let list = if comes { &mut selected.returning } else { &mut selected.pods };
                list.push((key.namespace.clone(), name.clone()));
            }
        }
    }
    Ok(selected)
}

/// Whether the state that was injected into a Pod names this node by its label. An interrupted move may have changed the
/// recorded state, and the Pod waits for the node all the same.
fn is_named(snapshot: &Snapshot, injected: &Injected, node: &str) -> bool {
    let label = snapshot.node(node).and_then(|node| node.label(HOSTNAME)).unwrap_or(node);
    injected.required.iter().any(|one| one.key == HOSTNAME && one.value == label)
}
