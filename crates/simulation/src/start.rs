//! What happens to a Pod after its creation: the scheduler selects a node, and the kubelet starts it there with an
//! address.

use std::collections::BTreeSet;

use pps_core::generate::POD_ANNOTATIONS;
use serde_json::{Map, Value, json};

use crate::addresses::{Plugin, plugin_of};
use crate::cluster::{Cluster, Home, Place, Pod};
use crate::controller::{self, new_pod};
use crate::result::EventKind;
use crate::scheduler::{Placement, Selection, select_from, still_excluded};
use crate::text::list;

/// How many nodes a text lists.
const MAX_LISTED: usize = 4;

/// Schedules and starts Pods: the new ones, or all that do not run. Returns whether one has started.
pub(crate) fn start_pods(cluster: &mut Cluster, also_known: bool) -> bool {
    let mut waiting: Vec<String> = cluster
        .pods
        .waiting()
        .filter(|(name, pod)| {
            let is_new = pod.selection.is_none() && pod.node().is_none();
            also_known || is_new || cluster.observed.contains_key(*name)
        })
        .map(|(name, _)| name.clone())
        .collect();
    // Of several Pods that wait for room, a real scheduler tries any first: here, the one that it has placed.
    waiting.sort_by_key(|name| !cluster.observed.contains_key(name));
    if waiting.is_empty() {
        return false;
    }
    let plugin = plugin(cluster);
    let mut has_started = false;
    for name in waiting {
        if cluster.pods.get(&name).is_some_and(|pod| pod.node().is_none()) {
            schedule(cluster, &name);
        }
        if cluster.pods.get(&name).is_some_and(|pod| pod.node().is_some()) {
            has_started |= start(cluster, &name, plugin);
        }
    }
    has_started
}

fn schedule(cluster: &mut Cluster, name: &str) {
    cluster.look();
    let Some(known) = cluster.pods.get_mut(name).map(|pod| pod.selection.take()) else { return };
    let is_first = known.is_none();
    let Some(selection) = select_for(cluster, name, known) else { return };
    let observed = cluster.observed.get(name).filter(|node| selection.may_land_on.contains(node));
    let chosen = observed.or(selection.chosen.as_ref()).filter(|node| cluster.has_node(node)).cloned();
    let caveats = selection.caveats.iter().map(|caveat| format!("is not simulated completely: {caveat}"));
    let caveats: Vec<String> = caveats.collect();
    let seen = cluster.sight().now();
    let Some(pod) = cluster.pods.get_mut(name) else { return };
    pod.seen = seen;
    pod.selection = Some(selection);
    if is_first {
        pod.warnings.extend(caveats.iter().map(|caveat| format!("the Pod {caveat}")));
    }
    if let Some(node) = chosen {
        pod.object["spec"]["nodeName"] = node.clone().into();
        cluster.bind_pod(name, &node);
    }
    for caveat in caveats.into_iter().filter(|_| is_first) {
        cluster.tell(EventKind::Warning, format!("Pod/{name}"), caveat);
    }
}

/// What the scheduler decides about a Pod. `known` is what it decided last: nodes that have not changed since then need
/// no second look.
fn select_for(cluster: &Cluster, name: &str, known: Option<Selection>) -> Option<Selection> {
    let pod = cluster.pods.get(name)?;
    // The scheduler ignores a Pod whose template names its node.
    let bound = pod.object["spec"]["nodeName"].as_str().filter(|node| !node.is_empty());
    if let Some(node) = bound {
        let chosen = cluster.has_node(node).then(|| node.to_owned());
        return Some(Selection { chosen, ..Selection::default() });
    }
    let workload = cluster.workloads.get(&pod.workload);
    // The scheduler knows the StatefulSets of Kubernetes, and spreads their Pods.
    let builtin = workload.filter(|workload| workload.target.group() == "apps");
    let made = workload
        .filter(|_| pod.injected && pod.before.is_null())
        .map(|workload| new_pod(workload, &cluster.namespace, name, pod.revision));
    let placement = Placement {
        pod: &pod.object,
        before: pod.injected.then_some(made.as_ref().unwrap_or(&pod.before)),
        selector: builtin.map(|workload| &workload.object["spec"]["selector"]),
        volumes: (!cluster.volumes.is_empty()).then_some(&cluster.volumes),
    };
    let nodes = cluster.sight().nodes();
    if let Some(mut selection) = known
        && let Some(changed) = cluster.sight().changed_since(pod.seen)
    {
        let changed: BTreeSet<usize> = changed.iter().copied().collect();
        if changed.is_empty() || still_excluded(&placement, &mut selection, nodes, changed) {
            return Some(selection);
        }
    }
    Some(select_from(&placement, nodes))
}

/// The plugin that the cluster has: the one whose annotations somebody names.
fn plugin(cluster: &Cluster) -> Option<Plugin> {
    let persisted = cluster.pps.values().flat_map(|pps| {
        let annotations = pps.object["spec"]["persistentPodAnnotations"].as_array();
        annotations.into_iter().flatten().filter_map(|one| one.as_str().or_else(|| one["key"].as_str()))
    });
    let generated = cluster.workloads.values().flat_map(|workload| {
        let list = workload.object["metadata"]["annotations"][POD_ANNOTATIONS].as_str().unwrap_or_default();
        list.split(',').map(str::trim)
    });
    let templates = cluster.workloads.values().flat_map(|workload| {
        let annotations = workload.object["spec"]["template"]["metadata"]["annotations"].as_object();
        annotations.into_iter().flat_map(|annotations| annotations.keys().map(String::as_str))
    });
    plugin_of(persisted.chain(generated).chain(templates))
}

/// Starts a Pod on its node. Returns whether it runs now.
fn start(cluster: &mut Cluster, name: &str, plugin: Option<Plugin>) -> bool {
    let Some(pod) = cluster.pods.get(name) else { return false };
    let Some(node) = pod.node().map(str::to_owned) else { return false };
    let ips = match addresses(cluster, name, pod, &node, plugin) {
        Ok(ips) => ips,
        Err(complaint) => {
            complain(cluster, name, &complaint);
            return false;
        }
    };
    let ips = if let Some(ips) = ips {
        ips
    } else {
        let Cluster { addresses, pods, .. } = &mut *cluster;
        vec![addresses.assign(&node, |ip| pods.has_ip(ip, name))]
    };
    let labels = cluster.node(&node).map(|node| node.object["metadata"]["labels"].clone());
    let keeps_all = cluster.limits.keeps_all;
    let Some(pod) = cluster.pods.get_mut(name) else { return false };
    if let Some(plugin) = plugin {
        annotate(pod, plugin, &ips);
    }
    let all: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    pod.object["status"] = json!({
        "phase": "Running",
        "podIP": ips.first(),
        "podIPs": all,
        "conditions": [{"type": "Ready", "status": "True"}],
    });
    pod.complaint.clear();
    pod.came_home = is_home(pod, &node, &labels.unwrap_or_default());
    cluster.run_pod(name, ips, true);
    let Some(pod) = cluster.pods.get(name) else { return false };
    let text = describe_start(pod, &node, cluster.last_places.get(name));
    cluster.tell(EventKind::Scheduled, format!("Pod/{name}"), text);
    if !keeps_all && let Some(selection) = cluster.pods.get_mut(name).and_then(|pod| pod.selection.as_mut()) {
        selection.verdicts = Vec::new();
    }
    true
}

/// The addresses that a Pod asks for, or those of its node; none if the plugin chooses. The error says why it cannot have
/// them.
fn addresses(
    cluster: &Cluster,
    name: &str,
    pod: &Pod,
    node: &str,
    plugin: Option<Plugin>,
) -> Result<Option<Vec<String>>, String> {
    if pod.object["spec"]["hostNetwork"] == true {
        let addresses = cluster.node(node).and_then(|node| node.object["status"]["addresses"].as_array());
        let internal = addresses.into_iter().flatten().filter(|address| address["type"] == "InternalIP");
        let ips: Vec<String> =
            internal.filter_map(|address| address["address"].as_str().map(str::to_owned)).collect();
        return Ok(Some(ips));
    }
    let Some(plugin) = plugin else { return Ok(None) };
    let requested = plugin.requested(&pod.object["metadata"]["annotations"]).map_err(|value| {
        format!("{} cannot read its annotation {}: {}", plugin.name, plugin.asks, pps_core::shorten(value))
    })?;
    if let Some(taken) = requested.iter().find(|ip| cluster.pods.has_ip(ip, name)) {
        return Err(format!(
            "it asks for the address {taken}, which another Pod has. To let it start with another one, remove {} from the PersistentPodState and delete the Pod",
            plugin.asks
        ));
    }
    Ok((!requested.is_empty()).then_some(requested))
}

fn annotate(pod: &mut Pod, plugin: Plugin, ips: &[String]) {
    let Some(metadata) = pod.object["metadata"].as_object_mut() else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| Map::new().into());
    if annotations.is_null() {
        *annotations = Map::new().into();
    }
    if let Some(annotations) = annotations.as_object_mut() {
        plugin.annotate(ips, annotations);
    }
}

/// Whether a Pod that has started is where its state was recorded.
fn is_home(pod: &Pod, node: &str, labels: &Value) -> bool {
    let Some(home) = &pod.recorded else { return false };
    if home.labels.is_empty() && home.annotations.is_empty() {
        return home.state.node_name == node;
    }
    let annotations = &pod.object["metadata"]["annotations"];
    home.labels.iter().all(|(key, value)| labels[key] == *value)
        && home.annotations.iter().all(|(key, value)| annotations[key] == *value)
}

fn describe_start(pod: &Pod, node: &str, last: Option<&Place>) -> String {
    let home = pod.recorded.as_ref().filter(|_| pod.came_home);
    let place = home.map(|home| describe_place(home, node)).unwrap_or_default();
    let comma = if place.is_empty() { "" } else { "," };
    let address = pod.ips().first().map(|ip| format!("{comma} and has the address {ip}")).unwrap_or_default();
    let compared = match (&pod.recorded, last) {
        (Some(home), _) if pod.came_home && home.annotations.is_empty() => String::new(),
        (Some(home), _) if pod.came_home => {
            let keys: Vec<&str> = home.annotations.keys().map(String::as_str).collect();
            format!(", with the recorded {}", list(&keys, "and"))
        }
        (Some(home), _) if home.state.node_name != node => {
            let place = &home.state.node_name;
            format!("; its state was recorded on {place} ({})", describe_absence(pod, place))
        }
        (Some(_), _) => "; what was recorded there is different now".into(),
        (None, Some(last)) if last.node != node => format!("; it ran on {} before", last.node),
        (None, _) => String::new(),
    };
    let choice = pod.selection.as_ref().map(|selection| describe_choice(selection, node)).unwrap_or_default();
    format!("runs on {node}{place}{address}{compared}{choice}")
}

/// Where else the Pod may start, and why.
fn describe_choice(selection: &Selection, node: &str) -> String {
    let score =
        |name: &str| selection.verdicts.iter().find(|verdict| verdict.node == name).map(|one| one.score);
    let others = selection.may_land_on.iter().map(String::as_str).filter(|other| *other != node);
    if !selection.caveats.is_empty() {
        return match others.collect::<Vec<_>>().as_slice() {
            [] => String::new(),
            others => format!(". A real scheduler may also choose {}", list(others, "or")),
        };
    }
    let (same, versions): (Vec<&str>, Vec<&str>) = others.partition(|other| score(other) == score(node));
    let same = match same.as_slice() {
        [] => String::new(),
        [one] => format!(". {one} has the same score"),
        several => format!(". {} have the same score", list(several, "and")),
    };
    let versions = match versions.as_slice() {
        [] => String::new(),
        nodes => {
            format!(". Some versions of Kubernetes score differently, and may choose {}", list(nodes, "or"))
        }
    };
    same + &versions
}

/// What of a node was recorded and is required or preferred; empty if nothing is.
fn describe_place(home: &Home, node: &str) -> String {
    if home.labels.is_empty() {
        return String::new();
    }
    if home.state.node_name == node {
        return ", as recorded".to_owned();
    }
    let labels = home.labels.iter().map(|(key, value)| format!("{key}={value}"));
    format!(", as recorded ({})", labels.collect::<Vec<_>>().join(", "))
}

/// Why a Pod is not on this node.
fn describe_absence(pod: &Pod, node: &str) -> String {
    let verdicts = pod.selection.iter().flat_map(|selection| &selection.verdicts);
    match verdicts.into_iter().find(|verdict| verdict.node == node) {
        None => format!("{node} does not exist"),
        Some(verdict) if verdict.exclusions.is_empty() => format!("{node} fits, but has a lower score"),
        Some(verdict) => {
            verdict.exclusions.iter().map(|one| one.text.as_str()).collect::<Vec<_>>().join("; ")
        }
    }
}

/// Says why Pods do not run, if that was not said before.
pub(crate) fn tell_pending(cluster: &mut Cluster) {
    let pending: Vec<(String, String)> = cluster
        .pods
        .waiting()
        .filter(|(_, pod)| pod.node().is_none())
        .map(|(name, pod)| (name.clone(), describe_pending(cluster, pod)))
        .collect();
    for (name, complaint) in pending {
        complain(cluster, &name, &complaint);
    }
    let waiting: Vec<(String, String)> = cluster
        .workloads
        .values()
        .filter_map(|workload| {
            Some((workload.reference(), controller::describe_wait(workload, &cluster.pods)?))
        })
        .filter(|(object, text)| !cluster.reported.contains(&format!("{object} {text}")))
        .collect();
    for (object, text) in waiting {
        cluster.reported.insert(format!("{object} {text}"));
        cluster.tell(EventKind::Pending, object, text);
    }
}

fn complain(cluster: &mut Cluster, name: &str, complaint: &str) {
    let Some(pod) = cluster.pods.get_mut(name) else { return };
    if pod.complaint != complaint {
        complaint.clone_into(&mut pod.complaint);
        cluster.tell(EventKind::Pending, format!("Pod/{name}"), format!("stays Pending: {complaint}"));
    }
}

fn describe_pending(cluster: &Cluster, pod: &Pod) -> String {
    if let Some(node) = pod.object["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        return format!("its template names the node {node}, which does not exist");
    }
    if cluster.existing_nodes().next().is_none() {
        return "there is no node".into();
    }
    let verdicts = pod.selection.iter().flat_map(|selection| &selection.verdicts);
    let reasons: Vec<&str> =
        verdicts.filter_map(|verdict| verdict.exclusions.first()).map(|one| one.text.as_str()).collect();
    let more = reasons.len().saturating_sub(MAX_LISTED);
    let listed = reasons[..reasons.len() - more].join("; ");
    match more {
        0 => format!("no node can take it. {listed}"),
        1 => format!("no node can take it. {listed}; and 1 more node"),
        more => format!("no node can take it. {listed}; and {more} more nodes"),
    }
}
