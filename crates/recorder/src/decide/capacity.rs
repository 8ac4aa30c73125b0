//! How much a PPS holds, and which states have to wait because it holds no more.
//!
//! An object is kept below a limit. The API server may store less: that depends on etcd's flags, and only its
//! refusals tell. Changes that make the object smaller are written first, and of the others as many as fit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_core::Reason;
use pps_core::limits::MAX_UNPACKED_LENGTH;
use pps_core::packed::Bucket;
use pps_core::pps::PodState;
use pps_core::size::entry_size;

use super::changed_states::{ChangedStates, EntryChange, compact_size};
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
    pub(super) sizes: Sizes,
    /// The smallest size that the API server has refused.
    refused: Option<usize>,
    /// The largest size that is tried, since more was refused.
    ceiling: Option<usize>,
    /// Pods whose states wait for capacity.
    pub(super) deferred: BTreeSet<Arc<str>>,
    /// Even a write that added nothing but the condition was refused: the next one leaves the header out.
    pub(super) header_refused: bool,
    reported: Option<Reason>,
}

pub(crate) struct FittedChanges {
    pub changes: Vec<EntryChange>,
    pub deferred: BTreeSet<Arc<str>>,
    pub sizes: Sizes,
}

impl Sizes {
    fn of(status: &PpsStatus) -> Self {
        let plain = status.pod_states.size();
        let stored = match status.form {
            Form::Plain => plain,
            Form::Compact(_) | Form::Pruned(_) => compact_size(&status.pod_states) + overlay_size(status),
        };
        Self { stored, plain }
    }
}

impl Capacity {
    pub(crate) fn of(status: &PpsStatus) -> Self {
        Self { sizes: Sizes::of(status), ..Self::default() }
    }

    pub(crate) fn plain_size_after(&self, states: &States, changes: &[EntryChange]) -> usize {
        changes.iter().fold(self.sizes.plain, |size, change| {
            let (before, after) = plain_sizes(states, change);
            (size + after).saturating_sub(before)
        })
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        !self.deferred.is_empty() || self.header_refused
    }

    /// Whether the API server has not refused states of this size, as far as its answers tell.
    pub(crate) fn may_take(&self, size: usize) -> bool {
        !self.header_refused && self.ceiling.is_none_or(|ceiling| size <= ceiling)
    }

    /// Notes the reason of the present Event about the capacity. Returns whether it is a new one.
    pub(crate) fn report(&mut self, reason: Option<Reason>) -> bool {
        std::mem::replace(&mut self.reported, reason) != reason
    }

    /// Selects the changes that fit: no new entry makes the object larger than `limit` bytes, and nothing
    /// makes it larger than what the API server stores. `deferred` are the Pods of earlier decisions that
    /// still wait. The object keeps the form that it has.
    pub(crate) fn fit(
        &self,
        status: &PpsStatus,
        changes: Vec<EntryChange>,
        mut deferred: BTreeSet<Arc<str>>,
        limit: usize,
    ) -> FittedChanges {
        let states = &status.pod_states;
        // More than this could be written and not read.
        let is_too_much = |plain: usize| status.form != Form::Plain && plain > MAX_UNPACKED_LENGTH;
        let stored_after = |changes: &[EntryChange]| match status.form {
            Form::Plain => self.plain_size_after(states, changes),
            _ => self.sizes.stored.saturating_add_signed(growth(states, changes)),
        };
        let limit = limit.saturating_sub(OBJECT_OVERHEAD).max(self.sizes.stored);
        let ceiling = self.ceiling.map_or(limit, |ceiling| ceiling.min(limit));
        let mut stored = stored_after(&changes);
        let is_unreadable = is_too_much(self.plain_size_after(states, &changes));
        let is_limited = stored > ceiling || is_unreadable;
        // An entry whose Pod has moved to a node with a longer name must not keep the Pod where it was: only
        // what the API server refuses holds it up.
        let is_refused = self.ceiling.is_some_and(|ceiling| stored > ceiling) || is_unreadable;
        let grows = |change: &EntryChange| {
            let (before, after) = plain_sizes(states, change);
            is_limited && after > before && (before == 0 || is_refused)
        };
        let (growing, mut fitted): (Vec<_>, Vec<_>) = changes.into_iter().partition(grows);
        if is_limited {
            stored = stored_after(&fitted);
        }
        // Each bucket is examined with its own changes only, so that the cost does not grow faster than their
        // number. In `podStates` the entries do not depend on each other.
        let is_plain = status.form == Form::Plain;
        let mut plain = self.plain_size_after(states, &fitted);
        let mut others = if is_plain { BTreeMap::new() } else { by_bucket(std::mem::take(&mut fitted)) };
        let units: Vec<Vec<EntryChange>> = if is_plain {
            growing.into_iter().map(|change| vec![change]).collect()
        } else {
            by_bucket(growing).into_values().collect()
        };
        for mut unit in units {
            let Some(bucket) = unit.first().map(|change| Bucket::of(&change.pod)) else { continue };
            let others = others.remove(&bucket).unwrap_or_default();
            let plain_growth = |some: &[EntryChange]| -> usize {
                let growth = |change| {
                    let (before, after) = plain_sizes(states, change);
                    after - before
                };
                some.iter().map(growth).sum()
            };
            let size = |some: &[EntryChange]| {
                if is_plain {
                    return plain_growth(some);
                }
                ChangedStates::new(states, others.iter().chain(some)).size(bucket)
            };
            let before = size(&[]);
            // The size follows from all texts of a bucket together.
            let (mut count, mut after) = (unit.len(), size(&unit));
            while count > 0
                && ((stored + after).saturating_sub(before) > ceiling
                    || is_too_much(plain + plain_growth(&unit[..count])))
            {
                count /= 2;
                after = size(&unit[..count]);
            }
            stored = (stored + after).saturating_sub(before);
            plain += plain_growth(&unit[..count]);
            deferred.extend(unit.split_off(count).into_iter().map(|change| change.pod));
            fitted.extend(others.into_iter().chain(unit));
        }
        fitted.extend(others.into_values().flatten());
        // Their buckets are written with them.
        let overlaid = status.form.overlaid().filter(|overlaid| !overlaid.is_empty());
        if let Some(overlaid) = overlaid {
            let written: BTreeSet<Bucket> = fitted.iter().map(|change| Bucket::of(&change.pod)).collect();
            let folded = overlaid.iter().filter(|pod| written.contains(&Bucket::of(pod)));
            stored = stored.saturating_sub(folded.map(|pod| states.size_of(pod)).sum());
        }
        let plain = self.plain_size_after(states, &fitted);
        FittedChanges { changes: fitted, deferred, sizes: Sizes { stored, plain } }
    }

    /// The states are those of `after` now. What the API server has refused before, it may refuse again. To
    /// measure costs time for each state, and most changes of an object are no changes of its states.
    pub(crate) fn measure(&mut self, before: &PpsStatus, after: &PpsStatus) {
        if before.form != after.form || before.pod_states != after.pod_states {
            self.resize(Sizes::of(after));
        }
    }

    /// If the object has become smaller, everything below the refused size may be tried again.
    fn resize(&mut self, sizes: Sizes) {
        if sizes.stored < self.sizes.stored {
            self.ceiling = self.ceiling.max(self.refused.map(|refused| refused.saturating_sub(LEAST_STEP)));
        }
        self.sizes = sizes;
    }

    /// The API server has stored entries of these sizes. Returns the deferred Pods that may be tried again,
    /// and whether the header has to be written.
    pub(crate) fn on_written(&mut self, sizes: Sizes) -> (BTreeSet<Arc<str>>, bool) {
        let size = sizes.stored;
        let shrunk = size < self.sizes.stored;
        self.resize(sizes);
        let header = std::mem::take(&mut self.header_refused);
        let below_refused = self.refused.filter(|refused| *refused > size + 2 * LEAST_STEP);
        if let Some(refused) = below_refused.filter(|_| !self.deferred.is_empty() && !shrunk) {
            self.ceiling = Some(size.midpoint(refused));
        }
        let retry = shrunk || below_refused.is_some();
        (if retry { std::mem::take(&mut self.deferred) } else { BTreeSet::new() }, header)
    }

    /// The API server has refused entries of this size as too large; `limit` is the size that it is assumed
    /// to take.
    pub(crate) fn on_refused(&mut self, refused: usize, limit: usize) {
        let present = self.sizes.stored;
        if refused <= present {
            self.ceiling.get_or_insert(present);
            self.header_refused = true;
            return;
        }
        let least = self.refused.unwrap_or(usize::MAX).min(refused);
        let assumed = limit.saturating_sub(OBJECT_OVERHEAD + LEAST_STEP);
        self.refused = Some(least);
        self.ceiling = Some(if present < assumed && assumed < least {
            assumed
        } else if least - present > LEAST_STEP {
            present.midpoint(least)
        } else {
            present
        });
    }

    /// Forgets what was refused, since the API server may take more by now. Returns the Pods that had to
    /// wait; nothing if nothing was refused or deferred.
    pub(crate) fn reset(&mut self) -> Option<BTreeSet<Arc<str>>> {
        let is_limited = self.ceiling.take().is_some() || !self.deferred.is_empty();
        self.refused = None;
        self.header_refused = false;
        is_limited.then(|| std::mem::take(&mut self.deferred))
    }
}

/// The size of the states that are in `podStates` beside the compact form.
pub(crate) fn overlay_size(status: &PpsStatus) -> usize {
    status.form.overlaid().into_iter().flatten().map(|pod| status.pod_states.size_of(pod)).sum()
}

fn by_bucket(changes: Vec<EntryChange>) -> BTreeMap<Bucket, Vec<EntryChange>> {
    let mut buckets: BTreeMap<Bucket, Vec<EntryChange>> = BTreeMap::new();
    for change in changes {
        buckets.entry(Bucket::of(&change.pod)).or_default().push(change);
    }
    buckets
}

fn plain_sizes(states: &States, change: &EntryChange) -> (usize, usize) {
    let after = change.after.as_ref().map(|state| size_of(&change.pod, state));
    (states.size_of(&change.pod), after.unwrap_or_default())
}

/// By how much these changes make the buckets larger in which they are.
fn growth(states: &States, changes: &[EntryChange]) -> isize {
    let (before, after) = (ChangedStates::new(states, []), ChangedStates::new(states, changes));
    let size = |states: &ChangedStates<'_>, bucket| states.size(bucket).cast_signed();
    after.changed().map(|bucket| size(&after, bucket) - size(&before, bucket)).sum()
}

fn size_of(pod: &str, state: &PodState) -> usize {
    let [labels, annotations] = [&state.node_topology_labels, &state.annotations]
        .map(|map| map.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    entry_size(pod, &state.node_name, labels, annotations)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn no_more_is_written_in_the_compact_form_than_can_be_read() {
        let change = |pod: usize| EntryChange {
            pod: format!("w-{}", 100 * pod).into(),
            after: Some(PodState { node_name: "node-1".into(), ..PodState::default() }),
            patch: Value::Null,
            ready_since: None,
        };
        let fit = |form: Form| {
            let status = PpsStatus { form, ..PpsStatus::default() };
            let sizes = Sizes { stored: 1000, plain: MAX_UNPACKED_LENGTH - 100 };
            let capacity = Capacity { sizes, ..Capacity::default() };
            capacity.fit(&status, (0..20).map(change).collect(), BTreeSet::new(), usize::MAX)
        };
        let compact = fit(Form::Compact(BTreeSet::new()));
        assert!(compact.sizes.plain <= MAX_UNPACKED_LENGTH, "{:?}", compact.sizes);
        assert_eq!((compact.changes.len(), compact.deferred.len()), (3, 17));
        assert!(fit(Form::Plain).deferred.is_empty());
    }
}
