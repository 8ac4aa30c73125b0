//! Facts: what the sidecar keeps in memory of each watched object. Plain data without I/O;
//! `observe` creates it and `decide` reads it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pps_core::Reason;
use pps_core::governing::second_name;
use pps_core::pps::TargetReference;
use pps_core::required_affinity::RequiredAffinity;

use crate::demand::Demand;

pub mod interest;
pub mod interner;
mod pps;
pub mod states;
pub mod store;

pub use self::pps::*;

/// Namespace and name of an object whose kind is clear from the context.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl NamespacedName {
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The object of this name in the same namespace.
    #[must_use]
    pub fn sibling(&self, name: &Arc<str>) -> Self {
        Self {
            namespace: self.namespace.clone(),
            name: name.clone(),
        }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    pub group: Arc<str>,
    pub kind: Arc<str>,
}

impl GroupKind {
    /// `apps/StatefulSet`, the only kind that is always watched.
    pub fn stateful_set() -> Self {
        Self {
            group: "apps".into(),
            kind: "StatefulSet".into(),
        }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.group)
    }
}

/// Namespace, kind and name of a workload. References that differ only in the API version name the
/// same workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadKey {
    pub object: NamespacedName,
    pub kind: GroupKind,
}

impl WorkloadKey {
    pub fn of_target(namespace: &Arc<str>, target: &TargetReference) -> Self {
        Self {
            object: NamespacedName::new(namespace.clone(), target.name.as_str()),
            kind: GroupKind {
                group: target.group().into(),
                kind: target.kind.as_str().into(),
            },
        }
    }

    /// The workload as a target. The version is made up: it does not count.
    pub fn target(&self) -> TargetReference {
        let api_version = match &*self.kind.group {
            "" => "v1".to_owned(),
            group => format!("{group}/v1"),
        };
        TargetReference {
            api_version,
            kind: self.kind.kind.to_string(),
            name: self.object.name.to_string(),
        }
    }

    /// [The workload's second name](second_name), for a generated PPS or an alias.
    pub fn second_name(&self) -> NamespacedName {
        NamespacedName::new(self.object.namespace.clone(), second_name(&self.target()))
    }
}

impl fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.kind, self.object)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts, of one byte each"
)]
pub struct PodFact {
    /// UID of the controller owner.
    pub owner: Option<Arc<str>>,
    pub node: Option<Arc<str>>,
    pub ready: bool,
    /// When the Pod became Ready, in Unix seconds, as the API server gives it; `None` while it is
    /// not Ready.
    pub ready_since: Option<i64>,
    pub terminating: bool,
    /// Whether the Pod carries the policy's annotation.
    pub injected: bool,
    /// Whether the Pod is not to be recorded, as its annotation says.
    pub exempt: bool,
    /// The annotations that some PPS names, sorted by key once the cluster has them.
    pub annotations: Vec<(Arc<str>, Arc<str>)>,
    /// The Pod's addresses, the primary one first.
    pub ips: Vec<String>,
    /// Set while a Pod that carries the policy's annotation is Pending without a node. Not set if
    /// its required affinity [exceeds its limits](pps_core::required_affinity): such a Pod is never
    /// evicted.
    pub pending: Option<Box<PendingPod>>,
    /// Set if the Pod carries the policy's annotation and its controller is no StatefulSet.
    pub incarnation: Option<Box<Incarnation>>,
}

impl PodFact {
    pub fn annotation(&self, key: &str) -> Option<&str> {
        find(&self.annotations, key)
    }
}

/// Finds a value among pairs that are sorted by key: a user decides how many there are.
fn find<'a>(pairs: &'a [(Arc<str>, Arc<str>)], key: &str) -> Option<&'a str> {
    let place = pairs.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
    Some(&pairs.get(place)?.1)
}

/// What tells a Pod from the next one of its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Incarnation {
    pub uid: String,
    /// In Unix seconds.
    pub created: i64,
    /// Whether the Pod may end for a reason of its own: it is disrupted, or it has failed or
    /// succeeded without a deletion, or so has one of its containers and the Pod is not Ready.
    pub is_disturbed: bool,
}

/// What restricts a Pending Pod to nodes, and what is needed to delete it safely.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingPod {
    pub uid: String,
    pub resource_version: String,
    /// Name of the PPS that the policy's annotation gives.
    pub pps: Arc<str>,
    pub required_affinity: RequiredAffinity,
    /// Whether the scheduler has looked for a node and found none.
    pub is_unschedulable: bool,
    /// Since when the scheduler has found no node for it, in Unix seconds.
    pub unschedulable_since: Option<i64>,
}

/// A Node: the labels that some PPS names, sorted by key once the cluster has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFact {
    pub labels: Vec<(Arc<str>, Arc<str>)>,
}

impl NodeFact {
    pub fn label(&self, key: &str) -> Option<&str> {
        find(&self.labels, key)
    }
}

/// The part of a workload that determines which states are kept and whether a PPS is generated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadFact {
    /// API group and version through which it was read.
    pub api_version: String,
    pub uid: Arc<str>,
    pub terminating: bool,
    pub demand: Demand,
    /// Only the annotations that request a generated PPS.
    pub annotations: BTreeMap<String, String>,
    pub generation: Generation,
}

/// `metadata.generation` of a workload of a custom kind. Facts are equal whatever it is: nothing
/// that is recorded depends on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Generation(pub Option<i64>);

impl PartialEq for Generation {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Generation {}

/// What the watch of a kind of workloads has last reported; `Up` before its first report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchState {
    #[default]
    Up,
    /// The initial list is complete.
    Listed,
    Down,
    /// The API server refuses to list or watch the kind.
    Forbidden,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigFact {
    pub uid: String,
    /// The value of the key that holds the list, not parsed.
    pub whitelist: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub api_version: String,
    pub kind: String,
    pub object: NamespacedName,
    pub uid: String,
}

impl Subject {
    pub fn new(api_version: &str, kind: &str, object: NamespacedName, uid: &str) -> Self {
        Self {
            api_version: api_version.into(),
            kind: kind.into(),
            object,
            uid: uid.into(),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.object)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub subject: Subject,
    pub reason: Reason,
    pub message: String,
}
