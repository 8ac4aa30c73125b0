//! What a simulation shows.

use std::collections::BTreeMap;

use pps_core::PodState;
use serde::Serialize;
use serde_json::Value;

use crate::scenario::Action;
use crate::scheduler::ExclusionKind;

/// The result of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    /// What is wrong with the scenario.
    pub problems: Vec<Problem>,
    /// The world before the first action, and after each.
    pub steps: Vec<Step>,
}

/// Something that is wrong with the scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Where it is.
    #[serde(flatten)]
    pub source: Source,
    /// The path of the field: `spec.requiredPersistentTopology.nodeTopologyKeys[0]`.
    pub field: Option<String>,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, and what to do about it.
    pub message: String,
}

/// A part of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "source", rename_all = "camelCase")]
pub enum Source {
    /// One of the scenario's objects, or all of them.
    Objects {
        /// Its index in the list.
        object: Option<usize>,
    },
    /// The policy's settings.
    Settings,
    /// An action.
    Action {
        /// Its index in the list.
        index: usize,
    },
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// What it is about is not simulated.
    Error,
    /// It is simulated all the same.
    Warning,
}

/// What one action does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The action; null in the first step, which shows the cluster before any.
    pub action: Option<Action>,
    /// What happens, in this order.
    pub events: Vec<Event>,
    /// The cluster after it. Empty if [`keeps_all`](crate::limits::Limits::keeps_all) is not set and this is not the last
    /// step.
    pub world: World,
    /// Pods of no simulated workload that have lost their node. Where their successors run is not simulated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub displaced: Vec<Displaced>,
}

/// A Pod of no simulated workload that has lost its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Displaced {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The node that it ran on.
    pub node: String,
    /// The API version, kind and name of its controller, if it has one.
    pub owner: Option<[String; 3]>,
}

impl Displaced {
    pub(crate) fn of(pod: &Value, node: &str) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &pod["metadata"];
        let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let owner = owners.find(|owner| owner["controller"] == true);
        Self {
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
            node: node.to_owned(),
            owner: owner.map(|owner| ["apiVersion", "kind", "name"].map(|field| text(&owner[field]))),
        }
    }
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// What kind of thing it is.
    pub kind: EventKind,
    /// The object that it happens to: `Pod/db-0`.
    pub object: String,
    /// What happens and why, in a sentence.
    pub text: String,
}

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EventKind {
    /// An object was created.
    Created,
    /// An object was changed.
    Changed,
    /// An object was deleted.
    Deleted,
    /// A Pod runs on a node.
    Scheduled,
    /// No node can take a Pod.
    Pending,
    /// The policy injected a recorded state into a Pod.
    Injected,
    /// An object was refused.
    Refused,
    /// A state was recorded, or recorded again.
    Recorded,
    /// A state was dropped.
    Forgotten,
    /// A Pod was evicted.
    Evicted,
    /// A warning of the policy, or something that users should know.
    Warning,
}

/// A cluster at one moment. So that a result does not grow with steps times Pods times nodes, only the last step has
/// all of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct World {
    /// All nodes, also lost ones, by name.
    pub nodes: Vec<NodeState>,
    /// The workloads.
    pub workloads: Vec<WorkloadView>,
    /// The Pods that exist or are wanted.
    pub pods: Vec<PodView>,
    /// The PersistentPodStates.
    pub pps: Vec<PpsView>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeState {
    /// Its name.
    pub name: String,
    /// Its label `topology.kubernetes.io/zone`.
    pub zone: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it is cordoned.
    pub cordoned: bool,
    /// Its taints: `key=value:NoSchedule`.
    pub taints: Vec<String>,
    /// Whether it exists; otherwise it was lost.
    pub exists: bool,
    /// How many Pods fit.
    pub room: Room,
}

/// How many Pods fit on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Room {
    /// How many it takes.
    pub pods: u64,
    /// How many are on it.
    pub used: u64,
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadView {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// How many Pods it wants.
    pub replicas: u32,
    /// How many of them are Ready.
    pub ready: u32,
    /// Whether it exists; otherwise it was deleted, or is not rolled out yet.
    pub exists: bool,
}

/// How a Pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Phase {
    /// It runs and is Ready.
    Running,
    /// No node can take it.
    Pending,
    /// Its creation was refused.
    Refused,
    /// The workload wants it and has not created it: it waits for another one.
    NotCreated,
}

/// A Pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodView {
    /// Its name.
    pub name: String,
    /// The name of its workload.
    pub workload: String,
    /// The node that it runs on.
    pub node: Option<String>,
    /// How it is.
    pub phase: Phase,
    /// Its address.
    pub ip: Option<String>,
    /// The node on which a Pod of this name ran before, with or without PPS.
    pub previous_node: Option<String>,
    /// The address that a Pod of this name had before.
    pub previous_ip: Option<String>,
    /// Whether it runs where its state was recorded: the node has the recorded values of the topology keys, and the
    /// Pod has the recorded annotations. Null if nothing was recorded when it was created.
    pub came_home: Option<bool>,
    /// What was recorded when it was created.
    pub recorded_before: Option<PodState>,
    /// Whether the policy changed it.
    pub injected: bool,
    /// What the scheduler found out about each node. Only in the last step.
    pub scheduler: Vec<NodeVerdict>,
    /// The nodes that a real scheduler may choose.
    pub may_land_on: Vec<String>,
    /// The Pod before and after the policy; null if it was not created. Only in the last step.
    pub manifest: Option<Manifest>,
    /// The policy's warnings.
    pub warnings: Vec<String>,
    /// Why it was refused.
    pub refusal: Option<Refusal>,
    /// Whether this Pod ran in the beginning, so that it is not known what was recorded when it was created.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_adopted: bool,
    /// Whether it has a former template, and a rollout has not reached it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_outdated: bool,
    /// Why it cannot be evicted from the node that is drained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_by: Option<String>,
}

/// What the scheduler finds out about a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeVerdict {
    /// The node's name.
    pub node: String,
    /// Whether the Pod can run there.
    pub fits: bool,
    /// How much the Pod prefers the node.
    pub score: i64,
    /// Why it cannot run there.
    pub excluded_by: Vec<Exclusion>,
}

/// Why a Pod cannot run on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Exclusion {
    /// The filter.
    pub what: ExclusionKind,
    /// A sentence.
    pub text: String,
    /// Whether the requirement was injected by the policy.
    pub from_pps: bool,
}

/// A Pod before and after the policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// As the workload's controller creates it.
    pub before: Value,
    /// As the policy answers.
    pub after: Value,
}

/// Why the API server refused an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The HTTP status.
    pub code: u16,
    /// The policy's message.
    pub message: String,
}

/// A PersistentPodState.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PpsView {
    /// Its name.
    pub name: String,
    /// Its workload: `StatefulSet/db`.
    pub target: String,
    /// What is recorded, by Pod.
    pub states: BTreeMap<String, PodState>,
    /// The whole object. Only in the last step.
    pub object: Option<Value>,
    /// Its conditions.
    pub conditions: Vec<Value>,
}
