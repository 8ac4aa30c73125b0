//! What `pin` writes.

use std::collections::BTreeMap;

use pps_core::generate::{
    AUTO_GENERATE, FIELD_MANAGER, MANAGED_BY_LABEL, POD_ANNOTATIONS, PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY,
    Request, read_request,
};
use pps_core::pps::{API_VERSION, KIND, PodAnnotation, ValueFrom};
use pps_core::validate::{join, review};
use pps_core::{AnnotationRules, Spec, TargetReference};
use serde_json::{Map, Value, json};

use super::ask::{ANNOTATED_WEIGHT, Ask};
use super::dropped::{dropped_keys, dropped_states};
use super::object::{is_generated, is_terminating, merged, name, shown, shown_workload, targeting};
use crate::decide::hand::Hand;

/// What was read: the workload, and the PersistentPodStates of its namespace.
#[derive(Clone, Debug)]
pub struct World {
    /// The workload, whole.
    pub workload: Value,
    /// What a `targetRef` says of it.
    pub target: TargetReference,
    /// Those that name it, and those that have a name that a new one could have; with their managed fields.
    pub pps: Vec<Value>,
    /// How the commands are written that an answer names.
    pub hand: Hand,
}

impl World {
    /// How messages call the workload.
    pub fn workload_name(&self) -> String {
        format!("{} {}", self.target.kind, self.target.name)
    }

    /// How a command line names the workload.
    fn argument(&self) -> String {
        let TargetReference { kind, name, .. } = &self.target;
        match self.target.group() {
            "apps" if kind == "StatefulSet" => name.clone(),
            group => format!("{}.{group}/{name}", kind.to_lowercase()),
        }
    }

    pub(super) fn namespace(&self) -> &str {
        self.workload["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    /// The annotations that are strings: all of them, in an object of the API server.
    pub(super) fn annotations(&self) -> BTreeMap<String, String> {
        let annotations = self.workload["metadata"]["annotations"].as_object().into_iter().flatten();
        annotations.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    }

    /// A change of the workload's annotations; null removes one.
    pub(super) fn annotate(&self, annotations: &Map<String, Value>) -> Change {
        let patch = json!({"metadata": {"annotations": annotations}});
        let after = merged(&self.workload, &patch);
        Change {
            what: self.workload_name(),
            before: shown_workload(&self.workload),
            after: shown_workload(&after),
            lost: Some(0),
            step: Step::PatchWorkload { patch: guarded(patch, &self.workload) },
        }
    }
}

/// What is done, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What pins the Pods, if it is there already.
    pub by: String,
    /// The writes. Without any, there is nothing to do.
    pub changes: Vec<Change>,
    /// What the sidecar is to make of the annotations; none if an object is written.
    pub expected: Option<Spec>,
    /// Fields to set on the object that the sidecar will generate, once it is there.
    pub complete: Map<String, Value>,
    /// What the sidecar will write. It is sent as a dry run only, to hear what the policy says.
    pub rehearsal: Option<Step>,
    /// What the user has to know before.
    pub warnings: Vec<String>,
    /// What happens next.
    pub notes: Vec<String>,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// `StatefulSet db`
    pub what: String,
    /// What a difference shows of the object before; null if it does not exist.
    pub before: Value,
    /// And after; null if it is deleted.
    pub after: Value,
    /// How many recorded states are lost with it; none if that cannot be read.
    pub lost: Option<usize>,
    /// What is written.
    pub step: Step,
}

impl Change {
    /// Whether it means the same to a user, who has agreed to it. Only the versions that the writes carry may differ.
    pub fn is_same(&self, other: &Self) -> bool {
        let meaning =
            |change: &Self| (change.what.clone(), change.before.clone(), change.after.clone(), change.lost);
        meaning(self) == meaning(other)
    }
}

/// A write to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A merge patch of the workload, guarded by UID and resource version.
    PatchWorkload {
        /// The patch.
        patch: Value,
    },
    /// A merge patch of a PersistentPodState, guarded likewise.
    PatchPps {
        /// The object's name.
        name: String,
        /// The patch.
        patch: Value,
    },
    /// Creates a PersistentPodState.
    CreatePps {
        /// The object.
        body: Value,
    },
    /// Deletes exactly this PersistentPodState.
    DeletePps {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
        /// Its resource version.
        resource_version: String,
    },
}

/// Adds UID and resource version of the object that was read, so that another writer's change is not overwritten.
pub(super) fn guarded(mut patch: Value, object: &Value) -> Value {
    let metadata = &object["metadata"];
    for field in ["uid", "resourceVersion"] {
        patch["metadata"][field] = metadata[field].clone();
    }
    patch
}

/// What to write so that the Pods of a workload are recorded and brought back as asked.
///
/// # Errors
///
/// Why nothing is written.
pub fn plan(ask: &Ask, world: &World) -> Result<Plan, String> {
    let found = targeting(&world.pps, &world.target);
    if let Some(terminating) = found.iter().find(|object| is_terminating(object)) {
        return Err(format!(
            "PersistentPodState {} is being deleted, with what it has recorded: run the command again when it is gone",
            name(terminating)
        ));
    }
    match found.first() {
        Some(object) if !is_generated(object) => change_object(ask, world, object),
        Some(object) if ask.as_object => {
            Err(annotated(world, &format!("PersistentPodState {} is generated", name(object))))
        }
        // The sidecar has not come to it yet.
        None if ask.as_object && asks(&world.annotations()) => {
            Err(annotated(world, "the sidecar generates a PersistentPodState"))
        }
        Some(object) => annotate(ask, world, Some(object)),
        None if ask.as_object => create_object(ask, world),
        None => annotate(ask, world, None),
    }
}

/// Why no object is written beside annotations.
fn annotated(world: &World, generated: &str) -> String {
    let unpin = world.hand.pps(&format!("unpin {}", world.argument()), world.namespace());
    format!(
        "{} is pinned by its annotations, from which {generated}: to change what they ask for, leave out --object; to have an object \
         of your own instead, run this first, which says how to keep a copy of what is recorded: {unpin}",
        world.workload_name()
    )
}

/// Whether annotations of a workload ask for an object.
pub(super) fn asks(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(AUTO_GENERATE).is_some_and(|value| value.trim() == "true")
}

/// Changes the PersistentPodState that a user has written.
fn change_object(ask: &Ask, world: &World, object: &Value) -> Result<Plan, String> {
    let spec = spec_patch(ask, &object["spec"]);
    let patch = json!({"spec": spec});
    let after = merged(object, &patch);
    let by = format!("PersistentPodState {}", name(object));
    if after["spec"] == object["spec"] {
        return Ok(Plan { by, ..Plan::default() });
    }
    let mut warnings = check(&after, Some(object))?;
    warnings.extend(dropped_keys(&object["spec"], &after["spec"]));
    warnings.extend(dropped_states(world, object, &after["spec"]));
    let change = Change {
        what: format!("PersistentPodState {}", name(object)),
        before: shown(object),
        after: shown(&after),
        lost: Some(0),
        step: Step::PatchPps { name: name(object).to_owned(), patch: guarded(patch, object) },
    };
    Ok(Plan { by, changes: vec![change], warnings, notes: vec![recorded_soon(world)], ..Plan::default() })
}

/// The fields of a spec that are asked for, in the spelling of the object.
fn spec_patch(ask: &Ask, spec: &Value) -> Map<String, Value> {
    let has_keys = |term: &Value| term.get("keys").is_some();
    let preferred = spec["preferredPersistentTopology"].as_array().into_iter().flatten();
    let uses_keys = has_keys(&spec["requiredPersistentTopology"])
        || preferred.into_iter().any(|term| has_keys(&term["preference"]));
    let mut fields = ask.topology_fields(if uses_keys { "keys" } else { "nodeTopologyKeys" });
    if let Some(required) = fields.get_mut("requiredPersistentTopology").and_then(Value::as_object_mut) {
        // Both spellings in one term are refused.
        let other = if uses_keys { "nodeTopologyKeys" } else { "keys" };
        if spec["requiredPersistentTopology"].get(other).is_some() {
            required.insert(other.into(), Value::Null);
        }
    }
    fields.extend(ask.policy_fields());
    fields
}

fn create_object(ask: &Ask, world: &World) -> Result<Plan, String> {
    let is_taken = |wanted: &str| world.pps.iter().any(|object| name(object) == wanted);
    let own = world.target.name.clone();
    let other = format!("{own}-{}", world.target.kind.to_lowercase());
    let Some(free) = [own, other].into_iter().find(|wanted| !is_taken(wanted)) else {
        return Err(format!(
            "the names {0} and {0}-{1} belong to PersistentPodStates of other workloads: write the object yourself under another name",
            world.target.name,
            world.target.kind.to_lowercase()
        ));
    };
    let mut spec = Map::from_iter([("targetRef".into(), json!(world.target))]);
    spec.extend(ask.topology_fields("nodeTopologyKeys"));
    spec.extend(ask.policy_fields());
    let body = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": free, "namespace": world.namespace()},
        "spec": spec,
    });
    let warnings = check(&body, None)?;
    let change = Change {
        what: format!("PersistentPodState {free}"),
        before: Value::Null,
        after: body.clone(),
        lost: Some(0),
        step: Step::CreatePps { body },
    };
    Ok(Plan { changes: vec![change], warnings, notes: vec![recorded_soon(world)], ..Plan::default() })
}

/// Writes the workload's annotations, and what no annotation can ask for into the generated object.
fn annotate(ask: &Ask, world: &World, generated: Option<&Value>) -> Result<Plan, String> {
    let wanted = wanted_annotations(ask)?;
    let before = world.annotations();
    let mut after = before.clone();
    after.extend(wanted.clone());
    // What is written must mean what was asked for, to the reader that counts.
    let request = read_request(&world.target, &after)?.ok_or("the annotations name nothing to record")?;
    check_read_back(ask, &request)?;
    let mut plan =
        Plan { by: "its annotations".into(), warnings: request.warnings.clone(), ..Plan::default() };
    plan.expected = Some(request.spec.clone());
    let spec = json!(request.spec);
    let body = json!({
        "apiVersion": API_VERSION, "kind": KIND,
        "metadata": {
            "name": world.target.name, "namespace": world.namespace(), "labels": {MANAGED_BY_LABEL: FIELD_MANAGER},
        },
        "spec": spec,
    });
    plan.warnings.extend(check(&body, None)?);
    plan.rehearsal = Some(match generated {
        Some(object) => Step::PatchPps {
            name: name(object).to_owned(),
            patch: guarded(json!({"spec": spec_patch(ask, &object["spec"])}), object),
        },
        None => Step::CreatePps { body },
    });
    let patch: Map<String, Value> = wanted
        .into_iter()
        .filter(|(key, value)| before.get(key) != Some(value))
        .map(|(key, value)| (key, value.into()))
        .collect();
    let policies = ask.policy_fields();
    match generated {
        Some(object) => {
            plan.warnings.extend(dropped_keys(&object["spec"], &spec));
            let patch = json!({"spec": policies});
            let after = merged(object, &patch);
            plan.warnings.extend(dropped_states(world, object, &after["spec"]));
            if after["spec"] != object["spec"] {
                plan.changes.push(Change {
                    what: format!("PersistentPodState {}", name(object)),
                    before: shown(object),
                    after: shown(&after),
                    lost: Some(0),
                    step: Step::PatchPps { name: name(object).to_owned(), patch: guarded(patch, object) },
                });
            }
        }
        None => plan.complete = policies,
    }
    // Last, since the sidecar changes the object as soon as it sees them.
    if !patch.is_empty() {
        plan.changes.push(world.annotate(&patch));
        plan.notes.push(recorded_soon(world));
    }
    Ok(plan)
}

/// The annotations that ask for it.
fn wanted_annotations(ask: &Ask) -> Result<BTreeMap<String, String>, String> {
    let mut wanted = BTreeMap::from([(AUTO_GENERATE.to_owned(), "true".to_owned())]);
    if !ask.required.is_empty() {
        wanted.insert(REQUIRED_TOPOLOGY.into(), ask.required.join(","));
    }
    match ask.preferred.as_slice() {
        [] => {}
        [term] if term.weight == ANNOTATED_WEIGHT => {
            wanted.insert(PREFERRED_TOPOLOGY.into(), term.preference.node_topology_keys.join(","));
        }
        _ => {
            return Err(format!(
                "an annotation holds one preference, of weight {ANNOTATED_WEIGHT}: add --object to write a PersistentPodState"
            ));
        }
    }
    if !ask.annotations.is_empty() {
        let items: Vec<String> = ask.annotations.iter().map(annotation_item).collect();
        wanted.insert(POD_ANNOTATIONS.into(), items.join(","));
    }
    Ok(wanted)
}

fn annotation_item(annotation: &PodAnnotation) -> String {
    match annotation.value_from {
        None => annotation.key.clone(),
        Some(ValueFrom::PodIpsJson) => format!("{}=PodIPsJSON", annotation.key),
        Some(ValueFrom::PodIpsCsv) => format!("{}=PodIPsCSV", annotation.key),
    }
}

/// Whether the annotations are read as what was asked for.
fn check_read_back(ask: &Ask, request: &Request) -> Result<(), String> {
    let spec = &request.spec;
    let required: Vec<&str> = spec.required_keys().collect();
    let is_same = (ask.required.is_empty() || required == ask.required)
        && (ask.preferred.is_empty() || spec.preferred_persistent_topology == ask.preferred)
        && (ask.annotations.is_empty() || spec.persistent_pod_annotations == ask.annotations);
    if is_same { Ok(()) } else { Err("the annotations would be read as something else".into()) }
}

/// Refuses what the policy refuses, in its own words. Returns what it warns of. The policy's settings are not known here: the
/// API server asks the policy itself before anything is written.
fn check(object: &Value, before: Option<&Value>) -> Result<Vec<String>, String> {
    let review = review(object, before, &AnnotationRules::default());
    if review.violations.is_empty() {
        return Ok(review.warnings);
    }
    Err(format!("PersistentPodState {} is refused: {}", name(object), join(&review.violations)))
}

fn recorded_soon(world: &World) -> String {
    format!(
        "the sidecar records each Pod once it is Ready, and its successor gets back what is recorded: {}",
        world.hand.pps(&format!("status {}", world.target.name), world.namespace())
    )
}
