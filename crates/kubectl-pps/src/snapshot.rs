//! What was read from the cluster, without what no command needs, and what could not be read.

mod index;
mod node;
mod pod;
mod pps;
mod unseen;
mod workload;

use std::collections::BTreeMap;

use pps_core::plan::Requirement;
use pps_core::pps::GROUP;
use serde_json::Value;

#[cfg(test)]
pub(crate) use self::index::BUILT;
pub use self::index::{FoundBy, Index, WorkloadKey};
pub use self::node::Node;
pub use self::pod::Pod;
pub use self::pps::Pps;
pub use self::unseen::Unseen;
pub use self::workload::Workload;

/// The resource of PersistentPodStates.
pub const PPS: &str = "persistentpodstates.apps.kruise.io";
/// The resource of Kubernetes' StatefulSets.
pub const WORKLOADS: &str = "statefulsets.apps";
/// The resource of OpenKruise's StatefulSets.
pub const KRUISE_WORKLOADS: &str = "statefulsets.apps.kruise.io";

/// Which namespaces were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All.
    All,
    /// One.
    Namespace(String),
}

impl Scope {
    /// Whether a namespace belongs to it.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(own) => own == namespace,
        }
    }
}

/// A cluster at one moment, as far as it was read.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Which namespaces were asked for. Pods may be of others, too: they take room.
    pub scope: Scope,
    /// By namespace and name; ordinals in the order of numbers.
    pub pods: Vec<Pod>,
    /// By name; none if nodes may not be read.
    pub nodes: Option<BTreeMap<String, Node>>,
    /// StatefulSets of Kubernetes and of OpenKruise.
    pub workloads: Vec<Workload>,
    /// PersistentPodStates, aliases among them.
    pub pps: Vec<Pps>,
    /// The claims of volumes.
    pub claims: Vec<Value>,
    /// The volumes themselves.
    pub volumes: Vec<Value>,
    /// The `PodDisruptionBudgets`.
    pub budgets: Vec<Value>,
    /// What could not be read.
    pub unseen: Vec<Unseen>,
    /// When it was read, in seconds since 1970; none if that is not known.
    pub read_at: Option<i64>,
}

/// What lasts for less time than this, in seconds, may be about to end: the scheduler and the sidecar need a moment.
const MOMENT: i64 = 30;

impl Snapshot {
    /// One without any object.
    pub fn empty(scope: Scope) -> Self {
        Self {
            scope,
            pods: Vec::new(),
            nodes: None,
            workloads: Vec::new(),
            pps: Vec::new(),
            claims: Vec::new(),
            volumes: Vec::new(),
            budgets: Vec::new(),
            unseen: Vec::new(),
            read_at: None,
        }
    }

    /// Puts all objects in order.
    pub fn sort(&mut self) {
        self.pods.sort_by(|one, other| one.order().cmp(&other.order()));
        self.workloads
            .sort_by(|one, other| (one.namespace(), one.name()).cmp(&(other.namespace(), other.name())));
        self.pps.sort_by(|one, other| (one.namespace(), one.name()).cmp(&(other.namespace(), other.name())));
    }

    /// Whether nothing was found in a namespace.
    pub fn is_empty_in(&self, namespace: &str) -> bool {
        !self.pods.iter().any(|pod| pod.namespace() == namespace)
            && !self.workloads.iter().any(|workload| workload.namespace() == namespace)
            && !self.pps.iter().any(|pps| pps.namespace() == namespace)
            && self.claims.is_empty()
    }

    /// A Pod of a namespace.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&Pod> {
        self.pods.iter().find(|pod| pod.namespace() == namespace && pod.name() == name)
    }

    /// A node; none if it does not exist or nodes may not be read.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.as_ref()?.get(name)
    }

    /// Whether a node does not exist. Not known, and so false, if nodes may not be read.
    pub fn lacks_node(&self, name: &str) -> bool {
        self.nodes.as_ref().is_some_and(|nodes| !nodes.contains_key(name))
    }

    /// Whether a node has all these labels; none if nodes may not be read.
    pub fn has_node(&self, labels: &[Requirement]) -> Option<bool> {
        let has_all = |node: &Node| labels.iter().all(|one| node.label(&one.key) == Some(one.value.as_str()));
        Some(self.nodes.as_ref()?.values().any(has_all))
    }

    /// Whether a Pod is bound to a node that does not exist. Not known, and so false, if nodes may not be read.
    pub fn is_stranded(&self, pod: &Pod) -> bool {
        pod.node().is_some_and(|node| self.lacks_node(node))
    }

    /// Whether something that began at this time has lasted for more than a moment. Not known, and so false, without a time.
    pub fn is_lasting(&self, since: Option<i64>) -> bool {
        self.read_at.zip(since).is_some_and(|(now, since)| now.saturating_sub(since) >= MOMENT)
    }

    /// Whether a PersistentPodState, or the controller of a Pod, names a workload of this API group.
    pub fn names_workload_of(&self, group: &str) -> bool {
        let targets = self.pps.iter().filter(|pps| !pps.is_alias()).map(Pps::target);
        let pods = self.pods.iter().filter(|pod| self.scope.contains(pod.namespace()));
        let owners = pods.filter_map(|pod| Some(pod.owner()?.0));
        targets.chain(owners).any(|one| one.group() == group)
    }

    /// Why not all objects of this resource, such as `pods` or `statefulsets.apps`, could be read within the scope; none if
    /// they were, or were not asked for.
    pub fn unread(&self, resource: &str) -> Option<&Unseen> {
        let list = match &self.scope {
            Scope::Namespace(namespace) if resource != "nodes" => {
                format!("{resource} in namespace {namespace}")
            }
            _ => resource.to_owned(),
        };
        self.unseen.iter().find(|unseen| unseen.list() == list)
    }

    /// What could not be read and may matter: not OpenKruise's StatefulSets where nothing names one.
    pub fn relevant_unseen(&self) -> impl Iterator<Item = &Unseen> {
        let is_named = self.names_workload_of(GROUP);
        self.unseen.iter().filter(move |unseen| is_named || unseen.resource() != KRUISE_WORKLOADS)
    }

    /// The PersistentPodState of a name.
    pub fn pps(&self, namespace: &str, name: &str) -> Option<&Pps> {
        self.pps.iter().find(|pps| pps.namespace() == namespace && pps.name() == name)
    }
}
