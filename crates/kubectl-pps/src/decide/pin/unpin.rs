//! What `unpin` writes.

use pps_core::generate::WORKLOAD_ANNOTATIONS;
use pps_core::protect::refuse_deletion;
use serde_json::{Map, Value};

use super::object::{is_generated, is_terminating, name, pods, shown, targeting};
use super::plan::{Change, Plan, Step, World, asks};
use crate::decide::hand::portions;
use crate::snapshot::{Pod, Pps};

/// What to remove so that nothing pins the Pods of a workload.
///
/// # Errors
///
/// Why nothing is removed.
pub fn unpin(world: &World) -> Result<Plan, String> {
    let mut plan = Plan::default();
    let before = world.annotations();
    let annotations: Map<String, Value> = WORKLOAD_ANNOTATIONS
        .iter()
        .filter(|key| before.contains_key(**key))
        .map(|key| ((*key).to_owned(), Value::Null))
        .collect();
    let asks = asks(&before);
    // First, since the sidecar would generate an object as soon as no other one is there.
    if !annotations.is_empty() {
        plan.changes.push(world.annotate(&annotations));
    }
    for object in targeting(&world.pps, &world.target) {
        if is_terminating(object) {
            plan.notes.push(format!("PersistentPodState {} is being deleted already", name(object)));
        } else if is_generated(object) {
            if let Some(refusal) = refuse_deletion(object).filter(|_| asks) {
                return Err(refusal);
            }
            if let Some(change) = plan.changes.first_mut().filter(|_| asks) {
                change.lost = states_of(object);
            }
            plan.warnings.push(if asks {
                format!("the sidecar then deletes PersistentPodState {}, which it has generated{}", name(object), lost(world, object))
            } else {
                format!(
                    "PersistentPodState {} was generated from annotations that are gone, so the sidecar deletes it; if it stays, find out why: {}",
                    name(object),
                    world.hand.check()
                )
            });
        } else {
            if let Some(refusal) = refuse_deletion(object) {
                return Err(refusal);
            }
            plan.warnings.push(format!(
                "PersistentPodState {} is deleted{}",
                name(object),
                lost(world, object)
            ));
            plan.changes.push(delete(object));
        }
    }
    if !plan.changes.is_empty() {
        plan.notes.push(
            "running Pods stay where they are; from now on they start wherever the scheduler puts them"
                .into(),
        );
    }
    Ok(plan)
}

/// The Pods of the workload that go on waiting for what was injected into them, and how they are created again without it.
pub fn still_waiting(world: &World, pods: &[Pod]) -> Option<String> {
    let uid = world.workload["metadata"]["uid"].as_str().unwrap_or_default();
    let waits = |pod: &&Pod| {
        pod.owner().is_some_and(|(_, owner)| owner == uid)
            && pod.node().is_none()
            && !pod.is_terminating()
            && pod.injected_from().is_some()
    };
    let names: Vec<&str> = pods.iter().filter(waits).map(Pod::name).collect();
    let commands: Vec<String> = portions(&names)
        .iter()
        .map(|names| world.hand.kubectl_in(&format!("delete pod {}", names.join(" ")), world.namespace()))
        .collect();
    let first = commands.first()?;
    let more = if commands.len() > 1 { ", and so on" } else { "" };
    Some(format!(
        "{} without a node still wait for what was injected into them; to have them created again without it, once this is done: \
         {first}{more}",
        super::object::pods(names.len())
    ))
}

/// What is lost with an object.
fn lost(world: &World, object: &Value) -> String {
    match states_of(object) {
        Some(0) => String::new(),
        Some(count) => format!(
            ", and with it the recorded states of {}; to keep them in a file, run this first: {}",
            pods(count),
            world.hand.pps(&format!("export {} -f FILE", name(object)), world.namespace())
        ),
        None => ", and with it recorded states that cannot be read".into(),
    }
}

/// How many Pods it has recorded; none if that cannot be read.
fn states_of(object: &Value) -> Option<usize> {
    Some(Pps::read(object.clone())?.states().ok()?.len())
}

fn delete(object: &Value) -> Change {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    Change {
        what: format!("PersistentPodState {}", name(object)),
        before: shown(object),
        after: Value::Null,
        lost: states_of(object),
        step: Step::DeletePps {
            name: text("name"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        },
    }
}
