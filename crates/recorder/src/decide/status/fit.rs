//! Which changes fit into the object. Changes that make it smaller are written first, and of the
//! others as many as fit.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::limits::MAX_UNPACKED_LENGTH;

use super::entries::PlannedChanges;
use crate::facts::{Form, PpsStatus};
use crate::ledger::capacity::{Capacity, OBJECT_OVERHEAD, Sizes};

pub(super) struct FittedChanges {
    pub(super) changes: PlannedChanges,
    /// Pods whose states wait for capacity.
    pub(super) deferred: BTreeSet<Arc<str>>,
    /// The sizes of all states after the changes.
    pub(super) sizes: Sizes,
}

/// What an object can have, in bytes of its states.
struct Limits {
    /// No new entry makes the object larger than this.
    size: usize,
    /// Nothing makes the object larger than this, since the API server has refused more.
    ceiling: Option<usize>,
    /// More than this, as `podStates`, could be written in the compact form, and readers could not
    /// unpack it.
    readable: Option<usize>,
}

impl Limits {
    fn of(capacity: &Capacity, status: &PpsStatus, size_limit: usize) -> Self {
        let size = size_limit.saturating_sub(OBJECT_OVERHEAD);
        Self {
            size: size.max(capacity.sizes.stored),
            ceiling: capacity.ceiling(),
            readable: (status.form != Form::Plain).then_some(MAX_UNPACKED_LENGTH),
        }
    }

    fn are_refused(&self, sizes: Sizes) -> bool {
        self.readable.is_some_and(|readable| sizes.plain > readable)
            || self.ceiling.is_some_and(|ceiling| sizes.stored > ceiling)
    }

    fn are_exceeded(&self, sizes: Sizes) -> bool {
        self.are_refused(sizes) || sizes.stored > self.size
    }
}

/// Selects the changes that fit: no new entry makes the object larger than `size_limit` bytes, and
/// nothing makes it larger than what the API server stores. `deferred` are the Pods of earlier
/// decisions that still wait. The object keeps the form that it has.
pub(super) fn fit(
    capacity: &Capacity,
    status: &PpsStatus,
    changes: PlannedChanges,
    mut deferred: BTreeSet<Arc<str>>,
    size_limit: usize,
) -> FittedChanges {
    let limits = Limits::of(capacity, status, size_limit);
    let sizes = capacity.sizes.after(status, &changes.entries);
    if !limits.are_exceeded(sizes) {
        return FittedChanges {
            changes,
            deferred,
            sizes,
        };
    }
    // An entry whose Pod has moved to a node with a longer name must not keep the Pod where it
    // was: only what the API server refuses holds it up.
    let holds_up_growth = limits.are_refused(sizes);
    let entries = changes.entries.into_iter();
    let (mut growing, mut fitted): (Vec<_>, Vec<_>) = entries.partition(|change| {
        let sizes = change.sizes(&status.pod_states);
        let is_new = sizes.before == 0;
        sizes.after > sizes.before && (is_new || holds_up_growth)
    });
    // A large entry does not keep smaller ones out.
    growing.sort_by_cached_key(|change| change.sizes(&status.pod_states).growth());
    // Binary search: `most` changes fit, `too_many` do not.
    let mut most = fitted.len();
    let mut too_many = fitted.len() + growing.len();
    fitted.extend(growing);
    while too_many > most + 1 {
        let middle = most.midpoint(too_many);
        if limits.are_exceeded(capacity.sizes.after(status, &fitted[..middle])) {
            too_many = middle;
        } else {
            most = middle;
        }
    }
    deferred.extend(fitted.split_off(most).into_iter().map(|change| change.pod));
    let sizes = capacity.sizes.after(status, &fitted);
    // A drop makes the object smaller, so that none is deferred.
    let mut replaced = changes.replaced;
    replaced.retain(|replaced| !deferred.contains(&replaced.pod));
    FittedChanges {
        changes: PlannedChanges {
            entries: fitted,
            drops: changes.drops,
            replaced,
        },
        deferred,
        sizes,
    }
}

#[cfg(test)]
mod tests {
    use pps_core::pps::PodState;
    use serde_json::Value;

    use super::*;
    use crate::ledger::entry_change::EntryChange;

    #[test]
    fn no_more_is_written_in_the_compact_form_than_can_be_read() {
        let change = |pod: usize| EntryChange {
            pod: format!("w-{}", 100 * pod).into(),
            after: Some(PodState {
                node_name: "node-1".into(),
                ..PodState::default()
            }),
            patch: Value::Null,
            ready_since: None,
            new_owner: None,
        };
        let fit_in = |form: Form| {
            let status = PpsStatus {
                form,
                ..PpsStatus::default()
            };
            let sizes = Sizes {
                stored: 1000,
                plain: MAX_UNPACKED_LENGTH - 100,
            };
            let capacity = Capacity {
                sizes,
                ..Capacity::default()
            };
            let changes = PlannedChanges {
                entries: (0..20).map(change).collect(),
                ..PlannedChanges::default()
            };
            fit(&capacity, &status, changes, BTreeSet::new(), usize::MAX)
        };
        let compact = fit_in(Form::Compact(BTreeSet::new()));
        assert!(
            compact.sizes.plain <= MAX_UNPACKED_LENGTH,
            "{:?}",
            compact.sizes
        );
        assert_eq!(
            (compact.changes.entries.len(), compact.deferred.len()),
            (3, 17)
        );
        assert!(fit_in(Form::Plain).deferred.is_empty());
    }
}
