//! What was read from the cluster, without what no command needs, and what could not be read.

mod index;
mod objects;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use pps_admission::plan::Requirement;
use pps_check::read::Right;
use pps_core::pps::{GROUP, PLURAL};
use serde_json::Value;

pub use self::index::{Index, WorkloadKey};
pub use self::objects::{Node, Pod, Pps, Recording, Workload, written};
#[cfg(test)]
pub(crate) use self::tests::forbidden;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Resource {
    PersistentPodStates,
    Pods,
    Nodes,
    StatefulSets,
    /// OpenKruise's, of which a cluster may have none.
    KruiseStatefulSets,
    PersistentVolumeClaims,
    PersistentVolumes,
    PodDisruptionBudgets,
}

impl Resource {
    /// The right to list the objects of a namespace; of all namespaces without one.
    pub fn right_to_list(self, namespace: Option<&str>) -> Right {
        let right = match self {
            Self::PersistentPodStates => Right::new("list", GROUP, PLURAL),
            Self::Pods => Right::new("list", "", "pods"),
            Self::Nodes => Right::new("list", "", "nodes"),
            Self::StatefulSets => Right::new("list", "apps", "statefulsets"),
            Self::KruiseStatefulSets => Right::new("list", GROUP, "statefulsets"),
            Self::PersistentVolumeClaims => Right::new("list", "", "persistentvolumeclaims"),
            Self::PersistentVolumes => Right::new("list", "", "persistentvolumes"),
            Self::PodDisruptionBudgets => Right::new("list", "policy", "poddisruptionbudgets"),
        };
        match namespace {
            Some(namespace) => right.within(namespace),
            None => right,
        }
    }

    /// The StatefulSets of an API group.
    pub fn stateful_sets_of(group: &str) -> Self {
        if group == GROUP {
            Self::KruiseStatefulSets
        } else {
            Self::StatefulSets
        }
    }

    pub fn is_cluster_wide(self) -> bool {
        matches!(self, Self::Nodes | Self::PersistentVolumes)
    }
}

/// A list that could not be read, or not completely.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unread {
    pub resource: Resource,
    /// In which namespace; none for all.
    pub namespace: Option<String>,
    /// None if the user lacks the right to list.
    pub why: Option<String>,
}

impl Unread {
    pub fn is_forbidden(&self) -> bool {
        self.why.is_none()
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let right = self.resource.right_to_list(self.namespace.as_deref());
        f.write_str(&unreadable(&right, self.why.as_deref()))
    }
}

/// Why something could not be read: the API server's words, or none if the user lacks the right.
pub(crate) fn unreadable(right: &Right, why: Option<&str>) -> String {
    match why {
        None => format!("you have no permission to {right}"),
        Some(why) => format!("cannot read {}: {why}", right.object()),
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Namespaces {
    #[default]
    All,
    One(String),
}

impl Namespaces {
    pub fn contains(&self, namespace: &str) -> bool {
        self.one().is_none_or(|own| own == namespace)
    }

    pub fn one(&self) -> Option<&str> {
        match self {
            Self::All => None,
            Self::One(own) => Some(own),
        }
    }
}

/// A cluster at one moment, as far as it was read.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Which namespaces were asked for. Pods may be of others too: they take room.
    pub namespaces: Namespaces,
    /// By namespace and name; ordinals in the order of numbers.
    pub pods: Vec<Pod>,
    /// By name; none if nodes may not be read.
    pub nodes: Option<BTreeMap<String, Node>>,
    /// StatefulSets of Kubernetes and of OpenKruise.
    pub workloads: Vec<Workload>,
    /// PersistentPodStates, aliases among them.
    pub pps: Vec<Pps>,
    pub claims: Vec<Value>,
    pub volumes: Vec<Value>,
    pub budgets: Vec<Value>,
    pub unread: Vec<Unread>,
    /// When it was read, in seconds since 1970; none if that is not known.
    pub read_at: Option<i64>,
}

/// What lasts for less time than this may be about to end: the scheduler and the sidecar need a
/// moment.
const MOMENT_SECONDS: i64 = 30;

impl Snapshot {
    pub fn empty(namespaces: Namespaces) -> Self {
        Self {
            namespaces,
            ..Self::default()
        }
    }

    pub fn sort(&mut self) {
        self.pods
            .sort_by(|one, other| one.order().cmp(&other.order()));
        self.workloads.sort_by(|one, other| {
            (one.namespace(), one.name()).cmp(&(other.namespace(), other.name()))
        });
        self.pps.sort_by(|one, other| {
            (one.namespace(), one.name()).cmp(&(other.namespace(), other.name()))
        });
    }

    pub fn pod(&self, namespace: &str, name: &str) -> Option<&Pod> {
        self.pods
            .iter()
            .find(|pod| pod.namespace() == namespace && pod.name() == name)
    }

    /// A node; none if it does not exist or nodes may not be read.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.as_ref()?.get(name)
    }

    /// Whether a node does not exist. Not known, and so false, if nodes may not be read.
    pub fn lacks_node(&self, name: &str) -> bool {
        self.nodes
            .as_ref()
            .is_some_and(|nodes| !nodes.contains_key(name))
    }

    /// Whether a node has all these labels; none if nodes may not be read.
    pub fn has_node(&self, labels: &[Requirement]) -> Option<bool> {
        Some(self.nodes.as_ref()?.values().any(|node| node.has(labels)))
    }

    /// Whether a Pod is bound to a node that does not exist. Not known, and so false, if nodes may
    /// not be read.
    pub fn is_stranded(&self, pod: &Pod) -> bool {
        pod.node().is_some_and(|node| self.lacks_node(node))
    }

    /// Whether the sidecar records this Pod now, if a PersistentPodState governs it. It records no
    /// Pod whose node is gone; where nodes may not be read, every node counts as existing.
    pub fn is_recordable(&self, pod: &Pod) -> bool {
        let is_running = pod.node().is_some() && pod.is_ready() && !pod.is_terminating();
        is_running && !pod.is_exempt() && !self.is_stranded(pod)
    }

    /// Whether a state that began at this time has lasted for more than a moment. False without a
    /// time.
    pub fn is_lasting(&self, since: Option<i64>) -> bool {
        self.read_at
            .zip(since)
            .is_some_and(|(now, since)| now.saturating_sub(since) >= MOMENT_SECONDS)
    }

    /// Whether a PersistentPodState, or the controller of a Pod, names a workload of this API
    /// group.
    pub fn names_workload_of(&self, group: &str) -> bool {
        let targets = self
            .pps
            .iter()
            .filter(|pps| !pps.is_alias())
            .map(Pps::target);
        let pods = self
            .pods
            .iter()
            .filter(|pod| self.namespaces.contains(pod.namespace()));
        let owners = pods.filter_map(Pod::owner);
        targets.chain(owners).any(|one| one.group() == group)
    }

    /// Why not all objects of a kind could be read in these namespaces; none if they were, or were
    /// not asked for.
    pub fn unread(&self, resource: Resource) -> Option<&Unread> {
        let namespace = self
            .namespaces
            .one()
            .filter(|_| !resource.is_cluster_wide());
        self.unread
            .iter()
            .find(|one| one.resource == resource && one.namespace.as_deref() == namespace)
    }

    /// Fails if not all objects of a kind could be read in these namespaces.
    pub fn require(&self, resource: Resource) -> Result<(), &Unread> {
        self.unread(resource).map_or(Ok(()), Err)
    }

    /// The same of all workloads. OpenKruise's do not matter where nothing names one.
    pub fn require_workloads(&self) -> Result<(), &Unread> {
        self.require(Resource::StatefulSets)?;
        if self.names_workload_of(GROUP) {
            self.require(Resource::KruiseStatefulSets)
        } else {
            Ok(())
        }
    }

    /// Whether all workloads of this kind were read: only StatefulSets are.
    pub fn has_all_like(&self, key: &WorkloadKey) -> bool {
        let is_listed = key.kind == "StatefulSet" && ["apps", GROUP].contains(&key.group.as_str());
        is_listed
            && self
                .unread(Resource::stateful_sets_of(&key.group))
                .is_none()
    }

    /// What could not be read and may matter: not OpenKruise's StatefulSets where nothing names
    /// one.
    pub fn relevant_unread(&self) -> impl Iterator<Item = &Unread> {
        let is_named = self.names_workload_of(GROUP);
        self.unread
            .iter()
            .filter(move |one| is_named || one.resource != Resource::KruiseStatefulSets)
    }

    pub fn pps(&self, namespace: &str, name: &str) -> Option<&Pps> {
        self.pps
            .iter()
            .find(|pps| pps.namespace() == namespace && pps.name() == name)
    }
}
