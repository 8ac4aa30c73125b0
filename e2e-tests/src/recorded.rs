//! Recorded states, in either form.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use pps_core::packed::{Bucket, check_version, read_bucket, recorded_state};
use serde_json::{Value, json};

/// The recorded states in the status of a PersistentPodState, by Pod name. An empty map in one
/// means the same as none, and is left out.
///
/// # Errors
///
/// If one of them cannot be read, or if a reader that asks for one Pod would get something else.
pub fn recorded_states(status: &Value) -> Result<BTreeMap<String, Value>> {
    let mut states = BTreeMap::new();
    let packed = &status["packed"];
    if !packed.is_null() {
        check_version(packed["version"].as_i64())?;
    }
    for (name, text) in packed["buckets"].as_object().into_iter().flatten() {
        let bucket = Bucket::parse(name).with_context(|| format!("there is no bucket {name}"))?;
        let text = text
            .as_str()
            .with_context(|| format!("bucket {name} is no text"))?;
        states.extend(
            read_bucket(bucket, text)?
                .into_iter()
                .map(|(pod, state)| (pod, json!(state))),
        );
    }
    let plain = status["podStates"].as_object().into_iter().flatten();
    states.extend(
        plain
            .filter(|(_, state)| !state.is_null())
            .map(|(pod, state)| (pod.clone(), state.clone())),
    );
    for (pod, state) in &mut states {
        if let Some(fields) = state.as_object_mut() {
            fields.retain(|_, value| *value != json!({}));
        }
        let one = recorded_state(status, pod)?.map(|one| json!(one));
        anyhow::ensure!(
            one.as_ref() == Some(state),
            "{pod}: {state}, but the policy reads {one:?}"
        );
    }
    Ok(states)
}
