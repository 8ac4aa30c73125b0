//! What runs already when a scenario begins: workloads, and their Pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use pps_core::INJECTED_ANNOTATION;
use pps_core::addresses::read_pod_ips;
use pps_core::governing::{Candidate, governing};
use pps_core::pps::group_of;
use pps_scheduler::fields::{controller, text};
use serde_json::Value;

use crate::cluster::budget::is_ready;
use crate::cluster::{Cluster, Pod, Workload};
use crate::result::EventKind;

/// The workload that controls a Pod; none if it is none of the scenario's.
pub(crate) fn controller_of(cluster: &Cluster, pod: &Value) -> Option<String> {
    let owner = controller(pod)?;
    let workload = cluster.workloads.get(text(&owner["name"]))?;
    let is_controlled = pod["metadata"]["namespace"] == cluster.namespace
        && workload.target.group() == group_of(text(&owner["apiVersion"]))
        && owner["kind"] == workload.target.kind
        && may_be_same(&owner["uid"], &workload.object["metadata"]["uid"]);
    is_controlled.then(|| workload.target.name.clone())
}

/// Whether two UIDs are the same, or one of both is not known.
fn may_be_same(one: &Value, other: &Value) -> bool {
    one == other || one.is_null() || other.is_null()
}

/// A Pod that runs from the beginning.
pub(crate) struct AdoptedPod {
    pub(crate) workload: String,
    pub(crate) object: Arc<Value>,
}

/// Lets workloads exist from the beginning with these Pods. All count as updated.
pub(crate) fn adopt(cluster: &mut Cluster, pods: Vec<AdoptedPod>) {
    let mut by_workload: BTreeMap<String, Vec<Arc<Value>>> = BTreeMap::new();
    if cluster.is_live {
        by_workload.extend(
            cluster
                .workloads
                .keys()
                .map(|name| (name.clone(), Vec::new())),
        );
    }
    for AdoptedPod { workload, object } in pods {
        by_workload.entry(workload).or_default().push(object);
    }
    for (workload, pods) in by_workload {
        let uid = uid_of(cluster, &workload, &pods).unwrap_or_else(|| cluster.new_uid());
        if let Some(workload) = cluster.workloads.get_mut(&workload) {
            workload.begin(uid);
        }
        for pod in pods {
            adopt_pod(cluster, &workload, pod);
        }
    }
}

/// The UID of a workload from the beginning: its own, else the one that its Pods name, else the one
/// that its states were recorded for.
pub(crate) fn uid_of(cluster: &Cluster, name: &str, pods: &[Arc<Value>]) -> Option<String> {
    let workload = cluster.workloads.get(name)?;
    let own = workload.object["metadata"]["uid"].as_str();
    own.or_else(|| pods.iter().find_map(|pod| controller(pod)?["uid"].as_str()))
        .or_else(|| recorded_uid(cluster, workload))
        .map(str::to_owned)
}

/// The UID of the workload whose states the governing PPS has.
fn recorded_uid<'a>(cluster: &'a Cluster, workload: &Workload) -> Option<&'a str> {
    let candidates = cluster.pps.iter().map(|(name, pps)| {
        let metadata = &pps.object["metadata"];
        let is_terminating = metadata["deletionTimestamp"].is_string();
        let created = text(&metadata["creationTimestamp"]);
        (
            Candidate {
                name,
                target: &pps.target,
                created,
                is_terminating,
            },
            pps,
        )
    });
    governing(&workload.target, candidates)?.object["status"]["targetUID"].as_str()
}

fn adopt_pod(cluster: &mut Cluster, workload: &str, object: Arc<Value>) {
    let name = text(&object["metadata"]["name"]).to_owned();
    let node = object["spec"]["nodeName"]
        .as_str()
        .filter(|node| !node.is_empty())
        .map(str::to_owned);
    let ips = read_pod_ips(&object["status"]);
    let ready = is_ready(&object);
    let end = ending(cluster, &object, node.as_deref());
    let pod = Pod {
        workload: workload.to_owned(),
        revision: cluster
            .workloads
            .get(workload)
            .map(Workload::update_revision)
            .unwrap_or_default(),
        injected: object["metadata"]["annotations"][INJECTED_ANNOTATION].is_string(),
        is_adopted: true,
        object,
        ..Pod::default()
    };
    cluster.add_pod(&name, pod);
    if let Some(node) = &node {
        cluster.bind_pod(&name, node);
        // One that is bound and not Ready stays so: what it waits for is not known.
        cluster.run_pod(&name, ips, ready);
    }
    if let Some(end) = end {
        cluster.remove_pod(&name);
        cluster.tell(EventKind::Deleted, format!("Pod/{name}"), end);
    }
}

/// Why a Pod counts as gone already.
fn ending(cluster: &Cluster, pod: &Value, node: Option<&str>) -> Option<&'static str> {
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return Some("is being deleted already, and counts as gone");
    }
    if matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed") {
        return Some("has ended, and counts as gone");
    }
    let is_lost = node.is_some_and(|node| !cluster.has_node(node));
    is_lost.then_some("is bound to a node that does not exist, and counts as gone")
}
