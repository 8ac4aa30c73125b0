//! Actions about nodes.

use std::collections::BTreeMap;

use pps_core::shorten;
use pps_scheduler::evicting_taint;
use pps_scheduler::fields::{controller, text};
use serde_json::Value;

use crate::cluster::budget::protects;
use crate::cluster::{Cluster, Node, Pod, ZONE};
use crate::finding::{Finding, unknown};
use crate::load::add_node;
use crate::read::check_label;
use crate::result::EventKind;
use crate::settle::{Scheduling, delete, settle};

type Outcome = Result<(), Finding>;

fn existing<'a>(cluster: &'a mut Cluster, name: &str) -> Result<&'a mut Node, Finding> {
    let finding = unknown("node", name, cluster.existing_nodes().map(|(name, _)| name));
    cluster
        .node_mut(name)
        .filter(|node| node.exists)
        .ok_or(finding)
}

pub(super) fn in_zone(cluster: &Cluster, zone: &str) -> Result<Vec<String>, Finding> {
    let nodes: Vec<String> = cluster
        .existing_nodes()
        .filter(|(_, node)| node.label(ZONE) == Some(zone))
        .map(|(name, _)| name.clone())
        .collect();
    if nodes.is_empty() {
        let message = format!(
            "no node has the label {ZONE}={}: use another zone",
            shorten(zone)
        );
        return Err(Finding::of_all(message));
    }
    Ok(nodes)
}

pub(super) fn set_cordoned(cluster: &mut Cluster, name: &str, cordoned: bool) -> Outcome {
    let node = existing(cluster, name)?;
    if node.is_cordoned() == cordoned {
        return Ok(());
    }
    node.object["spec"]["unschedulable"] = cordoned.into();
    let text = if cordoned {
        "is cordoned: it gets no new Pods"
    } else {
        "is uncordoned"
    };
    cluster.tell(EventKind::Changed, format!("Node/{name}"), text);
    Ok(())
}

/// Cordons a node and evicts its Pods, one after the other.
pub(super) fn drain(cluster: &mut Cluster, name: &str) -> Outcome {
    set_cordoned(cluster, name, true)?;
    evict_all(cluster, name);
    // `kubectl drain` leaves Pods of DaemonSets and those that the node's own files define.
    cluster.remove_others(name, |pod| !stays_with_its_node(pod));
    Ok(())
}

/// Evicts the Pods of a node, one after the other. One that a budget protects is tried again after
/// the others.
fn evict_all(cluster: &mut Cluster, node: &str) {
    let mut remaining: Vec<String> = cluster.pods.on(node).map(|(pod, _)| pod.clone()).collect();
    let mut kept = BTreeMap::new();
    while !remaining.is_empty() {
        let before = remaining.len();
        for pod in remaining {
            if cluster.pods.get(&pod).and_then(Pod::node) != Some(node) {
                continue;
            }
            if let Some(why) = protects(cluster, &pod) {
                kept.insert(pod, why);
                continue;
            }
            delete(cluster, &pod, &format!("is evicted: {node} is drained"));
            settle(cluster, Scheduling::NewPods);
        }
        settle(cluster, Scheduling::AllPending);
        if kept.len() == before {
            break;
        }
        remaining = std::mem::take(&mut kept).into_keys().collect();
    }
    for (pod, why) in kept {
        let text = format!("stays on {node}, and its drain does not end: {why}");
        cluster.tell(EventKind::Kept, format!("Pod/{pod}"), text);
        cluster.kept.insert(pod, why);
    }
}

/// Whether a Pod is deleted only with its node.
fn stays_with_its_node(pod: &Value) -> bool {
    controller(pod).is_some_and(|owner| owner["kind"] == "DaemonSet" || owner["kind"] == "Node")
        || pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string()
}

/// Evicts the Pods of a node that do not tolerate one of its taints with the effect `NoExecute`.
pub(super) fn evict_untolerant(cluster: &mut Cluster, node: &str) {
    let Some(object) = cluster.node(node).map(|node| node.object.clone()) else {
        return;
    };
    let evicted = |pod: &Value| evicting_taint(&pod["spec"], &object);
    let pods = cluster
        .pods
        .on(node)
        .filter_map(|(name, pod)| Some((name.clone(), evicted(&pod.object)?)));
    for (pod, taint) in pods.collect::<Vec<_>>() {
        delete(
            cluster,
            &pod,
            &format!("is evicted: it does not tolerate the taint {taint} of {node}"),
        );
    }
    cluster.remove_others(node, |pod| evicted(pod).is_some());
}

pub(super) fn lose(cluster: &mut Cluster, nodes: &[String]) -> Outcome {
    for name in nodes {
        existing(cluster, name)?;
    }
    for name in nodes {
        existing(cluster, name)?.exists = false;
        cluster.tell(
            EventKind::Deleted,
            format!("Node/{name}"),
            "is lost: its Node object is deleted",
        );
    }
    let pods: BTreeMap<String, &String> = nodes
        .iter()
        .flat_map(|node| {
            cluster
                .pods
                .on(node)
                .map(move |(pod, _)| (pod.clone(), node))
        })
        .collect();
    for (pod, node) in pods {
        delete(cluster, &pod, &format!("is deleted with its node {node}"));
    }
    for node in nodes {
        cluster.remove_others(node, |_| true);
    }
    Ok(())
}

/// A lost node registers again. What a user has set on it, such as a cordon, is gone.
pub(super) fn return_node(cluster: &mut Cluster, name: &str) -> Outcome {
    let lost = cluster
        .nodes()
        .filter(|(_, node)| !node.exists)
        .map(|(name, _)| name);
    let finding = unknown("lost node", name, lost);
    let returned = cluster
        .node_mut(name)
        .filter(|node| !node.exists)
        .ok_or(finding)?;
    returned.exists = true;
    returned.is_new = true;
    if let Some(spec) = returned.object["spec"].as_object_mut() {
        spec.remove("unschedulable");
    }
    cluster.tell(
        EventKind::Created,
        format!("Node/{name}"),
        "is back, with the labels that it had",
    );
    Ok(())
}

pub(super) fn label(cluster: &mut Cluster, name: &str, key: &str, value: Option<&str>) -> Outcome {
    check_label(key, value.unwrap_or_default()).map_err(Finding::of_all)?;
    let labels = &mut existing(cluster, name)?.object["metadata"]["labels"];
    let text = if let Some(value) = value {
        labels[key] = value.into();
        format!("gets the label {key}={value}")
    } else {
        labels.as_object_mut().map(|labels| labels.remove(key));
        format!("loses the label {key}")
    };
    cluster.tell(EventKind::Changed, format!("Node/{name}"), text);
    Ok(())
}

pub(super) fn join(cluster: &mut Cluster, object: Value) -> Outcome {
    let name = text(&object["metadata"]["name"]).to_owned();
    add_node(cluster, object)?;
    existing(cluster, &name)?.is_new = true;
    cluster.tell(
        EventKind::Created,
        format!("Node/{name}"),
        "joins the cluster",
    );
    Ok(())
}
