//! What a simulation shows.

use std::collections::BTreeMap;
use std::fmt;

use pps_core::{PodState, shorten};
use pps_scheduler::{Caveat, Exclusion, Verdict};
use serde::Serialize;
use serde_json::Value;

use crate::scenario::Action;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    pub problems: Vec<Problem>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    #[serde(flatten)]
    pub source: Source,
    pub field: Option<String>,
    pub severity: Severity,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "source", rename_all = "camelCase")]
pub enum Source {
    Objects { object: Option<usize> },
    Settings,
    Action { index: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    Error,
    Warning,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The action; null in the first step, which shows the cluster before any.
    pub action: Option<Action>,
    pub events: Vec<Event>,
    /// The cluster after it. Empty if [`keeps_all`](crate::limits::Limits::keeps_all) is not set
    /// and this is not the last step.
    pub world: World,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub kind: EventKind,
    pub object: String,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EventKind {
    Created,
    Changed,
    Deleted,
    Scheduled,
    Pending,
    Injected,
    Refused,
    Recorded,
    Forgotten,
    Evicted,
    Warning,
    /// No state is dropped, because the PersistentPodState keeps those of nodes that are gone.
    StatesKept,
    /// A Pod stays on the node that is drained.
    Kept,
}

/// A cluster at one moment. So that a result does not grow with steps times Pods times nodes, only
/// the last step has all of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct World {
    pub nodes: Vec<NodeState>,
    pub workloads: Vec<WorkloadView>,
    pub pods: Vec<PodView>,
    pub pps: Vec<PpsView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeState {
    pub name: String,
    pub zone: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub cordoned: bool,
    pub taints: Vec<String>,
    pub exists: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadView {
    pub name: String,
    pub kind: String,
    pub replicas: u32,
    pub ready: u32,
    pub exists: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Phase {
    Running,
    Pending,
    Refused,
    NotCreated,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodView {
    pub name: String,
    pub workload: String,
    pub node: Option<String>,
    pub phase: Phase,
    pub ip: Option<String>,
    pub previous_node: Option<String>,
    /// Whether it runs where its state was recorded: the node has the recorded values of the
    /// topology keys, and the Pod has the recorded annotations. Null if nothing was recorded when
    /// it was created.
    pub came_home: Option<bool>,
    pub recorded_before: Option<PodState>,
    pub injected: bool,
    /// What the scheduler found out about each node. Only in the last step.
    pub scheduler: Vec<Verdict>,
    /// The nodes that a real scheduler may choose.
    pub may_land_on: Vec<String>,
    /// The Pod before and after the policy; null if it was not created. Only in the last step.
    pub manifest: Option<Manifest>,
    pub warnings: Vec<String>,
    /// What the scheduler looks at and the simulation does not.
    pub caveats: Vec<Caveat>,
    /// What excludes the node where its state was recorded, if it runs on another one.
    #[serde(skip)]
    pub kept_away_by: Vec<Exclusion>,
    #[serde(skip)]
    pub pending: Option<Pending>,
    pub refusal: Option<Refusal>,
    /// Whether this Pod ran in the beginning, so that it is not known what was recorded when it was
    /// created.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_adopted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_by: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pending {
    /// Its template names a node that does not exist.
    UnknownNode(String),
    NoNode,
    Excluded,
    /// The network plugin cannot read the annotation by which the Pod asks for an address.
    UnreadableAddress {
        plugin: &'static str,
        annotation: &'static str,
        value: String,
    },
    /// Another Pod has the address that it asks for.
    AddressTaken {
        ip: String,
        annotation: &'static str,
    },
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::UnknownNode(node) => write!(
                f,
                "its template names the node {node}, which does not exist"
            ),
            Self::NoNode => f.write_str("there is no node"),
            Self::Excluded => f.write_str("no node can take it"),
            Self::UnreadableAddress {
                plugin,
                annotation,
                value,
            } => {
                write!(
                    f,
                    "{plugin} cannot read its annotation {annotation}: {}",
                    shorten(value)
                )
            }
            Self::AddressTaken { ip, annotation } => write!(
                f,
                "it asks for the address {ip}, which another Pod has. To let it start with \
                 another one, remove {annotation} from the PersistentPodState and delete the Pod"
            ),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub before: Value,
    pub after: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    pub code: u16,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PpsView {
    pub name: String,
    pub target: String,
    pub states: BTreeMap<String, PodState>,
    /// The whole object. Only in the last step.
    pub object: Option<Value>,
    pub conditions: Vec<Value>,
}
