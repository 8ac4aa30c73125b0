//! The decision about one PPS: a pure function from a read-only [`View`] to the status that it
//! should have.
//!
//! Each step can be read alone: what keeps the PPS from recording ([`condition`]), what becomes of
//! each entry ([`entries`]), in which form the states are written ([`form`]), which changes fit
//! ([`Capacity::fit`]), and what the header says.
//!
//! [`Capacity::fit`]: super::capacity::Capacity::fit

mod condition;
pub(super) mod entries;
pub(super) mod form;
mod loss_check;

use std::mem::take;
use std::sync::Arc;

use pps_core::pps::PodState;
use pps_core::status::guarded_patch;
use pps_core::{Reason, Spec};
use serde_json::{Map, Value, json};

pub(super) use self::condition::obstacle;
use self::entries::EntryDecisions;
use self::form::{CompactForm, FormDecision};
pub use self::loss_check::LossCheck;
use super::capacity::{EntryChange, FittedChanges};
use super::nodes::{Absence, Nodes};
use super::pods::Pods;
use super::schedule::write_cost;
use super::tracked_pps::{InFlight, TrackedPps};
use super::workloads::KindCoverage;
use crate::facts::{Form, Header, NamespacedName, PodFact, StoredForm, WorkloadFact, WorkloadKey};
use crate::recording::{Recording, with_recording};
use crate::workload::{PodOwnership, WorkloadPresence, forgets_state};

#[derive(Clone, Debug, PartialEq)]
pub struct StatusWrite {
    pub key: NamespacedName,
    pub uid: String,
    /// A merge patch for its status subresource, which applies only to this UID and resource
    /// version.
    pub patch: Value,
    /// How many entries it sets or removes.
    pub entries: usize,
    /// How many entries the object has after it.
    pub recorded: usize,
    pub workload: WorkloadKey,
    /// What has to be read and checked before it is sent, if it drops entries or replaces recorded
    /// values.
    pub loss_check: Option<LossCheck>,
    /// The form that all states of the object get with it, if it writes all of them.
    pub moves_to: Option<StoredForm>,
    /// Whether the object has the compact form and keeps it: what the write does not name must
    /// still be there.
    pub keeps_compact_form: bool,
    /// How much it costs the API server, as a number of entries in `podStates`.
    pub cost: usize,
    /// Since when the Pods have been Ready that it records on their node for the first time, in
    /// Unix seconds.
    pub newly_recorded: Vec<i64>,
}

/// A read-only view of the cluster from one PPS.
pub(crate) struct View<'a> {
    pub key: &'a NamespacedName,
    pub pps: &'a TrackedPps,
    pub workload: Option<&'a WorkloadFact>,
    /// UID of the workload for which the states were recorded, unless a workload of another name
    /// has it: the PPS targeted that workload before.
    pub former_uid: Option<&'a str>,
    pub coverage: KindCoverage,
    pub superseded_by: Option<&'a NamespacedName>,
    /// The selector of the namespaces in scope, if it does not select this one.
    pub excluded_by: Option<&'a str>,
    pub pods: &'a Pods,
    pub nodes: &'a Nodes,
    pub compact_form: CompactForm,
}

pub(super) struct Decision {
    /// What to write, if something differs, and what the object has once the API server has stored
    /// it.
    pub write: Option<(StatusWrite, InFlight)>,
    pub entries: EntryDecisions,
    /// What to report about the capacity, if little or none is left.
    pub capacity: Option<Recording>,
    /// The size in `podStates` with which the compact form was found to make the object no smaller.
    pub useless_at: Option<usize>,
}

/// Decides the status of a PPS, examining only what is dirty. Returns nothing if any write would
/// lose states that the API server hides. `size_limit` is the size that an object can have, in
/// bytes; `now` is RFC 3339 and stands in the condition if its status changes.
pub(super) fn decide(view: &View<'_>, size_limit: usize, now: &str) -> Option<Decision> {
    let pps = view.pps;
    let obstacle = condition::obstacle(view);
    // States of a workload that no longer exists are still dropped, by the retention policy.
    let records = obstacle
        .as_ref()
        .is_none_or(|obstacle| obstacle.reason == Reason::WorkloadNotFound);

    let mut entries = if records {
        entries::decide(view)
    } else {
        EntryDecisions::unchanged(view)
    };
    let (changes, deferred) = (take(&mut entries.changes), take(&mut entries.deferred));
    let form = form::decide(view, &changes, size_limit);
    let fitted = match (&form, form.sizes(view, &changes)) {
        (FormDecision::Wait, _) => return None,
        (_, Some(sizes)) => FittedChanges {
            changes,
            deferred,
            sizes,
        },
        (_, None) => pps
            .capacity
            .fit(&pps.fact.status, changes, deferred, size_limit),
    };
    for pod in &fitted.deferred {
        entries.missing_labels.remove(pod);
    }
    entries
        .replaced
        .retain(|replaced| !fitted.deferred.contains(&replaced.pod));

    let recorded = recorded_after(pps, &fitted.changes);
    let stays_compact = matches!(form, FormDecision::StayTooLarge);
    let useless_at = if let FormDecision::StayPlain(size) = form {
        Some(size)
    } else {
        None
    };
    let capacity = condition::capacity(pps, &fitted, recorded, stays_compact, size_limit);
    let missing_label = || condition::missing_label(view, &entries.missing_labels, &fitted.changes);
    let recording = condition::recording(view, obstacle, missing_label, capacity.clone(), recorded);
    let header = decide_header(
        view,
        records && !entries.keeps_target,
        recorded,
        &recording,
        now,
    );
    let moves_states = form.moves_states();
    let (mut status, form) = form.patch(view, &fitted.changes);
    extend_patch(pps, &header, &mut status);
    let loss_check = LossCheck::new(view, take(&mut entries.drops), take(&mut entries.replaced));
    let write = (!status.is_empty()).then(|| {
        let (fact, changes, after) = (&pps.fact, fitted.changes, StoredForm::of(&form));
        let write = StatusWrite {
            key: view.key.clone(),
            uid: fact.uid.clone(),
            patch: guarded_patch(&fact.uid, &fact.resource_version, &status),
            entries: changes.len(),
            recorded,
            workload: pps.workload.clone(),
            loss_check,
            moves_to: moves_states.then_some(after),
            keeps_compact_form: !moves_states && after == StoredForm::Compact,
            cost: write_cost(recorded, after),
            newly_recorded: changes
                .iter()
                .filter_map(|change| change.ready_since)
                .collect(),
        };
        (
            write,
            InFlight {
                changes,
                sizes: fitted.sizes,
                form,
                header,
            },
        )
    });
    let entries = EntryDecisions {
        deferred: fitted.deferred,
        ..entries
    };
    Some(Decision {
        write,
        entries,
        capacity,
        useless_at,
    })
}

/// Decides the header. `takes_over` says whether all states belong to the workload that exists now.
fn decide_header(
    view: &View<'_>,
    takes_over: bool,
    recorded: usize,
    recording: &Recording,
    now: &str,
) -> Header {
    let (fact, before) = (&view.pps.fact, &view.pps.fact.status.header);
    if view.pps.capacity.header_refused {
        return before.clone();
    }
    let desired = if view.coverage == KindCoverage::Listed {
        view.workload
            .map_or(Some(0), |workload| workload.demand.replicas())
            .map(count)
    } else {
        before.desired
    };
    let target = view
        .living_workload()
        .filter(|_| takes_over)
        .map(|workload| workload.uid.to_string());
    Header {
        observed_generation: fact.generation.or(before.observed_generation),
        target_uid: target.or_else(|| before.target_uid.clone()),
        recorded: Some(count(recorded as u64)),
        desired,
        conditions: with_recording(&before.conditions, recording, fact.generation, now)
            .unwrap_or_else(|| before.conditions.clone()),
    }
}

fn recorded_after(pps: &TrackedPps, changes: &[EntryChange]) -> usize {
    let states = &pps.fact.status.pod_states;
    changes.iter().fold(states.len(), |count, change| {
        match (states.contains(&change.pod), &change.after) {
            (false, Some(_)) => count + 1,
            (true, None) => count - 1,
            _ => count,
        }
    })
}

/// Adds the fields that differ to a merge patch.
fn extend_patch(pps: &TrackedPps, header: &Header, status: &mut Map<String, Value>) {
    let (before, after) = (json!(pps.fact.status.header), json!(header));
    // Where the states are only in memory, so may be the workload that they belong to.
    let is_erased = matches!(pps.fact.status.form, Form::Pruned(_));
    for (field, value) in after.as_object().into_iter().flatten() {
        if before[field] != *value || (field == "targetUID" && is_erased && !value.is_null()) {
            status.insert(field.clone(), value.clone());
        }
    }
}

fn count(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

impl<'a> View<'a> {
    pub(crate) fn pod(&self, name: &Arc<str>) -> Option<&'a PodFact> {
        self.pods.facts.get(&NamespacedName {
            name: name.clone(),
            ..self.key.clone()
        })
    }

    pub(crate) fn living_workload(&self) -> Option<&'a WorkloadFact> {
        self.workload.filter(|workload| !workload.terminating)
    }

    pub(crate) fn presence(&self) -> WorkloadPresence {
        match (
            self.living_workload(),
            &self.pps.fact.status.header.target_uid,
        ) {
            (Some(workload), Some(uid)) if *uid != *workload.uid => WorkloadPresence::Replaced,
            (Some(_), _) => WorkloadPresence::Present,
            (None, None) if self.workload.is_none() => WorkloadPresence::Awaited,
            (None, _) => WorkloadPresence::Gone,
        }
    }

    /// Whether the workload exists for which the entry of this Pod was recorded. `in_doubt` is the
    /// answer if that is not known.
    pub(crate) fn presence_for(&self, name: &Arc<str>, in_doubt: bool) -> WorkloadPresence {
        let is_renewed = |workload: &WorkloadFact| {
            self.pps
                .renewals
                .is_renewed(&workload.uid, name)
                .unwrap_or(in_doubt)
        };
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

    /// What is known of an entry's node, if `nodeDeletionPolicy` and the Pod allow to drop the
    /// entry with it.
    pub(crate) fn forgettable_absence(&self, name: &Arc<str>, state: &PodState) -> Option<Absence> {
        let absence = *self.nodes.missing.get(&*state.node_name)?;
        let spec = &self.pps.fact.spec;
        is_forgettable(spec, self.ownership(name), self.pod(name), &state.node_name)
            .then_some(absence)
    }
}

/// What a Pod is to the workload. `former_uid` is the UID of the workload that had its name before
/// and for which the states were recorded.
fn ownership(
    pod: Option<&PodFact>,
    workload: Option<&WorkloadFact>,
    former_uid: Option<&str>,
) -> PodOwnership {
    let Some(pod) = pod else {
        return PodOwnership::Absent;
    };
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

/// What a Pod is to its entry, which names this node. A Pod of a re-created workload that is on no
/// node, or on another node, is not the Pod for which the entry was recorded, unless a user moves
/// the Pod.
fn backing(
    ownership: PodOwnership,
    presence: WorkloadPresence,
    pod: Option<&PodFact>,
    recorded: &str,
) -> PodOwnership {
    let is_adopted =
        |pod: &PodFact| pod.exempt || recorded.is_empty() || pod.node.as_deref() == Some(recorded);
    let is_own = matches!(ownership, PodOwnership::Owned | PodOwnership::Terminating);
    let is_recreated = presence == WorkloadPresence::Replaced && is_own;
    if is_recreated && !pod.is_some_and(is_adopted) {
        PodOwnership::Absent
    } else {
        ownership
    }
}

/// Whether an entry may be dropped once its node is gone.
fn is_forgettable(
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
