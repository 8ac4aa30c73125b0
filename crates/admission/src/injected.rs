//! What the policy has injected into a Pod: the inverse of [`plan`](crate::plan()) and
//! [`apply`](crate::apply()).
//!
//! The Pod's marker names only the PPS. What is injected are the parts of the Pod that a PPS with
//! this spec can inject and that the template, from which the Pod was made, does not have.

use serde_json::Value;

use crate::node_affinity::{PREFERRED, REQUIRED, is_empty_term, node_affinity, node_affinity_mut};
use crate::plan::{Preference, Requirement};
use pps_core::annotations::INJECTED_ANNOTATION;
use pps_core::json::list;
use pps_core::names::HOSTNAME;
use pps_core::pps::{PodState, Spec};

/// What the policy has injected into a Pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Injected {
    /// The PPS that the state came from.
    pub pps: String,
    /// Labels that the node must have.
    pub required: Vec<Requirement>,
    /// Labels of nodes that the Pod prefers.
    pub preferred: Vec<Preference>,
    /// Annotations, as far as they still have the recorded values.
    pub annotations: Vec<(String, String)>,
    /// The Pod without required and preferred labels.
    pub before: Value,
}

/// The template of a Pod's workload.
#[derive(Clone, Copy, Debug)]
pub struct Template<'a> {
    pub template: &'a Value,
    /// Whether the Pod's revision proves that it was made from this template.
    pub is_certain: bool,
}

/// What the policy has injected into a Pod; `None` if its marker is missing. `template` is the one
/// from which the Pod was made, or may have been.
pub fn injected(
    pod: &Value,
    template: Option<Template<'_>>,
    spec: Option<&Spec>,
    state: Option<&PodState>,
) -> Option<Injected> {
    let pps = pod["metadata"]["annotations"][INJECTED_ANNOTATION]
        .as_str()
        .filter(|pps| !pps.is_empty())?;
    let mut injected = Injected {
        pps: pps.to_owned(),
        before: pod.clone(),
        ..Injected::default()
    };
    if template.is_none() && spec.is_none() {
        return Some(injected);
    }
    let own = template.map_or(&Value::Null, |template| template.template);
    // The PPS may have named other keys when the Pod was created. What the Pod requires, and the
    // template that it was certainly made from does not, is not the template's.
    let is_former = |key: &str| match template {
        Some(template) => {
            is_place(key) || template.is_certain && !key.starts_with("kubernetes.io/")
        }
        None => false,
    };
    let required_keys: Vec<&str> = spec.into_iter().flat_map(Spec::required_keys).collect();
    let all_keys: Vec<&str> = spec.into_iter().flat_map(Spec::topology_keys).collect();
    let is_named =
        |keys: &[&str], key: &str| spec.is_none() || keys.contains(&key) || is_former(key);
    injected.required = take_required(&mut injected.before, own, &|key| {
        is_named(&required_keys, key)
    });
    injected.preferred = take_preferred(&mut injected.before, own, &|key| is_named(&all_keys, key));
    for annotation in spec
        .into_iter()
        .flat_map(|spec| &spec.persistent_pod_annotations)
    {
        let key = &annotation.key;
        let value = pod["metadata"]["annotations"][key]
            .as_str()
            .filter(|value| !value.is_empty());
        if let Some(value) = value
            && state
                .and_then(|state| state.annotations.get(key))
                .is_some_and(|recorded| recorded == value)
            && own["metadata"]["annotations"][key].is_null()
        {
            injected.annotations.push((key.clone(), value.to_owned()));
        }
    }
    Some(injected)
}

/// Whether a label says where a node is.
fn is_place(key: &str) -> bool {
    let prefixes = [
        "topology.kubernetes.io/",
        "failure-domain.beta.kubernetes.io/",
    ];
    key == HOSTNAME || prefixes.iter().any(|prefix| key.starts_with(prefix))
}

/// An expression as the policy writes it.
fn requirement(expression: &Value) -> Option<Requirement> {
    let [value] = list(&expression["values"]) else {
        return None;
    };
    let key = expression["key"]
        .as_str()
        .filter(|_| expression["operator"] == "In")?;
    Some(Requirement {
        key: key.to_owned(),
        value: value.as_str()?.to_owned(),
    })
}

fn take_required(
    pod: &mut Value,
    own: &Value,
    is_named: &dyn Fn(&str) -> bool,
) -> Vec<Requirement> {
    let own = list(&node_affinity(own, REQUIRED)["nodeSelectorTerms"]);
    let mut found: Vec<Requirement> = Vec::new();
    let Some(required) = node_affinity_mut(pod, REQUIRED) else {
        return found;
    };
    let terms = required.get_mut("nodeSelectorTerms");
    let Some(terms) = terms.and_then(Value::as_array_mut) else {
        return found;
    };
    for (index, term) in terms.iter_mut().enumerate() {
        let own = own
            .get(index)
            .map_or(&[][..], |term| list(&term["matchExpressions"]));
        let Some(expressions) = term
            .get_mut("matchExpressions")
            .and_then(Value::as_array_mut)
        else {
            continue;
        };
        expressions.retain(|expression| {
            let injected = requirement(expression)
                .filter(|one| is_named(&one.key) && !own.contains(expression));
            let is_own = injected.is_none();
            if let Some(injected) = injected.filter(|one| !found.contains(one)) {
                found.push(injected);
            }
            is_own
        });
    }
    // The policy makes a term if there is none.
    let is_empty = |term: &Value| term.as_object().is_some_and(is_empty_term);
    if !found.is_empty() && terms.len() == 1 && terms.iter().all(is_empty) {
        *required = Value::Null;
    }
    found
}

fn take_preferred(
    pod: &mut Value,
    own: &Value,
    is_named: &dyn Fn(&str) -> bool,
) -> Vec<Preference> {
    let own = list(node_affinity(own, PREFERRED));
    let mut found = Vec::new();
    let terms = node_affinity_mut(pod, PREFERRED);
    let Some(terms) = terms.and_then(Value::as_array_mut) else {
        return found;
    };
    terms.retain(|term| {
        let expressions = list(&term["preference"]["matchExpressions"]);
        let read: Option<Vec<Requirement>> = expressions.iter().map(requirement).collect();
        let requirements =
            read.filter(|all| !all.is_empty() && all.iter().all(|one| is_named(&one.key)));
        let weight = term["weight"].as_i64();
        match (requirements, weight) {
            (Some(requirements), Some(weight)) if !own.contains(term) => {
                found.push(Preference {
                    weight,
                    requirements,
                });
                false
            }
            _ => true,
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{apply, plan};
    use pps_core::AnnotationRules;

    #[test]
    fn finds_what_was_applied_and_the_pod_as_it_was() {
        let spec: Spec = serde_json::from_value(json!({
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
            "preferredPersistentTopology": [{"weight": 7, "preference": {"nodeTopologyKeys": ["host"]}}],
            "persistentPodAnnotations": ["ip", "own"],
        }))
        .unwrap();
        let state: PodState = serde_json::from_value(json!({
            "nodeName": "n", "nodeTopologyLabels": {"zone": "a", "host": "n"}, "annotations": {"ip": "1", "own": "2"},
        }))
        .unwrap();
        let terms =
            json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]);
        for affinity in [
            json!({}),
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}),
        ] {
            let template = json!({"metadata": {"annotations": {"own": "2"}}, "spec": {"affinity": {"nodeAffinity": affinity}}});
            let mut pod = template.clone();
            let plan = plan("p", &spec, &state, &AnnotationRules::default());
            assert_eq!(injected(&pod, None, Some(&spec), Some(&state)), None);
            apply(&plan, &mut pod).unwrap();
            let template = Template {
                template: &template,
                is_certain: true,
            };
            for spec in [Some(&spec), None] {
                let found = injected(&pod, Some(template), spec, Some(&state)).unwrap();
                assert_eq!(
                    (found.pps.as_str(), found.required, found.preferred),
                    ("p", plan.required.clone(), plan.preferred.clone())
                );
                assert_eq!(found.annotations.len(), usize::from(spec.is_some()));
                let terms = |pod| node_affinity(pod, REQUIRED)["nodeSelectorTerms"].clone();
                assert_eq!(terms(&found.before), terms(template.template));
            }
        }
    }
}
