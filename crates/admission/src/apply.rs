//! Applies a plan to a Pod's JSON.
//!
//! Works on the JSON value and never on a typed Pod, which would drop every field that its type
//! does not have. Two properties hold for every Pod and plan: applying a plan twice gives the same
//! Pod as applying it once, and only what the plan names changes (`tests/apply_properties.rs`).

use std::fmt;

use serde_json::{Map, Value, json};

use crate::node_affinity::{PATH, PREFERRED, REQUIRED, is_empty_term};
use crate::plan::{Plan, Requirement};
use pps_core::annotations::INJECTED_ANNOTATION;
use pps_core::json::shorten;
use pps_core::limits::{MAX_ANNOTATION_VALUE_LENGTH, MAX_POD_ITEMS, MAX_POD_PREFERENCES};
use pps_core::pps::KIND;

/// What a plan changed in a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Keys of the requirements that were added to at least one node selector term.
    pub required: Vec<String>,
    /// How many preferences were added.
    pub preferred: usize,
    /// Keys of the annotations that were added, without [`INJECTED_ANNOTATION`].
    pub annotations: Vec<String>,
    /// Which preferences and annotations the Pod has no room for.
    pub warnings: Vec<String>,
}

impl Applied {
    /// Whether the Pod was changed.
    pub fn is_changed(&self) -> bool {
        !self.required.is_empty() || self.preferred > 0 || !self.annotations.is_empty()
    }
}

/// Displays on one line, such as `required: zone; preferred: 1; annotations: example.io/ip`.
impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let preferred = if self.preferred > 0 {
            self.preferred.to_string()
        } else {
            String::new()
        };
        let mut separator = "";
        for (part, what) in [
            ("required", self.required.join(", ")),
            ("preferred", preferred),
            ("annotations", self.annotations.join(", ")),
        ] {
            if !what.is_empty() {
                write!(f, "{separator}{part}: {what}")?;
                separator = "; ";
            }
        }
        Ok(())
    }
}

/// Why a plan cannot be injected into a Pod. Displays what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The Pod's JSON has a field of the wrong type.
    WrongType {
        /// Path of the field, such as `spec.affinity`; empty for the Pod itself.
        path: String,
        /// What it should be: `an object`, or `a list`.
        expected: &'static str,
    },
    /// A list of the Pod's required node affinity, to which the recorded topology would be added,
    /// is too long.
    TooLong {
        /// Path of the list.
        path: String,
        /// Name of the PPS.
        pps: String,
    },
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongType { path, expected } if path.is_empty() => {
                write!(f, "it is not {expected}")
            }
            Self::WrongType { path, expected } => {
                write!(f, "{path} is not {expected}: correct it, or remove it")
            }
            Self::TooLong { path, pps } => write!(
                f,
                "shorten its required node affinity, or remove requiredPersistentTopology from \
                 {KIND} {pps} ({path} may have {MAX_POD_ITEMS} items, with the recorded topology)"
            ),
        }
    }
}

impl std::error::Error for ApplyError {}

/// Injects a plan into a Pod.
///
/// - Required: every requirement is added to every node selector term that the Pod has. A node
///   needs to match one term only, so a new term would allow more nodes, not fewer. An empty term
///   matches no node and stays empty. A Pod without required node affinity gets one term. A Pod
///   whose lists would have more than [`MAX_POD_ITEMS`] items is refused: without the requirements
///   it could start on the wrong node.
/// - Preferred: each preference that the Pod does not have yet is appended, up to
///   [`MAX_POD_PREFERENCES`] in all. A preference is no reason to refuse a Pod.
/// - Annotations: each key that the Pod does not have yet is added, unless the API server would
///   then refuse the Pod for the size of its annotations.
/// - [`INJECTED_ANNOTATION`] is added if and only if something else was, and the Pod has room for
///   it.
///
/// ```
/// use pps_admission::plan::Requirement;
/// use pps_admission::{Plan, apply};
/// use serde_json::json;
///
/// let zone = Requirement { key: "topology.kubernetes.io/zone".into(), value: "a".into() };
/// let plan = Plan { pps: "web".into(), required: vec![zone], ..Plan::default() };
/// let mut pod = json!({"metadata": {"name": "web-0"}, "spec": {"aFieldOfTheFuture": 1}});
///
/// assert!(apply(&plan, &mut pod)?.is_changed());
/// assert_eq!(
///     pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"],
///     json!({"nodeSelectorTerms": [{"matchExpressions": [
///         {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]},
///     ]}]}),
/// );
/// assert_eq!(pod["metadata"]["annotations"], json!({"kruise.io/injected-persistent-pod-state": "web"}));
/// assert_eq!(pod["spec"]["aFieldOfTheFuture"], 1);
///
/// assert!(!apply(&plan, &mut pod)?.is_changed(), "the second time changes nothing");
/// # Ok::<(), pps_admission::ApplyError>(())
/// ```
pub fn apply(plan: &Plan, pod: &mut Value) -> Result<Applied, ApplyError> {
    let mut applied = Applied::default();
    if plan.is_empty() {
        return Ok(applied);
    }
    let pod = as_object(pod, "")?;
    if !plan.required.is_empty() {
        applied.required = apply_required(plan, ensure_object(pod, "spec", "")?)?;
    }
    if !plan.preferred.is_empty() {
        apply_preferred(plan, ensure_object(pod, "spec", "")?, &mut applied)?;
    }
    apply_annotations(plan, pod, &mut applied)?;
    Ok(applied)
}

fn apply_required(plan: &Plan, spec: &mut Map<String, Value>) -> Result<Vec<String>, ApplyError> {
    let node_affinity = ensure_node_affinity(spec)?;
    let path = join_path(PATH, REQUIRED);
    let Some(required) = node_affinity
        .get_mut(REQUIRED)
        .filter(|required| !required.is_null())
    else {
        let expressions: Vec<Value> = plan.required.iter().map(Requirement::to_json).collect();
        let required = json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]});
        node_affinity.insert(REQUIRED.into(), required);
        return Ok(plan
            .required
            .iter()
            .map(|requirement| requirement.key.clone())
            .collect());
    };
    // Without terms it matches no node and the API server refuses it; a new term would make it
    // match.
    let terms = match as_object(required, &path)?.get_mut("nodeSelectorTerms") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(terms) => terms,
    };
    let path = join_path(&path, "nodeSelectorTerms");
    let too_long = |path: String| ApplyError::TooLong {
        path,
        pps: plan.pps.clone(),
    };
    let terms = as_list(terms, &path)?;
    if terms.len() > MAX_POD_ITEMS {
        return Err(too_long(path));
    }
    let mut added: Vec<String> = Vec::new();
    for (index, term) in terms.iter_mut().enumerate() {
        let path = format!("{path}[{index}]");
        let term = as_object(term, &path)?;
        if is_empty_term(term) {
            continue;
        }
        let own = ensure_list(term, "matchExpressions", &path)?;
        let path = join_path(&path, "matchExpressions");
        if own.len() > MAX_POD_ITEMS {
            return Err(too_long(path));
        }
        for requirement in &plan.required {
            let expression = requirement.to_json();
            if own.contains(&expression) {
                continue;
            }
            // Whatever is accepted here is accepted again together with what is added to it.
            if own.len() == MAX_POD_ITEMS {
                return Err(too_long(path));
            }
            own.push(expression);
            if !added.contains(&requirement.key) {
                added.push(requirement.key.clone());
            }
        }
    }
    Ok(added)
}

fn apply_preferred(
    plan: &Plan,
    spec: &mut Map<String, Value>,
    applied: &mut Applied,
) -> Result<(), ApplyError> {
    let preferred = ensure_list(ensure_node_affinity(spec)?, PREFERRED, PATH)?;
    let mut left_out = 0;
    for preference in &plan.preferred {
        let term = preference.to_json();
        // A list beyond the limit is not searched: that would cost too much.
        if preferred.len() <= MAX_POD_PREFERENCES && preferred.contains(&term) {
            continue;
        }
        if preferred.len() < MAX_POD_PREFERENCES {
            preferred.push(term);
            applied.preferred += 1;
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        applied.warnings.push(format!(
            "{left_out} preferred terms of {KIND} {} are not injected: this Pod has {} of its own \
             or more, shorten {PATH}.{PREFERRED}",
            plan.pps, MAX_POD_PREFERENCES
        ));
    }
    Ok(())
}

fn apply_annotations(
    plan: &Plan,
    pod: &mut Map<String, Value>,
    applied: &mut Applied,
) -> Result<(), ApplyError> {
    if plan.annotations.is_empty() && !applied.is_changed() {
        return Ok(());
    }
    let annotations = ensure_object(
        ensure_object(pod, "metadata", "")?,
        "annotations",
        "metadata",
    )?;
    let own = annotations
        .iter()
        .filter(|(key, _)| *key != INJECTED_ANNOTATION);
    let own = own.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len));
    let mut size = INJECTED_ANNOTATION.len() + plan.pps.len() + own.sum::<usize>();
    let no_room = |key: &str| {
        format!(
            "annotation {} of PersistentPodState {} is not injected: this Pod's annotations would \
             exceed 256 KiB, and the API server would refuse it; shorten them",
            shorten(key),
            plan.pps
        )
    };
    for (key, value) in &plan.annotations {
        if annotations.contains_key(key) {
            continue;
        }
        let added = key.len() + value.len();
        if size + added > MAX_ANNOTATION_VALUE_LENGTH {
            applied.warnings.push(no_room(key));
            continue;
        }
        size += added;
        annotations.insert(key.clone(), Value::String(value.clone()));
        applied.annotations.push(key.clone());
    }
    if applied.is_changed() && size > MAX_ANNOTATION_VALUE_LENGTH {
        applied.warnings.push(no_room(INJECTED_ANNOTATION));
    } else if applied.is_changed() {
        annotations.insert(INJECTED_ANNOTATION.into(), Value::String(plan.pps.clone()));
    }
    Ok(())
}

fn ensure_node_affinity(
    spec: &mut Map<String, Value>,
) -> Result<&mut Map<String, Value>, ApplyError> {
    ensure_object(
        ensure_object(spec, "affinity", "spec")?,
        "nodeAffinity",
        "spec.affinity",
    )
}

/// The object in a field; inserts an empty one if the field is missing or null.
fn ensure_object<'a>(
    parent: &'a mut Map<String, Value>,
    field: &str,
    path: &str,
) -> Result<&'a mut Map<String, Value>, ApplyError> {
    let value = parent.entry(field).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    as_object(value, &join_path(path, field))
}

/// The list in a field; inserts an empty one if the field is missing or null.
fn ensure_list<'a>(
    parent: &'a mut Map<String, Value>,
    field: &str,
    path: &str,
) -> Result<&'a mut Vec<Value>, ApplyError> {
    let value = parent.entry(field).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    as_list(value, &join_path(path, field))
}

fn as_object<'a>(
    value: &'a mut Value,
    path: &str,
) -> Result<&'a mut Map<String, Value>, ApplyError> {
    value
        .as_object_mut()
        .ok_or_else(|| wrong_type(path, "an object"))
}

fn as_list<'a>(value: &'a mut Value, path: &str) -> Result<&'a mut Vec<Value>, ApplyError> {
    value
        .as_array_mut()
        .ok_or_else(|| wrong_type(path, "a list"))
}

fn wrong_type(path: &str, expected: &'static str) -> ApplyError {
    ApplyError::WrongType {
        path: path.into(),
        expected,
    }
}

fn join_path(path: &str, field: &str) -> String {
    if path.is_empty() {
        field.into()
    } else {
        format!("{path}.{field}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::Preference;

    fn zone(value: &str) -> Requirement {
        Requirement {
            key: "zone".into(),
            value: value.into(),
        }
    }

    fn require_zone() -> Plan {
        Plan {
            pps: "p".into(),
            required: vec![zone("a")],
            ..Plan::default()
        }
    }

    fn with_terms(terms: &Value) -> Value {
        json!({"spec": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}})
    }

    fn terms(pod: &Value) -> &Value {
        &pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    }

    #[test]
    fn leaves_out_annotations_for_which_the_pod_has_no_room() {
        let size = |pod: &Value| {
            let all = pod["metadata"]["annotations"].as_object().unwrap().iter();
            all.map(|(key, value)| key.len() + value.as_str().unwrap().len())
                .sum::<usize>()
        };
        let own = "x".repeat(MAX_ANNOTATION_VALUE_LENGTH - 100);
        let room = 100 - "own".len() - INJECTED_ANNOTATION.len() - "p".len();
        let annotation = |key: &str, length: usize| (key.to_owned(), "v".repeat(length));
        let annotations = vec![
            annotation("long", room - 3),
            annotation("ip", room - 2),
            annotation("next", 1),
        ];
        let plan = Plan {
            pps: "p".into(),
            annotations,
            ..Plan::default()
        };
        for marker in [json!(null), json!("a PPS with a much longer name")] {
            let mut pod = json!({"metadata": {"annotations": {"own": own}}});
            if !marker.is_null() {
                pod["metadata"]["annotations"][INJECTED_ANNOTATION] = marker;
            }
            let applied = apply(&plan, &mut pod).unwrap();
            assert_eq!(applied.annotations, ["ip"]);
            assert_eq!(applied.warnings.len(), 2);
            assert!(
                applied.warnings[0]
                    .contains("annotation long of PersistentPodState p is not injected")
            );
            assert_eq!(size(&pod), MAX_ANNOTATION_VALUE_LENGTH);
            assert!(!apply(&plan, &mut pod).unwrap().is_changed());
        }
        let mut full = json!({"metadata": {"annotations": {"own": "x".repeat(MAX_ANNOTATION_VALUE_LENGTH - 10)}}});
        let before = full["metadata"].clone();
        let applied = apply(&require_zone(), &mut full).unwrap();
        assert!(
            applied.is_changed() && full["metadata"] == before,
            "the API server would refuse the marker"
        );
        assert!(applied.warnings[0].contains("annotation kruise.io/injected-persistent-pod-state"));
    }

    #[test]
    fn refuses_a_pod_with_more_terms_than_the_limit() {
        let arch = json!({"matchExpressions": [{"key": "arch", "operator": "Exists"}]});
        let mut pod = with_terms(&vec![arch.clone(); MAX_POD_ITEMS].into());
        assert!(apply(&require_zone(), &mut pod).unwrap().is_changed());
        assert_eq!(
            terms(&pod)[MAX_POD_ITEMS - 1]["matchExpressions"]
                .as_array()
                .unwrap()
                .len(),
            2
        );
        let mut pod = with_terms(&vec![arch; MAX_POD_ITEMS + 1].into());
        let error = apply(&require_zone(), &mut pod).unwrap_err().to_string();
        assert_eq!(
            error,
            "shorten its required node affinity, or remove requiredPersistentTopology from \
             PersistentPodState p (spec.affinity.nodeAffinity.\
             requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms may have 128 items, \
             with the recorded topology)"
        );
        // Nothing is added to these terms for an annotation.
        let plan = Plan {
            annotations: vec![("a".into(), "b".into())],
            ..Plan::default()
        };
        assert!(apply(&plan, &mut pod).unwrap().is_changed());
    }

    #[test]
    fn leaves_out_preferences_for_which_the_pod_has_no_room() {
        let preference = |value: &str| Preference {
            weight: 1,
            requirements: vec![zone(value)],
        };
        let plan = Plan {
            pps: "p".into(),
            preferred: vec![preference("a"), preference("b")],
            ..Plan::default()
        };
        let with_own = |count: usize| {
            let own = vec![json!({"weight": 1, "preference": {}}); count];
            json!({"spec": {"affinity": {"nodeAffinity": {PREFERRED: own}}}})
        };
        for (own, added, warnings) in [(128, 2, 0), (999, 1, 1), (1_000, 0, 1), (25_000, 0, 1)] {
            let mut pod = with_own(own);
            let applied = apply(&plan, &mut pod).unwrap();
            assert_eq!(
                (applied.preferred, applied.warnings.len()),
                (added, warnings)
            );
            assert!(!apply(&plan, &mut pod).unwrap().is_changed());
        }
        let applied = apply(&plan, &mut with_own(1_000)).unwrap();
        assert!(
            applied.warnings[0]
                .starts_with("2 preferred terms of PersistentPodState p are not injected: "),
            "{}",
            applied.warnings[0]
        );
    }

    #[test]
    fn accepts_its_own_output_at_the_limit() {
        let arch = json!({"key": "arch", "operator": "Exists"});
        let mut pod =
            with_terms(&json!([{"matchExpressions": vec![arch.clone(); MAX_POD_ITEMS - 1]}]));
        assert!(apply(&require_zone(), &mut pod).unwrap().is_changed());
        assert!(!apply(&require_zone(), &mut pod).unwrap().is_changed());
        let mut pod = with_terms(&json!([{"matchExpressions": vec![arch; MAX_POD_ITEMS]}]));
        let error = apply(&require_zone(), &mut pod).unwrap_err().to_string();
        assert!(
            error.contains("nodeSelectorTerms[0].matchExpressions may have 128 items"),
            "{error}"
        );
    }

    #[test]
    fn names_the_field_of_the_wrong_type() {
        for (pod, message) in [
            (json!([]), "it is not an object"),
            (
                json!({"spec": 1}),
                "spec is not an object: correct it, or remove it",
            ),
            (
                json!({"spec": {"affinity": "x"}}),
                "spec.affinity is not an object: correct it, or remove it",
            ),
            (
                with_terms(&json!(["x"])),
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.\
                 nodeSelectorTerms[0] is not an object: correct it, or remove it",
            ),
        ] {
            let mut pod = pod;
            assert_eq!(
                apply(&require_zone(), &mut pod).unwrap_err().to_string(),
                message
            );
        }
    }
}
