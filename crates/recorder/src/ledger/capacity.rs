//! How large a PPS is, and which states wait because it holds no more.
//!
//! An object is kept below a limit. The API server may store less: that depends on etcd's flags,
//! and only its refusals tell.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::Reason;

use super::entry_change::{ChangedStates, EntryChange, EntrySizes, size_of_texts};
use crate::facts::states::States;
use crate::facts::{Form, PpsStatus};

/// About what an object takes beside its entries, in bytes.
pub(crate) const OBJECT_OVERHEAD: usize = 2 * 1024;
/// Steps smaller than this are not tried: the condition has to fit, too.
const LEAST_STEP: usize = 4 * 1024;

/// Sizes of the states of an object, in bytes of JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// In the form that the object has.
    pub stored: usize,
    pub plain: usize,
}

/// How full a PPS is, as far as the API server's answers tell. All sizes are bytes of JSON.
#[derive(Clone, Debug, Default)]
pub(crate) struct Capacity {
    pub sizes: Sizes,
    /// The smallest size that the API server has refused.
    pub refused: Option<usize>,
    /// Pods whose states wait for capacity.
    pub deferred: BTreeSet<Arc<str>>,
    /// Even a write that added nothing but the condition was refused: the next one leaves the
    /// header out.
    pub header_refused: bool,
    /// The reason of the present Event about the capacity.
    pub reported: Option<Reason>,
}

/// What was not written before, and may be written now.
pub(crate) struct Retry {
    /// Pods whose states were deferred.
    pub deferred: BTreeSet<Arc<str>>,
    pub header: bool,
}

impl Sizes {
    pub(crate) fn of(status: &PpsStatus) -> Self {
        let plain = status.pod_states.size();
        let stored = match status.form {
            Form::Plain => plain,
            Form::Compact(_) | Form::Pruned(_) => {
                let buckets = ChangedStates::unchanged(&status.pod_states).texts();
                size_of_texts(&buckets) + overlay_size(status)
            }
        };
        Self { stored, plain }
    }

    /// The sizes after these changes, if the object keeps its form.
    pub(crate) fn after(self, status: &PpsStatus, changes: &[EntryChange]) -> Self {
        let states = &status.pod_states;
        let plain = self.plain_after(states, changes);
        let Some(overlaid) = status.form.overlaid() else {
            return Self {
                stored: plain,
                plain,
            };
        };
        let before = ChangedStates::unchanged(states);
        let after = ChangedStates::new(states, changes);
        let growth: isize = after
            .changed()
            .map(|bucket| after.size(bucket).cast_signed() - before.size(bucket).cast_signed())
            .sum();
        // What is in `podStates` beside a bucket is written with the bucket.
        let folded: usize = overlaid
            .iter()
            .filter(|pod| after.has_changed(pod))
            .map(|pod| states.size_of(pod))
            .sum();
        Self {
            stored: self
                .stored
                .saturating_add_signed(growth)
                .saturating_sub(folded),
            plain,
        }
    }

    pub(crate) fn plain_after(self, states: &States, changes: &[EntryChange]) -> usize {
        changes.iter().fold(self.plain, |size, change| {
            let EntrySizes { before, after } = change.sizes(states);
            (size + after).saturating_sub(before)
        })
    }
}

impl Capacity {
    pub(crate) fn of(status: &PpsStatus) -> Self {
        Self {
            sizes: Sizes::of(status),
            ..Self::default()
        }
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        !self.deferred.is_empty() || self.header_refused
    }

    /// The largest size that is tried, since the API server has refused a larger one.
    pub(crate) fn ceiling(&self) -> Option<usize> {
        let present = self.sizes.stored;
        let refused = self.refused?;
        Some(if refused > present + LEAST_STEP {
            present.midpoint(refused)
        } else {
            present
        })
    }

    /// The API server has stored entries of these sizes. Returns what may be tried again.
    pub(super) fn on_written(&mut self, sizes: Sizes) -> Retry {
        let before = std::mem::replace(&mut self.sizes, sizes).stored;
        let may_take_more = sizes.stored < before
            || self
                .refused
                .is_some_and(|refused| refused > sizes.stored + 2 * LEAST_STEP);
        Retry {
            deferred: if may_take_more {
                std::mem::take(&mut self.deferred)
            } else {
                BTreeSet::new()
            },
            header: std::mem::take(&mut self.header_refused),
        }
    }

    /// The API server has refused entries of this size as too large.
    pub(super) fn on_refused(&mut self, size: usize) {
        self.header_refused |= size <= self.sizes.stored;
        self.refused = Some(self.refused.map_or(size, |refused| refused.min(size)));
    }

    /// Forgets what was refused, since the API server may take more by now. Returns the Pods that
    /// had to wait; nothing if nothing was refused or deferred.
    pub(super) fn reset(&mut self) -> Option<BTreeSet<Arc<str>>> {
        let is_limited = self.refused.take().is_some() || !self.deferred.is_empty();
        self.header_refused = false;
        is_limited.then(|| std::mem::take(&mut self.deferred))
    }
}

/// The size of the states that are in `podStates` beside the compact form.
pub(crate) fn overlay_size(status: &PpsStatus) -> usize {
    status
        .form
        .overlaid()
        .into_iter()
        .flatten()
        .map(|pod| status.pod_states.size_of(pod))
        .sum()
}
