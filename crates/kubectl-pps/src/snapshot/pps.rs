//! A PersistentPodState.

use std::collections::BTreeMap;

use pps_core::alias::aliased;
use pps_core::{PodState, Spec, TargetReference, packed};
use serde_json::Value;

/// A PersistentPodState.
#[derive(Clone, Debug, PartialEq)]
pub struct Pps {
    object: Value,
}

impl Pps {
    /// Keeps all but the managed fields. None if it has no name or namespace.
    pub fn read(mut object: Value) -> Option<Self> {
        object["metadata"]["name"].as_str()?;
        object["metadata"]["namespace"].as_str()?;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        Some(Self { object })
    }

    /// The object.
    pub fn object(&self) -> &Value {
        &self.object
    }

    fn metadata(&self, field: &str) -> &str {
        self.object["metadata"][field].as_str().unwrap_or_default()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata("name")
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        self.metadata("namespace")
    }

    /// Its UID.
    pub fn uid(&self) -> &str {
        self.metadata("uid")
    }

    /// The version that was read.
    pub fn resource_version(&self) -> &str {
        self.metadata("resourceVersion")
    }

    /// When it was created, in RFC 3339.
    pub fn created(&self) -> &str {
        self.metadata("creationTimestamp")
    }

    /// The workload.
    pub fn target(&self) -> TargetReference {
        TargetReference::read(&self.object["spec"]["targetRef"])
    }

    /// Whether it only points to another PersistentPodState.
    pub fn is_alias(&self) -> bool {
        aliased(&self.target()).is_some()
    }

    /// Its spec.
    ///
    /// # Errors
    ///
    /// If it cannot be read: the definition is another one's.
    pub fn spec(&self) -> Result<Spec, String> {
        serde_json::from_value(self.object["spec"].clone()).map_err(|error| error.to_string())
    }

    /// The reason and the message of its condition Recording, and whether it is True.
    pub fn recording(&self) -> Option<(bool, &str, &str)> {
        let conditions = self.object["status"]["conditions"].as_array()?;
        let recording = conditions.iter().find(|one| one["type"] == pps_core::status::RECORDING)?;
        let text = |field: &str| recording[field].as_str().unwrap_or_default();
        Some((recording["status"] == "True", text("reason"), text("message")))
    }

    /// The recorded state of one Pod.
    ///
    /// # Errors
    ///
    /// If what is stored is damaged.
    pub fn state(&self, pod: &str) -> Result<Option<PodState>, packed::Damaged> {
        packed::recorded_state(&self.object["status"], pod)
    }

    /// All recorded states. `podStates` takes precedence.
    ///
    /// # Errors
    ///
    /// If what is stored is damaged.
    pub fn states(&self) -> Result<BTreeMap<String, PodState>, packed::Damaged> {
        let status = &self.object["status"];
        if status["packed"].is_object() {
            packed::check_version(status["packed"]["version"].as_i64())?;
        }
        let mut states = BTreeMap::new();
        let mut length = 0;
        for (name, text) in status["packed"]["buckets"].as_object().into_iter().flatten() {
            let bucket = packed::parse_bucket(name)?;
            let text = text.as_str().unwrap_or_default();
            packed::read_states(bucket, text, &mut length, |pod, state| states.insert(pod, state).is_none())?;
        }
        for (pod, state) in status["podStates"].as_object().into_iter().flatten() {
            states.insert(pod.clone(), serde_json::from_value(state.clone()).unwrap_or_default());
        }
        states.retain(|_, state| *state != PodState::default());
        Ok(states)
    }
}
