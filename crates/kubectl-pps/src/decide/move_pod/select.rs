//! Which Pods a node stands for.

use pps_recorder::facts::NamespacedName;
use pps_scheduler::HOSTNAME;

use super::{Refusal, unread};
use crate::decide::subject::Subject;
use crate::snapshot::{Index, Pod, Resource, Snapshot, WorkloadKey};

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
    for pod in &snapshot.pods {
        let is_elsewhere = pod.node().is_some_and(|own| own != node);
        if is_elsewhere || pod.is_finished() || !snapshot.namespaces.contains(pod.namespace()) {
            continue;
        }
        if let Some(subject) = Subject::of(snapshot, &index, pod.namespace(), pod.name()) {
            selected.add(&subject, pod, node);
        }
    }
    for (workload, all) in index.targeted() {
        let states = all
            .first()
            .filter(|_| snapshot.namespaces.contains(&workload.namespace))
            .and_then(|pps| pps.states().ok())
            .unwrap_or_default();
        for (name, state) in states {
            if state.node_name == node && may_be_created(snapshot, &index, workload, &name) {
                selected.add_recorded(snapshot, &index, workload, &name);
            }
        }
    }
    Ok(selected)
}

impl Selected {
    /// Adds a Pod that is on the node, or on none.
    fn add(&mut self, subject: &Subject<'_>, pod: &Pod, node: &str) {
        let has_node = pod.node().is_some();
        let is_governed = subject.pps.known().is_some();
        let list = match pod {
            _ if !has_node && !waits_for(subject, node) => return,
            _ if !is_governed && has_node => &mut self.not_governed,
            // The decision says how a Pod gets rid of a state that nothing governs any more.
            _ if !is_governed || has_node && !subject.snapshot.is_stranded(pod) => &mut self.pods,
            _ if comes_back(subject) => &mut self.returning,
            // Kubernetes deletes it, and nothing creates it again.
            _ if has_node && !subject.may_come_back() => return,
            _ => &mut self.pods,
        };
        list.push(NamespacedName::new(pod.namespace(), pod.name()));
    }

    /// Adds a Pod that does not run and has a state on the node.
    fn add_recorded(
        &mut self,
        snapshot: &Snapshot,
        index: &Index<'_>,
        workload: &WorkloadKey,
        name: &str,
    ) {
        let namespace = workload.namespace.as_str();
        let subject = Subject::of(snapshot, index, namespace, name);
        let list = if subject.is_some_and(|subject| comes_back(&subject)) {
            &mut self.returning
        } else {
            &mut self.pods
        };
        list.push(NamespacedName::new(namespace, name));
    }
}

/// Whether a Pod does not run, and its workload may create it.
fn may_be_created(
    snapshot: &Snapshot,
    index: &Index<'_>,
    workload: &WorkloadKey,
    name: &str,
) -> bool {
    let pod = index.pod(&workload.namespace, name);
    let is_wanted = match index.workload(workload) {
        Some(known) => known.wants(name),
        None => unread(snapshot, workload).is_some(),
    };
    pod.is_none_or(Pod::is_finished) && is_wanted
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
    let candidate = match subject.pod {
        // A Pod that waits may have been created with another state.
        Some(pod) if pod.node().is_none() && !pod.is_terminating() && !pod.is_finished() => {
            Some(subject.present(pod))
        }
        _ => subject.successor(),
    };
    let selection = candidate.and_then(|candidate| subject.select(&candidate));
    selection.is_some_and(|selection| !selection.may_land_on.is_empty())
}
