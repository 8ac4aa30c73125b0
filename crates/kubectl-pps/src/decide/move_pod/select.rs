//! Which Pods a node stands for.

use pps_recorder::facts::NamespacedName;
use pps_scheduler::HOSTNAME;

use super::{Refusal, unread};
use crate::decide::subject::Subject;
use crate::snapshot::{Index, Pod, Resource, Snapshot};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// Pods to move: they run on the node, or belong there and no node can take them.
    pub pods: Vec<NamespacedName>,
    /// Pods that are recorded there and come back by themselves, to this node or to another node
    /// with the recorded values.
    pub returning: Vec<NamespacedName>,
    /// Pods on the node that no PersistentPodState governs.
    pub not_governed: Vec<NamespacedName>,
}

pub fn select(snapshot: &Snapshot, node: &str) -> Result<Selected, Refusal> {
    snapshot.require(Resource::Pods)?;
    snapshot.require(Resource::PersistentPodStates)?;
    let index = Index::of(snapshot);
    let mut selected = Selected::default();
    let is_meant = |pod: &&Pod| snapshot.namespaces.contains(pod.namespace()) && !pod.is_finished();
    let is_elsewhere = |pod: &&Pod| pod.node().is_some_and(|own| own != node);
    for pod in snapshot
        .pods
        .iter()
        .filter(is_meant)
        .filter(|pod| !is_elsewhere(pod))
    {
        let Some(subject) = Subject::of(snapshot, &index, pod.namespace(), pod.name()) else {
            continue;
        };
        let (has_node, is_governed) = (pod.node().is_some(), subject.pps.known().is_some());
        let list = match pod {
            _ if !has_node && !waits_for(&subject, node) => continue,
            _ if !is_governed && has_node => &mut selected.not_governed,
            // The decision says how a Pod gets rid of a state that nothing governs any more.
            _ if !is_governed || has_node && !snapshot.is_stranded(pod) => &mut selected.pods,
            _ if comes_back(&subject) => &mut selected.returning,
            // Kubernetes deletes it, and nothing creates it again.
            _ if has_node && !subject.may_come_back() => continue,
            _ => &mut selected.pods,
        };
        list.push(NamespacedName::new(pod.namespace(), pod.name()));
    }
    for (key, all) in index
        .targeted()
        .filter(|(key, _)| snapshot.namespaces.contains(&key.namespace))
    {
        let states = all
            .first()
            .and_then(|pps| pps.states().ok())
            .unwrap_or_default();
        let may_come = |name: &str| {
            let is_wanted = || index.workload(key).map(|workload| workload.wants(name));
            index.pod(&key.namespace, name).is_none_or(Pod::is_finished)
                && is_wanted().unwrap_or_else(|| unread(snapshot, key).is_some())
        };
        for (name, _) in states
            .iter()
            .filter(|(name, state)| state.node_name == node && may_come(name))
        {
            let subject = Subject::of(snapshot, &index, &key.namespace, name);
            let comes_back = subject.is_some_and(|subject| comes_back(&subject));
            let list = if comes_back {
                &mut selected.returning
            } else {
                &mut selected.pods
            };
            list.push(NamespacedName::new(key.namespace.as_str(), name.as_str()));
        }
    }
    Ok(selected)
}

/// Whether the recorded or the injected state of a Pod without a node names this node. An
/// interrupted move may have changed the recorded state, and the Pod waits for the node all the
/// same.
fn waits_for(subject: &Subject<'_>, node: &str) -> bool {
    let label = subject
        .snapshot
        .node(node)
        .and_then(|node| node.label(HOSTNAME))
        .unwrap_or(node);
    subject.recorded_node() == Some(node)
        || subject
            .required()
            .iter()
            .any(|one| one.key == HOSTNAME && one.value == label)
}

/// Whether a Pod that does not run comes back by itself: a node could take it with the recorded
/// state. False if nodes may not be read.
fn comes_back(subject: &Subject<'_>) -> bool {
    // A Pod that waits may have been created with another state.
    let is_waiting =
        |pod: &&Pod| pod.node().is_none() && !pod.is_terminating() && !pod.is_finished();
    let candidate = match subject.pod.filter(is_waiting) {
        Some(waiting) => Some(subject.present(waiting)),
        None => subject.successor(),
    };
    let selection = candidate.and_then(|candidate| subject.select(&candidate));
    selection.is_some_and(|selection| !selection.may_land_on.is_empty())
}
