//! Makes a scenario from what was read.

use std::collections::BTreeMap;
use std::sync::Arc;

use pps_core::pps::{API_VERSION, KIND};
use pps_simulation::{Action, Scenario};
use serde_json::{Value, json};

use crate::snapshot::Snapshot;

/// Where Pods, by namespace and name, would be instead; none if they would have no node.
pub(super) type Placed = BTreeMap<(String, String), Option<String>>;

/// A scenario of the workloads of one namespace, and the Pods of all. Those of others take room. `gone` are nodes that do not exist any more, and
/// whose loss is the question.
pub(super) fn of(
    snapshot: &Snapshot,
    namespace: &str,
    actions: Vec<Action>,
    gone: &[String],
    placed: &Placed,
) -> (Scenario, Vec<Arc<Value>>) {
    let is_here = |object: &Value| object["metadata"]["namespace"] == namespace;
    let mut objects = Vec::new();
    let nodes = snapshot.nodes.iter().flat_map(|nodes| nodes.values());
    objects.extend(nodes.map(|node| named(node.object(), "v1", "Node")));
    // They are there until the action takes them away, and their Pods with them; cordoned, so that no Pod starts there.
    objects.extend(gone.iter().map(|name| {
        let labels = json!({"kubernetes.io/hostname": name});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"unschedulable": true}})
    }));
    let is_gone = |pod: &Value| gone.iter().any(|node| pod["spec"]["nodeName"] == **node);
    let workloads = snapshot.workloads.iter().filter(|workload| workload.namespace() == namespace);
    objects.extend(workloads.map(|workload| workload.object().clone()));
    let pps = snapshot.pps.iter().filter(|pps| pps.namespace() == namespace);
    objects.extend(pps.map(|pps| named(pps.object(), API_VERSION, KIND)));
    let pods = snapshot.pods.iter().filter_map(|pod| {
        let place = placed.get(&(pod.namespace().to_owned(), pod.name().to_owned()));
        // It is copied only if it is changed.
        let mut pod = Arc::clone(pod.shared());
        match place {
            Some(None) => return None,
            Some(Some(node)) => {
                let pod = Arc::make_mut(&mut pod);
                pod["spec"]["nodeName"] = node.as_str().into();
                pod["status"] = json!({"phase": "Running"});
            }
            None => {}
        }
        if is_gone(&pod) {
            let pod = Arc::make_mut(&mut pod);
            // Its deletion is a part of the loss.
            if let Some(metadata) = pod["metadata"].as_object_mut() {
                metadata.remove("deletionTimestamp");
            }
            // A Pod that is not Ready is not recorded again, on a node whose labels are not known.
            if let Some(status) = pod["status"].as_object_mut() {
                status.remove("conditions");
            }
        }
        Some(pod)
    });
    let pods = pods.collect();
    let claims = snapshot.claims.iter().filter(|claim| is_here(claim));
    objects.extend(claims.map(|claim| named(claim, "v1", "PersistentVolumeClaim")));
    objects.extend(snapshot.volumes.iter().map(|volume| named(volume, "v1", "PersistentVolume")));
    let budgets = snapshot.budgets.iter().filter(|budget| is_here(budget));
    objects.extend(budgets.map(|budget| named(budget, "policy/v1", "PodDisruptionBudget")));
    // The first action lets happen what would happen anyway, so that it is not taken for an effect of the others.
    let mut all = vec![Action::RollOut {}];
    all.extend(actions);
    let scenario = Scenario {
        objects,
        live: true,
        namespace: namespace.to_owned(),
        with_pps: true,
        actions: all,
        ..Scenario::default()
    };
    (scenario, pods)
}

/// Shuts these nodes from the beginning, so that no Pod gets one of them before the event. Returns whether there are any.
pub(super) fn shut(scenario: &mut Scenario, is_concerned: impl Fn(&str) -> bool) -> bool {
    let mut has_any = false;
    for node in scenario.objects.iter_mut().filter(|object| object["kind"] == "Node") {
        if node["metadata"]["name"].as_str().is_some_and(&is_concerned) {
            has_any = true;
            if let Some(node) = node.as_object_mut() {
                let spec = node.entry("spec").or_insert_with(|| json!({}));
                spec["unschedulable"] = true.into();
            }
        }
    }
    scenario.actions.retain(|action| !matches!(action, Action::Cordon { .. }));
    has_any
}

/// The items of a list carry no type.
fn named(object: &Value, api_version: &str, kind: &str) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.entry("apiVersion").or_insert_with(|| api_version.into());
        fields.entry("kind").or_insert_with(|| kind.into());
    }
    object
}
