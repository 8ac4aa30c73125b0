//! The cluster as users see it.

use pps_scheduler::fields::list;
use pps_scheduler::{Taint, UNSCHEDULABLE, labels};

use crate::cluster::{Cluster, Node, Pod, Pps, Workload, ZONE};
use crate::controller::new_pod;
use crate::result::{Manifest, NodeState, Phase, PodView, PpsView, WorkloadView, World};

/// The cluster at this moment; with all details of Pods and objects if this is the last step.
pub(crate) fn view(cluster: &Cluster, is_last: bool) -> World {
    let workloads = cluster.workloads.values();
    World {
        nodes: cluster
            .nodes()
            .map(|(name, node)| view_node(name, node))
            .collect(),
        workloads: workloads
            .clone()
            .map(|workload| view_workload(cluster, workload))
            .collect(),
        pods: workloads
            .flat_map(|workload| view_pods(cluster, workload, is_last))
            .collect(),
        pps: cluster
            .pps
            .iter()
            .map(|(name, pps)| view_pps(name, pps, is_last))
            .collect(),
    }
}

fn view_node(name: &str, node: &Node) -> NodeState {
    // A cordon says its taint.
    let is_shown = |taint: &Taint| !node.is_cordoned() || taint.key != UNSCHEDULABLE;
    let taints = list(&node.object["spec"]["taints"])
        .map(Taint::of)
        .filter(is_shown);
    NodeState {
        name: name.to_owned(),
        zone: node.label(ZONE).map(str::to_owned),
        labels: labels(&node.object),
        cordoned: node.is_cordoned(),
        taints: taints.map(|taint| taint.to_string()).collect(),
        exists: node.exists,
    }
}

fn view_workload(cluster: &Cluster, workload: &Workload) -> WorkloadView {
    let ready = cluster
        .pods
        .of(&workload.target.name)
        .filter(|(_, pod)| pod.is_ready())
        .count();
    WorkloadView {
        name: workload.target.name.clone(),
        kind: workload.target.kind.clone(),
        replicas: u32::try_from(workload.replicas()).unwrap_or(u32::MAX),
        ready: u32::try_from(ready).unwrap_or(u32::MAX),
        exists: workload.exists(),
    }
}

/// The Pods that a workload wants, and then those that it has and does not want.
fn view_pods(cluster: &Cluster, workload: &Workload, is_last: bool) -> Vec<PodView> {
    if !workload.exists() {
        return Vec::new();
    }
    let surplus = cluster
        .pods
        .of(&workload.target.name)
        .filter(|(name, _)| !workload.wants(name));
    let names = workload.wanted.iter().chain(surplus.map(|(name, _)| name));
    names
        .map(|name| view_pod(cluster, workload, name, is_last))
        .collect()
}

fn view_pod(cluster: &Cluster, workload: &Workload, name: &str, is_last: bool) -> PodView {
    let pod = cluster.pods.get(name);
    let refusal = cluster
        .refusals
        .get(name)
        .filter(|_| pod.is_none())
        .cloned();
    let selection = pod.and_then(|pod| pod.selection.as_ref());
    let verdicts = selection
        .filter(|_| is_last)
        .map(|selection| selection.verdicts.clone());
    let recorded = pod.and_then(|pod| pod.recorded.as_ref());
    PodView {
        name: name.to_owned(),
        workload: workload.target.name.clone(),
        node: pod.and_then(Pod::node).map(str::to_owned),
        phase: match (pod, &refusal) {
            (Some(pod), _) if pod.is_ready() => Phase::Running,
            (Some(_), _) => Phase::Pending,
            (None, Some(_)) => Phase::Refused,
            (None, None) => Phase::NotCreated,
        },
        ip: pod.and_then(|pod| pod.ips().first().cloned()),
        previous_node: cluster.last_nodes.get(name).cloned(),
        came_home: recorded.and(pod).map(|pod| pod.is_ready() && pod.came_home),
        recorded_before: recorded.map(|home| home.state.clone()),
        injected: pod.is_some_and(|pod| pod.injected),
        scheduler: verdicts.unwrap_or_default(),
        may_land_on: selection
            .map(|selection| selection.may_land_on.clone())
            .unwrap_or_default(),
        manifest: pod
            .filter(|pod| is_last && (cluster.limits.keeps_all || !pod.is_adopted))
            .map(|pod| view_manifest(cluster, workload, name, pod)),
        kept_away_by: pod.map(|pod| pod.kept_away_by.clone()).unwrap_or_default(),
        pending: pod.and_then(|pod| pod.pending.clone()),
        warnings: pod.map(|pod| pod.warnings.clone()).unwrap_or_default(),
        caveats: selection
            .map(|selection| selection.caveats.clone())
            .unwrap_or_default(),
        refusal,
        is_adopted: pod.is_some_and(|pod| pod.is_adopted),
        kept_by: cluster.kept.get(name).filter(|_| pod.is_some()).cloned(),
    }
}

/// Of a Pod that ran in the beginning: as its controller would create it now, and as it runs.
fn view_manifest(cluster: &Cluster, workload: &Workload, name: &str, pod: &Pod) -> Manifest {
    if !pod.is_adopted {
        return Manifest {
            before: pod.before.clone(),
            after: pod.after.clone(),
        };
    }
    let before = new_pod(workload, &cluster.namespace, name, pod.revision);
    Manifest {
        before,
        after: pod.object.as_ref().clone(),
    }
}

fn view_pps(name: &str, pps: &Pps, is_last: bool) -> PpsView {
    PpsView {
        name: name.to_owned(),
        target: format!("{}/{}", pps.target.kind, pps.target.name),
        states: pps.states(),
        object: is_last.then(|| pps.object.clone()),
        conditions: list(&pps.object["status"]["conditions"]).cloned().collect(),
    }
}
