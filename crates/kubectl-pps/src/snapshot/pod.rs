//! A Pod.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use pps_core::owner::OwnerReference;
use pps_core::{INJECTED_ANNOTATION, MOVE_ANNOTATION, RECORD_ANNOTATION, TargetReference, forbids_recording};
use serde_json::{Map, Value};

/// A Pod, with what the scheduler, the policy and the sidecar look at.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    object: Arc<Value>,
}

/// The fields of a container that say where it can run.
const CONTAINER: [&str; 5] = ["name", "image", "ports", "resources", "restartPolicy"];

impl Pod {
    /// Keeps what matters. None if it has no name or namespace.
    pub fn read(mut object: Value) -> Option<Self> {
        object["metadata"]["name"].as_str()?;
        object["metadata"]["namespace"].as_str()?;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
            if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
                annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
            }
        }
        for field in ["containers", "initContainers"] {
            let containers = object.pointer_mut(&format!("/spec/{field}")).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                keep(container, &CONTAINER);
            }
        }
        if let Some(status) = object.get_mut("status") {
            keep(
                status,
                &[
                    "phase",
                    "reason",
                    "message",
                    "conditions",
                    "podIP",
                    "podIPs",
                    "nominatedNodeName",
                    "startTime",
                ],
            );
        }
        Some(Self { object: Arc::new(without_nulls(object)) })
    }

    /// What is kept of the object.
    pub fn object(&self) -> &Value {
        &self.object
    }

    /// The same, which a simulation shares: Pods are most of a cluster.
    pub fn shared(&self) -> &Arc<Value> {
        &self.object
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.object.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.text("/metadata/name").unwrap_or_default()
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace").unwrap_or_default()
    }

    /// Its UID.
    pub fn uid(&self) -> &str {
        self.text("/metadata/uid").unwrap_or_default()
    }

    /// The version that was read.
    pub fn resource_version(&self) -> &str {
        self.text("/metadata/resourceVersion").unwrap_or_default()
    }

    /// When it was created, in RFC 3339.
    pub fn created(&self) -> &str {
        self.text("/metadata/creationTimestamp").unwrap_or_default()
    }

    /// The node that it is bound to.
    pub fn node(&self) -> Option<&str> {
        self.text("/spec/nodeName")
    }

    /// Its phase: `Running`.
    pub fn phase(&self) -> &str {
        self.text("/status/phase").unwrap_or_default()
    }

    /// Its addresses.
    pub fn ips(&self) -> Vec<String> {
        let listed = self.object["status"]["podIPs"].as_array().into_iter().flatten();
        let ips: Vec<String> = listed.filter_map(|one| Some(one["ip"].as_str()?.to_owned())).collect();
        if ips.is_empty() { self.text("/status/podIP").map(str::to_owned).into_iter().collect() } else { ips }
    }

    fn condition(&self, kind: &str) -> Option<&Value> {
        self.object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
    }

    /// Whether it is Ready.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|ready| ready["status"] == "True")
    }

    /// Since when it is Ready, in seconds since 1970.
    pub fn ready_since(&self) -> Option<i64> {
        let ready = self.condition("Ready").filter(|ready| ready["status"] == "True")?;
        seconds(ready["lastTransitionTime"].as_str()?)
    }

    /// Since when it has waited for the scheduler to look at it, in seconds since 1970; none if the scheduler has.
    pub fn unscheduled_since(&self) -> Option<i64> {
        let is_waiting = self.node().is_none() && self.condition("PodScheduled").is_none();
        is_waiting.then(|| seconds(self.created())).flatten()
    }

    /// Whether the sidecar leaves its state alone: because of a move, or because a user wants it so.
    pub fn is_exempt(&self) -> bool {
        self.annotation(RECORD_ANNOTATION).is_some_and(forbids_recording)
    }

    /// Whether it has the mark of a move, which may have been killed. Without the exemption it is no mark.
    pub fn is_marked(&self) -> bool {
        self.is_exempt() && self.annotation(MOVE_ANNOTATION).is_some()
    }

    /// Whether it is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.text("/metadata/deletionTimestamp").is_some()
    }

    /// When it should have stopped if it is being deleted: in RFC 3339, and in seconds since 1970.
    pub fn deletion_deadline(&self) -> Option<(&str, i64)> {
        let text = self.text("/metadata/deletionTimestamp")?;
        Some((text, seconds(text)?))
    }

    /// Whether it has ended for good.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase(), "Succeeded" | "Failed")
    }

    /// What the scheduler says about it, if it has found no node.
    pub fn unschedulable(&self) -> Option<&str> {
        let scheduled = self.condition("PodScheduled").filter(|one| one["status"] == "False")?;
        Some(scheduled["message"].as_str().unwrap_or_default())
    }

    /// An annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.object["metadata"]["annotations"][key].as_str()
    }

    /// The PersistentPodState whose state the policy has injected.
    pub fn injected_from(&self) -> Option<&str> {
        self.annotation(INJECTED_ANNOTATION)
    }

    /// Its controller, and the controller's UID.
    pub fn owner(&self) -> Option<(TargetReference, &str)> {
        let owners = self.object["metadata"]["ownerReferences"].as_array()?;
        let controller = owners.iter().find(|owner| owner["controller"] == true)?;
        let owner: OwnerReference = serde_json::from_value(controller.clone()).ok()?;
        Some((owner.target(), controller["uid"].as_str().unwrap_or_default()))
    }

    /// For sorting: Pods of one workload by their ordinals.
    pub(crate) fn order(&self) -> (&str, &str, u64, &str) {
        let name = self.name();
        let (base, ordinal) = name.rsplit_once('-').unwrap_or((name, ""));
        match ordinal.parse() {
            Ok(ordinal) => (self.namespace(), base, ordinal, name),
            Err(_) => (self.namespace(), name, 0, name),
        }
    }
}

fn seconds(time: &str) -> Option<i64> {
    Some(time.parse::<Timestamp>().ok()?.as_second())
}

/// Keeps these fields of an object.
fn keep(object: &mut Value, fields: &[&str]) {
    if let Some(object) = object.as_object_mut() {
        object.retain(|field, _| fields.contains(&field.as_str()));
    }
}

/// Removes fields without a value from the first three levels.
pub(super) fn without_nulls(object: Value) -> Value {
    fn remove(value: Value, levels: u8) -> Value {
        match value {
            Value::Object(fields) if levels > 0 => fields
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(field, value)| (field, remove(value, levels - 1)))
                .collect::<Map<_, _>>()
                .into(),
            other => other,
        }
    }
    remove(object, 3)
}
