//! What is simulated.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Nodes, workloads, Pods, PersistentPodStates, claims, volumes and `PodDisruptionBudgets`, as
    /// in a cluster. A Pod that names one of the workloads as its controller runs from the
    /// beginning, and so does its workload.
    #[serde(default)]
    pub objects: Vec<Value>,
    /// Whether the objects are those of a running cluster: all workloads exist from the beginning,
    /// and Pods of other namespaces take room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// The namespace of the workloads; if it is empty, the first one that an object names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The policy's settings; null means the defaults.
    #[serde(default)]
    pub settings: Value,
    #[serde(default = "yes")]
    pub with_pps: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub evict_pending_pods: bool,
    #[serde(default)]
    pub actions: Vec<Action>,
    /// For each action, by Pod, the node that a real scheduler took. It counts where the simulation
    /// says that the scheduler may choose it. For comparisons with a real cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<BTreeMap<String, String>>,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "do",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Action {
    RollOut {},
    DeletePod {
        pod: String,
    },
    /// What `kubectl pps move POD --anywhere` does.
    MovePod {
        pod: String,
    },
    Cordon {
        node: String,
    },
    Uncordon {
        node: String,
    },
    Drain {
        node: String,
    },
    LoseNode {
        node: String,
    },
    ReturnNode {
        node: String,
    },
    /// Several Node objects are deleted at once, with their Pods.
    LoseNodes {
        nodes: Vec<String>,
    },
    LoseZone {
        zone: String,
    },
    LabelNode {
        node: String,
        key: String,
        /// Its new value; null removes it.
        value: Option<String>,
    },
    Scale {
        workload: String,
        replicas: u32,
    },
    RollingUpdate {
        workload: String,
    },
    /// An object is created or changed.
    #[serde(alias = "addNode")]
    ChangeSpec {
        object: Value,
    },
    DeleteWorkload {
        workload: String,
    },
    CreateWorkload {
        workload: String,
    },
    EndGracePeriod {},
    /// All Pods whose requirement has an end (`fallbackAfterSeconds`) have waited long enough.
    EndFallbackPeriod {},
}
