//! What happens to a Pod after its creation: the scheduler selects a node, and the kubelet starts it there with an
//! address.

use std::collections::BTreeSet;

use pps_recorder::generate::POD_ANNOTATIONS;
use serde_json::{Map, Value, json};

use crate::addresses::{Plugin, plugin_of};
use crate::cluster::{Cluster, Home, Place, Pod};
use crate::controller::{new_pod, wait_of};
use crate::result::{Absence, EventKind, Pending};
use crate::text::list;
use pps_scheduler::{Placement, Selection, select_from, still_excluded};

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
    let caveats = if is_first { selection.caveats.clone() } else { Vec::new() };
    let seen = cluster.sight().now();
    let Some(pod) = cluster.pods.get_mut(name) else { return };
    pod.seen = seen;
    pod.selection = Some(selection);
    if let Some(node) = chosen {
        pod.object["spec"]["nodeName"] = node.clone().into();
        cluster.bind_pod(name, &node);
    }
    for caveat in caveats {
        let text = format!("is not simulated completely: {caveat}");
        cluster.tell(EventKind::Caveat, format!("Pod/{name}"), text);
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
        Err(pending) => {
            let text = pending.to_string();
            set_pending(cluster, name, pending, &text);
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
    pod.pending = None;
    pod.complaint.clear();
    pod.came_home = is_home(pod, &node, &labels.unwrap_or_default());
    pod.absence = absence_of(pod, &node);
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
) -> Result<Option<Vec<String>>, Pending> {
    if pod.object["spec"]["hostNetwork"] == true {
        let addresses = cluster.node(node).and_then(|node| node.object["status"]["addresses"].as_array());
        let internal = addresses.into_iter().flatten().filter(|address| address["type"] == "InternalIP");
        let ips: Vec<String> =
            internal.filter_map(|address| address["address"].as_str().map(str::to_owned)).collect();
        return Ok(Some(ips));
    }
    let Some(plugin) = plugin else { return Ok(None) };
    let requested = plugin.requested(&pod.object["metadata"]["annotations"]).map_err(|value| {
        Pending::UnreadableAddress { plugin: plugin.name, annotation: plugin.asks, value: value.to_owned() }
    })?;
    if let Some(taken) = requested.iter().find(|ip| cluster.pods.has_ip(ip, name)) {
        return Err(Pending::AddressTaken { ip: taken.clone(), annotation: plugin.asks });
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
            let absence = pod.absence.as_ref().map(|absence| format!(" ({place} {absence})"));
            format!("; its state was recorded on {place}{}", absence.unwrap_or_default())
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

/// Why a Pod that runs on this node is not on the node where its state was recorded.
fn absence_of(pod: &Pod, node: &str) -> Option<Absence> {
    let home = &pod.recorded.as_ref()?.state.node_name;
    if pod.came_home || home == node {
        return None;
    }
    let mut verdicts = pod.selection.iter().flat_map(|selection| &selection.verdicts);
    Some(match verdicts.find(|verdict| verdict.node == *home) {
        None => Absence::NodeGone,
        Some(verdict) if verdict.exclusions.is_empty() => Absence::LowerScore,
        Some(verdict) => Absence::Excluded(verdict.exclusions.clone()),
    })
}

/// Says why Pods do not run, if that was not said before.
pub(crate) fn tell_pending(cluster: &mut Cluster) {
    let waiting = cluster.pods.waiting().filter(|(_, pod)| pod.node().is_none());
    let pending: Vec<(String, Pending)> =
        waiting.map(|(name, pod)| (name.clone(), pending_of(cluster, pod))).collect();
    for (name, pending) in pending {
        let text = match cluster.pods.get(&name).filter(|_| pending == Pending::Excluded) {
            Some(pod) => format!("{pending}. {}", list_reasons(pod)),
            None => pending.to_string(),
        };
        set_pending(cluster, &name, pending, &text);
    }
    let waits = cluster
        .workloads
        .values()
        .filter_map(|workload| Some((workload.reference(), wait_of(workload, &cluster.pods)?)));
    let waits: Vec<(String, String)> = waits.map(|(object, wait)| (object, wait.to_string())).collect();
    for (object, text) in waits {
        if cluster.reported.insert(format!("{object} {text}")) {
            cluster.tell(EventKind::Pending, object, text);
        }
    }
}

fn set_pending(cluster: &mut Cluster, name: &str, pending: Pending, text: &str) {
    let Some(pod) = cluster.pods.get_mut(name) else { return };
    pod.pending = Some(pending);
    if pod.complaint != text {
        text.clone_into(&mut pod.complaint);
        cluster.tell(EventKind::Pending, format!("Pod/{name}"), format!("stays Pending: {text}"));
    }
}

fn pending_of(cluster: &Cluster, pod: &Pod) -> Pending {
    match pod.object["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        Some(node) => Pending::UnknownNode(node.to_owned()),
        None if cluster.existing_nodes().next().is_none() => Pending::NoNode,
        None => Pending::Excluded,
    }
}

/// The first reason of each node.
fn list_reasons(pod: &Pod) -> String {
    let verdicts = pod.selection.iter().flat_map(|selection| &selection.verdicts);
    let reasons: Vec<String> = verdicts
        .filter_map(|verdict| Some(format!("{}: {}", verdict.node, verdict.exclusions.first()?)))
        .collect();
    let more = reasons.len().saturating_sub(MAX_LISTED);
    let listed = reasons[..reasons.len() - more].join("; ");
    match more {
        0 => listed,
        1 => format!("{listed}; and 1 more node"),
        more => format!("{listed}; and {more} more nodes"),
    }
}
