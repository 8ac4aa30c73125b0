//! What is simulated: the workloads of one namespace, and the Pods of all namespaces, which take
//! room.

use std::collections::BTreeMap;
use std::sync::Arc;

use pps_core::pps::{API_VERSION, KIND};
use pps_simulation::Scenario;
use serde_json::{Value, json};

use super::{Disruption, PodForecast};
use crate::snapshot::{Node, Pod, Pps, Snapshot, Workload};

pub(super) struct Input {
    pub(super) scenario: Scenario,
    pub(super) pods: Vec<Arc<Value>>,
}

impl Input {
    /// `before` are the Pods of the namespaces that were simulated before.
    pub(super) fn of(disruption: &Disruption, namespace: &str, before: &[PodForecast]) -> Self {
        let scenario = Scenario {
            objects: objects(disruption, namespace),
            live: true,
            namespace: namespace.to_owned(),
            with_pps: true,
            actions: disruption.question.actions(&disruption.nodes),
            ..Scenario::default()
        };
        let pods = pods(disruption.snapshot, before);
        Self { scenario, pods }
    }

    /// All objects, as the problems of the simulation count them.
    pub(super) fn objects(&self) -> Vec<&Value> {
        let pods = self.pods.iter().map(Arc::as_ref);
        self.scenario.objects.iter().chain(pods).collect()
    }
}

fn objects(disruption: &Disruption, namespace: &str) -> Vec<Value> {
    let snapshot = disruption.snapshot;
    let is_here = |object: &&Value| object["metadata"]["namespace"] == namespace;
    let nodes = snapshot.nodes.iter().flat_map(BTreeMap::values);
    let workloads = snapshot.workloads.iter().map(Workload::object);
    let pps = snapshot.pps.iter().filter(|pps| pps.is_enabled());
    let claims = snapshot.claims.iter().filter(is_here);
    let volumes = snapshot.volumes.iter();
    let budgets = snapshot.budgets.iter().filter(is_here);
    nodes
        .map(|node| typed_node(node, disruption.nodes.contains(node.name())))
        .chain(workloads.filter(is_here).cloned())
        .chain(
            pps.map(Pps::object)
                .filter(is_here)
                .map(|object| typed(object, API_VERSION, KIND)),
        )
        .chain(claims.map(|object| typed(object, "v1", "PersistentVolumeClaim")))
        .chain(volumes.map(|object| typed(object, "v1", "PersistentVolume")))
        .chain(budgets.map(|object| typed(object, "policy/v1", "PodDisruptionBudget")))
        .collect()
}

fn typed_node(node: &Node, is_concerned: bool) -> Value {
    let mut object = typed(node.object(), "v1", "Node");
    // No Pod starts on these nodes before the disruption: kubectl, too, cordons all nodes before it
    // drains the first.
    if is_concerned {
        object["spec"]["unschedulable"] = true.into();
    }
    object
}

/// The items of a list carry no type.
fn typed(object: &Value, api_version: &str, kind: &str) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields
            .entry("apiVersion")
            .or_insert_with(|| api_version.into());
        fields.entry("kind").or_insert_with(|| kind.into());
    }
    object
}

/// The Pods where they are, or where they would be.
fn pods(snapshot: &Snapshot, before: &[PodForecast]) -> Vec<Arc<Value>> {
    let simulated: BTreeMap<(&str, &str), &PodForecast> = before
        .iter()
        .map(|pod| ((pod.namespace.as_str(), pod.pod.as_str()), pod))
        .collect();
    snapshot
        .pods
        .iter()
        .filter_map(|pod| match simulated.get(&(pod.namespace(), pod.name())) {
            Some(simulated) => Some(Arc::new(moved(pod, simulated.node_then.as_deref()?))),
            None => Some(Arc::clone(pod.shared())),
        })
        .collect()
}

fn moved(pod: &Pod, node: &str) -> Value {
    let mut moved = pod.object().clone();
    moved["spec"]["nodeName"] = node.into();
    moved["status"] = json!({"phase": "Running"});
    moved
}
