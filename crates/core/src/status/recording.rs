//! What the condition of type Recording can say.

use std::collections::BTreeMap;

use crate::limits::MAX_MESSAGES;
use crate::record::{missing_keys, successor_of};
use crate::{PodState, Reason, Spec, TargetReference};

/// The desired condition of type Recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Its status: whether states are recorded as the spec asks for.
    pub ok: bool,
    /// Why.
    pub reason: Reason,
    /// Why, in a sentence, with what to do about it.
    pub message: String,
}

impl Recording {
    fn not(reason: Reason, message: String) -> Self {
        Self { ok: false, reason, message }
    }

    /// Another PPS governs the workload.
    pub fn superseded_by(pps: &str) -> Self {
        let message = format!(
            "PersistentPodState {pps} names the same workload and takes precedence; delete one of the two"
        );
        Self::not(Reason::Superseded, message)
    }

    /// A field [is beyond its limit](Spec::exceeds_limits).
    pub fn limit_exceeded(excess: &str) -> Self {
        Self::not(Reason::LimitExceeded, format!("{excess}; until then nothing is recorded or dropped"))
    }

    /// The workload does not exist, or is terminating.
    pub fn workload_not_found(target: &TargetReference) -> Self {
        let TargetReference { kind, name, .. } = target;
        Self::not(Reason::WorkloadNotFound, format!("{kind} {name} does not exist in this namespace"))
    }

    /// The policy cannot find the PPS, so that what is recorded is not injected.
    pub fn name_conflict(advice: String) -> Self {
        Self::not(Reason::NameConflict, advice)
    }

    /// The node on which a state was recorded lacks keys of the spec; `None` if it has all.
    pub fn missing_label(spec: &Spec, pod: &str, state: &PodState) -> Option<Self> {
        let labels: &BTreeMap<String, String> = &state.node_topology_labels;
        let keys = missing_keys(spec, |key| labels.contains_key(key));
        let replace_deprecated = |key: &&str| Some(format!("use {} instead of {key}", successor_of(key)?));
        let advice = keys
            .iter()
            .find_map(replace_deprecated)
            .unwrap_or_else(|| "label the node, or remove the key from the spec".into());
        let more = keys.len().saturating_sub(MAX_MESSAGES);
        let listed = keys[..keys.len() - more].join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!("node {} of Pod {pod} has no label {listed}{more}: {advice}", state.node_name);
        (!keys.is_empty()).then(|| Self::not(Reason::TopologyKeyMissing, message))
    }

    /// No problem. `desired` is how many Pods the workload wants, if its spec says so.
    pub fn progress(recorded: usize, desired: Option<u64>) -> Self {
        let (reason, message) = match desired {
            None => (
                Reason::ReplicasUnknown,
                "the workload does not say how many Pods it wants, so no state is dropped before it is deleted",
            ),
            Some(desired) if (recorded as u64) < desired => {
                (Reason::WaitingForPods, "Pods are recorded as they become Ready")
            }
            Some(_) => {
                (Reason::AllRecorded, "at least as many states are recorded as the workload wants Pods")
            }
        };
        Self { ok: true, reason, message: message.into() }
    }
}
