//! A workload.

use pps_core::TargetReference;
use serde_json::Value;

/// A StatefulSet of Kubernetes or of OpenKruise.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    object: Value,
}

impl Workload {
    /// Keeps all but the managed fields. None if it has no name or namespace.
    pub fn read(mut object: Value, api_version: &str) -> Option<Self> {
        object["metadata"]["name"].as_str()?;
        object["metadata"]["namespace"].as_str()?;
        object["apiVersion"] = api_version.into();
        object["kind"] = "StatefulSet".into();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
            if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
                annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
            }
        }
        Some(Self { object })
    }

    /// The object.
    pub fn object(&self) -> &Value {
        &self.object
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        self.object["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    /// What a PersistentPodState's `targetRef` says of it.
    pub fn target(&self) -> TargetReference {
        let text = |field: &str| self.object[field].as_str().unwrap_or_default().to_owned();
        TargetReference { api_version: text("apiVersion"), kind: text("kind"), name: self.name().to_owned() }
    }

    /// Whether it is being deleted: it creates no Pods any more.
    pub fn is_terminating(&self) -> bool {
        self.object["metadata"]["deletionTimestamp"].is_string()
    }

    /// How many Pods it wants.
    pub fn replicas(&self) -> u64 {
        self.object["spec"]["replicas"].as_u64().unwrap_or(1)
    }
}
