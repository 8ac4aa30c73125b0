//! A read-only view of the cluster from one PPS.

use std::cell::OnceCell;
use std::sync::Arc;

use pps_core::Spec;
use pps_core::pps::PodState;

use crate::cluster::{Cluster, KindCoverage, Nodes, Pods, names_doubt};
use crate::facts::{NamespacedName, PodFact, WorkloadFact};
use crate::ledger::{Absence, CompactForm, Ledger, NodeEntries, TrackedPps};
use crate::names::NamesDoubt;
use crate::workload::{PodOwnership, WorkloadPresence, forgets_state};

pub(crate) struct View<'a> {
    pub(crate) key: &'a NamespacedName,
    pub(crate) pps: &'a TrackedPps,
    pub(crate) workload: Option<&'a WorkloadFact>,
    /// UID of the workload for which the states were recorded: this one or one that had its name
    /// before. None if a workload of another name has it, which the PPS targeted before.
    pub(crate) recorded_for: Option<&'a str>,
    pub(crate) coverage: KindCoverage,
    /// Whether objects that target workloads of this kind can be decided.
    is_kind_decidable: bool,
    pub(crate) superseded_by: Option<&'a NamespacedName>,
    /// The selector of the namespaces in scope, if it does not select this one.
    pub(crate) excluded_by: Option<&'a str>,
    /// Whether what is kept of Pods and Nodes has all the keys that the spec names. Until then only
    /// this object waits.
    has_needed_keys: bool,
    pub(crate) pods: &'a Pods,
    pub(crate) nodes: &'a Nodes,
    node_entries: &'a NodeEntries,
    pub(crate) compact_form: CompactForm,
    /// Computed once: it takes a look at each Pod of the workload.
    names_doubt: OnceCell<Option<NamesDoubt>>,
}

impl<'a> View<'a> {
    pub(crate) fn of(
        key: &'a NamespacedName,
        cluster: &'a Cluster,
        ledger: &'a Ledger,
    ) -> Option<Self> {
        let pps = ledger.objects.get(key)?;
        let workloads = &cluster.workloads;
        let recorded_for = pps.observed.status.header.target_uid.as_deref();
        let recorded_for = recorded_for.filter(|uid| {
            workloads
                .key_of(&key.namespace, uid)
                .is_none_or(|workload| *workload == pps.workload)
        });
        let governing = ledger.objects.governing(&pps.workload);
        let has_needed_keys = pps.exceeded_limit.is_some()
            || cluster
                .interest
                .is_met(&pps.observed.spec, cluster.listed_revision());
        Some(Self {
            key,
            pps,
            workload: workloads.get(&pps.workload),
            recorded_for,
            coverage: workloads.coverage(&pps.workload.kind),
            is_kind_decidable: workloads.is_decidable(&pps.workload.kind),
            superseded_by: governing
                .map(|(governing, _)| governing)
                .filter(|other| *other != key),
            excluded_by: cluster.scope.excludes(&key.namespace),
            has_needed_keys,
            pods: &cluster.pods,
            nodes: &cluster.nodes,
            node_entries: &ledger.node_entries,
            compact_form: ledger.compact_form_in_use(),
            names_doubt: OnceCell::new(),
        })
    }

    /// Whether the object can be read, and what it needs of Pods and Nodes is known.
    pub(crate) fn is_usable(&self) -> bool {
        let observed = &self.pps.observed;
        !observed.terminating && observed.unreadable.is_none() && self.has_needed_keys
    }

    /// Whether the status can be decided now.
    pub(crate) fn is_decidable(&self) -> bool {
        self.is_usable() && self.is_kind_decidable && self.pps.progress.in_flight.is_none()
    }

    pub(crate) fn spec(&self) -> &'a Spec {
        &self.pps.observed.spec
    }

    pub(crate) fn pod(&self, name: &Arc<str>) -> Option<&'a PodFact> {
        self.pods.facts.get(&self.key.sibling(name))
    }

    pub(crate) fn living_workload(&self) -> Option<&'a WorkloadFact> {
        self.workload.filter(|workload| !workload.terminating)
    }

    /// Why the names that the workload lists do not say which Pods it wants, if so.
    pub(crate) fn names_doubt(&self) -> Option<&NamesDoubt> {
        let namespace = &self.pps.workload.object.namespace;
        let recorded = &self.pps.observed.status.pod_states;
        let compute = || names_doubt(self.living_workload()?, namespace, self.pods, recorded);
        self.names_doubt.get_or_init(compute).as_ref()
    }

    pub(crate) fn presence(&self) -> WorkloadPresence {
        let target_uid = &self.pps.observed.status.header.target_uid;
        match (self.living_workload(), target_uid) {
            (Some(workload), Some(uid)) if *uid != *workload.uid => WorkloadPresence::Replaced,
            (Some(_), _) => WorkloadPresence::Present,
            (None, None) if self.workload.is_none() => WorkloadPresence::Awaited,
            (None, _) => WorkloadPresence::Gone,
        }
    }

    /// Whether the workload exists for which the entry of this Pod was recorded. `in_doubt` is the
    /// answer if that is not known.
    pub(crate) fn presence_for(&self, name: &Arc<str>, in_doubt: bool) -> WorkloadPresence {
        let presence = self.presence();
        if presence != WorkloadPresence::Replaced {
            return presence;
        }
        let owners = &self.pps.progress.owners;
        let is_renewed = self
            .living_workload()
            .is_some_and(|workload| owners.belongs_to(&workload.uid, name).unwrap_or(in_doubt));
        if is_renewed {
            WorkloadPresence::Present
        } else {
            WorkloadPresence::Replaced
        }
    }

    pub(crate) fn ownership(&self, name: &Arc<str>) -> PodOwnership {
        ownership(self.pod(name), self.workload, self.recorded_for)
    }

    /// What is known of an entry's node, if `nodeDeletionPolicy` and the Pod allow to drop the
    /// entry with it.
    pub(crate) fn forgettable_absence(&self, name: &Arc<str>, state: &PodState) -> Option<Absence> {
        let absence = self.node_entries.absence(&state.node_name)?;
        let pod = self.pod(name);
        is_forgettable(self.spec(), self.ownership(name), pod, &state.node_name).then_some(absence)
    }
}

/// What a Pod is to the workload. `recorded_for` is the UID of the workload for which the states
/// were recorded, this one or one that had its name before.
pub(super) fn ownership(
    pod: Option<&PodFact>,
    workload: Option<&WorkloadFact>,
    recorded_for: Option<&str>,
) -> PodOwnership {
    let Some(pod) = pod else {
        return PodOwnership::Absent;
    };
    match (&pod.owner, workload, pod.terminating) {
        (Some(owner), Some(workload), true) if *owner == workload.uid => PodOwnership::Terminating,
        (Some(owner), Some(workload), false) if *owner == workload.uid => PodOwnership::Owned,
        (Some(owner), Some(_), false) if Some(&**owner) == recorded_for => PodOwnership::Former,
        (Some(_), Some(_), _) => PodOwnership::Foreign,
        // The workload is gone, and the garbage collector has not deleted this Pod yet. A stranger's
        // Pod counts as well: to keep a state too long is safe.
        (Some(_), None, false) => PodOwnership::Owned,
        (None, _, false) => PodOwnership::Orphan,
        (_, _, true) => PodOwnership::Absent,
    }
}

/// What a Pod is to its entry, which names this node. A Pod of a re-created workload that is on no
/// node, or on another node, is not the Pod for which the entry was recorded, unless a user moves
/// the Pod.
pub(super) fn backing(
    ownership: PodOwnership,
    presence: WorkloadPresence,
    pod: Option<&PodFact>,
    recorded: &str,
) -> PodOwnership {
    let is_own = matches!(ownership, PodOwnership::Owned | PodOwnership::Terminating);
    let is_recreated = presence == WorkloadPresence::Replaced && is_own;
    let is_adopted = pod.is_some_and(|pod| {
        pod.exempt || recorded.is_empty() || pod.node.as_deref() == Some(recorded)
    });
    if is_recreated && !is_adopted {
        PodOwnership::Absent
    } else {
        ownership
    }
}

/// Whether an entry may be dropped once its node is gone.
pub(super) fn is_forgettable(
    spec: &Spec,
    ownership: PodOwnership,
    pod: Option<&PodFact>,
    recorded: &str,
) -> bool {
    let node = pod.and_then(|pod| pod.node.as_deref());
    // The state of a Pod away from its home never follows the Pod.
    let is_away = node.is_some_and(|node| spec.is_away(recorded, node));
    let is_elsewhere = !is_away && node.is_some_and(|node| node != recorded);
    let is_ready = !is_away && pod.is_some_and(|pod| pod.ready);
    forgets_state(spec.node_deletion(), ownership, is_ready, is_elsewhere)
}
