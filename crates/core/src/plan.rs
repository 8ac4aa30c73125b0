//! From a PPS and what it recorded of a Pod to what has to be injected into the Pod's successor.

use serde_json::{Value, json};

use crate::annotations::AnnotationRules;
use crate::pps::{PodState, Spec};

/// What a Pod is to get. Applying it is [`mod@crate::apply`]'s work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Name of the PPS that asks for it.
    pub pps: String,
    /// The node on which the Pod's predecessor ran; empty if that is not known.
    pub node_name: String,
    /// Node labels that a node must have; all of them.
    pub required: Vec<Requirement>,
    /// Node labels that the scheduler should prefer.
    pub preferred: Vec<Preference>,
    /// Annotations, as key and value. A key that the spec repeats comes twice, with the same value: to look
    /// for it here would take longer than all the rest, if somebody lists thousands.
    pub annotations: Vec<(String, String)>,
    /// What somebody should mend in the PPS, in sentences for people.
    pub warnings: Vec<String>,
}

/// A node label with the one value that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Key of the label.
    pub key: String,
    /// Value of the label.
    pub value: String,
}

impl Requirement {
    /// The requirement as an element of `matchExpressions`.
    pub fn to_json(&self) -> Value {
        json!({"key": self.key, "operator": "In", "values": [self.value]})
    }
}

/// A topology with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preference {
    /// Weight, from 1 to 100.
    pub weight: i32,
    /// The labels of the topology; a node must have all of them.
    pub requirements: Vec<Requirement>,
}

impl Preference {
    /// The preference as an element of `preferredDuringSchedulingIgnoredDuringExecution`.
    pub fn to_json(&self) -> Value {
        let expressions: Vec<Value> = self.requirements.iter().map(Requirement::to_json).collect();
        json!({"weight": self.weight, "preference": {"matchExpressions": expressions}})
    }
}

impl Plan {
    /// Whether there is nothing to inject.
    pub fn is_empty(&self) -> bool {
        self.required.is_empty() && self.preferred.is_empty() && self.annotations.is_empty()
    }
}

/// Plans what a Pod gets back.
///
/// A topology key or an annotation counts only if the spec still names it *and* a value was recorded
/// for it. A weight that the API server would refuse is brought into its range, so that a mistake in
/// a PPS cannot keep Pods from being created. An annotation that the rules forbid is left out: the object
/// may be older than the rules, or may have been written while nobody judged it.
pub fn plan(pps: &str, spec: &Spec, state: &PodState, rules: &AnnotationRules) -> Plan {
    let mut plan = Plan { pps: pps.into(), node_name: state.node_name.clone(), ..Plan::default() };
    plan.required = requirements(spec.required_keys(), state);
    for key in spec.required_keys() {
        let warning = format!(
            "PersistentPodState {pps}: {key} of spec.requiredPersistentTopology was not recorded, so this Pod is not bound to it; label the nodes with it, or remove it"
        );
        if !state.node_topology_labels.contains_key(key) && !plan.warnings.contains(&warning) {
            plan.warnings.push(warning);
        }
    }

    for term in &spec.preferred_persistent_topology {
        let requirements = requirements(term.preference.node_topology_keys.iter().map(String::as_str), state);
        if requirements.is_empty() {
            continue;
        }
        let weight = term.weight.clamp(1, 100);
        if weight != term.weight {
            plan.warnings.push(format!(
                "PersistentPodState {pps}: weight {} is not within 1..100, {weight} was used; set spec.preferredPersistentTopology[].weight",
                term.weight
            ));
        }
        let preference = Preference { weight, requirements };
        if !plan.preferred.contains(&preference) {
            plan.preferred.push(preference);
        }
    }

    for annotation in &spec.persistent_pod_annotations {
        let key = &annotation.key;
        let Some(value) = state.annotations.get(key).filter(|value| !value.is_empty()) else { continue };
        match rules.forbid(key) {
            Some(forbidden) => plan.warnings.push(format!(
                "PersistentPodState {pps}: annotation {key} of spec.persistentPodAnnotations is not injected: {forbidden}"
            )),
            None => plan.annotations.push((key.clone(), value.clone())),
        }
    }
    plan
}

/// The requirements of those keys for which a value was recorded, each key once.
fn requirements<'a>(keys: impl Iterator<Item = &'a str>, state: &PodState) -> Vec<Requirement> {
    let mut requirements: Vec<Requirement> = Vec::new();
    for key in keys {
        if let Some(value) = state.node_topology_labels.get(key)
            && !requirements.iter().any(|requirement| requirement.key == key)
        {
            requirements.push(Requirement { key: key.into(), value: value.clone() });
        }
    }
    requirements
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::annotations::Pattern;

    fn spec(spec: &Value) -> Spec {
        let mut spec = spec.clone();
        spec["targetRef"] = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"});
        serde_json::from_value(spec).unwrap()
    }

    /// The plan where nothing is forbidden but what always is.
    fn plan(pps: &str, spec: &Spec, state: &PodState) -> Plan {
        super::plan(pps, spec, state, &AnnotationRules::default())
    }

    fn state() -> PodState {
        serde_json::from_value(json!({
            "nodeName": "node-1",
            "nodeTopologyLabels": {"zone": "a", "host": "node-1"},
            "annotations": {"ip": "10.0.0.7", "empty": "", "old": "x", "ovn.kubernetes.io/allocated": "true"},
        }))
        .unwrap()
    }

    fn requirement(key: &str, value: &str) -> Requirement {
        Requirement { key: key.into(), value: value.into() }
    }

    #[test]
    fn only_what_is_named_and_recorded_is_planned() {
        let spec = spec(&json!({
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone", "rack", "zone"]},
            "preferredPersistentTopology": [
                {"weight": 10, "preference": {"nodeTopologyKeys": ["host", "zone"]}},
                {"weight": 10, "preference": {"nodeTopologyKeys": ["host", "zone"]}},
                {"weight": 20, "preference": {"nodeTopologyKeys": ["rack"]}},
            ],
            "persistentPodAnnotations": ["ip", "ip", "empty", "never-recorded"],
        }));
        let plan = plan("p", &spec, &state());
        assert_eq!(plan.required, [requirement("zone", "a")]);
        assert_eq!(
            plan.preferred,
            [Preference {
                weight: 10,
                requirements: vec![requirement("host", "node-1"), requirement("zone", "a")]
            }]
        );
        let ip = || ("ip".to_owned(), "10.0.0.7".to_owned());
        assert_eq!(plan.annotations, [ip(), ip()], "applied once");
        assert_eq!(plan.warnings.len(), 1, "{:?}", plan.warnings);
        assert!(plan.warnings[0].contains("rack of spec.requiredPersistentTopology was not recorded"));
    }

    #[test]
    fn an_entry_with_annotations_only_is_planned() {
        let spec = spec(&json!({"persistentPodAnnotations": [{"key": "ip"}]}));
        let state = PodState { node_topology_labels: BTreeMap::new(), ..state() };
        assert!(!plan("p", &spec, &state).is_empty());
    }

    #[test]
    fn a_weight_out_of_range_is_mended_with_a_warning() {
        for (weight, mended) in [(0, 1), (-5, 1), (101, 100)] {
            let spec = spec(&json!({
                "preferredPersistentTopology": [{"weight": weight, "preference": {"nodeTopologyKeys": ["zone"]}}],
            }));
            let plan = plan("p", &spec, &state());
            assert_eq!(plan.preferred[0].weight, mended);
            assert_eq!(plan.warnings.len(), 1);
        }
    }

    #[test]
    fn what_a_network_plugin_trusts_is_never_planned() {
        let spec = spec(&json!({"persistentPodAnnotations": ["ovn.kubernetes.io/allocated"]}));
        let plan = plan("p", &spec, &state());
        assert!(plan.is_empty());
        assert_eq!(plan.warnings.len(), 1);
    }

    #[test]
    fn what_the_rules_forbid_is_left_out_with_a_warning() {
        let spec = spec(&json!({"persistentPodAnnotations": ["ip", "old", "empty", "never-recorded"]}));
        let rules =
            AnnotationRules { allow: Pattern::parse("old").map(|old| vec![old]), ..Default::default() };
        let plan = super::plan("p", &spec, &state(), &rules);
        assert_eq!(plan.annotations, [("old".to_owned(), "x".to_owned())]);
        assert_eq!(
            plan.warnings,
            ["PersistentPodState p: annotation ip of spec.persistentPodAnnotations is not injected: \
              the policy's settings.annotations.allow does not name it; remove it"],
            "of what was not recorded there is nothing to say"
        );
    }
}
