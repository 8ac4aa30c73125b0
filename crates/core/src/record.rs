//! What is to be remembered of a running Pod.

use std::collections::BTreeMap;

use crate::pps::{PodAnnotation, PodState, Spec, ValueFrom};

/// A Pod that is Ready, scheduled and not being deleted, with its node.
pub struct Running<'a> {
    /// The node on which it runs.
    pub node_name: &'a str,
    /// The value of one of the node's labels.
    pub node_label: &'a dyn Fn(&str) -> Option<&'a str>,
    /// The value of one of the Pod's annotations.
    pub annotation: &'a dyn Fn(&str) -> Option<&'a str>,
    /// The Pod's addresses, as in `status.podIPs`.
    pub pod_ips: &'a [String],
}

/// The state to remember of a running Pod, given what was remembered of it before.
///
/// The labels are those of the node as it is now. An annotation that is empty or missing never
/// replaces a remembered value: a network plugin blanks it when it takes a Pod down, and writes it
/// only after the Pod has started.
pub fn record(spec: &Spec, pod: &Running<'_>, before: Option<&PodState>) -> PodState {
    let labels = spec
        .topology_keys()
        .filter_map(|key| (pod.node_label)(key).map(|value| (key.to_owned(), value.to_owned())))
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

/// The topology keys of the spec that a node does not carry, each once.
pub fn missing_keys(spec: &Spec, has_label: impl Fn(&str) -> bool) -> Vec<&str> {
    let mut missing: Vec<&str> = spec.topology_keys().filter(|key| !has_label(key)).collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

/// The label that took the place of one that Kubernetes no longer sets on new nodes.
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

fn current_value(wanted: &PodAnnotation, pod: &Running<'_>) -> Option<String> {
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
        let pod =
            Running { node_name: "node-1", node_label: &label, annotation: &annotation, pod_ips: &pod_ips };
        record(&spec(), &pod, before)
    }

    #[test]
    fn what_the_node_has_and_the_spec_names_is_recorded() {
        let state = recorded(&[("ip", "10.0.0.7"), ("other", "x")], &[], None);
        assert_eq!(
            serde_json::to_value(&state).unwrap(),
            json!({"nodeName": "node-1", "nodeTopologyLabels": {"zone": "a"}, "annotations": {"ip": "10.0.0.7"}})
        );
        assert_eq!(missing_keys(&spec(), |key| key == "zone"), ["host"]);
    }

    #[test]
    fn an_empty_or_missing_annotation_never_replaces_a_recorded_one() {
        let before = recorded(&[("ip", "10.0.0.7")], &[], None);
        assert_eq!(recorded(&[("ip", "")], &[], Some(&before)), before);
        assert_eq!(recorded(&[], &[], Some(&before)), before);
        assert_eq!(recorded(&[("ip", "10.0.0.8")], &[], Some(&before)).annotations["ip"], "10.0.0.8");
    }

    #[test]
    fn addresses_stand_in_for_an_annotation_that_the_pod_does_not_carry() {
        let state = recorded(&[("csv", "own")], &["10.0.0.7", "fd00::7"], None);
        assert_eq!(state.annotations["json"], r#"["10.0.0.7","fd00::7"]"#);
        assert_eq!(state.annotations["csv"], "own");
        assert!(!state.annotations.contains_key("ip"));
    }
}
