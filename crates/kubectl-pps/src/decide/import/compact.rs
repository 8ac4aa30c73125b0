//! The compact form, for an object that is too large without it.

use std::collections::BTreeMap;

use pps_core::PodState;
use pps_core::limits::{MAX_POD_STATES, MAX_UNPACKED_LENGTH};
use pps_core::packed::{self, Bucket, Row, write_bucket};
use pps_core::size::{DEFAULT_LIMIT, bucket_size, entry_size};
use serde_json::{Map, Value, json};

/// What is left for the spec, the metadata and the sidecar's conditions, in bytes.
const RESERVE: usize = 64 * 1024;

/// A status with these states in the compact form. None if they are too large for it, too.
pub fn compact_status(states: &BTreeMap<String, PodState>) -> Option<Value> {
    let mut buckets: BTreeMap<Bucket, Vec<Row<'_>>> = BTreeMap::new();
    for (pod, state) in states {
        buckets.entry(Bucket::of(pod)).or_default().push(Row::of(pod, state));
    }
    let texts: BTreeMap<String, String> =
        buckets.iter().map(|(bucket, rows)| (bucket.to_string(), write_bucket(rows))).collect();
    let stored: usize = texts.iter().map(|(bucket, text)| bucket_size(bucket, text)).sum();
    let plain: usize = states.iter().map(|(pod, state)| plain_size(pod, state)).sum();
    let fits =
        stored + RESERVE <= DEFAULT_LIMIT && plain <= MAX_UNPACKED_LENGTH && states.len() <= MAX_POD_STATES;
    let texts: Map<String, Value> = texts.into_iter().map(|(bucket, text)| (bucket, text.into())).collect();
    fits.then(|| json!({"packed": {"version": packed::VERSION, "buckets": texts}, "podStates": null}))
}

fn plain_size(pod: &str, state: &PodState) -> usize {
    let [labels, annotations] = [&state.node_topology_labels, &state.annotations]
        .map(|map| map.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    entry_size(pod, &state.node_name, labels, annotations)
}

/// Whether the API server's answer to such a write has the compact form: a definition without it drops it silently.
pub fn keeps_compact_form(sent: &Value, stored: &Value) -> bool {
    sent["status"]["packed"]["buckets"] == stored["status"]["packed"]["buckets"]
}
