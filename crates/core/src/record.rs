//! Which state to record for a running Pod.

use std::collections::BTreeMap;

use crate::pps::{PodAnnotation, PodState, Spec, ValueFrom};

/// A Pod that is Ready, scheduled and not terminating, with its node.
pub struct RunningPod<'a> {
    /// The node on which the Pod runs.
    pub node_name: &'a str,
    /// Whether the node has only just appeared: what labels it with its zone may not have run yet.
    pub is_node_new: bool,
    /// Looks up a label of the node.
    pub node_label: &'a dyn Fn(&str) -> Option<&'a str>,
    /// Looks up an annotation of the Pod.
    pub annotation: &'a dyn Fn(&str) -> Option<&'a str>,
    /// The addresses in the Pod's `status.podIPs`.
    pub pod_ips: &'a [String],
}

/// The state to record for a running Pod. `before` is the state that was recorded for a Pod of that name earlier.
///
/// Labels are read from the node each time; only those that a new node of the recorded name does not have yet are kept. An
/// empty or missing annotation never replaces a recorded value: a
/// network plugin writes it only after the Pod has started, and blanks it when it tears the Pod down.
///
/// ```
/// use pps_core::Spec;
/// use pps_core::record::{RunningPod, record};
///
/// let spec: Spec = serde_json::from_str(
///     r#"{
///         "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
///         "requiredPersistentTopology": {"nodeTopologyKeys": ["topology.kubernetes.io/zone"]},
///         "persistentPodAnnotations": [{"key": "example.io/ip"}]
///     }"#,
/// )?;
/// let node_label = |key: &str| (key == "topology.kubernetes.io/zone").then_some("zone-a");
/// let annotation = |key: &str| (key == "example.io/ip").then_some("10.0.0.7");
/// let pod = RunningPod {
///     node_name: "node-1",
///     is_node_new: false,
///     node_label: &node_label,
///     annotation: &annotation,
///     pod_ips: &[],
/// };
///
/// let state = record(&spec, &pod, None);
/// assert_eq!(state.node_name, "node-1");
/// assert_eq!(state.node_topology_labels["topology.kubernetes.io/zone"], "zone-a");
/// assert_eq!(state.annotations["example.io/ip"], "10.0.0.7");
///
/// let blanked = |_: &str| Some("");
/// let torn_down = RunningPod { annotation: &blanked, ..pod };
/// assert_eq!(record(&spec, &torn_down, Some(&state)), state);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn record(spec: &Spec, pod: &RunningPod<'_>, before: Option<&PodState>) -> PodState {
    let awaited = before.filter(|before| pod.is_node_new && before.node_name == pod.node_name);
    let awaited_label = |key: &str| awaited?.node_topology_labels.get(key).map(String::as_str);
    let labels = spec
        .topology_keys()
        .filter_map(|key| {
            let value = (pod.node_label)(key).or_else(|| awaited_label(key))?;
            Some((key.to_owned(), value.to_owned()))
        })
        .collect();
    let annotations: BTreeMap<String, String> = spec
        .persistent_pod_annotations
        .iter()
        .filter_map(|wanted| {
            let value =
                current_value(wanted, pod).or_else(|| before?.annotations.get(&wanted.key).cloned())?;
            Some((wanted.key.clone(), value))
        })
        .collect();
    PodState { node_name: pod.node_name.to_owned(), node_topology_labels: labels, annotations }
}

/// The topology keys of the spec that a node has no label for, sorted and without repeats.
pub fn missing_keys(spec: &Spec, has_label: impl Fn(&str) -> bool) -> Vec<&str> {
    let mut missing: Vec<&str> = spec.topology_keys().filter(|key| !has_label(key)).collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

/// The replacement of a deprecated label that Kubernetes no longer sets on new nodes.
pub fn successor_of(topology_key: &str) -> Option<&'static str> {
    Some(match topology_key {
        "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        "beta.kubernetes.io/arch" => "kubernetes.io/arch",
        "beta.kubernetes.io/os" => "kubernetes.io/os",
        "beta.kubernetes.io/instance-type" => "node.kubernetes.io/instance-type",
        _ => return None,
    })
}

fn current_value(wanted: &PodAnnotation, pod: &RunningPod<'_>) -> Option<String> {
    if let Some(value) = (pod.annotation)(&wanted.key).filter(|value| !value.is_empty()) {
        return Some(value.to_owned());
    }
    if pod.pod_ips.is_empty() {
        return None;
    }
    match wanted.value_from? {
        ValueFrom::PodIpsJson => serde_json::to_string(pod.pod_ips).ok(),
        ValueFrom::PodIpsCsv => Some(pod.pod_ips.join(",")),
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
        let annotation =
            |key: &str| annotations.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let label = |key: &str| (key == "zone").then_some("a");
        let pod_ips: Vec<String> = ips.iter().map(ToString::to_string).collect();
        let pod = RunningPod {
            node_name: "node-1",
            is_node_new: false,
            node_label: &label,
            annotation: &annotation,
            pod_ips: &pod_ips,
        };
        record(&spec(), &pod, before)
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
        let recorded = |node_name, is_node_new, has: &'static [(&str, &str)]| {
            let node_label = |key: &str| has.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
            let pod = RunningPod {
                node_name,
                is_node_new,
                node_label: &node_label,
                annotation: &|_| None,
                pod_ips: &[],
            };
            record(&spec(), &pod, Some(&on("a", &[("zone", "z"), ("host", "a"), ("unnamed", "x")])))
        };
        assert_eq!(recorded("a", true, &[("host", "b")]), on("a", &[("zone", "z"), ("host", "b")]));
        assert_eq!(recorded("a", false, &[("host", "b")]), on("a", &[("host", "b")]));
        assert_eq!(recorded("b", true, &[("host", "b")]), on("b", &[("host", "b")]), "another node");
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
        assert_eq!(recorded(&[("ip", "10.0.0.8")], &[], Some(&before)).annotations["ip"], "10.0.0.8");
    }

    #[test]
    fn records_pod_ips_for_a_missing_annotation_with_a_source() {
        let state = recorded(&[("csv", "own")], &["10.0.0.7", "fd00::7"], None);
        assert_eq!(state.annotations["json"], r#"["10.0.0.7","fd00::7"]"#);
        assert_eq!(state.annotations["csv"], "own");
        assert!(!state.annotations.contains_key("ip"));
    }
}
