//! What pins a Pod.

use pps_core::plan::{Plan, Requirement};
use pps_core::{AnnotationRules, PodState, Spec, plan};
use serde::Serialize;

use crate::decide::injected::Injected;

/// Whether a Pod must return, should, or gets something back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Strength {
    /// It waits for a node with this label.
    Required,
    /// It prefers a node with this label.
    Preferred,
    /// It gets this annotation back.
    Annotation,
}

/// A part of what pins a Pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pin {
    /// How strongly.
    pub strength: Strength,
    /// The label of nodes, or the annotation.
    pub key: String,
    /// The recorded value; none if none is recorded, so that this does not pin the Pod yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The weight of a preference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// What the policy would inject into a Pod with this recorded state.
pub(super) fn planned(spec: &Spec, state: Option<&PodState>) -> Plan {
    let none = PodState::default();
    plan("", spec, state.unwrap_or(&none), &AnnotationRules::default())
}

/// What a PersistentPodState asks for, with the recorded values.
pub(super) fn recorded(spec: &Spec, state: Option<&PodState>) -> Vec<Pin> {
    let plan = planned(spec, state);
    let mut pins: Vec<Pin> = Vec::new();
    let mut add = |strength, key: &str, value: Option<&str>, weight| {
        let pin = Pin { strength, key: key.to_owned(), value: value.map(str::to_owned), weight };
        if !pins.contains(&pin) {
            pins.push(pin);
        }
    };
    for key in spec.required_keys() {
        let value = plan.required.iter().find(|one| one.key == key).map(|one| one.value.as_str());
        add(Strength::Required, key, value, None);
    }
    for term in &spec.preferred_persistent_topology {
        for key in &term.preference.node_topology_keys {
            let value = state.and_then(|state| state.node_topology_labels.get(key)).map(String::as_str);
            add(Strength::Preferred, key, value, Some(term.weight));
        }
    }
    for annotation in &spec.persistent_pod_annotations {
        let value = state.and_then(|state| state.annotations.get(&annotation.key)).map(String::as_str);
        add(Strength::Annotation, &annotation.key, value, None);
    }
    pins
}

/// What a Pod was created with that has no node yet.
pub(super) fn injected(injected: &Injected) -> Vec<Pin> {
    let pin = |strength, one: &Requirement, weight| Pin {
        strength,
        key: one.key.clone(),
        value: Some(one.value.clone()),
        weight,
    };
    let required = injected.required.iter().map(|one| pin(Strength::Required, one, None));
    let preferred = injected.preferred.iter().flat_map(|term| {
        term.requirements.iter().map(|one| pin(Strength::Preferred, one, Some(term.weight)))
    });
    required.chain(preferred).collect()
}
