//! A status as a merge patch.

use std::sync::Arc;

use pps_core::pps::{Condition, PodState};
use serde_json::{Map, Value, json};

use super::object::Object;
use crate::facts::PpsStatus;

/// The part of a status that is not about single Pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Header {
    pub(super) observed_generation: Option<i64>,
    pub(super) recorded: Option<i32>,
    pub(super) desired: Option<i32>,
    pub(super) conditions: Option<Vec<Condition>>,
}

impl Header {
    /// As it is.
    pub(super) fn of(status: &PpsStatus) -> Self {
        Self {
            observed_generation: status.observed_generation,
            recorded: status.recorded,
            desired: status.desired,
            conditions: None,
        }
    }
}

/// A count as the API has it.
pub(super) fn count(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// How many entries an object has with these changes.
pub(super) fn recorded_after(object: &Object, entries: &[(Arc<str>, Option<PodState>)]) -> usize {
    let states = &object.fact.status.pod_states;
    entries.iter().fold(states.len(), |count, (name, after)| match (states.contains(name), after) {
        (false, Some(_)) => count + 1,
        (true, None) => count - 1,
        _ => count,
    })
}

/// The fields of the status that differ.
pub(super) fn status_patch(
    object: &Object,
    header: &Header,
    target_uid: Option<&str>,
    patches: Map<String, Value>,
) -> Map<String, Value> {
    let before = &object.fact.status;
    let mut status = Map::new();
    if !patches.is_empty() {
        status.insert("podStates".into(), patches.into());
    }
    if header.observed_generation.is_some() && before.observed_generation != header.observed_generation {
        status.insert("observedGeneration".into(), header.observed_generation.into());
    }
    if target_uid.is_some() && before.target_uid.as_deref() != target_uid {
        status.insert("targetUID".into(), target_uid.into());
    }
    for (field, before, after) in
        [("recorded", before.recorded, header.recorded), ("desired", before.desired, header.desired)]
    {
        if before != after {
            status.insert(field.into(), after.into());
        }
    }
    if let Some(conditions) = &header.conditions {
        status.insert("conditions".into(), json!(conditions));
    }
    status
}
