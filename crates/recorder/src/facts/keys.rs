//! Keys of objects, kinds and workloads. Plain data that depends on nothing else in this crate.

use std::fmt;
use std::sync::Arc;

use pps_core::alias::second_name;
use pps_core::pps::TargetReference;

/// Namespace and name of an object whose kind is clear from the context.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl NamespacedName {
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    pub group: Arc<str>,
    pub kind: Arc<str>,
}

impl GroupKind {
    /// `apps/StatefulSet`, the only kind that is always watched.
    pub fn stateful_set() -> Self {
        Self { group: "apps".into(), kind: "StatefulSet".into() }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.group)
    }
}

/// Namespace, kind and name of a workload. References that differ only in the API version name the same
/// workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadKey {
    pub object: NamespacedName,
    pub kind: GroupKind,
}

impl WorkloadKey {
    pub fn of_target(namespace: &Arc<str>, target: &TargetReference) -> Self {
        Self {
            object: NamespacedName::new(namespace.clone(), target.name.as_str()),
            kind: GroupKind { group: target.group().into(), kind: target.kind.as_str().into() },
        }
    }

    /// The workload as a target. The version is made up: it does not count.
    pub fn target(&self) -> TargetReference {
        let api_version = match &*self.kind.group {
            "" => "v1".to_owned(),
            group => format!("{group}/v1"),
        };
        TargetReference { api_version, kind: self.kind.kind.to_string(), name: self.object.name.to_string() }
    }

    /// [The workload's second name](second_name), which only a generated PPS or an alias may have.
    pub fn second_name(&self) -> NamespacedName {
        NamespacedName::new(self.object.namespace.clone(), second_name(&self.target()))
    }
}

impl fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.kind, self.object)
    }
}
