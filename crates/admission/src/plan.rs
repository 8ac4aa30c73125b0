//! What to inject into a Pod, given a PPS and the state that it recorded under the Pod's name.

use serde_json::{Value, json};

use pps_core::annotations::AnnotationRules;
use pps_core::json::shorten;
use pps_core::limits::{MAX_ANNOTATIONS, MAX_PREFERRED_TERMS, MAX_TOPOLOGY_KEYS};
use pps_core::names::{is_annotation_key, is_label_key, is_label_value};
use pps_core::pps::{KIND, PodState, Spec};

/// What to inject into a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Name of the PPS.
    pub pps: String,
    /// The node on which the Pod's predecessor ran; empty if unknown.
    pub node_name: String,
    /// Labels that the node must have, all of them.
    pub required: Vec<Requirement>,
    /// Labels that the scheduler should prefer.
    pub preferred: Vec<Preference>,
    /// Annotations, as key and value. A key that the spec repeats is repeated here, with the same
    /// value.
    pub annotations: Vec<(String, String)>,
    /// What to correct in the PPS.
    pub warnings: Vec<String>,
}

/// A node label and its required value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Key of the label.
    pub key: String,
    /// Value of the label.
    pub value: String,
}

impl Requirement {
    /// Whether a node can have this label. The API server refuses a Pod that asks for another one.
    pub fn is_label(&self) -> bool {
        is_label_key(&self.key) && is_label_value(&self.value)
    }

    /// The requirement as an element of `matchExpressions`.
    pub fn to_json(&self) -> Value {
        json!({"key": self.key, "operator": "In", "values": [self.value]})
    }
}

/// Node labels to prefer, with a weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preference {
    /// From 1 to 100.
    pub weight: i64,
    /// A node is preferred if it has all of these.
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
    /// A required label that no node can have. The API server would refuse the Pod, without a word
    /// about the PPS.
    pub fn impossible_requirement(&self) -> Option<&Requirement> {
        self.required.iter().find(|required| !required.is_label())
    }

    /// Whether there is nothing to inject.
    pub fn is_empty(&self) -> bool {
        self.required.is_empty() && self.preferred.is_empty() && self.annotations.is_empty()
    }
}

/// Plans what to inject into a Pod, given the state that was recorded under its name.
///
/// A topology key or an annotation counts only if the spec still names it *and* a value was
/// recorded for it. A weight that the API server would refuse is clamped, so that a mistake in a
/// PPS does not prevent Pods from being created. An annotation that the rules forbid, or that no
/// object can have, is left out: the PPS may be older than the rules, or may have been created
/// without validation. For the same reason its lists may be longer than the
/// [limits](pps_core::limits): then their first items count, so that the Pod starts all the same.
///
/// ```
/// use pps_admission::plan;
/// use pps_core::{AnnotationRules, PodState, Spec};
/// use serde_json::{from_value, json};
///
/// let spec: Spec = from_value(json!({
///     "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
///     "requiredPersistentTopology": {"nodeTopologyKeys": ["topology.kubernetes.io/zone"]},
///     "persistentPodAnnotations": [{"key": "ovn.kubernetes.io/ip_address"}],
/// }))?;
/// let state: PodState = from_value(json!({
///     "nodeName": "node-1",
///     "nodeTopologyLabels": {"topology.kubernetes.io/zone": "a", "kubernetes.io/hostname": "node-1"},
///     "annotations": {"ovn.kubernetes.io/ip_address": "10.16.0.7"},
/// }))?;
///
/// let plan = plan("web", &spec, &state, &AnnotationRules::default());
///
/// assert_eq!(plan.required.len(), 1, "the spec does not name the host name");
/// assert_eq!(plan.required[0].key, "topology.kubernetes.io/zone");
/// assert_eq!(plan.required[0].value, "a");
/// assert_eq!(plan.annotations, [("ovn.kubernetes.io/ip_address".into(), "10.16.0.7".into())]);
/// assert!(plan.warnings.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn plan(pps: &str, spec: &Spec, state: &PodState, rules: &AnnotationRules) -> Plan {
    let mut plan = Plan {
        pps: pps.into(),
        node_name: state.node_name.clone(),
        ..Plan::default()
    };
    if let Some(excess) = spec.exceeds_list_limits() {
        plan.warnings
            .push(format!("{KIND} {pps}: {excess} (the others are ignored)"));
    }
    plan.select_required(spec, state);
    plan.select_preferred(spec, state);
    plan.select_annotations(spec, state, rules);
    plan
}

impl Plan {
    fn select_required(&mut self, spec: &Spec, state: &PodState) {
        self.required = collect_requirements(spec.required_keys(), state);
        for key in spec.required_keys().take(MAX_TOPOLOGY_KEYS) {
            // A state without a node was emptied by a move: it lacks nothing.
            if state.node_name.is_empty() || state.node_topology_labels.contains_key(key) {
                continue;
            }
            let key = shorten(key);
            let warning = format!(
                "{KIND} {}: {key} has no recorded value, so this Pod is not bound to it; label the \
                 nodes with {key}, or remove it from spec.requiredPersistentTopology",
                self.pps
            );
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }

    fn select_preferred(&mut self, spec: &Spec, state: &PodState) {
        let terms = spec.preferred_persistent_topology.iter();
        for (index, term) in terms.take(MAX_PREFERRED_TERMS).enumerate() {
            let path = format!("spec.preferredPersistentTopology[{index}]");
            let keys = term.preference.node_topology_keys.iter();
            let mut requirements = collect_requirements(keys.map(String::as_str), state);
            for Requirement { key, value } in requirements.extract_if(.., |one| !one.is_label()) {
                self.warnings.push(format!(
                    "{KIND} {}: {path} is left without {}, since no node can have this label; \
                     correct the key, or the recorded value",
                    self.pps,
                    shorten(&format!("{key}={value}"))
                ));
            }
            if requirements.is_empty() {
                continue;
            }
            let weight = term.weight.clamp(1, 100);
            if weight != term.weight {
                self.warnings.push(format!(
                    "{KIND} {}: {path}.weight is {}: use a whole number from 1 to 100 ({weight} is \
                     used until then)",
                    self.pps, term.weight
                ));
            }
            let preference = Preference {
                weight,
                requirements,
            };
            if !self.preferred.contains(&preference) {
                self.preferred.push(preference);
            }
        }
    }

    fn select_annotations(&mut self, spec: &Spec, state: &PodState, rules: &AnnotationRules) {
        let annotations = spec.persistent_pod_annotations.iter();
        for (index, annotation) in annotations.take(MAX_ANNOTATIONS).enumerate() {
            let key = &annotation.key;
            let Some(value) = state.annotations.get(key).filter(|value| !value.is_empty()) else {
                continue;
            };
            let why = match rules.forbid(key) {
                Some(forbidden) => forbidden.to_string(),
                // A value made from the Pod's addresses has any key. The API server would refuse
                // the Pod.
                None if !is_annotation_key(key) => "it is no annotation key; remove it".into(),
                None => {
                    self.annotations.push((key.clone(), value.clone()));
                    continue;
                }
            };
            self.warnings.push(format!(
                "{KIND} {}: spec.persistentPodAnnotations[{index}] {} is not injected: {why}",
                self.pps,
                shorten(key)
            ));
        }
    }
}

/// Requires the recorded value of each key; a key without one is left out, a repeated key counts
/// once.
fn collect_requirements<'a>(
    keys: impl Iterator<Item = &'a str>,
    state: &PodState,
) -> Vec<Requirement> {
    let mut requirements: Vec<Requirement> = Vec::new();
    for key in keys.take(MAX_TOPOLOGY_KEYS) {
        if let Some(value) = state.node_topology_labels.get(key)
            && !requirements
                .iter()
                .any(|requirement| requirement.key == key)
        {
            requirements.push(Requirement {
                key: key.into(),
                value: value.clone(),
            });
        }
    }
    requirements
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn spec(spec: &Value) -> Spec {
        let mut spec = spec.clone();
        spec["targetRef"] = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"});
        serde_json::from_value(spec).unwrap()
    }

    /// The plan under the default rules.
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
        Requirement {
            key: key.into(),
            value: value.into(),
        }
    }

    #[test]
    fn plans_only_what_the_spec_names_and_the_state_holds() {
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
        assert_eq!(plan.annotations, [ip(), ip()], "a repeated key is repeated");
        assert_eq!(plan.warnings.len(), 1, "{:?}", plan.warnings);
        assert!(plan.warnings[0].contains(": rack has no recorded value, "));
    }

    #[test]
    fn takes_the_first_items_of_a_list_beyond_its_limit_and_warns() {
        let keys: Vec<String> = (0..1000).map(|key| format!("k{key}")).collect();
        let terms: Vec<Value> = keys
            .iter()
            .map(|key| json!({"weight": 1, "preference": {"nodeTopologyKeys": [key]}}))
            .collect();
        let values: BTreeMap<String, String> =
            keys.iter().map(|key| (key.clone(), "v".into())).collect();
        let state = PodState {
            node_name: "n".into(),
            node_topology_labels: values.clone(),
            annotations: values,
        };
        let spec = spec(&json!({
            "requiredPersistentTopology": {"nodeTopologyKeys": keys},
            "preferredPersistentTopology": terms,
            "persistentPodAnnotations": keys,
        }));
        let plan = plan("p", &spec, &state);
        let sizes = (
            plan.required.len(),
            plan.preferred.len(),
            plan.annotations.len(),
        );
        assert_eq!(
            sizes,
            (MAX_TOPOLOGY_KEYS, MAX_PREFERRED_TERMS, MAX_ANNOTATIONS)
        );
        assert_eq!(plan.required[63].key, "k63");
        assert_eq!(
            plan.warnings,
            [
                "PersistentPodState p: spec.preferredPersistentTopology is a list of 1000: list \
                 at most 64 (the others are ignored)"
            ]
        );
        let nothing = PodState {
            node_name: "n".into(),
            ..PodState::default()
        };
        assert_eq!(
            super::plan("p", &spec, &nothing, &AnnotationRules::default())
                .warnings
                .len(),
            1 + MAX_TOPOLOGY_KEYS
        );
        let moved = super::plan(
            "p",
            &spec,
            &PodState::default(),
            &AnnotationRules::default(),
        );
        assert_eq!(
            moved.warnings.len(),
            1,
            "a state that a move has emptied lacks nothing"
        );
    }
}
