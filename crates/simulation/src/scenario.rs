//! What is simulated.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A cluster, and what happens in it. The YAML texts of a scenario are already parsed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Nodes, workloads, Pods, PersistentPodStates, claims, volumes and `PodDisruptionBudgets`, as in a cluster. A Pod that
    /// names one of the workloads as its controller runs from the beginning, and so does its workload.
    #[serde(default)]
    pub objects: Vec<Value>,
    /// Whether the objects are those of a running cluster: all workloads exist from the beginning, and Pods of other
    /// namespaces take room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// The namespace of the workloads; if it is empty, the first one that an object names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The policy's settings; null means the defaults.
    #[serde(default)]
    pub settings: Value,
    /// Whether the policy and the sidecar are there.
    #[serde(default = "yes")]
    pub with_pps: bool,
    /// Whether the sidecar runs with `--evict-pending-pods`. As in the product, it does not by default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub evict_pending_pods: bool,
    /// What happens, in this order.
    #[serde(default)]
    pub actions: Vec<Action>,
    /// For each action, by Pod, the node that a real scheduler took. It counts where the simulation says that the scheduler
    /// may choose it. For comparisons with a real cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<BTreeMap<String, String>>,
}

fn yes() -> bool {
    true
}

/// Something that happens in the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Action {
    /// The workloads are created and start their Pods.
    RollOut {},
    /// A user deletes a Pod.
    DeletePod {
        /// The Pod's name.
        pod: String,
    },
    /// `kubectl cordon`
    Cordon {
        /// The node's name.
        node: String,
    },
    /// `kubectl uncordon`
    Uncordon {
        /// The node's name.
        node: String,
    },
    /// `kubectl drain`
    Drain {
        /// The node's name.
        node: String,
    },
    /// The Node object is deleted, with its Pods.
    LoseNode {
        /// The node's name.
        node: String,
    },
    /// A lost node is there again.
    ReturnNode {
        /// The node's name.
        node: String,
    },
    /// Several Node objects are deleted at once, with their Pods.
    LoseNodes {
        /// The names of the nodes.
        nodes: Vec<String>,
    },
    /// All nodes of a zone are lost.
    LoseZone {
        /// The value of `topology.kubernetes.io/zone`.
        zone: String,
    },
    /// A node gets a label, or loses it.
    LabelNode {
        /// The node's name.
        node: String,
        /// The label's key.
        key: String,
        /// Its new value; null removes it.
        value: Option<String>,
    },
    /// A node joins the cluster.
    AddNode {
        /// The Node.
        object: Value,
    },
    /// A workload's replicas change.
    Scale {
        /// The workload's name.
        workload: String,
        /// How many Pods it wants.
        replicas: u32,
    },
    /// A workload replaces its Pods, as `kubectl rollout restart` does.
    RollingUpdate {
        /// The workload's name.
        workload: String,
    },
    /// A user replaces an object.
    ChangeSpec {
        /// The whole object.
        object: Value,
    },
    /// A user deletes a workload, with its Pods.
    DeleteWorkload {
        /// The workload's name.
        workload: String,
    },
    /// A user creates a deleted workload again.
    CreateWorkload {
        /// The workload's name.
        workload: String,
    },
    /// The time after which `nodeDeletionPolicy: Forget` drops the states of a deleted node.
    EndGracePeriod {},
}
