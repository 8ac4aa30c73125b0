//! What follows from the decisions about the entries of one PPS.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_core::pps::PodState;
use pps_core::status::entry_patch;

use super::rule::Keep;
use super::{Entry, EntryDecision, lacks_key};
use crate::decide::status::loss_check::{DroppedEntry, ReplacedValues};
use crate::decide::status::view::View;
use crate::ledger::Absence;
use crate::ledger::entry_change::EntryChange;
use crate::ledger::name_absence::NameAbsence;
use crate::ledger::progress::EntryOwners;
use crate::workload::WorkloadPresence;

/// What becomes of the entries of one PPS. The maps and sets start from what the former decision
/// left.
#[derive(Default)]
pub(in crate::decide::status) struct Examined {
    pub(in crate::decide::status) changes: PlannedChanges,
    pub(in crate::decide::status) missing_labels: BTreeSet<Arc<str>>,
    pub(in crate::decide::status) surplus: BTreeMap<Arc<str>, u8>,
    pub(in crate::decide::status) absent_names: BTreeMap<Arc<str>, NameAbsence>,
    pub(in crate::decide::status) deferred: BTreeSet<Arc<str>>,
    pub(in crate::decide::status) owners: EntryOwners,
    /// The nodes that the API server has to confirm as gone before their states are dropped.
    pub(in crate::decide::status) unconfirmed_nodes: BTreeSet<Arc<str>>,
    /// Entries that wait for the next write.
    pub(in crate::decide::status) postponed: Vec<Arc<str>>,
    /// New nodes that lack a label of a state.
    pub(in crate::decide::status) awaited_labels: BTreeSet<Arc<str>>,
    /// Whether all entries belong to the workload that exists now. If not, one still waits for what
    /// becomes of the Pods of the workload for which it was recorded, which the status names until
    /// then.
    pub(in crate::decide::status) takes_over: bool,
}

/// What a write changes, and what of that the API server has to confirm.
#[derive(Default)]
pub(in crate::decide::status) struct PlannedChanges {
    pub(in crate::decide::status) entries: Vec<EntryChange>,
    pub(in crate::decide::status) drops: Vec<DroppedEntry>,
    pub(in crate::decide::status) replaced: Vec<ReplacedValues>,
}

impl Examined {
    /// What a PPS leaves to the next decision if no entry is examined.
    pub(in crate::decide::status) fn unchanged(view: &View<'_>) -> Self {
        let progress = &view.pps.progress;
        let mut missing_labels = progress.missing_labels.clone();
        if progress.dirty.has_all_entries() {
            // The spec may name other keys now, and another writer may have removed entries.
            let states = &view.pps.observed.status.pod_states;
            missing_labels.retain(|pod| {
                states
                    .get(pod)
                    .is_some_and(|state| lacks_key(view.spec(), &state))
            });
        }
        Self {
            missing_labels,
            surplus: progress.surplus.clone(),
            absent_names: progress.absent_names.clone(),
            deferred: progress.capacity.deferred.clone(),
            owners: progress.owners.clone(),
            ..Self::default()
        }
    }

    /// How many entries have to be read before the write.
    pub(super) fn checked(&self) -> usize {
        self.changes.drops.len() + self.changes.replaced.len()
    }

    pub(super) fn add(&mut self, entry: Entry<'_>, decision: EntryDecision) {
        self.surplus.remove(&entry.pod);
        self.absent_names.remove(&entry.pod);
        self.deferred.remove(&entry.pod);
        self.takes_over &= !decision.keeps_target(&entry);
        match decision {
            EntryDecision::Keep(keep) => self.keep(&entry, keep),
            EntryDecision::DropLater { keep, is_postponed } => {
                self.postpone_if(is_postponed, &entry.pod);
                self.keep(&entry, keep);
            }
            EntryDecision::RecordLater { is_postponed } => {
                self.postpone_if(is_postponed, &entry.pod);
                self.keep_missing_labels(&entry);
            }
            EntryDecision::Record { state, replaced } => {
                self.changes.replaced.extend(replaced);
                self.awaited_labels
                    .extend(node_without_label_of(&entry, &state));
                self.change(entry, Some(state));
            }
            EntryDecision::Drop(dropped) => {
                self.changes.drops.push(dropped);
                self.change(entry, None);
            }
        }
    }

    fn postpone_if(&mut self, is_postponed: bool, pod: &Arc<str>) {
        if is_postponed {
            self.postponed.push(pod.clone());
        }
    }

    fn keep(&mut self, entry: &Entry<'_>, keep: Keep) {
        if entry.absence == Some(Absence::Overdue)
            && let Some(before) = &entry.before
        {
            self.unconfirmed_nodes
                .insert(before.node_name.as_str().into());
        }
        self.keep_missing_labels(entry);
        match keep {
            Keep::Unchanged => {}
            Keep::AsSurplus { rounds } => {
                self.surplus.insert(entry.pod.clone(), rounds);
            }
            Keep::AsAbsent(absence) => {
                self.absent_names.insert(entry.pod.clone(), absence);
            }
        }
    }

    /// A write that was not stored may have noted keys that the entry has after all.
    fn keep_missing_labels(&mut self, entry: &Entry<'_>) {
        if entry.has_all_keys() {
            self.missing_labels.remove(&entry.pod);
        }
    }

    fn change(&mut self, entry: Entry<'_>, after: Option<PodState>) {
        let Entry {
            view, pod, before, ..
        } = entry;
        let lacks_key = after
            .as_ref()
            .is_some_and(|state| lacks_key(view.spec(), state));
        if lacks_key {
            self.missing_labels.insert(pod.clone());
        } else {
            self.missing_labels.remove(&pod);
        }
        let is_renewed = after.is_some() && view.presence() == WorkloadPresence::Replaced;
        let new_owner = view
            .living_workload()
            .filter(|_| is_renewed)
            .map(|workload| workload.uid.clone());
        let Some(patch) = entry_patch(before.as_ref(), after.as_ref()) else {
            self.owners
                .by_pod
                .extend(new_owner.map(|owner| (pod, owner)));
            return;
        };
        let node_before = before.as_ref().map(|before| &before.node_name);
        let is_on_new_node = after
            .as_ref()
            .is_some_and(|after| Some(&after.node_name) != node_before);
        let ready_since = view
            .pod(&pod)
            .filter(|_| is_on_new_node)
            .and_then(|pod| pod.ready_since);
        self.changes.entries.push(EntryChange {
            pod,
            after,
            patch,
            ready_since,
            new_owner,
        });
    }
}

/// The new node of a Pod, if the state has a label that the node does not have yet.
fn node_without_label_of(entry: &Entry<'_>, state: &PodState) -> Option<Arc<str>> {
    let nodes = entry.view.nodes;
    let pod = entry.view.pod(&entry.pod)?;
    let name = pod.node.as_ref().filter(|name| nodes.is_new(name))?;
    let node = nodes.facts.get(name)?;
    let mut keys = state.node_topology_labels.keys();
    keys.any(|key| node.label(key).is_none())
        .then(|| name.clone())
}
