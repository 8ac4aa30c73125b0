//! Reads the recorded states of an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::error::EditError;
use crate::packed::{
    Bucket, Damaged, Row, check_version, fields, hides_states, parse_bucket, plain_state,
    read_states, write_bucket,
};
use crate::pps::PodState;
use crate::size::{bucket_size, entry_size};

/// What is recorded in an object, and what guards a write to it.
pub(super) struct Object<'a> {
    pub(super) uid: Option<&'a str>,
    pub(super) resource_version: Option<&'a str>,
    /// The entries of both forms, also those that are empty.
    pub(super) entries: BTreeMap<String, PodState>,
    /// Whether the object has the compact form.
    pub(super) is_compact: bool,
    /// Whether the compact form has a map of buckets, if only an empty one.
    pub(super) has_buckets: bool,
    /// In the compact form, the Pods that have an entry in `podStates`, which takes precedence.
    pub(super) overlaid: BTreeSet<String>,
}

impl<'a> Object<'a> {
    pub(super) fn read(pps: &'a Value) -> Result<Self, EditError> {
        fields(&pps["status"], "status")?;
        let status = &pps["status"];
        let packed = &status["packed"];
        let mut entries = BTreeMap::new();
        if !packed.is_null() {
            check_version(packed["version"].as_i64())?;
        }
        let mut length = 0;
        for (name, text) in fields(&packed["buckets"], "status.packed.buckets")?
            .into_iter()
            .flatten()
        {
            let bucket = parse_bucket(name)?;
            let text = text
                .as_str()
                .ok_or_else(|| Damaged::at(bucket, "it is no text"))?;
            read_states(bucket, text, &mut length, |pod, state| {
                entries.insert(pod, state).is_none()
            })?;
        }
        let mut overlaid = BTreeSet::new();
        for (pod, state) in fields(&status["podStates"], "status.podStates")?
            .into_iter()
            .flatten()
        {
            if let Some(state) = plain_state(pod, state)? {
                entries.insert(pod.clone(), state);
                overlaid.insert(pod.clone());
            }
        }
        let is_compact = !packed.is_null();
        if !is_compact {
            overlaid.clear();
        }
        if hides_states(pps) {
            return Err(EditError::Hidden);
        }
        Ok(Self {
            uid: text(&pps["metadata"]["uid"]),
            resource_version: text(&pps["metadata"]["resourceVersion"]),
            entries,
            is_compact,
            has_buckets: packed["buckets"].is_object(),
            overlaid,
        })
    }

    pub(super) fn stored_size(&self) -> StoredSize {
        StoredSize {
            states: self.entries.len(),
            bytes: self.size(),
        }
    }

    /// About what the entries take in `podStates`, in bytes.
    pub(super) fn plain_size(&self) -> usize {
        self.entries
            .iter()
            .map(|(pod, state)| plain_size(pod, state))
            .sum()
    }

    /// About what the entries take in the stored object, in bytes.
    pub(super) fn size(&self) -> usize {
        if !self.is_compact {
            return self.plain_size();
        }
        let buckets = self.rows();
        buckets
            .iter()
            .map(|(bucket, rows)| bucket_size(&bucket.to_string(), &write_bucket(rows)))
            .sum()
    }

    /// The entries as rows of the buckets that have some.
    pub(super) fn rows(&self) -> BTreeMap<Bucket, Vec<Row<'_>>> {
        let mut buckets: BTreeMap<Bucket, Vec<Row<'_>>> = BTreeMap::new();
        for (pod, state) in &self.entries {
            buckets
                .entry(Bucket::of(pod))
                .or_default()
                .push(Row::of(pod, state));
        }
        buckets
    }
}

/// How much is recorded in an object.
#[derive(Clone, Copy)]
pub(super) struct StoredSize {
    pub(super) states: usize,
    /// About what the entries take in the stored object.
    pub(super) bytes: usize,
}

/// A text that is not empty.
fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

fn plain_size(pod: &str, state: &PodState) -> usize {
    let [labels, annotations] = [&state.node_topology_labels, &state.annotations].map(|map| {
        map.iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    });
    entry_size(pod, &state.node_name, labels, annotations)
}
