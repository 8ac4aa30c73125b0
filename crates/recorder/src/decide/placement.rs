//! Whether a Pod came back to where it was recorded.

use pps_core::Spec;
use pps_core::pps::PodState;

use crate::facts::NodeFact;

/// Where a Pod was bound, compared with its recorded state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placement {
    /// No topology of it is recorded: it may be bound anywhere.
    Unrecorded,
    /// To the recorded node.
    RecordedNode,
    /// To another node, which has all that the PPS requires.
    RequiredTopology,
    Elsewhere,
}

impl Placement {
    pub fn name(self) -> &'static str {
        match self {
            Self::Unrecorded => "unrecorded",
            Self::RecordedNode => "recorded_node",
            Self::RequiredTopology => "required_topology",
            Self::Elsewhere => "elsewhere",
        }
    }
}

/// Compares the node to which a Pod was bound with its recorded state.
pub(super) fn compare(
    spec: &Spec,
    state: Option<&PodState>,
    name: &str,
    node: Option<&NodeFact>,
) -> Placement {
    let Some(state) = state else { return Placement::Unrecorded };
    let recorded = |key: &str| state.node_topology_labels.get(key).map(String::as_str);
    if spec.topology_keys().all(|key| recorded(key).is_none()) {
        return Placement::Unrecorded;
    }
    if state.node_name == name {
        return Placement::RecordedNode;
    }
    let mut required = spec.required_keys().filter_map(|key| Some((key, recorded(key)?))).peekable();
    let has = |(key, value): (&str, &str)| node.and_then(|node| node.label(key)) == Some(value);
    if required.peek().is_some() && required.all(has) {
        Placement::RequiredTopology
    } else {
        Placement::Elsewhere
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    #[test]
    fn a_pod_came_back_if_its_node_is_the_recorded_one_or_has_all_that_is_required() {
        let zone = json!({"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]}});
        let mut host = zone.clone();
        host["preferredPersistentTopology"] =
            json!([{"weight": 1, "preference": {"nodeTopologyKeys": ["host"]}}]);
        host["requiredPersistentTopology"] = Value::Null;
        let state = |labels: Value| json!({"nodeName": "node-1", "nodeTopologyLabels": labels});
        let both = state(json!({"zone": "a", "host": "node-1"}));
        for (spec, state, node, expected) in [
            (&zone, Value::Null, "node-1", Placement::Unrecorded),
            (&zone, state(json!({})), "node-1", Placement::Unrecorded),
            (&zone, state(json!({"host": "node-1"})), "node-2", Placement::Unrecorded),
            (&zone, both.clone(), "node-1", Placement::RecordedNode),
            (&zone, both.clone(), "node-2", Placement::RequiredTopology),
            (&zone, both.clone(), "node-3", Placement::Elsewhere),
            (&zone, both.clone(), "unknown", Placement::Elsewhere),
            (&host, both.clone(), "node-1", Placement::RecordedNode),
            (&host, both, "node-2", Placement::Elsewhere),
        ] {
            let spec: Spec = from_value(spec.clone()).unwrap();
            let state: Option<PodState> = from_value(state).unwrap();
            let zone = match node {
                "node-1" | "node-2" => Some("a"),
                "node-3" => Some("b"),
                _ => None,
            };
            let fact = zone.map(|zone| NodeFact {
                labels: vec![("host".into(), node.into()), ("zone".into(), zone.into())],
            });
            assert_eq!(
                compare(&spec, state.as_ref(), node, fact.as_ref()),
                expected,
                "{spec:?} {state:?} {node}"
            );
        }
    }
}
