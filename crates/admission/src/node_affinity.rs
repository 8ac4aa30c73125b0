//! Where a Pod has its node affinity.

use serde_json::{Map, Value};

/// The field whose terms a node must match: one of them.
pub(crate) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
/// The field with the terms that the scheduler prefers.
pub(crate) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
/// The path of the object that has both.
pub(crate) const PATH: &str = "spec.affinity.nodeAffinity";

/// A field of a Pod's node affinity; null if it is missing.
pub(crate) fn node_affinity<'a>(pod: &'a Value, field: &str) -> &'a Value {
    &pod["spec"]["affinity"]["nodeAffinity"][field]
}

/// The same, to change it.
pub(crate) fn node_affinity_mut<'a>(pod: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    let affinity = pod.get_mut("spec")?.get_mut("affinity")?;
    affinity.get_mut("nodeAffinity")?.get_mut(field)
}

/// Whether a node selector term has no requirements, and so matches no node.
pub(crate) fn is_empty_term(term: &Map<String, Value>) -> bool {
    let is_empty = |field| match term.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::Array(requirements)) => requirements.is_empty(),
        Some(_) => false,
    };
    is_empty("matchExpressions") && is_empty("matchFields")
}
