//! Which state to record for a running Pod.

use pps_core::pps::{PodAnnotation, PodState, Spec, ValueFrom};

use crate::facts::{NodeFact, PodFact};

/// The node on which a Pod runs.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub name: &'a str,
    pub node: &'a NodeFact,
    /// Whether it has only just appeared: the controller that labels it with its zone may not have
    /// run yet.
    pub is_new: bool,
}

/// The state to record for a Pod that is Ready at this place and not terminating. `before` is the
/// state that was recorded for a Pod of that name earlier.
///
/// Labels are read from the node each time; only those that a new node of the recorded name does
/// not have yet are kept. An empty or missing annotation never replaces a recorded value: a network
/// plugin writes it only after the Pod has started, and blanks it when it tears the Pod down.
pub fn record(spec: &Spec, pod: &PodFact, place: Place<'_>, before: Option<&PodState>) -> PodState {
    let keeps_labels = before.filter(|before| place.is_new && before.node_name == place.name);
    let mut state = PodState {
        node_name: place.name.to_owned(),
        ..PodState::default()
    };
    for key in spec.topology_keys() {
        let kept = keeps_labels.and_then(|before| before.node_topology_labels.get(key));
        let value = place.node.label(key).map(str::to_owned);
        if let Some(value) = value.or_else(|| kept.cloned()) {
            state.node_topology_labels.insert(key.to_owned(), value);
        }
    }
    for wanted in &spec.persistent_pod_annotations {
        let known = before.and_then(|before| before.annotations.get(&wanted.key));
        if let Some(value) = current_value(wanted, pod).or_else(|| known.cloned()) {
            state.annotations.insert(wanted.key.clone(), value);
        }
    }
    state
}

/// The topology keys of the spec that a node has no label for, sorted and without repeats.
pub fn missing_keys(spec: &Spec, has_label: impl Fn(&str) -> bool) -> Vec<&str> {
    let mut missing: Vec<&str> = spec.topology_keys().filter(|key| !has_label(key)).collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

fn current_value(wanted: &PodAnnotation, pod: &PodFact) -> Option<String> {
    if let Some(value) = pod
        .annotation(&wanted.key)
        .filter(|value| !value.is_empty())
    {
        return Some(value.to_owned());
    }
    match wanted.value_from.filter(|_| !pod.ips.is_empty())? {
        ValueFrom::PodIpsJson => serde_json::to_string(&pod.ips).ok(),
        ValueFrom::PodIpsCsv => Some(pod.ips.join(",")),
        ValueFrom::Unknown => None,
    }
}

/// Where a Pod was bound, compared with its recorded state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placement {
    /// No label of its topology is recorded.
    Unrecorded,
    RecordedNode,
    /// Another node with all required values that are recorded.
    RequiredTopology,
    Elsewhere,
}

impl Placement {
    pub const ALL: [Self; 4] = [
        Self::Unrecorded,
        Self::RecordedNode,
        Self::RequiredTopology,
        Self::Elsewhere,
    ];
}

/// Compares the node to which a Pod was bound with its recorded state.
pub(crate) fn compare_placement(
    spec: &Spec,
    state: Option<&PodState>,
    name: &str,
    node: Option<&NodeFact>,
) -> Placement {
    let Some(state) = state else {
        return Placement::Unrecorded;
    };
    let labels = &state.node_topology_labels;
    if spec.topology_keys().all(|key| !labels.contains_key(key)) {
        return Placement::Unrecorded;
    }
    if state.node_name == name {
        return Placement::RecordedNode;
    }
    let mut required = spec
        .required_keys()
        .filter_map(|key| Some((key, labels.get(key)?.as_str())))
        .peekable();
    let is_any_required = required.peek().is_some();
    if is_any_required
        && required.all(|(key, value)| node.and_then(|node| node.label(key)) == Some(value))
    {
        Placement::RequiredTopology
    } else {
        Placement::Elsewhere
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec() -> Spec {
        serde_json::from_value(json!({
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
            "preferredPersistentTopology": [{"weight": 1, "preference": {"nodeTopologyKeys": ["host", "zone"]}}],
            "persistentPodAnnotations": [
                "ip",
                {"key": "json", "valueFrom": "PodIPsJSON"},
                {"key": "csv", "valueFrom": "PodIPsCSV"},
            ],
        }))
        .unwrap()
    }

    fn recorded(
        annotations: &[(&'static str, &'static str)],
        ips: &[&str],
        before: Option<&PodState>,
    ) -> PodState {
        let pairs = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect()
        };
        let pod = PodFact {
            annotations: pairs(annotations),
            ips: ips.iter().map(ToString::to_string).collect(),
            ..PodFact::default()
        };
        let node = NodeFact {
            labels: pairs(&[("zone", "a")]),
        };
        let place = Place {
            name: "node-1",
            node: &node,
            is_new: false,
        };
        record(&spec(), &pod, place, before)
    }

    #[test]
    fn keeps_labels_that_a_new_node_of_the_same_name_does_not_have_yet() {
        let on = |node_name: &str, labels: &[(&str, &str)]| PodState {
            node_name: node_name.into(),
            node_topology_labels: labels
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect(),
            ..PodState::default()
        };
        let recorded = |node_name, is_node_new, (key, value): (&str, &str)| {
            let node = NodeFact {
                labels: vec![(key.into(), value.into())],
            };
            let before = on("a", &[("zone", "z"), ("host", "a"), ("unnamed", "x")]);
            let place = Place {
                name: node_name,
                node: &node,
                is_new: is_node_new,
            };
            record(&spec(), &PodFact::default(), place, Some(&before))
        };
        assert_eq!(
            recorded("a", true, ("host", "b")),
            on("a", &[("zone", "z"), ("host", "b")])
        );
        assert_eq!(
            recorded("a", false, ("host", "b")),
            on("a", &[("host", "b")])
        );
        assert_eq!(
            recorded("b", true, ("host", "b")),
            on("b", &[("host", "b")]),
            "another node"
        );
    }

    #[test]
    fn records_labels_and_annotations_that_the_spec_names() {
        let state = recorded(&[("ip", "10.0.0.7"), ("other", "x")], &[], None);
        assert_eq!(
            serde_json::to_value(&state).unwrap(),
            json!({"nodeName": "node-1", "nodeTopologyLabels": {"zone": "a"}, "annotations": {"ip": "10.0.0.7"}})
        );
        assert_eq!(missing_keys(&spec(), |key| key == "zone"), ["host"]);
    }

    #[test]
    fn keeps_a_recorded_annotation_while_the_pod_has_none() {
        let before = recorded(&[("ip", "10.0.0.7")], &[], None);
        assert_eq!(recorded(&[("ip", "")], &[], Some(&before)), before);
        assert_eq!(recorded(&[], &[], Some(&before)), before);
        assert_eq!(
            recorded(&[("ip", "10.0.0.8")], &[], Some(&before)).annotations["ip"],
            "10.0.0.8"
        );
    }

    #[test]
    fn records_pod_ips_for_a_missing_annotation_with_a_source() {
        let state = recorded(&[("csv", "own")], &["10.0.0.7", "fd00::7"], None);
        assert_eq!(state.annotations["json"], r#"["10.0.0.7","fd00::7"]"#);
        assert_eq!(state.annotations["csv"], "own");
        assert!(!state.annotations.contains_key("ip"));
    }
}
