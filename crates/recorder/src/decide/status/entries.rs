//! What becomes of each dirty entry, in steps:
//!
//! 1. [`rule`]: what the rules want from what the watches have shown;
//! 2. [`Loss`]: what recorded values that would lose, so that it has to be read first;
//! 3. [`Permission`]: whether it may be written now;
//! 4. [`EntryDecision`]: what is decided, and [`Examined::add`] what follows.

mod rule;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_core::Spec;
use pps_core::pps::{PodState, RecordingPolicy, RetentionPolicy};
use pps_core::status::entry_patch;

use self::rule::{Change, Keep, wanted_change};
use super::loss_check::{DroppedEntry, ReplacedValues};
use super::view::View;
use crate::ledger::Absence;
use crate::ledger::entry_change::EntryChange;
use crate::ledger::progress::{DirtyEntries, Renewals};
use crate::workload::{PodOwnership, WorkloadPresence};

/// Of how many entries a write may drop or replace something: each costs a read. The others come
/// next.
const MAX_CHECKED: usize = 100;

/// What becomes of the entries of one PPS. The maps and sets start from what the former decision
/// left.
#[derive(Default)]
pub(super) struct Examined {
    pub(super) changes: Vec<EntryChange>,
    pub(super) missing_labels: BTreeSet<Arc<str>>,
    pub(super) surplus: BTreeMap<Arc<str>, u8>,
    pub(super) deferred: BTreeSet<Arc<str>>,
    pub(super) renewals: Renewals,
    /// The nodes that the API server has to confirm as gone before their states are dropped.
    pub(super) unconfirmed_nodes: BTreeSet<Arc<str>>,
    pub(super) drops: Vec<DroppedEntry>,
    pub(super) replaced: Vec<ReplacedValues>,
    /// Entries that wait for the next write.
    pub(super) postponed: Vec<Arc<str>>,
    /// New nodes that lack a label of a state.
    pub(super) awaited_labels: BTreeSet<Arc<str>>,
    /// Whether an entry still waits for what becomes of the Pods of the workload for which it was
    /// recorded: until then the status names that workload.
    pub(super) keeps_target: bool,
}

/// Examines the dirty entries.
pub(super) fn examine(view: &View<'_>) -> Examined {
    let mut examined = Examined::unchanged(view);
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
        examined.renewals.is_complete = true;
        let renewed = &mut examined.renewals.workloads;
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

    /// Whether the workload exists for which the entry was recorded. `in_doubt` is the answer if
    /// that is not known.
    fn presence(&self, in_doubt: bool) -> WorkloadPresence {
        self.view.presence_for(&self.pod, in_doubt)
    }

    /// Whether the entry, once recorded, stays the Pod's home.
    fn is_home(&self) -> bool {
        self.view.spec().recording_policy == Some(RecordingPolicy::IfNotPresent)
    }

    /// Whether the entry lacks no topology key that the spec names; so does one that does not exist.
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
    Held,
    /// So many entries are checked already that this one comes with the next write.
    Postponed,
}

impl Permission {
    fn of(entry: &Entry<'_>, loss: Option<&Loss>, checked: usize) -> Self {
        let progress = &entry.view.pps.progress;
        let is_refuted =
            progress.held.contains(&entry.pod) || progress.refuted.contains(&entry.pod);
        match loss {
            None => Self::Allowed,
            Some(_) if is_refuted => Self::Held,
            Some(_) if checked >= MAX_CHECKED => Self::Postponed,
            Some(_) => Self::Allowed,
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
    /// The running Pod cannot be recorded yet. Where it was before does not matter.
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
    let surplus = &entry.view.pps.progress.surplus;
    surplus
        .get(&entry.pod)
        .map_or(Keep::Unchanged, |rounds| Keep::AsSurplus {
            rounds: *rounds,
        })
}

impl Examined {
    /// What a PPS leaves to the next decision if no entry is examined.
    pub(super) fn unchanged(view: &View<'_>) -> Self {
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
            deferred: progress.capacity.deferred.clone(),
            renewals: progress.renewals.clone(),
            ..Self::default()
        }
    }

    /// How many entries have to be read before the write.
    fn checked(&self) -> usize {
        self.drops.len() + self.replaced.len()
    }

    fn add(&mut self, entry: Entry<'_>, decision: EntryDecision) {
        self.surplus.remove(&entry.pod);
        self.deferred.remove(&entry.pod);
        self.keeps_target |= decision.keeps_target(&entry);
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
                self.replaced.extend(replaced);
                self.awaited_labels
                    .extend(node_without_label_of(&entry, &state));
                self.change(entry, Some(state));
            }
            EntryDecision::Drop(dropped) => {
                self.drops.push(dropped);
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
        if let Keep::AsSurplus { rounds } = keep {
            self.surplus.insert(entry.pod.clone(), rounds);
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
        let renewed_for = view
            .living_workload()
            .filter(|_| is_renewed)
            .map(|workload| workload.uid.clone());
        let Some(patch) = entry_patch(before.as_ref(), after.as_ref()) else {
            self.renewals
                .workloads
                .extend(renewed_for.map(|owner| (pod, owner)));
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
        self.changes.push(EntryChange {
            pod,
            after,
            patch,
            ready_since,
            renewed_for,
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

/// Whether a state lacks a topology key that the spec names.
fn lacks_key(spec: &Spec, state: &PodState) -> bool {
    spec.topology_keys()
        .any(|key| !state.node_topology_labels.contains_key(key))
}
