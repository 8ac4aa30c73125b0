//! Changes of entries, and the states of an object after them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pps_core::packed::{Bucket, Row, write_bucket};
use pps_core::pps::PodState;
use pps_core::size::{bucket_size, entry_size};
use serde_json::Value;

use crate::facts::states::States;

#[derive(Clone, Debug)]
pub(crate) struct EntryChange {
    pub pod: Arc<str>,
    /// The new state; none if the entry is dropped.
    pub after: Option<PodState>,
    /// The value of the entry in a merge patch of `podStates`.
    pub patch: Value,
    /// Since when the Pod has been Ready, in Unix seconds, if this is the first record of it on its
    /// node.
    pub ready_since: Option<i64>,
    /// The workload to which the entry belongs once it is stored, while the status names another.
    pub new_owner: Option<Arc<str>>,
}

/// The size of an entry in `podStates`, in bytes; 0 without an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntrySizes {
    pub before: usize,
    pub after: usize,
}

impl EntrySizes {
    pub(crate) fn growth(self) -> usize {
        self.after.saturating_sub(self.before)
    }
}

impl EntryChange {
    pub(crate) fn sizes(&self, states: &States) -> EntrySizes {
        EntrySizes {
            before: states.size_of(&self.pod),
            after: self
                .after
                .as_ref()
                .map_or(0, |state| state_size(&self.pod, state)),
        }
    }
}

fn state_size(pod: &str, state: &PodState) -> usize {
    entry_size(
        pod,
        &state.node_name,
        pairs(&state.node_topology_labels),
        pairs(&state.annotations),
    )
}

fn pairs(map: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    map.iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
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

/// A bucket of the compact form, with its text.
pub(crate) struct BucketText {
    pub bucket: Bucket,
    pub text: String,
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

    pub(crate) fn unchanged(states: &'a States) -> Self {
        Self::new(states, [])
    }

    pub(crate) fn changed(&self) -> impl Iterator<Item = Bucket> {
        self.changes.keys().copied()
    }

    pub(crate) fn has_changed(&self, pod: &str) -> bool {
        self.changes.contains_key(&Bucket::of(pod))
    }

    /// The text of a bucket; none if it has no states.
    pub(crate) fn text(&self, bucket: Bucket) -> Option<String> {
        #[cfg(test)]
        RENDERED.set(RENDERED.get() + 1);
        let changes = self.changes.get(&bucket);
        let unchanged = self
            .states
            .rows(bucket)
            .filter(|row| changes.is_none_or(|changes| !changes.contains_key(row.pod)));
        let changed = changes
            .into_iter()
            .flatten()
            .filter_map(|(pod, after)| Some(Row::of(pod, after.as_ref()?)));
        let rows: Vec<Row<'_>> = unchanged.chain(changed).collect();
        (!rows.is_empty()).then(|| write_bucket(&rows))
    }

    /// All buckets with their texts. Costs time for each state.
    pub(crate) fn texts(&self) -> Vec<BucketText> {
        let buckets: BTreeSet<Bucket> = self.states.buckets().chain(self.changed()).collect();
        let texts = buckets.into_iter().filter_map(|bucket| {
            let text = self.text(bucket)?;
            Some(BucketText { bucket, text })
        });
        texts.collect()
    }

    /// The size of a bucket in the compact form, in bytes.
    pub(crate) fn size(&self, bucket: Bucket) -> usize {
        self.text(bucket)
            .map_or(0, |text| bucket_size(&bucket.to_string(), &text))
    }
}

pub(crate) fn size_of_texts(texts: &[BucketText]) -> usize {
    texts
        .iter()
        .map(|BucketText { bucket, text }| bucket_size(&bucket.to_string(), text))
        .sum()
}
