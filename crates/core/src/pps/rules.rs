//! The rules of the schema, in CEL: the API server enforces them even where the policy does not
//! run, and refuses nothing that the policy accepts.
//!
//! A rule about `oldSelf` passes every update that keeps the value. An object that is older than
//! the other rules and breaks one keeps it from no update that leaves the part with the rule
//! unchanged, such as of finalizers, labels or the status: the API server then ignores the rule
//! (validation ratcheting, on by default since Kubernetes 1.30, the oldest supported version). Each
//! rule is therefore at the smallest part that it needs, where all lengths have limits and so the
//! estimated cost is small.

use serde_json::{Value, json};

use super::{GROUP, KIND};
use crate::owner::KINDS_WITHOUT_STABLE_NAMES;

/// The group of an `apiVersion`, with its slash; empty for the core group.
const GROUP_PREFIX: &str = "find('^[^/]*/')";

/// The value cannot change.
pub(super) fn is_immutable() -> Value {
    let message = r#"'it is "' + self + '" and cannot change from "' + oldSelf + '"; create another PersistentPodState instead'"#;
    json!([{"rule": "self == oldSelf", "messageExpression": message}])
}

/// The group of an `apiVersion` cannot change.
pub(super) fn has_immutable_group() -> Value {
    let rule = format!("self.{GROUP_PREFIX} == oldSelf.{GROUP_PREFIX}");
    let message = r#"'it is "' + self + '" and its group cannot change from that of "' + oldSelf + '"; create another PersistentPodState instead'"#;
    json!([{"rule": rule, "messageExpression": message}])
}

/// The Pods of the target have stable names.
pub(super) fn has_stable_names() -> Value {
    let kinds = KINDS_WITHOUT_STABLE_NAMES
        .iter()
        .map(|(group, kind)| match *group {
            "" => format!("'{kind}'"),
            group => format!("'{group}/{kind}'"),
        });
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let message = r#"'it is "' + self.kind + '", whose Pods do not keep their names; use a kind whose re-created Pods do, such as StatefulSet'"#;
    json!([{
        "rule": format!("!(self.apiVersion.{GROUP_PREFIX} + self.kind in [{kinds}])"),
        "fieldPath": ".kind",
        "messageExpression": message,
    }])
}

/// The spec persists something, or belongs to an [alias](crate::governing).
pub(super) fn persists_something() -> Value {
    let rule = format!(
        "has(self.requiredPersistentTopology) || {} || {} || self.targetRef.kind == '{KIND}' && \
         self.targetRef.apiVersion.startsWith('{GROUP}/')",
        has_items("preferredPersistentTopology"),
        has_items("persistentPodAnnotations"),
    );
    let message = "it persists nothing: set requiredPersistentTopology, \
                   preferredPersistentTopology or persistentPodAnnotations";
    json!([{"rule": rule, "message": message}])
}

/// An expression that is true if a list has items.
fn has_items(field: &str) -> String {
    format!("has(self.{field}) && size(self.{field}) > 0")
}

/// A topology has keys, under one of their two names.
pub(super) fn has_keys_once() -> Value {
    let message = "list node label keys, such as topology.kubernetes.io/zone, in either \
                   nodeTopologyKeys or keys: both names mean the same";
    json!([{"rule": "has(self.nodeTopologyKeys) != has(self.keys)", "message": message}])
}
