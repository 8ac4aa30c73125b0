//! The decision about one PPS: a pure function from a read-only [`View`] to the status that the PPS should
//! have.
//!
//! Each step is a file that can be read alone: what keeps the PPS from recording ([`condition`]), what
//! becomes of each entry ([`entries`]), in which form the states are written ([`form`]), which changes fit
//! ([`Capacity::fit`]), and what the header says ([`header`]).
//!
//! [`Capacity::fit`]: super::capacity::Capacity::fit

mod condition;
mod drop_check;
pub(super) mod entries;
pub(super) mod form;
mod header;
mod view;

use crate::recording::Recording;
use pps_core::Reason;
use serde_json::{Map, Value};

pub use self::drop_check::DropCheck;
use self::entries::EntryDecisions;
use self::form::FormDecision;
pub(super) use self::view::View;
use super::capacity::FittedChanges;
use super::tracked_pps::InFlight;

pub(super) struct Decision {
    /// The fields of the status that differ; empty if nothing has to be written.
    pub status: Map<String, Value>,
    pub recorded: usize,
    /// The write, to be applied to the tracked object once the API server has stored it.
    pub write: InFlight,
    pub entries: EntryDecisions,
    /// What has to be read before the write is sent, if it drops entries or replaces recorded values.
    pub drops: Option<DropCheck>,
    /// What to report about the capacity, if little or none is left.
    pub capacity: Option<Recording>,
    /// Whether all states are written, because they get another form.
    pub moves_states: bool,
    /// The compact form would make the object no smaller.
    pub refuses_compact_form: bool,
}

pub(super) fn is_blocked(view: &View<'_>) -> bool {
    condition::obstacle(view).is_some()
}

/// Decides the status of a PPS, examining only what is dirty. Returns nothing if any write would lose states
/// that the API server hides. `size_limit` is the size that an object can have, in bytes; `now` is RFC 3339
/// and stands in the condition if its status changes.
pub(super) fn decide(view: &View<'_>, size_limit: usize, now: &str) -> Option<Decision> {
    let pps = view.pps;
    let obstacle = condition::obstacle(view);
    // States of a workload that no longer exists are still dropped, by the retention policy.
    let records = obstacle.as_ref().is_none_or(|obstacle| obstacle.reason == Reason::WorkloadNotFound);

    let mut entries = if records { entries::decide(view) } else { EntryDecisions::unchanged(view) };
    let changes = std::mem::take(&mut entries.changes);
    let deferred = std::mem::take(&mut entries.deferred);
    let form = form::decide(view, &changes, size_limit);
    let fitted = match (&form, form.sizes(view, &changes)) {
        (FormDecision::Wait, _) => return None,
        (_, Some(sizes)) => FittedChanges { changes, deferred, sizes },
        (_, None) => pps.capacity.fit(&pps.fact.status, changes, deferred, size_limit),
    };
    for pod in &fitted.deferred {
        entries.missing_labels.remove(pod);
    }

    let recorded = header::recorded_after(pps, &fitted.changes);
    let stays_compact = matches!(form, FormDecision::StayTooLarge);
    let refuses_compact_form = matches!(form, FormDecision::StayPlain);
    let capacity = condition::capacity(pps, &fitted, recorded, stays_compact, size_limit);
    let missing_label = || condition::missing_label(view, &entries.missing_labels, &fitted.changes);
    let recording = condition::recording(view, obstacle, missing_label, capacity.clone(), recorded);
    let takes_over = records && !entries.keeps_target;
    let header = header::decide(view, takes_over, recorded, &recording, now);
    let moves_states = form.moves_states();
    let (mut status, form) = form.patch(view, &fitted.changes);
    header::extend_patch(pps, &header, &mut status);
    let drops =
        DropCheck::new(view, std::mem::take(&mut entries.drops), std::mem::take(&mut entries.replaced));
    Some(Decision {
        status,
        recorded,
        write: InFlight { changes: fitted.changes, sizes: fitted.sizes, form, header },
        drops,
        entries: EntryDecisions { deferred: fitted.deferred, ..entries },
        capacity,
        moves_states,
        refuses_compact_form,
    })
}
