//! The decision about one PPS: a pure function from a read-only [`View`] to the status that it
//! should have.
//!
//! Each step can be read alone: what keeps the PPS from recording ([`condition`]), what becomes of
//! each entry ([`entries`]), in which form the states are written ([`form`]), which changes fit
//! ([`fit`]), and what the header says.

mod condition;
mod entries;
mod fit;
mod form;
mod loss_check;
mod view;
mod words;

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::status::guarded_patch;
use serde_json::{Map, Value, json};

use self::condition::Obstacle;
pub(super) use self::condition::obstacle;
use self::entries::{Examined, PlannedChanges, examine};
use self::fit::{FittedChanges, fit};
use self::form::FormDecision;
pub(crate) use self::form::StatesHidden;
pub use self::loss_check::LossCheck;
pub(crate) use self::view::View;
use crate::cluster::KindCoverage;
use crate::facts::{Form, Header, NamespacedName, PpsStatus, StoredForm, WorkloadKey};
use crate::ledger::entry_change::EntryChange;
use crate::ledger::progress::{InFlight, Remainder};
use crate::recording::{Recording, with_recording};

/// What a write of a compact object costs at least, unless it has fewer entries.
const COMPACT_COST: usize = 1_000;
/// How many times less an entry costs in the compact form.
const COMPACT_DIVISOR: usize = 5;

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
    pub form: WriteForm,
    /// How much it costs the API server, as a number of entries in `podStates`.
    pub cost: usize,
    /// Since when the Pods have been Ready that it records on their node for the first time, in
    /// Unix seconds.
    pub newly_recorded: Vec<i64>,
}

/// What a write makes of the form of an object's states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteForm {
    /// All states move into `podStates`.
    MoveToPlain,
    /// All states move into the compact form.
    MoveToCompact,
    StayPlain,
    /// What the write does not name must still be there.
    StayCompact,
}

impl WriteForm {
    /// The form that all states of the object get with it, if it writes all of them.
    pub fn moves_to(self) -> Option<StoredForm> {
        match self {
            Self::MoveToPlain => Some(StoredForm::Plain),
            Self::MoveToCompact => Some(StoredForm::Compact),
            Self::StayPlain | Self::StayCompact => None,
        }
    }
}

pub(crate) struct Decision {
    /// What to write, if something differs.
    pub(crate) write: Option<PlannedWrite>,
    pub(crate) remainder: Remainder,
    /// The nodes that the API server has to confirm as gone before their states are dropped.
    pub(crate) unconfirmed_nodes: BTreeSet<Arc<str>>,
    /// New nodes that lack a label of a state.
    pub(crate) awaited_labels: BTreeSet<Arc<str>>,
    /// What to report about the capacity, if little or none is left.
    pub(crate) capacity: Option<Recording>,
}

pub(crate) struct PlannedWrite {
    pub(crate) write: StatusWrite,
    pub(crate) in_flight: InFlight,
}

/// Decides the status of a PPS, examining only what is dirty. `size_limit` is the size that an
/// object can have, in bytes; `now` is RFC 3339 and stands in the condition if its status changes.
pub(crate) fn decide(
    view: &View<'_>,
    size_limit: usize,
    now: &str,
) -> Result<Decision, StatesHidden> {
    let obstacle = condition::obstacle(view);
    let examined = if obstacle.is_none_or(Obstacle::lets_states_be_dropped) {
        examine(view)
    } else {
        Examined::unchanged(view)
    };
    let status = &view.pps.observed.status;
    let form = form::decide(view, &examined.changes.entries, size_limit)?;
    let fitted = fit_changes(view, &form, examined.changes, examined.deferred, size_limit);
    let mut missing_labels = examined.missing_labels;
    missing_labels.retain(|pod| !fitted.deferred.contains(pod));

    let capacity = condition::capacity_level(status, &fitted, &form, size_limit);
    let first_missing = condition::missing_labels(view, &missing_labels, &fitted.changes.entries);
    let recorded = recorded_after(status, &fitted.changes.entries);
    let finding = condition::finding(view, obstacle, capacity, first_missing, recorded);
    let recording = words::recording(&finding, view, recorded, size_limit);
    let header = decide_header(view, examined.takes_over, recorded, &recording, now);
    Ok(Decision {
        remainder: Remainder {
            postponed: examined.postponed,
            missing_labels,
            surplus: examined.surplus,
            absent_names: examined.absent_names,
            deferred: fitted.deferred.clone(),
            owners: examined.owners,
            useless_at: form.useless_at(),
        },
        unconfirmed_nodes: examined.unconfirmed_nodes,
        awaited_labels: examined.awaited_labels,
        capacity: capacity.map(|level| words::capacity(level, recorded, size_limit)),
        write: plan_write(view, fitted, &form, header),
    })
}

/// Takes the changes that fit in the form that the object gets.
fn fit_changes(
    view: &View<'_>,
    form: &FormDecision,
    changes: PlannedChanges,
    deferred: BTreeSet<Arc<str>>,
    size_limit: usize,
) -> FittedChanges {
    if let Some(sizes) = form.sizes(view, &changes.entries) {
        return FittedChanges {
            changes,
            deferred,
            sizes,
        };
    }
    let capacity = &view.pps.progress.capacity;
    let status = &view.pps.observed.status;
    fit(capacity, status, changes, deferred, size_limit)
}

/// Decides the header. `takes_over` says whether all states belong to the workload that exists now.
fn decide_header(
    view: &View<'_>,
    takes_over: bool,
    recorded: usize,
    recording: &Recording,
    now: &str,
) -> Header {
    let observed = &view.pps.observed;
    let before = &observed.status.header;
    if view.pps.progress.capacity.header_refused {
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
        observed_generation: observed.generation.or(before.observed_generation),
        target_uid: target.or_else(|| before.target_uid.clone()),
        recorded: Some(count(recorded as u64)),
        desired,
        conditions: with_recording(&before.conditions, recording, observed.generation, now)
            .unwrap_or_else(|| before.conditions.clone()),
    }
}

/// The write, if the status differs from what the API server has shown.
fn plan_write(
    view: &View<'_>,
    fitted: FittedChanges,
    form: &FormDecision,
    header: Header,
) -> Option<PlannedWrite> {
    let observed = &view.pps.observed;
    let PlannedChanges {
        entries,
        drops,
        replaced,
    } = fitted.changes;
    let mut patch = form.patch(&observed.status, &entries);
    extend_patch(&mut patch.fields, &observed.status, &header);
    if patch.fields.is_empty() {
        return None;
    }
    let recorded = recorded_after(&observed.status, &entries);
    let write = StatusWrite {
        key: view.key.clone(),
        uid: observed.uid.clone(),
        patch: guarded_patch(&observed.uid, &observed.resource_version, &patch.fields),
        entries: entries.len(),
        recorded,
        workload: view.pps.workload.clone(),
        loss_check: LossCheck::new(view, drops, replaced),
        form: write_form(form, &patch.form),
        cost: write_cost(recorded, StoredForm::of(&patch.form)),
        newly_recorded: entries
            .iter()
            .filter_map(|change| change.ready_since)
            .collect(),
    };
    let in_flight = InFlight {
        changes: entries,
        sizes: fitted.sizes,
        form: patch.form,
        header,
    };
    Some(PlannedWrite { write, in_flight })
}

fn write_form(form: &FormDecision, after: &Form) -> WriteForm {
    match form {
        FormDecision::ToPlain => WriteForm::MoveToPlain,
        FormDecision::ToCompact(_) => WriteForm::MoveToCompact,
        _ if after.is_compact() => WriteForm::StayCompact,
        _ => WriteForm::StayPlain,
    }
}

/// What a write of an object with this many entries costs, as a number of entries in `podStates`.
/// In the compact form the API server hardly notices how many there are; but each write has all
/// entries of the buckets that it changes, so that it pays to collect some.
fn write_cost(entries: usize, form: StoredForm) -> usize {
    match form {
        StoredForm::Plain => entries,
        StoredForm::Compact => entries.min(COMPACT_COST) + entries / COMPACT_DIVISOR,
    }
}

/// How many states there are after these changes.
fn recorded_after(status: &PpsStatus, changes: &[EntryChange]) -> usize {
    let states = &status.pod_states;
    changes.iter().fold(states.len(), |count, change| {
        match (states.contains(&change.pod), &change.after) {
            (false, Some(_)) => count + 1,
            (true, None) => count - 1,
            _ => count,
        }
    })
}

/// Adds the fields of the header that differ to a merge patch.
fn extend_patch(fields: &mut Map<String, Value>, status: &PpsStatus, header: &Header) {
    let before = json!(status.header);
    let after = json!(header);
    // Where the states are only in memory, so may be the workload that they belong to.
    let is_erased = matches!(status.form, Form::Pruned(_));
    for (field, value) in after.as_object().into_iter().flatten() {
        if before[field] != *value || (field == "targetUID" && is_erased && !value.is_null()) {
            fields.insert(field.clone(), value.clone());
        }
    }
}

fn count(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
