//! Which state to record for a running Pod.

use pps_core::pps::{PodAnnotation, PodState, Spec, ValueFrom};

use crate::facts::{NodeFact, PodFact};

/// A node of this name, and whether it has only just appeared: the controller that labels it with
/// its zone may not have run yet.
pub type Place<'a> = (&'a str, &'a NodeFact, bool);

/// The state to record for a Pod that is Ready on this node and not terminating. `before` is the
/// state that was recorded for a Pod of that name earlier.
///
/// Labels are read from the node each time; only those that a new node of the recorded name does
/// not have yet are kept. An empty or missing annotation never replaces a recorded value: a network
/// plugin writes it only after the Pod has started, and blanks it when it tears the Pod down.
pub fn record(
    spec: &Spec,
    pod: &PodFact,
    (node_name, node, is_node_new): Place<'_>,
    before: Option<&PodState>,
) -> PodState {
    let awaited = before.filter(|before| is_node_new && before.node_name == node_name);
    let awaited_label = |key: &str| awaited?.node_topology_labels.get(key).map(String::as_str);
    let label = |key: &str| {
        Some((
            key.to_owned(),
            node.label(key).or_else(|| awaited_label(key))?.to_owned(),
        ))
    };
    let annotation = |wanted: &PodAnnotation| {
        let known = || before?.annotations.get(&wanted.key).cloned();
        Some((
            wanted.key.clone(),
            current_value(wanted, pod).or_else(known)?,
        ))
    };
    PodState {
        node_name: node_name.to_owned(),
        node_topology_labels: spec.topology_keys().filter_map(label).collect(),
        annotations: spec
            .persistent_pod_annotations
            .iter()
            .filter_map(annotation)
            .collect(),
    }
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

/// Compares the node to which a Pod was bound with its recorded state.
pub(crate) fn compare_placement(
    spec: &Spec,
    state: Option<&PodState>,
    name: &str,
    node: Option<&NodeFact>,
) -> &'static str {
    let recorded = |key: &str| state?.node_topology_labels.get(key).map(String::as_str);
    if spec.topology_keys().all(|key| recorded(key).is_none()) {
        return "unrecorded";
    }
    if state.is_some_and(|state| state.node_name == name) {
        return "recorded_node";
    }
    let mut required = spec
        .required_keys()
        .filter_map(|key| Some((key, recorded(key)?)))
        .peekable();
    let has = |(key, value): (&str, &str)| node.and_then(|node| node.label(key)) == Some(value);
    if required.peek().is_some() && required.all(has) {
        "required_topology"
    } else {
        "elsewhere"
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
        record(&spec(), &pod, ("node-1", &node, false), before)
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
            record(
                &spec(),
                &PodFact::default(),
                (node_name, &node, is_node_new),
                Some(&before),
            )
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
