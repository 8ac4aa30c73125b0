//! A PersistentPodState object.

use std::collections::BTreeMap;

use pps_core::{PodState, TargetReference, edit};
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Pps {
    pub(crate) object: Value,
    pub(crate) target: TargetReference,
}

impl Pps {
    pub(crate) fn new(object: Value) -> Self {
        Self { target: TargetReference::read(&object["spec"]["targetRef"]), object }
    }

    /// What is recorded; nothing if that cannot be read.
    pub(crate) fn states(&self) -> BTreeMap<String, PodState> {
        edit::states(&self.object).unwrap_or_default()
    }

    pub(crate) fn owners(&self) -> impl Iterator<Item = &str> {
        let owners = self.object["metadata"]["ownerReferences"].as_array();
        owners.into_iter().flatten().filter_map(|owner| owner["uid"].as_str())
    }
}
