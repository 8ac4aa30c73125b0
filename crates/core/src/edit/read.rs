//! Reads the recorded states of an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::error::EditError;
use crate::packed::{
    Bucket, Damaged, PackedClaim, Row, check_version, parse_bucket, read_state, read_states,
    write_bucket,
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
        let status = &pps["status"];
        let packed = &status["packed"];
        let mut entries = BTreeMap::new();
        if !packed.is_null() {
            check_version(packed["version"].as_i64())?;
        }
        let mut length = 0;
        for (name, text) in map(&packed["buckets"], "status.packed.buckets")? {
            let bucket = parse_bucket(name)?;
            let text = text
                .as_str()
                .ok_or_else(|| Damaged::at(bucket, "it is no text"))?;
            read_states(bucket, text, &mut length, |pod, state| {
                entries.insert(pod, state).is_none()
            })?;
        }
        let mut overlaid = BTreeSet::new();
        for (pod, state) in map(&status["podStates"], "status.podStates")? {
            if let Some(state) = read_state(pod, state)? {
                entries.insert(pod.clone(), state);
                overlaid.insert(pod.clone());
            }
        }
        let is_compact = !packed.is_null();
        if !is_compact {
            overlaid.clear();
        }
        if claim(pps) == PackedClaim::Yes && may_hide_states(pps) {
            return Err(EditError::Hidden);
        }
        let field = |name: &str| {
            pps["metadata"][name]
                .as_str()
                .filter(|text| !text.is_empty())
        };
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

fn plain_size(pod: &str, state: &PodState) -> usize {
    let [labels, annotations] = [&state.node_topology_labels, &state.annotations].map(|map| {
        map.iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    });
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

/// Whether the definition may hide states of an object, because it has no `status.packed`: states
/// in that field are stored and not shown, and any write would lose them. Under a definition that
/// has this field, nothing is hidden.
///
/// It needs the managed fields.
pub fn may_hide_states(pps: &Value) -> bool {
    let status = &pps["status"];
    let was_written = status.as_object().is_some_and(|status| !status.is_empty());
    let shown = status["podStates"].as_object().map_or(0, Map::len);
    status["packed"].is_null()
        && claim(pps).may_hide_states(shown, status["recorded"].as_i64(), was_written)
}

fn claim(pps: &Value) -> PackedClaim {
    let managed = pps["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten();
    PackedClaim::of(managed.filter_map(|entry| entry["fieldsV1"].get("f:status")))
}
