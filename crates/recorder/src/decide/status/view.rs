//! All that the decision about one PPS may look at, and the questions that it asks.

use std::sync::Arc;

use crate::workload::{PodOwnership, WorkloadPresence, forgets_state};
use pps_core::pps::{NodeDeletionPolicy, PodState};

use super::form::CompactForm;
use crate::decide::nodes::{Absence, Nodes};
use crate::decide::pods::Pods;
use crate::decide::tracked_pps::TrackedPps;
use crate::decide::workloads::KindCoverage;
use crate::facts::{NamespacedName, PodFact, WorkloadFact};

/// A read-only view of the cluster from one PPS.
pub(crate) struct View<'a> {
    pub key: &'a NamespacedName,
    pub pps: &'a TrackedPps,
    pub workload: Option<&'a WorkloadFact>,
    /// UID of the workload for which the states were recorded, unless another workload that exists has it:
    /// then the PPS named that one before, whose Pods are nothing to the workload.
    pub former_uid: Option<&'a str>,
    pub coverage: KindCoverage,
    pub superseded_by: Option<&'a NamespacedName>,
    pub pods: &'a Pods,
    pub nodes: &'a Nodes,
    pub compact_form: CompactForm,
}

impl<'a> View<'a> {
    pub(crate) fn pod(&self, name: &Arc<str>) -> Option<&'a PodFact> {
        self.pods.facts.get(&NamespacedName { name: name.clone(), ..self.key.clone() })
    }

    pub(crate) fn living_workload(&self) -> Option<&'a WorkloadFact> {
        self.workload.filter(|workload| !workload.terminating)
    }

    pub(crate) fn presence(&self) -> WorkloadPresence {
        match (self.living_workload(), &self.pps.fact.status.header.target_uid) {
            (Some(workload), Some(uid)) if *uid != *workload.uid => WorkloadPresence::Replaced,
            (Some(_), _) => WorkloadPresence::Present,
            (None, None) if self.workload.is_none() => WorkloadPresence::Awaited,
            (None, _) => WorkloadPresence::Gone,
        }
    }

    /// Whether the workload exists for which the entry of this Pod was recorded. `in_doubt` is the answer if
    /// that is not known.
    pub(crate) fn presence_for(&self, name: &Arc<str>, in_doubt: bool) -> WorkloadPresence {
        let is_renewed =
            |workload: &WorkloadFact| self.pps.renewals.is_renewed(&workload.uid, name).unwrap_or(in_doubt);
        match self.presence() {
            WorkloadPresence::Replaced if self.living_workload().is_some_and(is_renewed) => {
                WorkloadPresence::Present
            }
            presence => presence,
        }
    }

    pub(crate) fn ownership(&self, name: &Arc<str>) -> PodOwnership {
        ownership(self.pod(name), self.workload, self.former_uid)
    }

    /// What is known of an entry's node, if `nodeDeletionPolicy` and the Pod allow the entry to be dropped
    /// with it.
    pub(crate) fn forgettable_absence(&self, name: &Arc<str>, state: &PodState) -> Option<Absence> {
        let absence = *self.nodes.missing.get(&*state.node_name)?;
        let policy = self.pps.fact.spec.node_deletion();
        is_forgettable(policy, self.ownership(name), self.pod(name), &state.node_name).then_some(absence)
    }
}

/// What a Pod is to the workload. `former_uid` is the UID of the workload that had its name before and for
/// which the states were recorded.
pub(super) fn ownership(
    pod: Option<&PodFact>,
    workload: Option<&WorkloadFact>,
    former_uid: Option<&str>,
) -> PodOwnership {
    let Some(pod) = pod else { return PodOwnership::Absent };
    match (&pod.owner, workload, pod.terminating) {
        (Some(owner), Some(workload), true) if *owner == workload.uid => PodOwnership::Terminating,
        (Some(owner), Some(workload), false) if *owner == workload.uid => PodOwnership::Owned,
        (Some(owner), Some(_), false) if Some(&**owner) == former_uid => PodOwnership::Former,
        (Some(_), Some(_), _) => PodOwnership::Foreign,
        // The workload is gone, and the garbage collector has not deleted this Pod yet.
        (Some(_), None, false) => PodOwnership::Owned,
        (None, _, false) => PodOwnership::Orphan,
        (_, _, true) => PodOwnership::Absent,
    }
}

/// Whether an entry may be dropped once its node is gone.
pub(super) fn is_forgettable(
    policy: NodeDeletionPolicy,
    ownership: PodOwnership,
    pod: Option<&PodFact>,
    recorded_node: &str,
) -> bool {
    let is_elsewhere = pod.and_then(|pod| pod.node.as_deref()).is_some_and(|node| node != recorded_node);
    forgets_state(policy, ownership, pod.is_some_and(|pod| pod.ready), is_elsewhere)
}
