//! How a Pod is removed, and the mark that it has until then.

use pps_core::{MOVE_ANNOTATION, RECORD_ANNOTATION, Spec};
use serde_json::{Value, json};

use crate::snapshot::Pod;

/// The value of the mark of a Pod that a user has exempted from recording.
const EXEMPT: &str = "exempt";

/// How a Pod is removed, so that its controller creates it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Not at all: it does not exist, is terminating, or was created with the new state.
    Unneeded,
    /// It is evicted, as `PodDisruptionBudgets` allow.
    Evict,
    /// It is Pending, and is deleted.
    Delete,
    /// It stays: it is at its destination. An unfinished move is called off.
    Stay,
}

impl Removal {
    /// How a Pod that is not at its destination is removed. `successor` is the Pod that would be
    /// created now.
    pub(super) fn of(pod: &Pod, successor: Option<&Value>, spec: &Spec) -> Self {
        if pod.is_terminating() {
            Self::Unneeded
        } else if pod.node().is_some() {
            Self::Evict
        } else if successor.is_some_and(|next| is_same_injection(next, pod.object(), spec)) {
            Self::Unneeded
        } else {
            Self::Delete
        }
    }
}

/// Whether two Pods have the same in the fields that the policy may inject. A Pod that was created
/// after a change of the state may wait for a node.
fn is_same_injection(one: &Value, other: &Value, spec: &Spec) -> bool {
    let mut annotations = spec.persistent_pod_annotations.iter();
    one["spec"]["affinity"]["nodeAffinity"] == other["spec"]["affinity"]["nodeAffinity"]
        && annotations.all(|annotation| {
            let key = &annotation.key;
            one["metadata"]["annotations"][key] == other["metadata"]["annotations"][key]
        })
}

/// The annotations that mark a Pod, so that the sidecar does not record it, or that remove the
/// mark; none if the Pod has them. A Pod that a user has exempted stays exempt.
pub fn mark(pod: &Pod, is_moved: bool) -> Option<Value> {
    match (is_moved, pod.is_marked()) {
        (true, false) => {
            let before = if pod.is_exempt() { EXEMPT } else { "recorded" };
            Some(json!({RECORD_ANNOTATION: "false", MOVE_ANNOTATION: before}))
        }
        (false, true) if pod.annotation(MOVE_ANNOTATION) == Some(EXEMPT) => {
            Some(json!({MOVE_ANNOTATION: null}))
        }
        (false, true) => Some(json!({RECORD_ANNOTATION: null, MOVE_ANNOTATION: null})),
        _ => None,
    }
}
