//! Makes a scenario from what was read.

use pps_core::pps::{API_VERSION, KIND};
use pps_simulation::{Action, Scenario};
use serde_json::Value;

use crate::snapshot::Snapshot;

/// A scenario of the workloads of one namespace. All other Pods take room.
pub(super) fn of(snapshot: &Snapshot, namespace: &str, actions: Vec<Action>) -> Scenario {
    let is_here = |object: &Value| object["metadata"]["namespace"] == namespace;
    let mut objects = Vec::new();
    let nodes = snapshot.nodes.iter().flat_map(|nodes| nodes.values());
    objects.extend(nodes.map(|node| named(node.object(), "v1", "Node")));
    let workloads = snapshot.workloads.iter().filter(|workload| workload.namespace() == namespace);
    objects.extend(workloads.map(|workload| workload.object().clone()));
    let pps = snapshot.pps.iter().filter(|pps| pps.namespace() == namespace);
    objects.extend(pps.map(|pps| named(pps.object(), API_VERSION, KIND)));
    objects.extend(snapshot.pods.iter().map(|pod| named(pod.object(), "v1", "Pod")));
    let claims = snapshot.claims.iter().filter(|claim| is_here(claim));
    objects.extend(claims.map(|claim| named(claim, "v1", "PersistentVolumeClaim")));
    objects.extend(snapshot.volumes.iter().map(|volume| named(volume, "v1", "PersistentVolume")));
    let budgets = snapshot.budgets.iter().filter(|budget| is_here(budget));
    objects.extend(budgets.map(|budget| named(budget, "policy/v1", "PodDisruptionBudget")));
    // The first action lets happen what would happen anyway, so that it is not taken for an effect of the others.
    let mut all = vec![Action::RollOut {}];
    all.extend(actions);
    Scenario {
        objects,
        live: true,
        namespace: namespace.to_owned(),
        with_pps: true,
        actions: all,
        ..Scenario::default()
    }
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
