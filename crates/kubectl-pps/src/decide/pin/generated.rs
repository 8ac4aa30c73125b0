//! What the sidecar makes of the annotations of a workload.

use pps_core::{Spec, TargetReference};
use serde_json::{Map, Value, json};

use super::object::{is_generated, is_terminating, merged, name, targeting};
use super::plan::{Step, World, guarded};
use crate::decide::hand::Hand;
use crate::snapshot::Pps;

/// What there is of the object that annotations ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Generated {
    /// It is as they ask for.
    Done,
    /// The object of this name has something else.
    Other(String),
    /// There is none.
    Missing,
}

impl Generated {
    /// Whether the objects of a namespace have what annotations ask for. Which program generates them does not matter.
    pub fn of(expected: &Spec, target: &TargetReference, objects: &[Pps]) -> Self {
        let concerns = |pps: &&Pps| {
            !pps.is_alias() && pps.target().is_same_workload(target) && !is_terminating(pps.object())
        };
        let mut found = objects.iter().filter(concerns).peekable();
        let Some(first) = found.peek().map(|pps| pps.name().to_owned()) else { return Self::Missing };
        if found.any(|pps| pps.spec().is_ok_and(|spec| has(&spec, expected))) {
            Self::Done
        } else {
            Self::Other(first)
        }
    }

    /// What is wrong after some seconds, and what to do.
    pub fn problem(&self, seconds: u64, hand: &Hand) -> Option<String> {
        let (what, does) = match self {
            Self::Done => return None,
            Self::Other(name) => (
                format!("PersistentPodState {name} does not have what they ask for after {seconds} s"),
                "changes it",
            ),
            Self::Missing => (
                format!(
                    "there is no PersistentPodState after {seconds} s, so nothing is recorded or injected"
                ),
                "generates it",
            ),
        };
        Some(format!(
            "the annotations are written, but {what}: the sidecar {does} once it runs; to find out why it does not: {}",
            hand.check()
        ))
    }
}

/// Whether a spec has all that annotations ask for. Fields that none of them names are the user's.
fn has(spec: &Spec, expected: &Spec) -> bool {
    (expected.required_keys().next().is_none() || spec.required_keys().eq(expected.required_keys()))
        && (expected.preferred_persistent_topology.is_empty()
            || spec.preferred_persistent_topology == expected.preferred_persistent_topology)
        && (expected.persistent_pod_annotations.is_empty()
            || spec.persistent_pod_annotations == expected.persistent_pod_annotations)
}

/// The name of the object that the sidecar has generated for the workload.
pub fn generated(world: &World) -> Option<String> {
    let found = targeting(&world.pps, &world.target);
    found
        .into_iter()
        .find(|object| is_generated(object) && !is_terminating(object))
        .map(|object| name(object).to_owned())
}

/// Sets fields of an object's spec; none if they are as they should be.
pub fn set_fields(world: &World, object: &str, fields: &Map<String, Value>) -> Option<Step> {
    let object = world.pps.iter().find(|one| name(one) == object)?;
    let patch = json!({"spec": fields});
    let is_set = merged(object, &patch)["spec"] == object["spec"];
    (!is_set).then(|| Step::PatchPps { name: name(object).to_owned(), patch: guarded(patch, object) })
}
