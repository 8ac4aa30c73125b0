//! Actions about Pods.

use pps_admission::{Plan, apply, plan};
use pps_core::edit::{set_state, without_node};
use pps_core::pps::KIND;
use pps_core::{AnnotationRules, PodState};
use pps_scheduler::{Node, Placement, select_from};
use serde_json::Value;

use crate::admission::governing;
use crate::cluster::budget::protects;
use crate::cluster::{Cluster, Pod, Workload, recorder};
use crate::controller::new_pod;
use crate::finding::{Finding, unknown};
use crate::result::EventKind;
use crate::settle::delete;

fn existing<'a>(cluster: &'a Cluster, name: &str) -> Result<&'a Pod, Finding> {
    cluster
        .pods
        .get(name)
        .ok_or_else(|| unknown("Pod", name, cluster.pods.names()))
}

pub(super) fn delete_pod(cluster: &mut Cluster, name: &str) -> Result<(), Finding> {
    existing(cluster, name)?;
    delete(cluster, name, "is deleted by a user");
    Ok(())
}

/// Frees a Pod from its node, keeps its other recorded values, and evicts it. Refused where no node
/// could take the new Pod. Nothing happens without PPS.
pub(super) fn move_pod(cluster: &mut Cluster, name: &str) -> Result<(), Finding> {
    let pod = existing(cluster, name)?;
    let workload = cluster
        .workloads
        .get(&pod.workload)
        .filter(|_| cluster.with_pps);
    let Some(workload) = workload else {
        return Ok(());
    };
    let Some(pps) = governing(cluster, &workload.target, name) else {
        let why = format!("no {KIND} names {}", workload.reference());
        return Err(not_moved(name, &why));
    };
    // A Pod that is Pending is deleted, and no budget prevents that.
    if let Some(why) = pod.node().and_then(|_| protects(cluster, name)) {
        return Err(not_moved(name, &why));
    }
    let kept = without_node(&pps.state.unwrap_or_default(), &[]);
    let plan = plan(&pps.name, &pps.spec, &kept, &AnnotationRules::default());
    if !fits_somewhere(cluster, workload, name, &plan) {
        let why = "no node can take it with its other recorded values";
        return Err(not_moved(name, why));
    }
    let object = cluster
        .pps
        .get(&pps.name)
        .map_or(&Value::Null, |pps| &pps.object);
    let after = Some(&kept).filter(|kept| **kept != PodState::default());
    if let Ok(Some(edit)) = set_state(object, name, after) {
        recorder::patch_status(cluster, &pps.name, &edit.status);
        let text = format!("no longer says where {name} ran, and keeps its other recorded values");
        cluster.tell(EventKind::Changed, format!("{KIND}/{}", pps.name), text);
    }
    delete(cluster, name, "is evicted: a user moves it");
    Ok(())
}

fn not_moved(pod: &str, why: &str) -> Finding {
    Finding::of_all(format!("{pod} is not moved: {why}"))
}

/// Whether a node can take a Pod that is created again and gets this plan injected.
fn fits_somewhere(cluster: &Cluster, workload: &Workload, pod: &str, plan: &Plan) -> bool {
    let revision = workload.revision_of_next(pod);
    let mut next = new_pod(workload, &cluster.namespace, pod, revision);
    // A Pod that the policy cannot change is refused when it is created.
    let _ = apply(plan, &mut next);
    let placement = Placement {
        pod: &next,
        before: None,
        selector: None,
        volumes: (!cluster.volumes.is_empty()).then_some(&cluster.volumes),
    };
    let nodes: Vec<Node> = cluster
        .existing_nodes()
        .filter_map(|(node, _)| cluster.scheduler_node(node, pod))
        .collect();
    !select_from(&placement, &nodes).may_land_on.is_empty()
}
