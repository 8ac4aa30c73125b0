//! What the condition of an object says, and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use pps_core::pps::PodState;
use pps_core::record;
use pps_core::status::Recording;
use pps_core::{Reason, Spec};

use super::Index;
use super::object::Object;
use super::workloads::Knowledge;
use crate::facts::NamespacedName;

/// A node that lacks topology keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MissingLabels {
    node: String,
    keys: Vec<String>,
}

impl MissingLabels {
    pub(super) fn of(spec: &Spec, state: &PodState) -> Option<Self> {
        let keys = record::missing_keys(spec, |key| state.node_topology_labels.contains_key(key));
        (!keys.is_empty()).then(|| Self {
            node: state.node_name.clone(),
            keys: keys.into_iter().map(str::to_owned).collect(),
        })
    }

    /// Whether the spec names all these keys.
    pub(super) fn is_asked_for(&self, spec: &Spec) -> bool {
        self.keys.iter().all(|key| spec.topology_keys().any(|asked| asked == key))
    }
}

/// All is well. `counted` says whether it is known how many Pods the workload wants.
pub(super) fn good(counted: bool) -> Recording {
    let message = if counted {
        "Pods are recorded as they become Ready"
    } else {
        "Pods are recorded as they become Ready; how many the workload wants is not known, so that nothing is dropped before it is gone"
    };
    Recording { ok: true, reason: Reason::Recording, message: message.into() }
}

/// The sentence about the first Pod whose node lacks a topology key.
pub(super) fn missing_labels_condition(
    missing_labels: &BTreeMap<Arc<str>, MissingLabels>,
) -> Option<Recording> {
    let (pod, MissingLabels { node, keys }) = missing_labels.first_key_value()?;
    let advice = keys
        .iter()
        .find_map(|key| Some(format!("use {} in place of {key}", record::successor_of(key)?)))
        .unwrap_or_else(|| "label the node, or remove the key from the spec".into());
    Some(Recording {
        ok: false,
        reason: Reason::TopologyKeyMissing,
        message: format!(
            "node {node} of Pod {pod} has no label {}, so that it cannot be recorded; {advice}",
            keys.join(", ")
        ),
    })
}

impl Index {
    /// What keeps an object from recording, if anything does.
    pub(super) fn obstacle(&self, key: &NamespacedName, object: &Object) -> Option<Recording> {
        let target = &object.fact.spec.target_ref;
        let (reason, message) = match self.workloads.knowledge(&object.workload.kind) {
            Knowledge::NotWatched => (
                Reason::WorkloadKindNotWatched,
                format!(
                    "workloads of kind {} in {} are not watched: the cluster does not define the kind, or the list of custom kinds does not name it; nothing is recorded or dropped",
                    target.kind, target.api_version
                ),
            ),
            Knowledge::Forbidden => (
                Reason::WorkloadKindForbidden,
                format!(
                    "workloads of kind {} in {} may not be listed and watched; grant that to the sidecar; nothing is recorded or dropped",
                    target.kind, target.api_version
                ),
            ),
            Knowledge::Unlisted | Knowledge::Listed => return self.obstacle_of_workload(key, object),
        };
        Some(Recording { ok: false, reason, message })
    }

    fn obstacle_of_workload(&self, key: &NamespacedName, object: &Object) -> Option<Recording> {
        let target = &object.fact.spec.target_ref;
        let (reason, message) =
            if let Some(other) = self.in_charge(&object.workload).filter(|other| *other != key) {
                (
                    Reason::Superseded,
                    format!("{} names the same workload and goes before; delete one of the two", other.name),
                )
            } else if self.workloads.get(&object.workload).is_none_or(|workload| workload.terminating) {
                (
                    Reason::WorkloadNotFound,
                    format!("there is no {} {} in this namespace", target.kind, target.name),
                )
            } else {
                return None;
            };
        Some(Recording { ok: false, reason, message })
    }
}
