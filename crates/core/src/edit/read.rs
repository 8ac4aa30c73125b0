//! Reads the recorded states of an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::error::EditError;
use crate::packed::{Bucket, Damaged, Row, check_version, parse_bucket, read_states, write_bucket};
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
        let status = &pps["status"];
        let packed = &status["packed"];
        let mut entries = BTreeMap::new();
        if !packed.is_null() {
            check_version(packed["version"].as_i64())?;
        }
        let mut length = 0;
        for (name, text) in map(&packed["buckets"], "status.packed.buckets")? {
            let bucket = parse_bucket(name)?;
            let text = text.as_str().ok_or_else(|| Damaged::at(bucket, "it is no text"))?;
            read_states(bucket, text, &mut length, |pod, state| entries.insert(pod, state).is_none())?;
        }
        let mut overlaid = BTreeSet::new();
        for (pod, state) in map(&status["podStates"], "status.podStates")? {
            let damaged = |reason| Damaged::new(format!("status.podStates.{pod}: {reason}"));
            if let Some(state) = PodState::read(state).map_err(damaged)? {
                entries.insert(pod.clone(), state);
                overlaid.insert(pod.clone());
            }
        }
        let is_compact = !packed.is_null();
        if !is_compact {
            overlaid.clear();
        }
        // What is shown beside it proves nothing: another client may have recorded one Pod in podStates
        // before.
        if !is_compact && claim(pps) == Claim::Yes {
            return Err(EditError::Hidden);
        }
        let field = |name: &str| pps["metadata"][name].as_str().filter(|text| !text.is_empty());
        Ok(Self {
            uid: field("uid"),
            resource_version: field("resourceVersion"),
            entries,
            is_compact,
            has_buckets: packed["buckets"].is_object(),
            overlaid,
        })
    }

    /// About what the entries take in `podStates`, in bytes.
    pub(super) fn plain_size(&self) -> usize {
        self.entries.iter().map(|(pod, state)| plain_size(pod, state)).sum()
    }

    /// About what the entries take in the stored object, in bytes.
    pub(super) fn size(&self) -> usize {
        if !self.is_compact {
            return self.plain_size();
        }
        let buckets = self.rows();
        buckets.iter().map(|(bucket, rows)| bucket_size(&bucket.to_string(), &write_bucket(rows))).sum()
    }

    /// The entries as rows of the buckets that have some.
    pub(super) fn rows(&self) -> BTreeMap<Bucket, Vec<Row<'_>>> {
        let mut buckets: BTreeMap<Bucket, Vec<Row<'_>>> = BTreeMap::new();
        for (pod, state) in &self.entries {
            buckets.entry(Bucket::of(pod)).or_default().push(Row::of(pod, state));
        }
        buckets
    }
}

fn plain_size(pod: &str, state: &PodState) -> usize {
    let [labels, annotations] = [&state.node_topology_labels, &state.annotations]
        .map(|map| map.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    entry_size(pod, &state.node_name, labels, annotations)
}

/// The fields of an object; none if it is missing.
fn map<'a>(
    value: &'a Value,
    path: &str,
) -> Result<impl Iterator<Item = (&'a String, &'a Value)> + use<'a>, Damaged> {
    if value.is_null() || value.is_object() {
        Ok(value.as_object().into_iter().flatten())
    } else {
        Err(Damaged::new(format!("{path} is no object")))
    }
}

/// Whether the definition may hide the compact form: some client may have written it, and it is not shown.
pub(super) fn may_hide_states(pps: &Value) -> bool {
    let status = &pps["status"];
    let was_written = || status.as_object().is_some_and(|status| !status.is_empty());
    status["packed"].is_null()
        && match claim(pps) {
            Claim::Yes => true,
            Claim::Unknown => was_written(),
            Claim::No => false,
        }
}

/// Whether some client has written the compact form and none has removed it, as the managed fields say.
#[derive(PartialEq, Eq)]
enum Claim {
    /// It is so; under a definition without the compact form, also after it was removed.
    Yes,
    No,
    /// They say nothing of the status: the API server drops those of an object that would be too large with
    /// them.
    Unknown,
}

fn claim(pps: &Value) -> Claim {
    let managed = pps["metadata"]["managedFields"].as_array();
    let mut claim = Claim::Unknown;
    for status in managed.into_iter().flatten().filter_map(|entry| entry["fieldsV1"].get("f:status")) {
        if status.get("f:packed").is_some() {
            return Claim::Yes;
        }
        claim = Claim::No;
    }
    claim
}
