//! Whether a Pod came back to where it was recorded.

use pps_core::Spec;
use pps_core::pps::PodState;

use crate::facts::NodeFact;

/// Where a Pod was bound, compared with its recorded state: the value of a metric's label.
pub type Placement = &'static str;

/// Compares the node to which a Pod was bound with its recorded state.
pub(super) fn compare(
    spec: &Spec,
    state: Option<&PodState>,
    name: &str,
    node: Option<&NodeFact>,
) -> Placement {
    let recorded = |key: &str| state?.node_topology_labels.get(key).map(String::as_str);
    if spec.topology_keys().all(|key| recorded(key).is_none()) {
        return "unrecorded";
    }
    if state.is_some_and(|state| state.node_name == name) {
        return "recorded_node";
    }
    let mut required = spec.required_keys().filter_map(|key| Some((key, recorded(key)?))).peekable();
    let has = |(key, value): (&str, &str)| node.and_then(|node| node.label(key)) == Some(value);
    if required.peek().is_some() && required.all(has) { "required_topology" } else { "elsewhere" }
}
