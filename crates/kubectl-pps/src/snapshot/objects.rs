//! The objects. They stay JSON: the scheduler, the policy and the recorder take them so, and a Pod
//! is most of a cluster's memory; the fields that are read are read here.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use pps_admission::plan::Requirement;
use pps_core::addresses::read_pod_ips;
use pps_core::edit::{self, EditError};
use pps_core::governing::aliased;
use pps_core::owner::OwnerReference;
use pps_core::succession::{has_other_template, is_unobserved, name_order};
use pps_core::{
    INJECTED_ANNOTATION, MOVE_ANNOTATION, PodState, RECORD_ANNOTATION, Reason, Spec,
    TargetReference, forbids_recording, packed,
};
use pps_recorder::demand::{Demand, Naming, Wanted};
use pps_simulation::wanted;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub struct Object<K> {
    value: Arc<Value>,
    kind: PhantomData<K>,
}

mod kind {
    #[derive(Clone, Debug, PartialEq)]
    pub enum Pod {}
    #[derive(Clone, Debug, PartialEq)]
    pub enum Node {}
    #[derive(Clone, Debug, PartialEq)]
    pub enum Pps {}
    #[derive(Clone, Debug, PartialEq)]
    pub enum Workload {}
}

pub type Pod = Object<kind::Pod>;
pub type Node = Object<kind::Node>;
pub type Pps = Object<kind::Pps>;
pub type Workload = Object<kind::Workload>;

impl<K> Object<K> {
    /// None without a name, or without a namespace if it has to have one. Managed fields are
    /// dropped.
    fn keep(mut value: Value, is_namespaced: bool) -> Option<Self> {
        value["metadata"]["name"].as_str()?;
        if is_namespaced {
            value["metadata"]["namespace"].as_str()?;
        }
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.remove("managedFields");
            if let Some(annotations) = metadata
                .get_mut("annotations")
                .and_then(Value::as_object_mut)
            {
                annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
            }
        }
        Some(Self {
            value: Arc::new(value),
            kind: PhantomData,
        })
    }

    pub fn object(&self) -> &Value {
        &self.value
    }

    pub fn shared(&self) -> &Arc<Value> {
        &self.value
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.value
            .pointer(pointer)?
            .as_str()
            .filter(|text| !text.is_empty())
    }

    fn condition(&self, kind: &str) -> Option<&Value> {
        self.value["status"]["conditions"]
            .as_array()?
            .iter()
            .find(|one| one["type"] == kind)
    }

    pub fn name(&self) -> &str {
        self.text("/metadata/name").unwrap_or_default()
    }

    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace").unwrap_or_default()
    }

    pub fn uid(&self) -> &str {
        self.text("/metadata/uid").unwrap_or_default()
    }

    pub fn resource_version(&self) -> &str {
        self.text("/metadata/resourceVersion").unwrap_or_default()
    }

    /// When it was created, in RFC 3339.
    pub fn created(&self) -> &str {
        self.text("/metadata/creationTimestamp").unwrap_or_default()
    }

    pub fn is_terminating(&self) -> bool {
        self.text("/metadata/deletionTimestamp").is_some()
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.value["metadata"]["labels"][key].as_str()
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.value["metadata"]["annotations"][key].as_str()
    }
}

const POD_STATUS: [&str; 8] = [
    "phase",
    "reason",
    "message",
    "conditions",
    "podIP",
    "podIPs",
    "nominatedNodeName",
    "startTime",
];

impl Pod {
    /// Drops what no command needs. None without a name or namespace.
    pub fn read(mut value: Value) -> Option<Self> {
        for field in ["containers", "initContainers"] {
            let containers = value
                .pointer_mut(&format!("/spec/{field}"))
                .and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                keep(
                    container,
                    &["name", "image", "ports", "resources", "restartPolicy"],
                );
            }
        }
        if let Some(status) = value.get_mut("status") {
            keep(status, &POD_STATUS);
        }
        Self::keep(value, true)
    }

    pub fn node(&self) -> Option<&str> {
        self.text("/spec/nodeName")
    }

    pub fn phase(&self) -> &str {
        self.text("/status/phase").unwrap_or_default()
    }

    pub fn ips(&self) -> Vec<String> {
        read_pod_ips(&self.value["status"])
    }

    pub fn is_ready(&self) -> bool {
        self.condition("Ready")
            .is_some_and(|ready| ready["status"] == "True")
    }

    /// Since when it is Ready, in seconds since 1970.
    pub fn ready_since(&self) -> Option<i64> {
        let ready = self
            .condition("Ready")
            .filter(|ready| ready["status"] == "True")?;
        seconds(ready["lastTransitionTime"].as_str()?)
    }

    /// When a Pod was created that the scheduler has not looked at, in seconds since 1970.
    pub fn unscheduled_since(&self) -> Option<i64> {
        let is_waiting = self.node().is_none() && self.condition("PodScheduled").is_none();
        is_waiting.then(|| seconds(self.created())).flatten()
    }

    /// Whether the sidecar leaves its state alone, because of a move or a user's annotation.
    pub fn is_exempt(&self) -> bool {
        self.annotation(RECORD_ANNOTATION)
            .is_some_and(forbids_recording)
    }

    /// Whether it has the mark of a move, which may have been interrupted. The mark needs the
    /// exemption.
    pub fn is_marked(&self) -> bool {
        self.is_exempt() && self.annotation(MOVE_ANNOTATION).is_some()
    }

    pub fn is_finished(&self) -> bool {
        matches!(self.phase(), "Succeeded" | "Failed")
    }

    /// The scheduler's message, if it has found no node.
    pub fn unschedulable(&self) -> Option<&str> {
        let scheduled = self
            .condition("PodScheduled")
            .filter(|one| one["status"] == "False")?;
        Some(scheduled["message"].as_str().unwrap_or_default())
    }

    /// Since when the scheduler has found no node for it, in seconds since 1970.
    pub fn unschedulable_since(&self) -> Option<i64> {
        let scheduled = self
            .condition("PodScheduled")
            .filter(|one| one["status"] == "False")?;
        seconds(scheduled["lastTransitionTime"].as_str()?)
    }

    /// The PersistentPodState whose state the policy has injected.
    pub fn injected_from(&self) -> Option<&str> {
        self.annotation(INJECTED_ANNOTATION)
    }

    /// Its controller.
    pub fn owner(&self) -> Option<TargetReference> {
        let owners = self.value["metadata"]["ownerReferences"].as_array()?;
        let controller = owners.iter().find(|owner| owner["controller"] == true)?;
        Some(
            serde_json::from_value::<OwnerReference>(controller.clone())
                .ok()?
                .target(),
        )
    }

    /// For sorting: Pods of one workload by their ordinals.
    pub(crate) fn order(&self) -> (&str, &str, u64, &str) {
        let (base, ordinal) = name_order(self.name());
        (self.namespace(), base, ordinal, self.name())
    }
}

impl Node {
    /// Keeps the fields that the scheduler reads. None without a name.
    pub fn read(mut value: Value) -> Option<Self> {
        for (part, fields) in [
            (
                "metadata",
                &["name", "uid", "labels", "deletionTimestamp"][..],
            ),
            (
                "status",
                &["allocatable", "capacity", "conditions", "images"],
            ),
        ] {
            if let Some(part) = value.get_mut(part) {
                keep(part, fields);
            }
        }
        Self::keep(value, false)
    }

    pub fn has(&self, labels: &[Requirement]) -> bool {
        labels
            .iter()
            .all(|one| self.label(&one.key) == Some(one.value.as_str()))
    }

    pub fn zone(&self) -> Option<&str> {
        self.label("topology.kubernetes.io/zone")
    }

    pub fn is_cordoned(&self) -> bool {
        self.value["spec"]["unschedulable"] == true
    }

    /// Whether its condition Ready is True. One without conditions counts as Ready: the scheduler
    /// looks at taints only.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready")
            .is_none_or(|ready| ready["status"] == "True")
    }

    /// When it became not Ready, in RFC 3339; none if it is Ready or the time is not known.
    pub fn not_ready_since(&self) -> Option<&str> {
        self.condition("Ready")
            .filter(|ready| ready["status"] != "True")?["lastTransitionTime"]
            .as_str()
    }
}

/// The condition Recording of a PersistentPodState.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recording<'a> {
    pub is_true: bool,
    pub reason: &'a str,
    pub message: &'a str,
}

impl Pps {
    pub fn read(value: Value) -> Option<Self> {
        Self::keep(value, true)
    }

    pub fn target(&self) -> TargetReference {
        TargetReference::read(&self.value["spec"]["targetRef"])
    }

    /// Whether it only points to another PersistentPodState.
    pub fn is_alias(&self) -> bool {
        aliased(&self.target()).is_some()
    }

    pub fn spec(&self) -> Result<Spec, String> {
        serde_json::from_value(self.value["spec"].clone()).map_err(|error| error.to_string())
    }

    /// Its condition Recording.
    pub fn recording(&self) -> Option<Recording<'_>> {
        let condition = self.condition(pps_recorder::recording::RECORDING)?;
        Some(Recording {
            is_true: condition["status"] == "True",
            reason: condition["reason"].as_str().unwrap_or_default(),
            message: condition["message"].as_str().unwrap_or_default(),
        })
    }

    /// Whether the sidecar says that the namespace is in scope. In others, nothing is recorded or
    /// injected.
    pub fn is_enabled(&self) -> bool {
        self.recording()
            .is_none_or(|recording| recording.reason != Reason::NamespaceNotEnabled.as_str())
    }

    /// Drops the condition Recording, which is out of date.
    pub(crate) fn forget_recording(&mut self) {
        let value = Arc::make_mut(&mut self.value);
        if let Some(conditions) = value["status"]["conditions"].as_array_mut() {
            conditions.retain(|one| one["type"] != pps_recorder::recording::RECORDING);
        }
    }

    /// The spec, which requires nothing where nothing is injected.
    pub fn spec_in_force(&self) -> Result<Spec, String> {
        let mut spec = self.spec()?;
        spec.required_persistent_topology
            .take_if(|_| !self.is_enabled());
        Ok(spec)
    }

    pub fn state(&self, pod: &str) -> Result<Option<PodState>, packed::Damaged> {
        packed::recorded_state(&self.value["status"], pod)
    }

    pub fn states(&self) -> Result<BTreeMap<String, PodState>, EditError> {
        edit::states(&self.value)
    }
}

impl Workload {
    pub fn read(mut value: Value, api_version: &str) -> Option<Self> {
        let fields = value.as_object_mut()?;
        fields.insert("apiVersion".into(), api_version.into());
        fields.insert("kind".into(), "StatefulSet".into());
        Self::keep(value, true)
    }

    /// What a PersistentPodState's `targetRef` says of it.
    pub fn target(&self) -> TargetReference {
        TargetReference {
            api_version: self.text("/apiVersion").unwrap_or_default().to_owned(),
            kind: self.text("/kind").unwrap_or_default().to_owned(),
            name: self.name().to_owned(),
        }
    }

    pub fn replicas(&self) -> u64 {
        self.value["spec"]["replicas"].as_u64().unwrap_or(1)
    }

    pub fn wants(&self, pod: &str) -> bool {
        let demand = Demand::read(&self.value["spec"], &Naming::StatefulSet);
        !self.is_terminating() && demand.wants(self.name(), pod, 0) == Wanted::Yes
    }

    pub fn wanted(&self) -> impl Iterator<Item = String> {
        wanted(&self.value["spec"], self.name()).filter(move |_| !self.is_terminating())
    }

    /// Whether a Pod is of a template that its successor will not have. Not known, and so false,
    /// until the controller has seen the latest template.
    pub fn has_replaced(&self, pod: &Pod) -> bool {
        !is_unobserved(&self.value) && has_other_template(pod.object(), &self.value)
    }

    /// The selector of its Pods, by which the scheduler spreads them.
    pub fn selector(&self) -> Option<&Value> {
        Some(&self.value["spec"]["selector"]).filter(|selector| !selector.is_null())
    }
}

/// A time in seconds since 1970, as the API server writes it.
pub fn written(seconds: i64) -> Option<String> {
    Some(Timestamp::from_second(seconds).ok()?.to_string())
}

fn seconds(time: &str) -> Option<i64> {
    Some(time.parse::<Timestamp>().ok()?.as_second())
}

fn keep(object: &mut Value, fields: &[&str]) {
    if let Some(object) = object.as_object_mut() {
        object.retain(|field, _| fields.contains(&field.as_str()));
    }
}
