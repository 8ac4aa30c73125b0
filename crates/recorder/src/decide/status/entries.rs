//! What becomes of each dirty entry, in steps:
//!
//! 1. [`rule`]: what the rules want from what the watches have shown;
//! 2. [`Loss`]: what recorded values that would lose, so that it has to be read first;
//! 3. [`Permission`]: whether it may be written now;
//! 4. [`EntryDecision`]: what is decided, and [`Examined::add`] what follows.

mod examined;
mod rule;

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::Spec;
use pps_core::pps::{PodState, RecordingPolicy, RetentionPolicy};

pub(super) use self::examined::{Examined, PlannedChanges};
use self::rule::{Change, Keep, wanted_change};
use super::loss_check::{DroppedEntry, ReplacedValues};
use super::view::View;
use crate::ledger::Absence;
use crate::ledger::progress::DirtyEntries;
use crate::workload::{PodOwnership, WorkloadPresence};

/// Of how many entries a write may drop or replace something: each costs a read. The others come
/// next.
const MAX_CHECKED: usize = 100;

/// Examines the dirty entries.
pub(super) fn examine(view: &View<'_>) -> Examined {
    let mut examined = Examined::unchanged(view);
    examined.takes_over = true;
    if view.pps.progress.dirty.has_all_entries() {
        examined.deferred.clear();
    }
    let dirty = dirty_pods(view);
    let is_replaced = view.presence() == WorkloadPresence::Replaced;
    let waits_for_former = is_replaced
        && dirty
            .iter()
            .any(|pod| view.pps.has_entry(pod) && view.ownership(pod) == PodOwnership::Former);
    for pod in dirty {
        let entry = Entry::new(view, pod, waits_for_former);
        let decision = EntryDecision::of(&entry, examined.checked());
        examined.add(entry, decision);
    }
    if view.presence() == WorkloadPresence::Present
        && let Some(workload) = view.living_workload()
    {
        // All entries belong to it.
        examined.owners.covers_all = true;
        let renewed = &mut examined.owners.by_pod;
        renewed.retain(|_, owner| *owner != workload.uid);
    }
    examined
}

/// The Pods whose entries have to be examined. While the status names another workload, all are:
/// what an entry is to the workload depends on the others.
fn dirty_pods(view: &View<'_>) -> Vec<Arc<str>> {
    if let DirtyEntries::Only(pods) = view.pps.progress.dirty.entries()
        && view.presence() != WorkloadPresence::Replaced
    {
        return pods.iter().cloned().collect();
    }
    let states = &view.pps.observed.status.pod_states;
    let recorded = states.nodes().map(|(pod, _)| pod);
    let namespace = &view.pps.workload.object.namespace;
    let owned = view
        .workload
        .into_iter()
        .flat_map(|workload| view.pods.names_of(namespace, &workload.uid));
    let pods: BTreeSet<Arc<str>> = recorded.chain(owned).cloned().collect();
    pods.into_iter().collect()
}

/// A dirty entry, or a Pod that may get one.
struct Entry<'a> {
    view: &'a View<'a>,
    pod: Arc<str>,
    /// The recorded state, if there is one.
    before: Option<PodState>,
    /// What is known of the recorded node, if it is missing and the entry may be dropped with it.
    absence: Option<Absence>,
    ownership: PodOwnership,
    /// Whether another entry is still that of a Pod of the former workload.
    waits_for_former: bool,
}

impl<'a> Entry<'a> {
    fn new(view: &'a View<'a>, pod: Arc<str>, waits_for_former: bool) -> Self {
        let before = view.pps.observed.status.pod_states.get(&pod);
        let absence = before
            .as_ref()
            .and_then(|before| view.forgettable_absence(&pod, before));
        Self {
            ownership: view.ownership(&pod),
            view,
            pod,
            before,
            absence,
            waits_for_former,
        }
    }

    /// Whether the workload exists for which the entry was recorded. An entry of unknown origin
    /// counts as the new workload's if the new workload may want the Pod, while a Pod of the former
    /// workload is still recorded.
    fn presence(&self, may_be_wanted: bool) -> WorkloadPresence {
        let in_doubt = may_be_wanted && self.waits_for_former;
        self.view.presence_for(&self.pod, in_doubt)
    }

    /// Whether the entry, once recorded, stays the Pod's home.
    fn is_home(&self) -> bool {
        self.view.spec().recording_policy == Some(RecordingPolicy::IfNotPresent)
    }

    /// Whether the recorded state has every topology key of the spec; true without one.
    fn has_all_keys(&self) -> bool {
        self.before
            .as_ref()
            .is_none_or(|state| !lacks_key(self.view.spec(), state))
    }
}

/// What a change loses of what is recorded. The API server is asked before whether the watches have
/// shown the newest of it.
enum Loss {
    State(DroppedEntry),
    Values(ReplacedValues),
}

impl Loss {
    fn of(entry: &Entry<'_>, change: &Change) -> Option<Self> {
        match change {
            Change::Keep(_) | Change::AwaitNode => None,
            Change::Drop(cause) => Some(Self::State(DroppedEntry {
                pod: entry.pod.clone(),
                node: entry
                    .before
                    .as_ref()
                    .map(|before| before.node_name.clone())
                    .unwrap_or_default(),
                cause: *cause,
            })),
            Change::Record(after) => match &entry.before {
                Some(before) => ReplacedValues::new(entry.view, &entry.pod, before, after),
                // No later event corrects the first record of a home.
                None if entry.is_home() => {
                    ReplacedValues::new(entry.view, &entry.pod, &PodState::default(), after)
                }
                None => None,
            }
            .map(Self::Values),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permission {
    Allowed,
    /// The API server has not confirmed it: something has to be heard of the Pod first, or other
    /// entries have to be written.
    Unconfirmed,
    /// So many entries are checked already that this one comes with the next write.
    Postponed,
}

impl Permission {
    fn of(entry: &Entry<'_>, loss: Option<&Loss>, checked: usize) -> Self {
        let progress = &entry.view.pps.progress;
        let is_refuted = progress.unconfirmed.contains(&entry.pod)
            || progress.behind_others.contains(&entry.pod);
        match loss {
            Some(_) if is_refuted => Self::Unconfirmed,
            Some(_) if checked >= MAX_CHECKED => Self::Postponed,
            _ => Self::Allowed,
        }
    }
}

/// What is decided about an entry now.
enum EntryDecision {
    Keep(Keep),
    Record {
        state: PodState,
        replaced: Option<ReplacedValues>,
    },
    Drop(DroppedEntry),
    /// The running Pod cannot be recorded yet. It needs no lookup of the node where it was before.
    RecordLater {
        is_postponed: bool,
    },
    /// The entry cannot be dropped yet.
    DropLater {
        keep: Keep,
        is_postponed: bool,
    },
}

impl EntryDecision {
    fn of(entry: &Entry<'_>, checked: usize) -> Self {
        let change = wanted_change(entry);
        let loss = Loss::of(entry, &change);
        let permission = Permission::of(entry, loss.as_ref(), checked);
        let is_postponed = permission == Permission::Postponed;
        let is_allowed = permission == Permission::Allowed;
        match (change, loss) {
            (Change::Keep(keep), _) => Self::Keep(keep),
            (Change::AwaitNode, _) => Self::RecordLater { is_postponed },
            (Change::Record(_), _) if !is_allowed => Self::RecordLater { is_postponed },
            (Change::Record(state), Some(Loss::Values(values))) => Self::Record {
                state,
                replaced: Some(values),
            },
            (Change::Record(state), _) => Self::Record {
                state,
                replaced: None,
            },
            (Change::Drop(_), Some(Loss::State(dropped))) if is_allowed => Self::Drop(dropped),
            (Change::Drop(_), _) => Self::DropLater {
                keep: kept_as_before(entry),
                is_postponed,
            },
        }
    }

    /// Whether the status has to go on to name the workload for which the entry was recorded. Once
    /// it names the new workload, a home is that of the new workload's Pod.
    fn keeps_target(&self, entry: &Entry<'_>) -> bool {
        let is_recorded_for_another = entry.before.is_some()
            && entry.view.presence() == WorkloadPresence::Replaced
            && entry.view.spec().retention() != RetentionPolicy::Retain;
        let is_former = entry.ownership == PodOwnership::Former;
        is_recorded_for_another
            && match self {
                Self::Drop(_) => false,
                Self::DropLater { .. } => true,
                Self::RecordLater { .. } => is_former || entry.is_home(),
                Self::Keep(_) | Self::Record { .. } => is_former,
            }
    }
}

/// How an entry is kept that would be dropped.
fn kept_as_before(entry: &Entry<'_>) -> Keep {
    let progress = &entry.view.pps.progress;
    if let Some(rounds) = progress.surplus.get(&entry.pod) {
        Keep::AsSurplus { rounds: *rounds }
    } else if let Some(absence) = progress.absent_names.get(&entry.pod) {
        Keep::AsAbsent(*absence)
    } else {
        Keep::Unchanged
    }
}

/// Whether a state lacks a topology key that the spec names.
fn lacks_key(spec: &Spec, state: &PodState) -> bool {
    spec.topology_keys()
        .any(|key| !state.node_topology_labels.contains_key(key))
}
