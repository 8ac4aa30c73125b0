//! The states of an object after some changes, as the buckets of the compact form.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_core::packed::{Bucket, Row, write_bucket};
use pps_core::pps::PodState;
use pps_core::size::bucket_size;
use serde_json::Value;

use crate::facts::states::States;

#[derive(Clone, Debug)]
pub(crate) struct EntryChange {
    pub pod: Arc<str>,
    pub after: Option<PodState>,
    pub patch: Value,
    /// Since when the Pod has been Ready, in Unix seconds, if this is the first record of it on its node.
    pub ready_since: Option<i64>,
}

#[cfg(test)]
thread_local! {
    pub static RENDERED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

pub(crate) struct ChangedStates<'a> {
    states: &'a States,
    /// The new state of each changed Pod; none if it is dropped.
    changes: BTreeMap<Bucket, BTreeMap<&'a str, Option<&'a PodState>>>,
}

impl<'a> ChangedStates<'a> {
    pub(crate) fn new(states: &'a States, changes: impl IntoIterator<Item = &'a EntryChange>) -> Self {
        let mut buckets: BTreeMap<Bucket, BTreeMap<&str, Option<&PodState>>> = BTreeMap::new();
        for change in changes {
            let bucket = buckets.entry(Bucket::of(&change.pod)).or_default();
            bucket.insert(&change.pod, change.after.as_ref());
        }
        Self { states, changes: buckets }
    }

    pub(crate) fn changed(&self) -> impl Iterator<Item = Bucket> {
        self.changes.keys().copied()
    }

    pub(crate) fn has_changed(&self, pod: &str) -> bool {
        self.changes.contains_key(&Bucket::of(pod))
    }

    pub(crate) fn text(&self, bucket: Bucket) -> Option<String> {
        #[cfg(test)]
        RENDERED.set(RENDERED.get() + 1);
        let changes = self.changes.get(&bucket);
        let is_unchanged = |row: &Row<'_>| changes.is_none_or(|changes| !changes.contains_key(row.pod));
        let changed = changes.into_iter().flatten();
        let changed = changed.filter_map(|(pod, after)| Some(Row::of(pod, after.as_ref()?)));
        let rows: Vec<Row<'_>> = self.states.rows(bucket).filter(is_unchanged).chain(changed).collect();
        (!rows.is_empty()).then(|| write_bucket(&rows))
    }

    /// All buckets with their texts. Costs time for each state.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (Bucket, String)> {
        let buckets: BTreeSet<Bucket> = self.states.buckets().chain(self.changed()).collect();
        buckets.into_iter().filter_map(|bucket| Some((bucket, self.text(bucket)?)))
    }

    pub(crate) fn size(&self, bucket: Bucket) -> usize {
        self.text(bucket).map(|text| size_of(bucket, &text)).unwrap_or_default()
    }
}

/// Size of the states in the compact form, in bytes. Costs time for each state.
pub(super) fn compact_size(states: &States) -> usize {
    ChangedStates::new(states, []).texts().map(|(bucket, text)| size_of(bucket, &text)).sum()
}

pub(crate) fn size_of(bucket: Bucket, text: &str) -> usize {
    bucket_size(&bucket.to_string(), text)
}
