//! All that the decision about one PPS may look at, and the questions that it asks.

use std::sync::Arc;

use pps_core::pps::PodState;
use pps_core::workload::{PodLocation, PodOwnership, WorkloadPresence, forgets_state};

use crate::decide::inventory::{Absence, KindCoverage, NodeAbsences, Pods, TrackedPps};
use crate::facts::store::Store;
use crate::facts::{NamespacedName, NodeFact, PodFact, WorkloadFact};

/// A read-only view of the cluster from one PPS.
pub(crate) struct View<'a> {
    pub(crate) pps: &'a TrackedPps,
    /// The workload that the PPS names, if it is known.
    pub(crate) workload: Option<&'a WorkloadFact>,
    /// How much is known of the workload's kind.
    pub(crate) coverage: KindCoverage,
    /// Another PPS that governs the workload.
    pub(crate) superseded_by: Option<&'a NamespacedName>,
    pub(crate) pods: &'a Pods,
    pub(crate) nodes: &'a Store<Arc<str>, NodeFact>,
    pub(crate) absences: &'a NodeAbsences,
}

impl<'a> View<'a> {
    pub(crate) fn pod(&self, name: &Arc<str>) -> Option<&'a PodFact> {
        let namespace = self.pps.workload.object.namespace.clone();
        self.pods.get(&NamespacedName { namespace, name: name.clone() })
    }

    /// The workload, unless it is terminating.
    pub(crate) fn living_workload(&self) -> Option<&'a WorkloadFact> {
        self.workload.filter(|workload| !workload.terminating)
    }

    pub(crate) fn presence(&self) -> WorkloadPresence {
        match self.living_workload() {
            Some(workload) => match &self.pps.fact.status.target_uid {
                Some(uid) if **uid != *workload.uid => WorkloadPresence::Replaced,
                _ => WorkloadPresence::Present,
            },
            None => WorkloadPresence::Gone,
        }
    }

    /// What the Pod of this name is to the workload.
    pub(crate) fn ownership(&self, name: &Arc<str>) -> PodOwnership {
        let Some(pod) = self.pod(name) else { return PodOwnership::Absent };
        match (&pod.owner, self.workload, pod.terminating) {
            (Some(owner), Some(workload), true) if *owner == workload.uid => PodOwnership::Terminating,
            (Some(owner), Some(workload), false) if *owner == workload.uid => PodOwnership::Owned,
            (Some(_), Some(_), _) => PodOwnership::Foreign,
            // The workload is gone, and the garbage collector has not deleted this Pod yet.
            (Some(_), None, false) => PodOwnership::Owned,
            (None, _, false) => PodOwnership::Orphan,
            (_, _, true) => PodOwnership::Absent,
        }
    }

    /// Whether a Pod of another owner has the name of an entry.
    pub(crate) fn is_borrowed(&self, name: &Arc<str>) -> bool {
        let owner = self.pod(name).and_then(|pod| pod.owner.as_ref());
        owner.is_some_and(|owner| self.workload.is_none_or(|workload| workload.uid != *owner))
    }

    /// What is known of an entry's node, if `nodeDeletionPolicy` and the Pod allow the entry to be dropped with it.
    pub(crate) fn forgettable_absence(&self, name: &Arc<str>, state: &PodState) -> Option<Absence> {
        let absence = self.absences.of(&state.node_name)?;
        let pod = self.pod(name);
        let place = match pod.and_then(|pod| pod.node.as_deref()) {
            None => PodLocation::Unbound,
            Some(node) if *node == *state.node_name => PodLocation::SameNode,
            Some(_) => PodLocation::OtherNode,
        };
        let ready = pod.is_some_and(|pod| pod.ready);
        let policy = self.pps.fact.spec.node_deletion();
        forgets_state(policy, self.ownership(name), ready, place).then_some(absence)
    }
}
