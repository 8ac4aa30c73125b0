//! A PersistentPodState object.

use std::collections::BTreeMap;

use pps_core::packed::{self, Bucket, Row, should_be_compact, write_bucket};
use pps_core::pps::{Condition, Packed, Status};
use pps_core::{PodState, Spec, TargetReference, alias};
use serde_json::Value;

/// A PersistentPodState, or an alias of one.
#[derive(Debug)]
pub(crate) struct Pps {
    /// The whole object. The status is written by [`write_status`](Self::write_status).
    pub(crate) object: Value,
    pub(crate) target: TargetReference,
    /// The spec as the sidecar reads it, or why it cannot.
    pub(crate) spec: Result<Spec, String>,
    /// What is recorded.
    pub(crate) states: BTreeMap<String, PodState>,
    /// UID of the workload for which it was recorded.
    pub(crate) target_uid: Option<String>,
    pub(crate) conditions: Vec<Condition>,
    /// The alias that the policy needs to find this object cannot be made, for this reason.
    pub(crate) hidden: Option<String>,
}

impl Pps {
    /// Reads an object. If its spec or its status cannot be read, `spec` says why.
    pub(crate) fn new(object: Value) -> Self {
        let mut spec =
            serde_json::from_value::<Spec>(object["spec"].clone()).map_err(|error| error.to_string());
        let status = serde_json::from_value::<Option<Status>>(object["status"].clone());
        let status = status.map(Option::unwrap_or_default).map_err(|error| error.to_string());
        let states = status.as_ref().map_err(Clone::clone).and_then(read_states);
        if let Some(error) = status.as_ref().err().or(states.as_ref().err()) {
            spec = Err(format!("its status cannot be read: {error}"));
        }
        let Status { target_uid, conditions, .. } = status.unwrap_or_default();
        Self {
            target: TargetReference::read(&object["spec"]["targetRef"]),
            object,
            spec,
            states: states.unwrap_or_default(),
            target_uid,
            conditions,
            hidden: None,
        }
    }

    /// Replaces the object, and keeps what is recorded.
    pub(crate) fn set_object(&mut self, object: Value) {
        let before = std::mem::replace(self, Self::new(Value::Null));
        let mut object = object;
        object["status"] = before.object["status"].clone();
        *self = Self { hidden: before.hidden, ..Self::new(object) };
    }

    pub(crate) fn is_alias(&self) -> bool {
        self.aliased().is_some()
    }

    /// The PPS that this is an alias of.
    pub(crate) fn aliased(&self) -> Option<&str> {
        alias::aliased(&self.target)
    }

    pub(crate) fn uid(&self) -> &str {
        self.object["metadata"]["uid"].as_str().unwrap_or_default()
    }

    pub(crate) fn created(&self) -> &str {
        self.object["metadata"]["creationTimestamp"].as_str().unwrap_or_default()
    }

    pub(crate) fn generation(&self) -> Option<i64> {
        self.object["metadata"]["generation"].as_i64()
    }

    /// UIDs of its owners.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &str> {
        let owners = self.object["metadata"]["ownerReferences"].as_array();
        owners.into_iter().flatten().filter_map(|owner| owner["uid"].as_str())
    }

    /// Writes the status into the object, with the states in the form that the sidecar would choose.
    pub(crate) fn write_status(&mut self, desired: Option<u64>) {
        let count = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
        let is_compact = self.object["status"]["packed"].is_object();
        let compact = should_be_compact(self.states.len(), is_compact);
        let status = Status {
            observed_generation: self.generation(),
            pod_states: if compact { BTreeMap::new() } else { self.states.clone() },
            packed: compact.then(|| Packed { version: packed::VERSION, buckets: buckets(&self.states) }),
            target_uid: self.target_uid.clone(),
            recorded: Some(count(self.states.len() as u64)),
            desired: desired.map(count),
            conditions: self.conditions.clone(),
        };
        self.object["status"] = serde_json::to_value(status).unwrap_or_default();
    }
}

fn buckets(states: &BTreeMap<String, PodState>) -> BTreeMap<String, String> {
    let mut rows: BTreeMap<Bucket, Vec<Row<'_>>> = BTreeMap::new();
    for (pod, state) in states {
        rows.entry(Bucket::of(pod)).or_default().push(Row::of(pod, state));
    }
    rows.iter().map(|(bucket, rows)| (bucket.to_string(), write_bucket(rows))).collect()
}

/// All states of a status, in either form.
fn read_states(status: &Status) -> Result<BTreeMap<String, PodState>, String> {
    let mut states = BTreeMap::new();
    if let Some(form) = &status.packed {
        packed::check_version(Some(i64::from(form.version))).map_err(|error| error.to_string())?;
        let mut length = 0;
        for (name, text) in &form.buckets {
            let bucket = packed::parse_bucket(name).map_err(|error| error.to_string())?;
            let take = |pod, state| states.insert(pod, state).is_none();
            packed::read_states(bucket, text, &mut length, take).map_err(|error| error.to_string())?;
        }
    }
    states.extend(status.pod_states.clone());
    Ok(states)
}
