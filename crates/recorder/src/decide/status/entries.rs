//! What becomes of each dirty entry: recorded, kept or dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::demand::Wanted;
use crate::record::record;
use crate::workload::{PodOwnership, WorkloadPresence, retains_state};
use pps_core::Spec;
use pps_core::pps::{PodState, RecordingPolicy, RetentionPolicy};
use pps_core::status::entry_patch;

use super::loss_check::{DropCause, DroppedEntry, ReplacedValues};
use super::{View, backing};
use crate::decide::capacity::EntryChange;
use crate::decide::nodes::Absence;
use crate::facts::NamespacedName;

/// After how many rounds a surplus entry is dropped. A Pod that is created again is not missing for
/// so long, even if Pods that the workload's number does not count live meanwhile.
const SURPLUS_ROUNDS: u8 = 2;
/// Of how many entries a write may drop or replace something: each costs a read. The others come
/// next.
const MAX_CHECKED: usize = 100;

/// The entries that belong to the workload that exists now, while the status still names the one
/// before it: entries that were recorded, or found to be right, from its Pods, and entries whose
/// Pods it has adopted.
///
/// The status has one `targetUID` for all entries, which moves on only when no Pod of the former
/// workload is left. Until then Pods of the new workload are recorded beside the former ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Renewals {
    /// Whether none is missing. A process that has just begun to lead does not know what was
    /// recorded before.
    pub is_complete: bool,
    /// The UID of the workload to which each of these entries belongs. A Pod may show its new owner
    /// before a watch shows that workload.
    pub workloads: BTreeMap<Arc<str>, Arc<str>>,
}

impl Renewals {
    /// Whether the entry of this Pod belongs to the workload of this UID; nothing if that is not
    /// known.
    pub(crate) fn is_renewed(&self, workload: &str, pod: &str) -> Option<bool> {
        let is_known = self
            .workloads
            .get(pod)
            .is_some_and(|owner| **owner == *workload);
        (is_known || self.is_complete).then_some(is_known)
    }
}

/// What becomes of the entries of one PPS. The maps and sets start from what the tracked object
/// has.
#[derive(Default)]
pub(crate) struct EntryDecisions {
    pub(crate) changes: Vec<EntryChange>,
    pub(crate) missing_labels: BTreeSet<Arc<str>>,
    pub(crate) surplus: BTreeMap<Arc<str>, u8>,
    pub(crate) deferred: BTreeSet<Arc<str>>,
    pub(crate) unconfirmed_nodes: BTreeSet<String>,
    pub(crate) drops: Vec<DroppedEntry>,
    pub(crate) replaced: Vec<ReplacedValues>,
    /// Entries that wait for the next write.
    pub(crate) postponed: Vec<Arc<str>>,
    pub(crate) awaited_labels: BTreeSet<Arc<str>>,
    pub(crate) renewals: Renewals,
    /// Whether an entry still waits for what becomes of the Pods of the workload for which it was
    /// recorded: until then the status names that workload.
    pub(crate) keeps_target: bool,
}

enum EntryDecision {
    Keep,
    /// Kept until the workload has had exactly the Pods that it wants in enough rounds; says in how
    /// many.
    KeepAsSurplus(u8),
    /// Kept until the running Pod can be recorded. Where it was before does not matter.
    KeepUntilRecorded,
    Record(PodState),
    Drop(DropCause),
}

impl EntryDecisions {
    pub(crate) fn unchanged(view: &View<'_>) -> Self {
        let pps = view.pps;
        let mut missing_labels = pps.missing_labels.clone();
        if pps.dirty.all {
            // The spec may name other keys now, and another writer may have removed entries.
            let states = &pps.fact.status.pod_states;
            missing_labels.retain(|pod| {
                states
                    .get(pod)
                    .is_some_and(|state| lacks_key(&pps.fact.spec, &state))
            });
        }
        Self {
            missing_labels,
            surplus: pps.surplus.clone(),
            deferred: pps.capacity.deferred.clone(),
            renewals: pps.renewals.clone(),
            ..Self::default()
        }
    }
}

pub(crate) fn decide(view: &View<'_>) -> EntryDecisions {
    let mut decisions = EntryDecisions::unchanged(view);
    if view.pps.dirty.all {
        decisions.deferred.clear();
    }
    let dirty = dirty_pods(view);
    let is_replaced = view.presence() == WorkloadPresence::Replaced;
    let is_former =
        |pod: &Arc<str>| view.pps.has_entry(pod) && view.ownership(pod) == PodOwnership::Former;
    let waits_for_former = is_replaced && dirty.iter().any(is_former);
    for pod in dirty {
        decide_entry(view, pod, waits_for_former, &mut decisions);
    }
    if view.presence() == WorkloadPresence::Present
        && let Some(workload) = view.living_workload()
    {
        // All entries belong to it.
        decisions.renewals.is_complete = true;
        decisions
            .renewals
            .workloads
            .retain(|_, owner| *owner != workload.uid);
    }
    decisions
}

fn dirty_pods(view: &View<'_>) -> Vec<Arc<str>> {
    let dirty = &view.pps.dirty;
    if !dirty.all && view.presence() != WorkloadPresence::Replaced {
        return dirty.entries.iter().cloned().collect();
    }
    let recorded = view.pps.fact.status.pod_states.nodes().map(|(pod, _)| pod);
    let namespace = &view.pps.workload.object.namespace;
    let owned = view
        .workload
        .into_iter()
        .flat_map(|workload| view.pods.names_of(namespace, &workload.uid));
    let pods: BTreeSet<Arc<str>> = recorded.chain(owned).cloned().collect();
    pods.into_iter().collect()
}

fn decide_entry(
    view: &View<'_>,
    pod: Arc<str>,
    waits_for_former: bool,
    decisions: &mut EntryDecisions,
) {
    let before = view.pps.fact.status.pod_states.get(&pod);
    let absence = before
        .as_ref()
        .and_then(|before| view.forgettable_absence(&pod, before));
    let surplus = decisions.surplus.remove(&pod);
    decisions.deferred.remove(&pod);
    let mut decision = decide_one(view, &pod, before.as_ref(), absence, waits_for_former);
    let drops = matches!(decision, EntryDecision::Drop(_));
    // No later event corrects the first record of a home.
    let is_home = view.pps.fact.spec.recording_policy == Some(RecordingPolicy::IfNotPresent);
    let replaced = match &decision {
        EntryDecision::Record(after) if before.is_some() || is_home => ReplacedValues::new(
            view,
            &pod,
            before.as_ref().unwrap_or(&PodState::default()),
            after,
        ),
        _ => None,
    };
    let is_checked = drops || replaced.is_some();
    let is_held = is_checked && (view.pps.held.contains(&pod) || view.pps.refuted.contains(&pod));
    let is_postponed =
        is_checked && !is_held && decisions.drops.len() + decisions.replaced.len() >= MAX_CHECKED;
    if is_postponed {
        decisions.postponed.push(pod.clone());
    }
    if is_held || is_postponed {
        let kept = surplus.map_or(EntryDecision::Keep, EntryDecision::KeepAsSurplus);
        decision = if drops {
            kept
        } else {
            EntryDecision::KeepUntilRecorded
        };
    }
    // Once the status names the new workload, a home is that of its Pod.
    let is_open = is_held || is_postponed || matches!(decision, EntryDecision::KeepUntilRecorded);
    if view.presence() == WorkloadPresence::Replaced
        && view.pps.fact.spec.retention() != RetentionPolicy::Retain
        && before.is_some()
        && !matches!(decision, EntryDecision::Drop(_))
        && ((is_open && (drops || is_home)) || view.ownership(&pod) == PodOwnership::Former)
    {
        decisions.keeps_target = true;
    }
    let after = match decision {
        keep @ (EntryDecision::Keep
        | EntryDecision::KeepAsSurplus(_)
        | EntryDecision::KeepUntilRecorded) => {
            let is_overdue = absence == Some(Absence::Overdue)
                && !matches!(keep, EntryDecision::KeepUntilRecorded);
            if let Some(before) = before.as_ref().filter(|_| is_overdue) {
                decisions.unconfirmed_nodes.insert(before.node_name.clone());
            }
            // A write that was not stored may have noted keys that the entry has after all.
            if before
                .as_ref()
                .is_none_or(|state| !lacks_key(&view.pps.fact.spec, state))
            {
                decisions.missing_labels.remove(&pod);
            }
            if let EntryDecision::KeepAsSurplus(rounds) = keep {
                decisions.surplus.insert(pod, rounds);
            }
            return;
        }
        EntryDecision::Record(state) => {
            decisions.replaced.extend(replaced);
            if let Some(node) = node_without_label_of(view, &pod, &state) {
                decisions.awaited_labels.insert(node);
            }
            Some(state)
        }
        EntryDecision::Drop(cause) => {
            let node = before
                .as_ref()
                .map(|before| before.node_name.clone())
                .unwrap_or_default();
            decisions.drops.push(DroppedEntry {
                pod: pod.clone(),
                node,
                cause,
            });
            None
        }
    };
    decisions.missing_labels.remove(&pod);
    if after
        .as_ref()
        .is_some_and(|state| lacks_key(&view.pps.fact.spec, state))
    {
        decisions.missing_labels.insert(pod.clone());
    }
    let is_renewed = after.is_some() && view.presence() == WorkloadPresence::Replaced;
    let renewed_for = view
        .living_workload()
        .filter(|_| is_renewed)
        .map(|workload| workload.uid.clone());
    if let Some(patch) = entry_patch(before.as_ref(), after.as_ref()) {
        let node_before = before.as_ref().map(|before| &before.node_name);
        let is_new = after
            .as_ref()
            .is_some_and(|after| Some(&after.node_name) != node_before);
        let ready_since = if is_new {
            view.pod(&pod).and_then(|pod| pod.ready_since)
        } else {
            None
        };
        decisions.changes.push(EntryChange {
            pod,
            after,
            patch,
            ready_since,
            renewed_for,
        });
    } else {
        decisions
            .renewals
            .workloads
            .extend(renewed_for.map(|owner| (pod, owner)));
    }
}

fn decide_one(
    view: &View<'_>,
    name: &Arc<str>,
    before: Option<&PodState>,
    absence: Option<Absence>,
    waits_for_former: bool,
) -> EntryDecision {
    let (ownership, spec) = (view.ownership(name), &view.pps.fact.spec);
    // The home of a former workload's Pod is not that of its namesake.
    let is_former = spec.retention() != RetentionPolicy::Retain
        && view.presence_for(name, waits_for_former) == WorkloadPresence::Replaced;
    let is_away = |node: &str| before.is_some_and(|before| spec.is_away(&before.node_name, node));
    let keeps_home = |node: &str| !is_former && is_away(node);
    if view.living_workload().is_some()
        && ownership == PodOwnership::Owned
        && let Some(pod) = view.pod(name).filter(|pod| pod.ready && !pod.exempt)
        && let Some(node_name) = &pod.node
        && !keeps_home(node_name)
    {
        // Until the node is known, so are none of its labels.
        let Some(node) = view.nodes.facts.get(node_name) else {
            return EntryDecision::KeepUntilRecorded;
        };
        let place = (&**node_name, node, view.nodes.new.contains_key(node_name));
        return EntryDecision::Record(record(spec, pod, place, before));
    }
    let Some(before) = before else {
        return EntryDecision::Keep;
    };
    if absence == Some(Absence::Confirmed) {
        return EntryDecision::Drop(DropCause::NodeGone);
    }
    let NamespacedName {
        namespace,
        name: workload_name,
    } = &view.pps.workload.object;
    let wanted_beside = |living| {
        let workload = view.living_workload();
        workload.map_or(Wanted::No, |workload| {
            workload.demand.wants(workload_name, name, living)
        })
    };
    let living = view
        .living_workload()
        .map(|workload| view.pods.living(namespace, &workload.uid));
    let wanted = wanted_beside(living.unwrap_or_default());
    let presence = |wanted| view.presence_for(name, wanted && waits_for_former);
    let keeps = |wanted| {
        let backing = backing(
            ownership,
            presence(wanted),
            view.pod(name),
            &before.node_name,
        );
        retains_state(spec.retention(), presence(wanted), wanted, backing)
    };
    let is_counted = wanted_beside(usize::MAX) == Wanted::Maybe && !keeps(false) && keeps(true);
    let rounds = view.pps.surplus.get(name).copied().unwrap_or_default();
    match wanted {
        Wanted::Maybe if is_counted => EntryDecision::KeepAsSurplus(0),
        _ if keeps(wanted != Wanted::No) => EntryDecision::Keep,
        Wanted::No if is_counted && rounds < SURPLUS_ROUNDS => EntryDecision::KeepAsSurplus(rounds),
        wanted => {
            let wanted = wanted != Wanted::No;
            EntryDecision::Drop(DropCause::NotRetained {
                wanted,
                presence: presence(wanted),
                is_counted,
            })
        }
    }
}

/// The new node of a Pod, if the state has a label that the node does not have yet.
fn node_without_label_of(view: &View<'_>, pod: &Arc<str>, state: &PodState) -> Option<Arc<str>> {
    let name = view
        .pod(pod)?
        .node
        .as_ref()
        .filter(|name| view.nodes.new.contains_key(*name))?;
    let node = view.nodes.facts.get(name)?;
    state
        .node_topology_labels
        .keys()
        .any(|key| node.label(key).is_none())
        .then(|| name.clone())
}

/// Whether a state lacks a topology key that the spec names.
fn lacks_key(spec: &Spec, state: &PodState) -> bool {
    spec.topology_keys()
        .any(|key| !state.node_topology_labels.contains_key(key))
}
