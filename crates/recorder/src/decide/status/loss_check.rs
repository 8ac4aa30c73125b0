//! The last check before entries are dropped, or recorded values are replaced. What the watches
//! have shown may be late, and a state that was dropped or overwritten is lost. So the shell reads
//! the workload, and the Pods and nodes of these entries, from the API server, and the same rules
//! decide again from what it answers.
//!
//! What is recorded for the first time needs no read: a new entry, unless it is to stay as the
//! Pod's home, and an annotation that a network plugin writes later. Nor does what the spec no
//! longer names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::record::{Place, record};
use crate::workload::{WorkloadPresence, retains_state};
use pps_core::Spec;
use pps_core::pps::PodState;

use super::view::{View, backing, is_forgettable, ownership};
use crate::facts::interest::Interest;
use crate::facts::{NamespacedName, NodeFact, PodFact, WorkloadFact, WorkloadKey};
use crate::living_pods::LivingPods;

/// What has to be true of the workload and of Pods for a write that drops entries or replaces
/// values.
#[derive(Clone, Debug, PartialEq)]
pub struct LossCheck {
    pub workload: WorkloadKey,
    /// The workload from which the drops were decided.
    decided_from: Option<WorkloadFact>,
    recorded_for: Option<String>,
    spec: Spec,
    drops: Vec<DroppedEntry>,
    replaced: Vec<ReplacedValues>,
    /// Whether the workload lists the name of a recorded state.
    lists_recorded: bool,
}

/// An entry in which recorded values give way to others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReplacedValues {
    pub(crate) pod: Arc<str>,
    before: PodState,
    after: PodState,
    is_node_new: bool,
}

impl ReplacedValues {
    /// What these states of a Pod have different; none if nothing that is recorded is replaced.
    pub(crate) fn new(
        view: &View<'_>,
        pod: &Arc<str>,
        before: &PodState,
        after: &PodState,
    ) -> Option<Self> {
        let spec = view.spec();
        let labels_are_replaced = is_replaced(
            spec,
            &before.node_topology_labels,
            &after.node_topology_labels,
        );
        let is_any = before.node_name != after.node_name
            || labels_are_replaced
            || is_replaced(spec, &before.annotations, &after.annotations);
        is_any.then(|| Self {
            pod: pod.clone(),
            before: before.clone(),
            after: after.clone(),
            is_node_new: view.nodes.is_new(&after.node_name),
        })
    }

    /// Whether the Pod, where it runs now, would not be recorded with these values.
    fn is_refuted(&self, spec: &Spec, owner: Option<&Arc<str>>, live: &Live<'_>) -> bool {
        let name = &*self.after.node_name;
        let (Some(pod), Some(node)) = (live.pods.get(&self.pod), live.nodes.get(name)) else {
            return true;
        };
        let place = Place {
            name,
            node,
            is_new: self.is_node_new,
        };
        pod.terminating
            || !pod.ready
            || pod.exempt
            || pod.node.as_deref() != Some(name)
            || pod.owner.as_ref() != owner
            || record(spec, pod, place, Some(&self.before)) != self.after
    }
}

/// Whether a value gives way to another one, or one is lost whose key the topology names.
fn is_replaced(
    spec: &Spec,
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> bool {
    before.iter().any(|(key, value)| match after.get(key) {
        Some(after) => after != value,
        None => spec.topology_keys().any(|named| named == key),
    })
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DroppedEntry {
    pub(crate) pod: Arc<str>,
    pub(crate) node: String,
    pub(crate) cause: DropCause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropCause {
    /// The retention policy does not keep it.
    NotRetained {
        /// Whether the workload may want the Pod.
        may_be_wanted: bool,
        /// Whether it is the workload for which the entry was recorded.
        presence: WorkloadPresence,
        criterion: Criterion,
    },
    NodeGone,
}

/// What says whether a workload wants a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Criterion {
    /// The ordinal in its name, or that there is no such workload.
    Name,
    /// The number of the workload's Pods.
    Count,
    /// The names that the workload lists.
    List,
}

impl DroppedEntry {
    fn depends_on(&self, decisive: Criterion) -> bool {
        matches!(self.cause, DropCause::NotRetained { criterion, .. } if criterion == decisive)
    }

    /// Whether the workload for which it was recorded no longer wants the Pod, whatever other Pods
    /// it has.
    fn is_unwanted(&self) -> bool {
        matches!(
            self.cause,
            DropCause::NotRetained {
                presence: WorkloadPresence::Present,
                criterion: Criterion::Name | Criterion::List,
                ..
            }
        )
    }

    /// Whether the same rules keep the entry, given the workload and what is live.
    fn must_stay(
        &self,
        check: &LossCheck,
        workload: Option<&WorkloadFact>,
        live: &Live<'_>,
    ) -> bool {
        let pod = live.pods.get(&self.pod);
        let ownership = ownership(pod, workload, check.recorded_for.as_deref());
        match self.cause {
            DropCause::NotRetained {
                may_be_wanted,
                presence,
                ..
            } => {
                let backing = backing(ownership, presence, pod, &self.node);
                retains_state(check.spec.retention(), presence, may_be_wanted, backing)
            }
            DropCause::NodeGone => {
                live.nodes.contains_key(self.node.as_str())
                    || !is_forgettable(&check.spec, ownership, pod, &self.node)
            }
        }
    }
}

impl LossCheck {
    pub(crate) fn new(
        view: &View<'_>,
        drops: Vec<DroppedEntry>,
        replaced: Vec<ReplacedValues>,
    ) -> Option<Self> {
        (!drops.is_empty() || !replaced.is_empty()).then(|| Self {
            workload: view.pps.workload.clone(),
            decided_from: view.workload.cloned(),
            recorded_for: view.recorded_for.map(str::to_owned),
            spec: view.spec().clone(),
            drops,
            replaced,
            lists_recorded: view.living_workload().is_some_and(|workload| {
                let names = workload.demand.names();
                names.is_some_and(|names| names.has_recorded(&view.pps.observed.status.pod_states))
            }),
        })
    }

    /// Whether entries are dropped: only then does the workload have to be read.
    pub fn has_drops(&self) -> bool {
        !self.drops.is_empty()
    }

    /// Which labels and annotations have to be read.
    pub fn interest(&self) -> Interest {
        let interest = Interest::default();
        interest.add_keys(&self.spec);
        interest
    }

    /// The entries that are dropped because their node is gone: node and Pod.
    pub fn forgotten(&self) -> impl Iterator<Item = (&str, &Arc<str>)> {
        let drops = self
            .drops
            .iter()
            .filter(|drop| drop.cause == DropCause::NodeGone);
        drops.map(|drop| (drop.node.as_str(), &drop.pod))
    }

    /// The Pods whose entries are dropped because the workload no longer wants them; without those
    /// that other Pods have replaced.
    pub fn unwanted(&self) -> impl Iterator<Item = &Arc<str>> {
        self.drops
            .iter()
            .filter(|drop| drop.is_unwanted())
            .map(|drop| &drop.pod)
    }

    pub fn pods(&self) -> impl Iterator<Item = NamespacedName> {
        let namespace = &self.workload.object.namespace;
        self.names().map(|name| NamespacedName {
            namespace: namespace.clone(),
            name: name.clone(),
        })
    }

    /// The names of the Pods whose entries are dropped, or have other values than before.
    pub fn all(&self) -> BTreeSet<Arc<str>> {
        self.names().cloned().collect()
    }

    fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.drops
            .iter()
            .map(|drop| &drop.pod)
            .chain(self.replaced.iter().map(|replaced| &replaced.pod))
    }

    /// The nodes that have to be read, each with the Pod whose entry depends on it.
    fn nodes_of_pods(&self) -> impl Iterator<Item = (&str, &Arc<str>)> {
        let replaced = self.replaced.iter();
        self.forgotten()
            .chain(replaced.map(|replaced| (&*replaced.after.node_name, &replaced.pod)))
    }

    pub fn nodes(&self) -> BTreeSet<Arc<str>> {
        self.nodes_of_pods().map(|(node, _)| node.into()).collect()
    }

    /// The entries that depend on one of these nodes.
    pub fn on_nodes(&self, nodes: &BTreeSet<Arc<str>>) -> BTreeSet<Arc<str>> {
        self.nodes_of_pods()
            .filter(|(node, _)| nodes.contains(*node))
            .map(|(_, pod)| pod.clone())
            .collect()
    }

    /// The workload whose living Pods have to be read, if a drop depends on their number or their
    /// names.
    pub fn with_living_pods(&self) -> Option<&WorkloadFact> {
        self.decided_from.as_ref().filter(|_| {
            self.drops
                .iter()
                .any(|drop| drop.depends_on(Criterion::Count) || drop.depends_on(Criterion::List))
        })
    }

    /// The entries that must stay if the workload has these living Pods; nothing if they could not
    /// be read.
    pub fn refuted_by_living(&self, living: Option<LivingPods>) -> BTreeSet<Arc<str>> {
        let is_met = self
            .with_living_pods()
            .zip(living)
            .is_some_and(|(workload, living)| workload.demand.is_met_by(living.count));
        // Names are doubtful if neither a living Pod nor a recorded state has one of them.
        let are_listed = living
            .is_some_and(|living| living.are_listed() && (living.count > 0 || self.lists_recorded));
        let refuted = self.drops.iter().filter(|drop| {
            (drop.depends_on(Criterion::Count) && !is_met)
                || (drop.depends_on(Criterion::List) && !are_listed)
        });
        refuted.map(|drop| drop.pod.clone()).collect()
    }

    /// The entries that must stay, given the workload, the Pods and the nodes that the API server
    /// has now.
    pub fn refuted(
        &self,
        workload: Option<&WorkloadFact>,
        pods: &BTreeMap<Arc<str>, PodFact>,
        nodes: &BTreeMap<Arc<str>, NodeFact>,
    ) -> BTreeSet<Arc<str>> {
        let live = Live { pods, nodes };
        let owner = self.decided_from.as_ref().map(|workload| &workload.uid);
        let values = self
            .replaced
            .iter()
            .filter(|replaced| replaced.is_refuted(&self.spec, owner, &live))
            .map(|replaced| &replaced.pod);
        let has_other_workload = self.decided_from.as_ref() != workload;
        let drops = self
            .drops
            .iter()
            .filter(|drop| has_other_workload || drop.must_stay(self, workload, &live))
            .map(|drop| &drop.pod);
        values.chain(drops).cloned().collect()
    }
}

/// The Pods and nodes that the API server has now.
struct Live<'a> {
    pods: &'a BTreeMap<Arc<str>, PodFact>,
    nodes: &'a BTreeMap<Arc<str>, NodeFact>,
}
