//! Which Pods a node stands for.

use super::{HOSTNAME, PodName, Refusal, unread};
use crate::decide::template::{Successor, injected};
use crate::snapshot::{Index, Pod, Pps, Resource, Snapshot, WorkloadKey};

/// The Pods that a node stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// Pods to move: they run on the node, or belong there and no node can take them.
    pub pods: Vec<PodName>,
    /// Pods that are recorded there and come back by themselves, to this node or another one with the recorded values.
    pub returning: Vec<PodName>,
    /// Pods on the node that no PersistentPodState governs.
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
        let is_concerned = match pod.node() {
            Some(own) => own == node,
            None => waits_for(snapshot, &index, pod, pps, node),
        };
        if !is_concerned {
            continue;
        }
        let runs = pod.node().is_some() && !snapshot.is_stranded(pod);
        let list = match key.as_ref().zip(pps) {
            Some((key, pps)) if !runs && comes_back(snapshot, &index, key, pps, pod.name()) => {
                &mut selected.returning
            }
            None if pod.node().is_some() => &mut selected.not_governed,
            // The decision says how a Pod gets rid of a state that nothing governs any more.
            _ => &mut selected.pods,
        };
        list.push((pod.namespace().to_owned(), pod.name().to_owned()));
    }
    for (key, all) in index.targeted().filter(|(key, _)| snapshot.scope.contains(&key.namespace)) {
        let Some(pps) = all.first() else { continue };
        let states = pps.states().unwrap_or_default();
        let is_absent = |name: &str| index.pod(&key.namespace, name).is_none_or(Pod::is_finished);
        let may_come = |name: &str| match index.workload(key) {
            Some(workload) => workload.wants(name),
            None => unread(snapshot, key).is_some(),
        };
        for (name, _) in states.iter().filter(|(_, state)| state.node_name == node) {
            if is_absent(name) && may_come(name) {
                let comes = comes_back(snapshot, &index, key, pps, name);
                let list = if comes { &mut selected.returning } else { &mut selected.pods };
                list.push((key.namespace.clone(), name.clone()));
            }
        }
    }
    Ok(selected)
}

/// Whether a Pod without a node is recorded on this one, or the state that was injected names it by its label. An interrupted
/// move may have changed the recorded state, and the Pod waits for the node all the same.
fn waits_for(snapshot: &Snapshot, index: &Index<'_>, pod: &Pod, pps: Option<&Pps>, node: &str) -> bool {
    let workload = WorkloadKey::of_pod(pod).and_then(|key| index.workload(&key));
    let recorded = pps.and_then(|pps| pps.state(pod.name()).ok().flatten());
    let spec = pps.and_then(|pps| pps.spec().ok());
    let injected = injected(pod, workload, spec.as_ref(), recorded.as_ref());
    let label = snapshot.node(node).and_then(|node| node.label(HOSTNAME)).unwrap_or(node);
    let required = injected.iter().flat_map(|injected| &injected.required);
    recorded.is_some_and(|state| state.node_name == node)
        || required.into_iter().any(|one| one.key == HOSTNAME && one.value == label)
}

/// Whether a Pod that does not run comes back by itself: a node could take it with the recorded state. Not known, and so
/// false, if nodes may not be read.
fn comes_back(snapshot: &Snapshot, index: &Index<'_>, key: &WorkloadKey, pps: &Pps, name: &str) -> bool {
    let (Ok(spec), Ok(state)) = (pps.spec(), pps.state(name)) else { return false };
    let pod = index.pod(&key.namespace, name).filter(|pod| !pod.is_finished());
    let successor = Successor::of(index.workload(key), name, pod, Some((pps, &spec)), state.as_ref());
    let Some(successor) = successor else { return false };
    // A Pod that waits may have been created with another state.
    let pod = match pod.filter(|pod| pod.node().is_none() && !pod.is_terminating()) {
        Some(waiting) => waiting.object().clone(),
        None => successor.with_state(state.as_ref()),
    };
    successor.forecast(snapshot, &pod).is_some_and(|forecast| !forecast.may_land_on.is_empty())
}
