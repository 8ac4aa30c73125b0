//! What the policy has injected into a Pod, and the Pod as it was before.

use pps_core::plan::{Preference, Requirement};
use pps_core::{PodState, Spec};
use serde_json::Value;

use super::template::has_newest_revision;
use crate::snapshot::{Pod, Workload};

const REQUIRED: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";

/// What the policy has injected into a Pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Injected {
    /// The PersistentPodState that the state came from.
    pub pps: String,
    /// Labels that the node must have.
    pub required: Vec<Requirement>,
    /// Labels of nodes that the Pod prefers.
    pub preferred: Vec<Preference>,
    /// Annotations, as far as they are still those that are recorded.
    pub annotations: Vec<(String, String)>,
    /// The Pod without required and preferred labels.
    pub before: Value,
}

impl Injected {
    /// Whether other labels than these are required.
    pub fn differs_from(&self, required: &[Requirement]) -> bool {
        let has_all =
            |some: &[Requirement], others: &[Requirement]| some.iter().all(|one| others.contains(one));
        !(has_all(required, &self.required) && has_all(&self.required, required))
    }
}

/// What the policy has injected; none if it has changed nothing.
///
/// The Pod does not say which parts of it are injected. They are those that a PersistentPodState with this spec can inject
/// and that the template, from which the Pod was made, does not have.
pub fn injected(
    pod: &Pod,
    workload: Option<&Workload>,
    spec: Option<&Spec>,
    state: Option<&PodState>,
) -> Option<Injected> {
    let pps = pod.injected_from()?;
    let template = workload.filter(|workload| is_made_from_template(pod, workload));
    let template = template.map(|workload| &workload.object()["spec"]["template"]);
    let mut injected = Injected { pps: pps.to_owned(), before: pod.object().clone(), ..Injected::default() };
    if template.is_none() && spec.is_none() {
        return Some(injected);
    }
    let is_key = |keys: &[&str], key: &str| spec.is_none() || keys.contains(&key);
    let required_keys: Vec<&str> = spec.iter().flat_map(|spec| spec.required_keys()).collect();
    let all_keys: Vec<&str> = spec.iter().flat_map(|spec| spec.topology_keys()).collect();
    // The PersistentPodState may have named other keys when the Pod was created. What a Pod requires and the template that it
    // was certainly made from does not is not the template's.
    let is_certain = workload.is_some_and(|workload| has_newest_revision(pod, workload) == Some(true));
    let is_former =
        |key: &str| template.is_some() && (is_place(key) || is_certain && !key.starts_with("kubernetes.io/"));
    take_required(&mut injected, template, |key| is_key(&required_keys, key) || is_former(key));
    take_preferred(&mut injected, template, |key| is_key(&all_keys, key) || is_former(key));
    for annotation in spec.iter().flat_map(|spec| &spec.persistent_pod_annotations) {
        let recorded = state.and_then(|state| state.annotations.get(&annotation.key));
        let is_own = template.is_some_and(|own| !own["metadata"]["annotations"][&annotation.key].is_null());
        if let Some(value) = pod.annotation(&annotation.key).filter(|value| !value.is_empty())
            && recorded.is_some_and(|recorded| recorded == value)
            && !is_own
        {
            injected.annotations.push((annotation.key.clone(), value.to_owned()));
        }
    }
    Some(injected)
}

/// Whether a label says where a node is.
fn is_place(key: &str) -> bool {
    let prefixes = ["topology.kubernetes.io/", "failure-domain.beta.kubernetes.io/"];
    key == "kubernetes.io/hostname" || prefixes.iter().any(|prefix| key.starts_with(prefix))
}

/// Whether the Pod was made from the template that the workload has now. Without a revision it may have been.
fn is_made_from_template(pod: &Pod, workload: &Workload) -> bool {
    has_newest_revision(pod, workload) != Some(false)
}

fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// An expression as the policy writes it.
fn read(expression: &Value) -> Option<Requirement> {
    let values = expression["values"].as_array()?;
    let [value] = values.as_slice() else { return None };
    let key = expression["key"].as_str().filter(|_| expression["operator"] == "In")?;
    Some(Requirement { key: key.to_owned(), value: value.as_str()?.to_owned() })
}

fn take_required(injected: &mut Injected, template: Option<&Value>, is_key: impl Fn(&str) -> bool) {
    let terms = format!("{REQUIRED}/nodeSelectorTerms");
    let own: Vec<Value> = template.map(|template| items(template, &terms).to_vec()).unwrap_or_default();
    let mut found: Vec<Requirement> = Vec::new();
    let Some(list) = injected.before.pointer_mut(&terms).and_then(Value::as_array_mut) else { return };
    for (index, term) in list.iter_mut().enumerate() {
        let own = own.get(index).map_or(&[][..], |term| items(term, "/matchExpressions"));
        if let Some(expressions) = term.get_mut("matchExpressions").and_then(Value::as_array_mut) {
            expressions.retain(|expression| {
                let requirement =
                    read(expression).filter(|one| is_key(&one.key) && !own.contains(expression));
                if let Some(requirement) = &requirement
                    && !found.contains(requirement)
                {
                    found.push(requirement.clone());
                }
                requirement.is_none()
            });
        }
    }
    // The policy makes a term if there is none.
    let is_empty = |term: &Value| {
        ["matchExpressions", "matchFields"]
            .iter()
            .all(|field| term[*field].as_array().is_none_or(Vec::is_empty))
    };
    let made = !found.is_empty() && list.len() == 1 && list.iter().all(is_empty);
    if made && let Some(required) = injected.before.pointer_mut(REQUIRED) {
        *required = Value::Null;
    }
    injected.required = found;
}

fn take_preferred(injected: &mut Injected, template: Option<&Value>, is_key: impl Fn(&str) -> bool) {
    let own: Vec<Value> = template.map(|template| items(template, PREFERRED).to_vec()).unwrap_or_default();
    let Some(list) = injected.before.pointer_mut(PREFERRED).and_then(Value::as_array_mut) else { return };
    let mut found = Vec::new();
    list.retain(|term| {
        let expressions = items(term, "/preference/matchExpressions");
        let read: Option<Vec<Requirement>> = expressions.iter().map(read).collect();
        let requirements = read.filter(|all| !all.is_empty() && all.iter().all(|one| is_key(&one.key)));
        let weight = term["weight"].as_i64().and_then(|weight| i32::try_from(weight).ok());
        match (requirements, weight) {
            (Some(requirements), Some(weight)) if !own.contains(term) => {
                found.push(Preference { weight, requirements });
                false
            }
            _ => true,
        }
    });
    injected.preferred = found;
}
