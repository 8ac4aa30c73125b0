//! Actions about nodes.

use pps_core::{is_dns_subdomain, shorten};
use serde_json::{Value, json};

use crate::cluster::{Cluster, ZONE};
use crate::finding::{Finding, unknown};
use crate::limits::MAX_LABEL_VALUE;
use crate::load::add_node;
use crate::read::{Parsed, parse};
use crate::result::EventKind;
use crate::scheduler::{Stay, stay};
use crate::settle::{delete, settle};
use crate::text;

type Outcome = Result<(), Vec<Finding>>;

/// The name of a node that exists.
pub(super) fn existing(cluster: &Cluster, node: &str) -> Result<String, Vec<Finding>> {
    if cluster.has_node(node) {
        return Ok(node.to_owned());
    }
    Err(unknown("node", node, cluster.existing_nodes().map(|(name, _)| name)))
}

/// The nodes of a zone.
pub(super) fn in_zone(cluster: &Cluster, zone: &str) -> Result<Vec<String>, Vec<Finding>> {
    let in_zone = cluster.existing_nodes().filter(|(_, node)| node.label(ZONE) == Some(zone));
    let nodes: Vec<String> = in_zone.map(|(name, _)| name.clone()).collect();
    if nodes.is_empty() {
        let message = format!("no node has the label {ZONE}={}: choose another zone", shorten(zone));
        return Err(vec![Finding::of_all(message)]);
    }
    Ok(nodes)
}

pub(super) fn set_cordoned(cluster: &mut Cluster, node: &str, cordoned: bool) -> Outcome {
    let name = existing(cluster, node)?;
    let Some(node) = cluster.nodes.get_mut(&name) else { return Ok(()) };
    if node.is_cordoned() == cordoned {
        let state = if cordoned { "cordoned already" } else { "not cordoned" };
        cluster.tell(EventKind::Warning, format!("Node/{name}"), format!("is {state}"));
        return Ok(());
    }
    if cordoned {
        if node.object["spec"].is_null() {
            node.object["spec"] = json!({});
        }
        node.object["spec"]["unschedulable"] = true.into();
    } else if let Some(spec) = node.object["spec"].as_object_mut() {
        spec.remove("unschedulable");
    }
    let text = if cordoned { "is cordoned: it gets no new Pods" } else { "is uncordoned" };
    cluster.tell(EventKind::Changed, format!("Node/{name}"), text);
    Ok(())
}

/// Cordons a node and evicts its Pods, one after the other.
pub(super) fn drain(cluster: &mut Cluster, node: &str) -> Outcome {
    let name = existing(cluster, node)?;
    if !cluster.nodes.get(&name).is_some_and(crate::cluster::Node::is_cordoned) {
        set_cordoned(cluster, &name, true)?;
    }
    let on_it = |pod: &crate::cluster::Pod| pod.node.as_ref() == Some(&name);
    let pods: Vec<String> =
        cluster.pods.iter().filter(|(_, pod)| on_it(pod)).map(|(pod, _)| pod.clone()).collect();
    for pod in pods {
        delete(cluster, &pod, &format!("is evicted: {name} is drained"));
        settle(cluster);
    }
    let others = cluster.other_pods.len();
    cluster.other_pods.retain(|pod| pod["spec"]["nodeName"] != name);
    if cluster.other_pods.len() < others {
        let count = (others - cluster.other_pods.len()) as u64;
        let text = format!("loses {} of no StatefulSet", text::pods(count));
        cluster.tell(EventKind::Changed, format!("Node/{name}"), text);
    }
    Ok(())
}

/// Evicts the Pods of a node that do not tolerate one of its taints with the effect `NoExecute`.
pub(super) fn evict_untolerant(cluster: &mut Cluster, node: &str) {
    let Some(object) = cluster.nodes.get(node).map(|node| node.object.clone()) else { return };
    let on_it = cluster.pods.iter().filter(|(_, pod)| pod.node.as_deref() == Some(node));
    let stays: Vec<(String, Stay)> =
        on_it.map(|(name, pod)| (name.clone(), stay(&pod.object["spec"], &object))).collect();
    for (pod, stay) in stays {
        match stay {
            Stay::Forever => {}
            Stay::ForAWhile { seconds } => {
                let text = format!(
                    "tolerates the taints of {node} for {seconds} seconds. Then it would be evicted, which is not simulated"
                );
                cluster.tell(EventKind::Warning, format!("Pod/{pod}"), text);
            }
            Stay::Not { taint } => {
                delete(
                    cluster,
                    &pod,
                    &format!("is evicted: it does not tolerate the taint {taint} of {node}"),
                );
            }
        }
    }
    cluster.other_pods.retain(|pod| {
        pod["spec"]["nodeName"] != node || !matches!(stay(&pod["spec"], &object), Stay::Not { .. })
    });
}

/// Deletes nodes, with their Pods.
pub(super) fn lose(cluster: &mut Cluster, nodes: &[String]) {
    for name in nodes {
        let Some(node) = cluster.nodes.get_mut(name) else { continue };
        node.exists = false;
        cluster.tell(EventKind::Deleted, format!("Node/{name}"), "is lost: its Node object is deleted");
    }
    let is_lost = |node: &str| nodes.iter().any(|name| name == node);
    let on_them = |pod: &crate::cluster::Pod| pod.node.as_deref().is_some_and(is_lost);
    let pods: Vec<(String, String)> = cluster
        .pods
        .iter()
        .filter(|(_, pod)| on_them(pod))
        .map(|(name, pod)| (name.clone(), pod.node.clone().unwrap_or_default()))
        .collect();
    for (pod, node) in pods {
        delete(cluster, &pod, &format!("is deleted with its node {node}"));
    }
    cluster.other_pods.retain(|pod| !pod["spec"]["nodeName"].as_str().is_some_and(is_lost));
}

/// A lost node registers again. What a user has set on it, such as a cordon, is gone.
pub(super) fn return_node(cluster: &mut Cluster, node: &str) -> Outcome {
    let lost = || cluster.nodes.iter().filter(|(_, node)| !node.exists).map(|(name, _)| name);
    if !lost().any(|name| name == node) {
        return Err(unknown("lost node", node, lost()));
    }
    let Some(returned) = cluster.nodes.get_mut(node) else { return Ok(()) };
    returned.exists = true;
    returned.is_new = true;
    if let Some(spec) = returned.object["spec"].as_object_mut() {
        spec.remove("unschedulable");
    }
    cluster.overdue.remove(node);
    cluster.tell(EventKind::Created, format!("Node/{node}"), "is back, with the labels that it had");
    Ok(())
}

/// Whether the API server takes this as the key of a label.
fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_label_name(name),
        None => is_label_name(key),
    }
}

fn is_label_name(name: &str) -> bool {
    let is_end = |end: Option<char>| end.is_some_and(|end| end.is_ascii_alphanumeric());
    name.len() <= MAX_LABEL_VALUE
        && is_end(name.chars().next())
        && is_end(name.chars().next_back())
        && name.chars().all(|one| one.is_ascii_alphanumeric() || "-_.".contains(one))
}

pub(super) fn label(cluster: &mut Cluster, node: &str, key: &str, value: Option<&str>) -> Outcome {
    let name = existing(cluster, node)?;
    if !is_label_key(key) || !value.is_none_or(|value| value.is_empty() || is_label_name(value)) {
        let message = format!(
            "{}={} is no label: use at most {MAX_LABEL_VALUE} letters, digits, -, _ and ., with a letter or digit at both ends, and for the key also a prefix: example.com/rack",
            shorten(key),
            shorten(value.unwrap_or_default())
        );
        return Err(vec![Finding::of_all(message)]);
    }
    let Some(node) = cluster.nodes.get_mut(&name) else { return Ok(()) };
    let labels = &mut node.object["metadata"]["labels"];
    let text = if let Some(value) = value {
        labels[key] = value.into();
        format!("gets the label {key}={value}")
    } else {
        if let Some(labels) = labels.as_object_mut() {
            labels.remove(key);
        }
        format!("loses the label {key}")
    };
    cluster.tell(EventKind::Changed, format!("Node/{name}"), text);
    Ok(())
}

/// A node joins.
pub(super) fn add(cluster: &mut Cluster, object: &Value) -> Outcome {
    let (parsed, findings) = parse(object, &cluster.namespace);
    match parsed {
        Some(Parsed::Node(node)) => join(cluster, node).map_err(|finding| vec![finding]),
        Some(_) => Err(vec![Finding::error("kind", "only a Node can be added here")]),
        None => Err(findings),
    }
}

/// Adds a node that is new to the sidecar.
pub(super) fn join(cluster: &mut Cluster, object: Value) -> Result<(), Finding> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    add_node(cluster, object)?;
    if let Some(node) = cluster.nodes.get_mut(&name) {
        node.is_new = true;
    }
    cluster.overdue.remove(&name);
    cluster.tell(EventKind::Created, format!("Node/{name}"), "joins the cluster");
    Ok(())
}
