//! How much a PPS holds, and which states have to wait because it holds no more.
//!
//! An object is kept below a limit. The API server may store less: that depends on etcd's flags,
//! and only its refusals tell. Changes that make the object smaller are written first, and of the
//! others as many as fit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_core::Reason;
use pps_core::limits::MAX_UNPACKED_LENGTH;
use pps_core::packed::{Bucket, Row, write_bucket};
use pps_core::pps::PodState;
use pps_core::size::{bucket_size, entry_size};
use serde_json::Value;

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
    pub refused: Option<usize>,
    /// Pods whose states wait for capacity.
    pub(super) deferred: BTreeSet<Arc<str>>,
    /// Even a write that added nothing but the condition was refused: the next one leaves the
    /// header out.
    pub(super) header_refused: bool,
    /// The reason of the present Event about the capacity.
    pub(super) reported: Option<Reason>,
}

pub(crate) struct FittedChanges {
    pub changes: Vec<EntryChange>,
    pub deferred: BTreeSet<Arc<str>>,
    pub sizes: Sizes,
}

impl Sizes {
    pub(super) fn of(status: &PpsStatus) -> Self {
        let plain = status.pod_states.size();
        let stored = match status.form {
            Form::Plain => plain,
            Form::Compact(_) | Form::Pruned(_) => {
                size_of_texts(&ChangedStates::new(&status.pod_states, []).texts())
                    + overlay_size(status)
            }
        };
        Self { stored, plain }
    }

    /// The sizes after these changes, if the object keeps its form.
    fn after(self, status: &PpsStatus, changes: &[EntryChange]) -> Self {
        let states = &status.pod_states;
        let plain = self.plain_after(states, changes);
        let Some(overlaid) = status.form.overlaid() else {
            return Self {
                stored: plain,
                plain,
            };
        };
        let (before, after) = (
            ChangedStates::new(states, []),
            ChangedStates::new(states, changes),
        );
        let growth = |bucket| after.size(bucket).cast_signed() - before.size(bucket).cast_signed();
        let stored = self
            .stored
            .saturating_add_signed(after.changed().map(growth).sum());
        // What is in `podStates` beside a bucket is written with the bucket.
        let folded = overlaid
            .iter()
            .filter(|pod| after.has_changed(pod))
            .map(|pod| states.size_of(pod));
        Self {
            stored: stored.saturating_sub(folded.sum()),
            plain,
        }
    }

    pub(crate) fn plain_after(self, states: &States, changes: &[EntryChange]) -> usize {
        changes.iter().fold(self.plain, |size, change| {
            let (before, after) = plain_sizes(states, change);
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
    fn ceiling(&self) -> Option<usize> {
        let (present, refused) = (self.sizes.stored, self.refused?);
        Some(if refused > present + LEAST_STEP {
            present.midpoint(refused)
        } else {
            present
        })
    }

    /// Selects the changes that fit: no new entry makes the object larger than `limit` bytes, and
    /// nothing makes it larger than what the API server stores. `deferred` are the Pods of earlier
    /// decisions that still wait. The object keeps the form that it has.
    pub(crate) fn fit(
        &self,
        status: &PpsStatus,
        changes: Vec<EntryChange>,
        mut deferred: BTreeSet<Arc<str>>,
        limit: usize,
    ) -> FittedChanges {
        let limit = limit.saturating_sub(OBJECT_OVERHEAD).max(self.sizes.stored);
        let ceiling = self.ceiling();
        // More than this could be written and not read.
        let is_unreadable =
            |sizes: Sizes| status.form != Form::Plain && sizes.plain > MAX_UNPACKED_LENGTH;
        let is_refused = |sizes: Sizes| {
            is_unreadable(sizes) || ceiling.is_some_and(|ceiling| sizes.stored > ceiling)
        };
        let is_too_large = |sizes: Sizes| is_refused(sizes) || sizes.stored > limit;
        let mut sizes = self.sizes.after(status, &changes);
        if !is_too_large(sizes) {
            return FittedChanges {
                changes,
                deferred,
                sizes,
            };
        }
        // An entry whose Pod has moved to a node with a longer name must not keep the Pod where it
        // was: only what the API server refuses holds it up.
        let holds_up_growth = is_refused(sizes);
        let grows = |change: &EntryChange| {
            let (before, after) = plain_sizes(&status.pod_states, change);
            after > before && (before == 0 || holds_up_growth)
        };
        let (mut growing, mut fitted): (Vec<_>, Vec<_>) = changes.into_iter().partition(grows);
        // A large entry does not keep smaller ones out.
        growing.sort_by_cached_key(|change| {
            let (before, after) = plain_sizes(&status.pod_states, change);
            after.saturating_sub(before)
        });
        // So many fit, and so many do not.
        let (mut most, mut too_many) = (fitted.len(), fitted.len() + growing.len());
        fitted.extend(growing);
        while too_many > most + 1 {
            let middle = most.midpoint(too_many);
            let fits = !is_too_large(self.sizes.after(status, &fitted[..middle]));
            *if fits { &mut most } else { &mut too_many } = middle;
        }
        deferred.extend(fitted.split_off(most).into_iter().map(|change| change.pod));
        sizes = self.sizes.after(status, &fitted);
        FittedChanges {
            changes: fitted,
            deferred,
            sizes,
        }
    }

    /// The API server has stored entries of these sizes. Returns the deferred Pods that may be
    /// tried again, and whether the header has to be written.
    pub(crate) fn on_written(&mut self, sizes: Sizes) -> (BTreeSet<Arc<str>>, bool) {
        let before = std::mem::replace(&mut self.sizes, sizes).stored;
        let is_below = |refused| refused > sizes.stored + 2 * LEAST_STEP;
        let may_take_more = sizes.stored < before || self.refused.is_some_and(is_below);
        let retry = if may_take_more {
            std::mem::take(&mut self.deferred)
        } else {
            BTreeSet::new()
        };
        (retry, std::mem::take(&mut self.header_refused))
    }

    /// The API server has refused entries of this size as too large.
    pub(crate) fn on_refused(&mut self, size: usize) {
        self.header_refused |= size <= self.sizes.stored;
        self.refused = Some(self.refused.map_or(size, |refused| refused.min(size)));
    }

    /// Forgets what was refused, since the API server may take more by now. Returns the Pods that
    /// had to wait; nothing if nothing was refused or deferred.
    pub(crate) fn reset(&mut self) -> Option<BTreeSet<Arc<str>>> {
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

/// The size of an entry before and after a change.
fn plain_sizes(states: &States, change: &EntryChange) -> (usize, usize) {
    let after = change.after.as_ref().map(|state| {
        let [labels, annotations] = [&state.node_topology_labels, &state.annotations].map(|map| {
            map.iter()
                .map(|(key, value)| (key.as_str(), value.as_str()))
        });
        entry_size(&change.pod, &state.node_name, labels, annotations)
    });
    (states.size_of(&change.pod), after.unwrap_or_default())
}

#[derive(Clone, Debug)]
pub(crate) struct EntryChange {
    pub pod: Arc<str>,
    pub after: Option<PodState>,
    pub patch: Value,
    /// Since when the Pod has been Ready, in Unix seconds, if this is the first record of it on its
    /// node.
    pub ready_since: Option<i64>,
    /// The workload to which the entry belongs once it is stored, while the status names another.
    pub renewed_for: Option<Arc<str>>,
}

#[cfg(test)]
thread_local! {
    pub static RENDERED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The states of an object after some changes, as the buckets of the compact form.
pub(crate) struct ChangedStates<'a> {
    states: &'a States,
    /// The new state of each changed Pod; none if it is dropped.
    changes: BTreeMap<Bucket, BTreeMap<&'a str, Option<&'a PodState>>>,
}

impl<'a> ChangedStates<'a> {
    pub(crate) fn new(
        states: &'a States,
        changes: impl IntoIterator<Item = &'a EntryChange>,
    ) -> Self {
        let mut buckets: BTreeMap<Bucket, BTreeMap<&str, Option<&PodState>>> = BTreeMap::new();
        for change in changes {
            let bucket = buckets.entry(Bucket::of(&change.pod)).or_default();
            bucket.insert(&change.pod, change.after.as_ref());
        }
        Self {
            states,
            changes: buckets,
        }
    }

    pub(crate) fn changed(&self) -> impl Iterator<Item = Bucket> {
        self.changes.keys().copied()
    }

    fn has_changed(&self, pod: &str) -> bool {
        self.changes.contains_key(&Bucket::of(pod))
    }

    pub(crate) fn text(&self, bucket: Bucket) -> Option<String> {
        #[cfg(test)]
        RENDERED.set(RENDERED.get() + 1);
        let changes = self.changes.get(&bucket);
        let is_unchanged =
            |row: &Row<'_>| changes.is_none_or(|changes| !changes.contains_key(row.pod));
        let changed = changes.into_iter().flatten();
        let changed = changed.filter_map(|(pod, after)| Some(Row::of(pod, after.as_ref()?)));
        let rows: Vec<Row<'_>> = self
            .states
            .rows(bucket)
            .filter(is_unchanged)
            .chain(changed)
            .collect();
        (!rows.is_empty()).then(|| write_bucket(&rows))
    }

    /// All buckets with their texts. Costs time for each state.
    pub(crate) fn texts(&self) -> Vec<(Bucket, String)> {
        let buckets: BTreeSet<Bucket> = self.states.buckets().chain(self.changed()).collect();
        buckets
            .into_iter()
            .filter_map(|bucket| Some((bucket, self.text(bucket)?)))
            .collect()
    }

    fn size(&self, bucket: Bucket) -> usize {
        size_of_texts(self.text(bucket).map(|text| (bucket, text)).as_slice())
    }
}

pub(crate) fn size_of_texts(texts: &[(Bucket, String)]) -> usize {
    texts
        .iter()
        .map(|(bucket, text)| bucket_size(&bucket.to_string(), text))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            renewed_for: None,
        };
        let fit = |form: Form| {
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
            capacity.fit(
                &status,
                (0..20).map(change).collect(),
                BTreeSet::new(),
                usize::MAX,
            )
        };
        let compact = fit(Form::Compact(BTreeSet::new()));
        assert!(
            compact.sizes.plain <= MAX_UNPACKED_LENGTH,
            "{:?}",
            compact.sizes
        );
        assert_eq!((compact.changes.len(), compact.deferred.len()), (3, 17));
        assert!(fit(Form::Plain).deferred.is_empty());
    }
}
