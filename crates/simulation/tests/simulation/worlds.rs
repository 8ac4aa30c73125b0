//! Builds scenarios, and asks questions about results.
#![allow(
    dead_code,
    clippy::needless_pass_by_value,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test program uses its part"
)]

use pps_simulation::{Action, EventKind, Phase, PodView, PpsView, RunResult, Scenario, Step, run};
use serde_json::{Value, json};

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";

pub(crate) fn node(name: &str, zone: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {ZONE: zone}},
        "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}},
    })
}

/// Nodes `n1` and so on, two in each zone.
pub(crate) fn nodes(count: usize) -> Vec<Value> {
    (0..count)
        .map(|index| {
            node(
                &format!("n{}", index + 1),
                ["a", "b", "c", "d"][index / 2 % 4],
            )
        })
        .collect()
}

pub(crate) fn stateful_set(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "registry.example.com/db:1"}]},
            },
        },
    })
}

/// A PPS of the StatefulSet of this name.
pub(crate) fn pps(name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "metadata": {"name": name},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name}},
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    object
}

pub(crate) fn required(key: &str) -> Value {
    json!({"requiredPersistentTopology": {"nodeTopologyKeys": [key]}})
}

/// Sets a field: `spec.replicas`.
pub(crate) fn with(mut object: Value, path: &str, value: Value) -> Value {
    let target = path
        .split('.')
        .fold(&mut object, |object, field| &mut object[field]);
    *target = value;
    object
}

pub(crate) fn scenario(objects: Vec<Value>, actions: Value) -> Scenario {
    Scenario {
        objects,
        with_pps: true,
        actions: serde_json::from_value::<Vec<Action>>(actions).unwrap(),
        ..Scenario::default()
    }
}

/// Runs a scenario that has no problem.
pub(crate) fn play(objects: Vec<Value>, actions: Value) -> RunResult {
    let result = run(&scenario(objects, actions));
    assert_eq!(result.problems, [], "{:#?}", result.problems);
    result
}

pub(crate) fn last(result: &RunResult) -> &Step {
    result.steps.last().unwrap()
}

pub(crate) fn pod<'a>(step: &'a Step, name: &str) -> &'a PodView {
    step.world
        .pods
        .iter()
        .find(|pod| pod.name == name)
        .unwrap_or_else(|| panic!("no {name} in {:#?}", step.world.pods))
}

pub(crate) fn object<'a>(step: &'a Step, name: &str) -> &'a PpsView {
    step.world
        .pps
        .iter()
        .find(|pps| pps.name == name)
        .unwrap_or_else(|| panic!("no {name}"))
}

/// Where each Pod runs: `db-0 n1`.
pub(crate) fn places(step: &Step) -> Vec<String> {
    let place = |pod: &PodView| match (&pod.phase, &pod.node) {
        (Phase::Running, Some(node)) => format!("{} {node}", pod.name),
        (phase, _) => format!("{} {phase:?}", pod.name),
    };
    step.world.pods.iter().map(place).collect()
}

/// The texts of all events of these kinds, with their objects.
pub(crate) fn texts(step: &Step, kinds: &[EventKind]) -> Vec<String> {
    let events = step
        .events
        .iter()
        .filter(|event| kinds.contains(&event.kind));
    events
        .map(|event| format!("{} {}", event.object, event.text))
        .collect()
}

/// The reason of the condition.
pub(crate) fn reason(pps: &PpsView) -> &str {
    pps.conditions[0]["reason"].as_str().unwrap()
}
